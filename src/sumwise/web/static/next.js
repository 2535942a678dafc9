// Next: what to measure. Proposed sets, the sets one holds, and what others are measuring.

import { get } from "./api.js";
import { askForMe } from "./actions.js";
import { begin, end } from "./ahead.js";
import { setCard } from "./card.js";
import { downloadPlate } from "./lists.js";
import { arrange, fill, h, undisturbed } from "./dom.js";
import { advance, empty, person, trouble, working } from "./pieces.js";
import { nameForm } from "./who.js";
import { alone, designing, draft, drafted, on, state, who } from "./store.js";

const PROPOSED = 5;
const MOST_KEPT = 10; // sets with something typed that are not proposed any more

export function create() {
  const cards = new Map(); // by position; pools that are proposed by who is in them
  const lists = {};
  const counts = {};
  const part = (key, title) => {
    counts[key] = h("span", { class: "count" });
    lists[key] = h("div", { class: "cards" });
    return h("section", { class: `part ${key}`, hidden: true, "aria-labelledby": `${key}-title` }, h("h2", { id: `${key}-title`, tabindex: "-1" }, title, " ", counts[key]), lists[key]);
  };
  const yours = h("span", null, "Yours");
  const keptTitle = h("span");
  const inTurn = h("p", { class: "soft tight" }, "Each proposal assumes that those above it, and all that are being measured, are answered.");
  const parts = {
    mine: part("mine", yours),
    kept: part("kept", keptTitle),
    proposed: part("proposed", "Proposed"),
    other: part("other", "Others are measuring"),
  };
  lists.proposed.before(inTurn);
  const plate = h("button", { type: "button" }, "Plate layout (CSV)");
  const paper = h("div", { class: "buttons paper", hidden: true }, h("a", { class: "button", href: "#/lists" }, "Lists to print"), plate);
  plate.addEventListener("click", () => downloadPlate(who()));
  lists.mine.before(paper);
  const lead = h("div", { class: "lead" });
  const naming = h("div", { class: "naming writes" });
  const best = h("button", { type: "button", class: "primary" }, "Ask for me");
  const askBox = h("div", { class: "askbox writes", hidden: true }, best, h("p", { class: "soft tight" }, `Claims the first proposed ${alone() ? "pool" : designing() ? "set or pool" : "set"} for you.`));
  const nothing = h("div", { class: "nothing" });
  const status = h("div", null, working());
  const element = h(
    "section",
    { class: "view next" },
    h("h1", { tabindex: "-1" }, "What to measure next"),
    lead,
    naming,
    askBox,
    status,
    parts.mine,
    parts.kept,
    nothing,
    parts.proposed,
    parts.other,
  );
  let latest = 0;
  let asked = null; // the position of what was asked for, until its field has the focus

  // a card that was kept only because it had the focus may go when that leaves
  lists.kept.addEventListener("focusout", () => setTimeout(refresh, 100));
  best.addEventListener("click", async () => {
    if (best.getAttribute("aria-disabled")) return;
    best.setAttribute("aria-disabled", "true");
    begin();
    try {
      const question = await askForMe();
      if (!question) return void end();
      asked = question.position;
      handOver(); // or whichever rendering brings its card will do it
    } finally {
      best.removeAttribute("aria-disabled");
    }
  });

  /** Give the field of what was asked for the focus, and what was typed meanwhile. */
  function handOver() {
    const card = cards.get(asked);
    if (!card?.element.classList.contains("mine")) return;
    asked = null;
    const typed = end();
    if (typed === null) return;
    card.form.focus(typed);
    card.element.scrollIntoView({ block: "nearest" });
  }

  async function refresh() {
    const turn = ++latest;
    try {
      const { questions, claims } = await get(`/api/next?n=${PROPOSED}`);
      const shown = [...questions.map((each, i) => ({ ...each, kind: "proposed", rank: i + 1 })), ...claims.map(ofClaim)];
      const kept = await keptOnes(new Set(shown.map((each) => each.position)));
      if (turn !== latest) return;
      undisturbed(() => render([...shown, ...kept]));
      handOver();
    } catch (error) {
      if (turn === latest && !cards.size) trouble(status, error, refresh);
    }
  }

  /** Sets that are not listed any more, but in which something is typed or has the focus. */
  async function keptOnes(listed) {
    const focused = [...cards].filter(([, card]) => card.element.contains(document.activeElement)).map(([position]) => position);
    const wanted = [...new Set([...drafted(), ...focused])].filter((position) => Number.isInteger(position) && !listed.has(position));
    const found = await Promise.all(
      wanted.slice(0, MOST_KEPT).map(async (position) => {
        try {
          const set = await get(`/api/sets/${position}?size=1`);
          const same = !draft(position) || draft(position).id === set.id.slice(0, 200);
          return same ? { ...set, kind: "kept" } : null;
        } catch {
          return null; // no such set in this study
        }
      }),
    );
    return found.filter(Boolean);
  }

  function render(shown) {
    fill(status);
    fill(lead, ...advance());
    const gone = new Set(cards.keys());
    const elements = { mine: [], kept: [], proposed: [], other: [] };
    for (const [key, each] of keyed(shown)) {
      gone.delete(key);
      if (!cards.has(key)) cards.set(key, setCard(each, { leave: () => leave(key), claimed }));
      const card = cards.get(key);
      card.update(each);
      elements[each.kind].push(card.element);
    }
    for (const position of gone) {
      cards.get(position).close();
      cards.delete(position);
    }
    for (const key of Object.keys(lists)) {
      arrange(lists[key], elements[key]);
      parts[key].hidden = !elements[key].length;
      counts[key].textContent = elements[key].length > 1 ? `(${elements[key].length})` : "";
    }
    paper.hidden = !shown.some((each) => each.kind === "mine" && (each.designed || alone()));
    yours.textContent = who() ? "Yours" : "Claimed without a name";
    askBox.hidden = !elements.proposed.length;
    inTurn.hidden = elements.proposed.length < 2;
    fill(keptTitle, ...meanwhile(shown.filter((each) => each.kind === "kept")));
    fill(nothing, nothingToDo(elements));
  }

  /** A pool is claimed, and has another card from now on. */
  function claimed(question) {
    asked = question.position;
    handOver();
  }

  /** A card is finished and goes: if it has the focus, on to the next field, or to the heading. */
  function leave(position) {
    const active = document.activeElement;
    if (active !== document.body && !cards.get(position)?.element.contains(active)) return;
    const fields = [...lists.mine.querySelectorAll(".card")].filter((card) => card.dataset.position !== String(position));
    const next = fields[0]?.querySelector("input.total") ?? parts.proposed.querySelector("h2:not([hidden] *)") ?? element.querySelector("h1");
    next.focus({ preventScroll: true });
  }

  function renderName() {
    fill(naming, who() ? null : nameForm());
  }

  on("who", () => {
    renderName();
    refresh();
  });
  renderName();
  return { element, refresh, title: "Next" };
}

/** What is shown with what it is known by here: two pools may have the same members. */
function keyed(shown) {
  const seen = new Map();
  return shown.map((each) => {
    const key = each.position ?? `pool of ${each.members.map(({ id }) => id).join("\n")}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
    return [seen.get(key) > 1 ? `${key} ${seen.get(key)}` : key, each];
  });
}

function ofClaim(claim) {
  const mine = (claim.by ?? "") === who(); // without a name, those that carry none
  return { ...claim, kind: mine ? "mine" : "other" };
}

/** A heading for sets that are shown only because of what is typed for them. */
function meanwhile(kept) {
  if (!kept.length || kept.some((each) => each.state !== "answered")) return ["No longer proposed"];
  const people = new Set(kept.map((each) => each.by));
  return people.size === 1 ? ["Answered by ", person([...people][0]), " meanwhile"] : ["Answered meanwhile"];
}

function nothingToDo({ mine, proposed, other }) {
  const { sets, answers, skipped } = state.study;
  if (proposed.length) return null;
  if (designing()) return noPool(mine.length + other.length);
  if (answers === sets) {
    return empty("Every set is measured.", "There is nothing left to ask. ", h("a", { href: "#/individuals" }, "See what is predicted for each individual"), ".");
  }
  if (mine.length + other.length) {
    return empty("Nothing is free right now.", "Every set is measured or being measured. Answer one, or give it back.");
  }
  if (skipped) {
    return empty("Nothing is left to ask.", "Every set is measured or skipped. ", h("a", { href: "#/history?show=skipped" }, "See the skipped ones"), ".");
  }
  return empty("Nothing is left to ask.");
}

/** Why no pool is proposed, and what can be done. */
function noPool(open) {
  const { used, candidates, aside, uses } = designing();
  const seen = h("a", { href: "#/individuals" }, "See what is predicted for each individual");
  if (open) return empty("No other pool can be designed right now.", "Answer what is being measured, or give it back, so that its members may go into other pools.");
  if (uses === 1 && used + aside >= candidates) return empty("Every individual is used.", "There is nothing left to ask. ", seen, ".");
  return empty("No other pool can be designed.", "The remaining individuals form no pool that meets the study's rules. ", seen, ".");
}
