// A look inside a set: what is known of it, its individuals with their predictions, and what can be
// done about it. It slides over whatever view one came from.

import { get } from "./api.js";
import { amend, claim, release, renew, retract, skip, unskip } from "./actions.js";
import { answerForm } from "./answer.js";
import { modal } from "./dialogs.js";
import { fill, h, name, undisturbed, visible, wholeName } from "./dom.js";
import { individualColumns } from "./individuals.js";
import { badge, certificate, differ, expectation, person, size, span, trouble, working, when } from "./pieces.js";
import { exact, figure } from "./numbers.js";
import { serverTable } from "./table.js";
import { emit, kindOf, measured, unit, writable } from "./store.js";

/** Open the sheet of a set: `{refresh, close, title}`; `closed` is called when it has gone. */
export function openSheet(position, view, closed) {
  const title = h("span", null, "…");
  const about = h("div", { class: "about" }, working());
  const actions = h("div", { class: "buttons actions" });
  const answerBox = h("div", { class: "writes" });
  const people = h("div");
  let form = null;
  let table = null;
  let set = null;
  let shownActions = "";

  const shut = h("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
  const { done, close, dialog } = modal(title, (end) => {
    shut.addEventListener("click", () => end());
    return [shut, about, answerBox, actions, people];
  }, { name: "sheet" });
  dialog.querySelector("h2").focus();
  done.then(() => {
    form?.dispose();
    closed();
  });

  async function refresh() {
    try {
      const found = await get(`/api/sets/${position}?size=1`);
      undisturbed(() => render(found));
      table?.refresh();
    } catch (error) {
      if (!set) trouble(about, error, refresh);
    }
  }

  function render(found) {
    if (!set) {
      fill(title, wholeName(found.id, 120));
      table = individualsOf(found);
      fill(people, h("h3", null, kindOf(position) === "individual" ? "What is predicted" : "Inside"), table.element);
    }
    const first = !set;
    set = found;
    if (first) emit("titled");
    fill(about, ...facts(found));
    renderAnswer(found);
    const next = JSON.stringify([found.state, found.answer, writable()]);
    if (next !== shownActions) fill(actions, buttonsOf(found));
    shownActions = next;
  }

  function renderAnswer(found) {
    const single = kindOf(position) === "individual" && found.state !== "open"; // pools are measured
    const wanted = (found.state !== "answered" && !single) || form?.typed();
    if (wanted && !form) {
      form = answerForm(found, { saved: () => dialog.querySelector("h2").focus() });
      fill(answerBox, form.element);
    }
    form?.update(found);
    answerBox.hidden = !wanted;
  }

  function buttonsOf(found) {
    const button = (words, work, kind = "") => {
      const made = h("button", { type: "button", class: `${kind} writes` }, words);
      made.addEventListener("click", () => work(found, found.answer));
      return made;
    };
    const list = found.designed ? [h("a", { class: "button", href: `#/lists?sets=${position}` }, "List to print")] : [];
    const single = kindOf(position) === "individual";
    if (found.state === "answered") return [button("Amend…", amend), button("Retract…", retract), ...list];
    if (found.state === "skipped") return [button("Unskip", unskip), button(single ? "Claim it alone" : "Claim", claim)];
    if (found.state === "open") return [...list, button("Keep longer", renew, "quiet"), button("Give back", () => release(found, found.claim.by), "quiet"), button("Skip…", skip, "quiet")];
    return [button(single ? "Claim it alone" : "Claim", claim), button(single ? "Set aside…" : "Skip…", skip, "quiet")];
  }

  refresh();
  return { refresh, close, title: () => (set ? visible(set.id).slice(0, 60) : "Set") };
}

function facts(found) {
  const row = (term, ...content) => h("div", null, h("dt", null, term), h("dd", null, ...content));
  const { answer } = found;
  const single = kindOf(found.position) === "individual";
  const pools = (found.pools ?? []).flatMap((pool, i) => [i ? ", " : "", h("a", { href: `#/pool/set/${pool.position}` }, name(pool.id, 40))]);
  const state = single && found.state === "free" ? [] : [row("State", badge(found.state, found.designed))];
  const rows = [...state, single ? row("In", ...(pools.length ? pools : ["no pool"])) : row("Size", size(found))];
  if (certificate(found)) rows.push(row("How good", certificate(found)));
  if (answer) rows.push(row("Answer", h("strong", { class: "figure" }, exact(answer.total), unit()), answer.part ? ` (${answer.part})` : "", answer.noise_std ? ` ± ${figure(answer.noise_std)} known noise` : "", h("span", { class: "soft" }, " by ", person(answer.by), ", ", when(answer.at))));
  if (answer?.note) rows.push(row("Note", h("bdi", { class: "note" }, visible(answer.note))));
  if (found.claim) rows.push(row("With", person(found.claim.by), h("span", { class: "soft" }, ", claimed ", when(found.claim.asked), ", free again ", when(found.claim.expires))));
  if (found.skip) rows.push(row("Skipped by", person(found.skip.by), found.skip.note ? [": ", h("bdi", { class: "note" }, visible(found.skip.note))] : "", h("span", { class: "soft" }, " ", when(found.skip.at))));
  if (!single || answer || found.claim) rows.push(row(answer ? "Predicted now" : `Expected ${measured()}`, expectation(found)));
  if (!answer && !single) rows.push(row("Would teach", `${figure(found.information)} nats`));
  return [h("dl", { class: "facts rows" }, rows), found.why ? h("p", { class: "why" }, "When it was asked for, ", when(found.claim.asked), ": ", found.why) : null].filter(Boolean);
}

/** The individuals of one set, paged by the server inside the answer about the set. */
function individualsOf({ position, members }) {
  return serverTable({
    path: `/api/sets/${position}`,
    label: `Individuals of this ${kindOf(position)}`,
    key: (row) => row.row,
    settings: {},
    none: () => h("p", null, "There are no individuals."),
    columns: individualColumns("pool", { sortable: false, weighed: Boolean(members && differ(members)) }),
    stamp: (found) => span(found.rows),
    unpack: (found) => found.individuals,
  });
}
