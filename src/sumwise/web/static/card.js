// A set as a card: what is known of it, and what one can do about it. A card lives as long as its
// set is shown, so whatever is typed or focused in it survives every update around it.

import { claim, release, renew, skip } from "./actions.js";
import { begin, end } from "./ahead.js";
import { answerForm } from "./answer.js";
import { fill, h, wholeName } from "./dom.js";
import { exact } from "./numbers.js";
import { badge, certificate, expectation, membersOf, person, scores, size, when } from "./pieces.js";
import { measured, unit } from "./store.js";

/**
 * `{element, update, typed, form, close}`; `leave` is called when the card is finished, and
 * `claimed` with the question once a pool is claimed, whose card is another.
 */
export function setCard(set, { leave, claimed = () => {} }) {
  const rank = h("span", { class: "rank", "aria-hidden": "true" });
  const head = h("h3", { tabindex: "-1" }, wholeName(set.id));
  const side = h("p", { class: "soft tight" });
  const facts = h("div", { class: "about" });
  const people = h("div", { class: "members" });
  // a pool that is only proposed cannot be answered
  const form = set.position === null ? null : answerForm(set, { saved: leave, cancel: () => (settled ? leave() : fold(true)) });
  const formBox = h("div", { class: "writes", hidden: true }, form?.element);
  let kind = "";
  let listed = ""; // who is in it
  let settled = false; // another person has answered
  let holder = null; // who has claimed it

  const act = (words, attributes, work) => {
    const button = h("button", { type: "button", ...attributes }, words, h("span", { class: "unseen" }, " ", head.textContent.slice(0, 80)));
    button.addEventListener("click", async () => {
      if (button.getAttribute("aria-disabled")) return;
      button.setAttribute("aria-disabled", "true");
      try {
        await work();
      } finally {
        button.removeAttribute("aria-disabled");
      }
    });
    return button;
  };
  const take = act("Claim", { class: "primary writes" }, async () => {
    begin();
    const question = await claim(set);
    if (question && !form) return claimed(question);
    const typed = end();
    if (!question) return;
    fold(false);
    if (typed !== null) form.focus(typed);
  });
  const answer = act("Answer", { class: "writes" }, () => {
    fold(false);
    form.focus();
  });
  const pass = act("Skip…", { class: "quiet writes" }, async () => {
    if (await skip(set)) leave();
  });
  const note = act("Note", { class: "quiet writes" }, () => {
    fold(false);
    form.openNote();
  });
  const longer = act("Keep longer", { class: "quiet writes" }, () => renew(set));
  const back = act("Give back", { class: "quiet writes" }, async () => {
    if (await release(set, holder)) leave();
  });
  const link = (words, href) => h("a", { class: "button", href, hidden: !form }, words, h("span", { class: "unseen" }, " ", head.textContent.slice(0, 80)));
  const inside = link("Look inside", `#/next/set/${set.position}`);
  const list = link("List to print", `#/lists?sets=${set.position}`);
  const actions = h("div", { class: "buttons actions" }, take, answer, inside, list, note, longer, back, pass);

  const element = h(
    "article",
    { class: "card anchor", "data-position": set.position },
    h("div", { class: "head" }, rank, h("div", { class: "titles" }, head, side)),
    facts,
    people,
    formBox,
    actions,
  );

  function fold(away) {
    formBox.hidden = away;
    answer.hidden = !away || !["proposed", "other", "kept"].includes(kind);
    if (away && !answer.hidden) answer.focus();
  }

  /** Who goes into a pool; left alone as long as they are the same, for it may be unfolded. */
  function showMembers({ members }) {
    const text = JSON.stringify(members ?? []);
    if (text === listed) return;
    listed = text;
    fill(people, members?.length ? membersOf(members) : []);
  }

  /** The same for a pool that is proposed, whose name may change. */
  function propose(shown) {
    if (head.textContent !== shown.id) fill(head, wholeName(shown.id));
    set = shown;
    for (const button of [answer, note, longer, back, pass]) button.hidden = true;
  }

  /** `shown` is the kind ("mine", "proposed", "other", "kept") and what the server says. */
  function update(shown) {
    const changed = kind !== shown.kind;
    kind = shown.kind;
    holder = shown.by;
    showMembers(shown);
    list.hidden = !shown.designed || kind === "proposed";
    element.classList.toggle("mine", kind === "mine");
    element.classList.toggle("compact", kind === "other");
    rank.textContent = shown.rank ?? "";
    rank.hidden = !shown.rank;
    fill(side, ...sideline(shown));
    fill(facts, ...about(shown, Boolean(form?.typed())));
    if (!form) return propose(shown);
    form.update(shown);
    settled = kind === "kept" && shown.state === "answered";
    take.hidden = !(kind === "proposed" || (kind === "kept" && shown.state === "free"));
    form.settle(settled);
    note.hidden = settled;
    pass.hidden = settled || kind === "other";
    longer.hidden = kind !== "mine";
    back.hidden = !["mine", "other"].includes(kind);
    if (kind === "mine" || form.typed()) formBox.hidden = false;
    else if (changed && kind === "proposed") formBox.hidden = true;
    answer.hidden = kind === "mine" || !formBox.hidden;
    element.querySelector("form.answer .buttons button[type=button]").hidden = kind === "mine" && !form.typed();
  }

  if (form?.restored) formBox.hidden = false;
  return { element, update, form, typed: () => Boolean(form?.typed()), close: () => form?.dispose() };
}

function sideline(shown) {
  const parts = [size(shown)];
  if (Number.isFinite(shown.cost)) parts.push(` · costs ${exact(shown.cost)}`);
  if (shown.kind === "mine") parts.push(" · claimed ", when(shown.asked), ", free again ", when(shown.expires));
  if (shown.kind === "other") parts.push(" · claimed by ", person(shown.by), " ", when(shown.asked), ", free again ", when(shown.expires));
  return parts;
}

function about(shown, typed) {
  if (shown.kind === "kept") return [kept(shown, typed)];
  const expected = h("div", null, h("dt", null, `Expected ${measured()}`), h("dd", null, expectation(shown)));
  const good = certificate(shown) && h("p", { class: "small" }, certificate(shown));
  if (shown.kind !== "proposed") return [h("dl", { class: "facts" }, expected), shown.kind === "mine" ? good : null].filter(Boolean);
  return [
    h("p", { class: "why" }, shown.why),
    h("dl", { class: "facts two" }, expected, h("div", null, h("dt", null, Number.isFinite(shown.score_per_cost) ? "Compared, for the same cost" : "Compared with the next best"), h("dd", null, scores(shown), good || null))),
  ];
}

/** A set that is no longer proposed, shown because something is typed for it or it has the focus. */
function kept(shown, typed) {
  const words = {
    free: [shown.designed ? "Given back: its members may go into other pools." : "No longer among the best."],
    open: ["With ", person(shown.by), " by now."],
    answered: ["Answered with ", h("strong", null, exact(shown.answer?.total), unit()), " by ", person(shown.by), " meanwhile."],
    skipped: ["Skipped by ", person(shown.by), " meanwhile."],
  };
  const unsaved = typed ? " What you typed is not saved yet." : "";
  return h("p", { class: "meanwhile" }, badge(shown.state), " ", ...words[shown.state], unsaved);
}
