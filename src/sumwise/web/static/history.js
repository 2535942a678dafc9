// History: what happened, what stands as an answer, and what is skipped; with ways to put it right.

import { get } from "./api.js";
import { amend, retract, unskip } from "./actions.js";
import { fill, h, name, undisturbed, visible } from "./dom.js";
import { choice, empty, person, trouble, when } from "./pieces.js";
import { exact, figure } from "./numbers.js";
import { serverTable } from "./table.js";
import { alone, inUnit, thing, word, writable } from "./store.js";

const PARTS = { all: "Everything", answers: "Answers", skipped: "Skipped" };
const VERBS = {
  created: "created the study",
  asked: "claimed",
  told: "answered",
  amended: "amended",
  retracted: "retracted the answer for",
  skipped: "skipped",
  unskipped: "took back the skip of",
  released: "gave back",
  renewed: "keeps for longer",
  expired: "ran out of time for",
  imported: "imported the study",
  upgraded: "upgraded the study",
  pool: "changed the pool",
  map: "added a map",
};

/** An event as a sentence: Bob answered Ann Arbor. */
export function sentence(event, personOf = person) {
  const verb = VERBS[event.what] ?? event.what;
  return [personOf(event.by), ` ${verb}`, event.set ? [" ", name(event.set.id, 40)] : ""].flat();
}

export function create({ settings, remember }) {
  let show = settings.show in PARTS ? settings.show : "all";
  const link = (set) => h("a", { href: `#/history/set/${set.position}` }, name(set.id, 40));
  const note = (row) => (row.note ? h("bdi", { class: "note" }, visible(row.note).slice(0, 2000)) : "");
  const total = (row) => (row.total === null || row.total === undefined ? "" : [exact(row.total), row.noise_std ? ` ± ${figure(row.noise_std)}` : "", row.part ? ` (${row.part})` : ""]);
  const what = alone() ? "Pool" : "Set";
  const heading = word()[0].toUpperCase() + word().slice(1) + inUnit();

  const all = serverTable({
    path: "/api/history",
    label: "Everything that happened, newest first",
    key: (row) => row.number,
    settings: show === "all" ? { page: settings.page ?? 1 } : {},
    changed: () => put(),
    none: () => empty("Nothing has happened yet.", "Claims, answers and skips appear here."),
    columns: [
      { label: "When", kind: "nowrap soft aside", said: "", cell: (row) => when(row.at) },
      { label: "Who", kind: "who", said: "", cell: (row) => person(row.by) },
      { label: "What", kind: "nowrap what", said: "", cell: (row) => VERBS[row.what] ?? row.what },
      { label: what, kind: "head", cell: (row) => (row.set ? link(row.set) : "") },
      { label: heading, kind: "number", cell: total },
      { label: "Note", kind: "notes", said: "", cell: (row) => (row.what === "renewed" ? ["until ", when(row.note)] : note(row)) },
    ],
  });
  const answers = serverTable({
    path: "/api/answers",
    label: "Present answers",
    key: (row) => row.position,
    settings: show === "answers" ? { page: settings.page ?? 1 } : {},
    changed: () => put(),
    none: () => empty("Nothing is measured yet.", "Answers appear here, and can be amended or retracted."),
    columns: [
      { label: what, kind: "head", cell: link },
      { label: heading, kind: "number", cell: total },
      { label: "Who", said: "by", cell: (row) => person(row.by) },
      { label: "When", kind: "nowrap soft aside", said: "", cell: (row) => when(row.at) },
      { label: "Note", kind: "notes", said: "", cell: note },
      { label: h("span", { class: "unseen" }, "Actions"), kind: "nowrap acts", said: "", cell: answerActions },
    ],
  });
  const skipped = skippedTable(link, note);
  const boxes = { all, answers, skipped };
  const tabs = choice("Show", PARTS, show, (key) => {
    show = key;
    put();
    arrangeParts();
    refresh();
  });
  const element = h(
    "section",
    { class: "view history" },
    h("div", { class: "titleline" }, h("h1", { tabindex: "-1" }, "History"), tabs.element),
    Object.values(boxes).map((box) => box.element),
  );

  function put() {
    const { page } = boxes[show].settings ?? { page: 1 };
    remember({ show: show === "all" ? "" : show, page: page > 1 ? page : "" });
  }

  function arrangeParts() {
    tabs.choose(show);
    for (const [key, box] of Object.entries(boxes)) box.element.hidden = key !== show;
  }

  /** Settings from an address, such as a link to what is skipped. */
  function adopt({ show: wanted, page = 1 }) {
    show = wanted in PARTS ? wanted : "all";
    if (boxes[show].settings) boxes[show].settings.page = page;
    arrangeParts();
  }

  const refresh = () => boxes[show].refresh();
  arrangeParts();
  return { element, adopt, refresh, title: "History" };
}

function answerActions(row) {
  if (!writable()) return "";
  const button = (words, work) => {
    const made = h("button", { type: "button", class: "quiet writes" }, words, h("span", { class: "unseen" }, " ", visible(row.id).slice(0, 60)));
    made.addEventListener("click", () => work(row, row));
    return made;
  };
  return h("div", { class: "buttons" }, button("Amend…", amend), button("Retract…", retract));
}

/** Skipped sets: few enough to come in one piece. */
function skippedTable(link, note) {
  const box = h("div");
  async function refresh() {
    try {
      const { rows } = await get("/api/skips");
      undisturbed(() => fill(box, rows.length ? tableOf(rows) : empty(`No ${thing()} is skipped.`, `${alone() ? "Pools and individuals" : "Sets"} that cannot be measured can be set aside, with a reason.`)));
    } catch (error) {
      if (!box.children.length) trouble(box, error, refresh);
    }
  }
  function tableOf(rows) {
    const heads = [alone() ? "Pool or individual" : "Set", "Why", "Who", "When", h("span", { class: "unseen" }, "Actions")];
    return h(
      "div",
      { class: "scroll", role: "region", tabindex: "0", "aria-label": `Skipped ${thing()}s` },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
        h(
          "tbody",
          null,
          rows.map((row) => h("tr", null, h("th", { scope: "row" }, link(row)), h("td", { class: "notes" }, note(row)), h("td", null, person(row.by)), h("td", { class: "nowrap soft" }, when(row.at)), h("td", null, undo(row)))),
        ),
      ),
    );
  }
  return { element: box, refresh };
}

function undo(row) {
  const button = h("button", { type: "button", class: "quiet writes" }, "Unskip", h("span", { class: "unseen" }, " ", visible(row.id).slice(0, 60)));
  button.addEventListener("click", () => unskip(row));
  return button;
}
