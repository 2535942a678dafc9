// Help: what the page is for, and the keys it knows.

import { modal } from "./dialogs.js";
import { h } from "./dom.js";
import { bounds } from "./numbers.js";
import { alone, designing, isWhole, measured, setShortcuts, shortcuts, state, thing, unit, word } from "./store.js";
import { LABEL_NOT_LOGIN } from "./who.js";

const KEYS = [
  ["1 to 5", "Next, Progress, Pool, Individuals, History"],
  ["/", "Search, in views with a search field"],
  ["?", "This help"],
  ["Esc", "Close the open dialog or sheet"],
];

const terms = () => [
  ...(alone() ? [] : [["Set", `a group whose ${measured()} can be measured, such as the schools of a district.`]]),
  ...(designing() ? [["Pool", `individuals who are measured together, chosen by this page; its ${measured()} is what you measure.`]] : []),
  ["Individual", `${alone() ? "one who can go into a pool" : "one member of a set"}, with inputs that are known; its own value is predicted.`],
  [`Expected ${measured()}`, `the model's prediction of the measurement; ± is one standard deviation, and about two in three ${word()}s lie that close.`],
  ["Compared with the next best", `the value of measuring a ${thing()} under the study's strategy, as a share of the highest, which is proposed first.`],
  ["Information", "how much an answer narrows down what the model may be, in nats: 0.7 nats halve what is possible."],
];

/** What an individual's own value can be, as a sentence; empty if it can be anything. */
function possible() {
  const { low, high } = state.study?.about ?? {};
  const range = bounds(low, high, unit());
  return range && ` The value of each individual is ${range}.`;
}

export function openHelp() {
  const use = h("input", { type: "checkbox", id: "use-shortcuts" });
  use.checked = shortcuts();
  use.addEventListener("change", () => setShortcuts(use.checked));
  modal(
    "How this works",
    (close) => {
      const done = h("button", { type: "button", class: "primary" }, "Close");
      done.addEventListener("click", () => close());
      return [
        h("p", null, `${alone() ? `Individuals are measured together, in pools, and only a pool's ${measured()} is measured.` : `Individuals come in sets, and only a set's ${measured()} can be measured.`} Each ${word()} teaches something about every individual; this page proposes which to measure next, and says why.`),
        h(
          "ol",
          null,
          h("li", null, h("strong", null, "Claim"), ` a ${thing()}, so that two people do not measure it.`, designing() ? " Print the list of who goes into a pool, and tick them off." : ""),
          h("li", null, `Measure its ${word()}, and type it under `, h("strong", null, "Answer"), `${unit() ? `, in${unit()}` : ""}. Write ${isWhole() ? "a whole number, such as 843" : "843 or 12.5"}; spaces may group thousands.${possible()}`),
          h("li", null, h("strong", null, "Skip"), " what cannot be measured, and say why."),
        ),
        h("p", null, "A mistake can be amended or retracted under History; nothing is lost."),
        h("h3", null, "Words"),
        h("dl", { class: "terms" }, terms().map(([term, meaning]) => h("div", null, h("dt", null, term), h("dd", null, meaning)))),
        h("h3", null, "Your name"),
        h("p", null, LABEL_NOT_LOGIN),
        h("h3", null, "Keys"),
        h("table", { class: "keys" }, h("thead", { class: "unseen" }, h("tr", null, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "What it does"))), h("tbody", null, KEYS.map(([key, work]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, work))))),
        h("p", { class: "check" }, use, h("label", { for: "use-shortcuts" }, "Use these keys (they never change anything)")),
        h("div", { class: "buttons end" }, done),
      ];
    },
  );
}
