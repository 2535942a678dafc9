// Pool: all sets as a table, all individuals as a picture, or a form that changes who is in it.

import { h, name } from "./dom.js";
import { choice, badge, empty, estimate, informed, person } from "./pieces.js";
import { figure, steady, whole } from "./numbers.js";
import { panel } from "./panel.js";
import { searchField, serverTable } from "./table.js";
import { alone, designing, inUnit, state, thing, word } from "./store.js";
import { changeForm } from "./change.js";

const filters = () => ({ "": "All", free: alone() ? "Unclaimed" : "Free", open: "Being measured", answered: "Answered", skipped: "Skipped" });

export function create({ settings, remember }) {
  const { show: wanted = "table", kind: picture, ...rest } = settings;
  let show = wanted;
  let kind = picture;
  const table = serverTable({
    path: "/api/sets",
    label: alone() ? "Pools" : "Sets",
    key: (row) => row.position,
    settings: { sort: "information", order: "desc", state: "", ...rest },
    changed: () => put(),
    none: none,
    columns: [
      { label: alone() ? "Pool" : "Set", sort: "id", kind: "head", cell: (row) => [h("a", { href: `#/pool/set/${row.position}` }, name(row.id, 40)), row.designed && !alone() ? h("span", { class: "soft small" }, " designed") : ""] },
      { label: "Size", sort: "size", kind: "number", first: "desc", cell: (row) => whole(row.size) },
      { label: "State", sort: "state", kind: "aside", said: "", cell: stateOf },
      { label: `Answer${inUnit()}`, sort: "answer", kind: "number", first: "desc", cell: (row) => figure(row.answer, 6) },
      { label: `Expected ${word()}${inUnit()}`, said: "Expected", sort: "expected", kind: "number", first: "desc", cell: (row) => (informed() ? estimate(row.expected, row.std) : "–") },
      { label: "Information", sort: "information", kind: "number", first: "desc", cell: (row) => steady(row.information) },
    ],
  });
  const search = searchField("Search", table.settings.search, (text) => table.apply({ search: text, page: 1 }));
  const filter = choice("State", filters(), table.settings.state, (key) => {
    filter.choose(key);
    table.apply({ state: key, page: 1 });
  });
  const tableBox = h("div", null, h("div", { class: "filters" }, search.element, filter.element), table.element);

  const maps = { prediction: "Map of predictions", uncertainty: "Map of uncertainty", status: "Map of status" };
  const kinds = { ...(state.study.map ? maps : {}), pca: "By inputs", ...(state.study.places ? { map: "Map" } : {}), tsne: "By similarity (slow)" };
  if (!(kind in kinds)) kind = state.study.map ? (informed() ? "prediction" : "status") : "pca";
  const busy = "Calculating; a large pool may take a minute…";
  const drawing = panel("Individuals", () => `/api/picture?kind=${kind}`, { seconds: 300, busy, bare: true });
  const kindChoice = choice("Kind of picture", kinds, kind, (key) => {
    kind = key;
    kindChoice.choose(key);
    put();
    drawing.reset();
    drawing.refresh();
  });
  const pictureBox = h("div", null, h("div", { class: "filters" }, kindChoice.element), drawing.element);

  const changing = changeForm();
  const parts = { table: tableBox, picture: pictureBox, change: changing.element };
  if (!(show in parts)) show = "table";
  const shown = { table: "Table", picture: "Picture", ...(designing() ? {} : { change: "Change" }) };
  if (!(show in shown)) show = "table";
  const tabs = choice("Show", shown, show, (key) => {
    show = key;
    put();
    arrangeParts();
    refresh();
  });
  const element = h("section", { class: "view pool" }, h("div", { class: "titleline" }, h("h1", { tabindex: "-1" }, designing() ? (alone() ? "Pools" : "Sets and pools") : "Pool"), tabs.element), Object.values(parts));

  function put() {
    remember({ show: show === "table" ? "" : show, kind: kind === "pca" ? "" : kind, ...table.settings });
  }

  function arrangeParts() {
    tabs.choose(show);
    for (const [key, box] of Object.entries(parts)) box.hidden = key !== show;
  }

  /** Settings from an address, such as a bookmark. */
  function adopt({ show: part = "table", kind: other = "pca", ...others }) {
    show = part in shown ? part : "table";
    if (other in kinds && other !== kind) {
      kind = other;
      kindChoice.choose(kind);
      drawing.reset();
    }
    Object.assign(table.settings, { page: 1, search: "", state: "" }, others);
    search.input.value = table.settings.search;
    filter.choose(table.settings.state);
    arrangeParts();
  }

  const refresh = () => ({ table, picture: drawing, change: changing })[show].refresh();
  arrangeParts();
  return { element, refresh, adopt, title: alone() ? "Pools" : "Pool", search: search.input };
}

function none({ search, state: wanted }) {
  const what = thing();
  const also = designing() ? ", or of a member of a pool" : "";
  if (search) return empty(`No ${what} has that name.`, `Search looks for a part of the name${also}, in capitals or not.`);
  const words = {
    free: alone() ? ["No pool is unclaimed.", "Pools that were given back, or whose answer was taken back, appear here."] : ["No set is free.", "All are measured, being measured or skipped."],
    open: ["Nobody is measuring anything.", `Claimed ${what}s appear here.`],
    answered: ["Nothing is measured yet.", "Answers appear here as they come in."],
    skipped: [`No ${what} is skipped.`, `${alone() ? "Pools" : "Sets"} that cannot be measured can be set aside, with a reason.`],
  };
  return empty(...(words[wanted] ?? (alone() ? ["There are no pools yet.", "A pool is designed when a person asks for one."] : ["There are no sets."])));
}

function stateOf(row) {
  const holder = row.by ? [" ", h("span", { class: "soft small" }, person(row.by))] : [];
  return [badge(row.state, row.designed), ...holder];
}

