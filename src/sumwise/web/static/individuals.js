// Individuals: what is predicted for each, with how unsure that is.

import { download } from "./api.js";
import { h, name } from "./dom.js";
import { empty, figures, informed, interval, percent, span } from "./pieces.js";
import { counted, figure, steady, whole } from "./numbers.js";
import { notice } from "./notices.js";
import { searchField, serverTable } from "./table.js";
import { alone, inUnit, isWhole, outputs, state, word } from "./store.js";

export function create({ settings, remember }) {
  const table = serverTable({
    path: "/api/individuals",
    label: "Individuals",
    key: (row) => `${row.set.position}-${row.row}`,
    settings,
    changed: remember,
    none: ({ search }) => (search ? empty(`No ${alone() ? "individual" : "set"} has that name.`, `Search looks for a part of the name${alone() ? "" : " of the set"}.`) : empty("There are no individuals.")),
    columns: individualColumns("individuals", { set: true }),
    stamp: (found) => span(found.rows),
  });
  const search = searchField(alone() ? "Search" : "Search by set", table.settings.search, (text) => table.apply({ search: text, page: 1 }));
  const files = ["csv", "parquet"].map((kind) => downloadButton(kind));
  const words = h("p", { class: "soft" });
  const element = h(
    "section",
    { class: "view individuals" },
    h("h1", { tabindex: "-1" }, "Individuals"),
    words,
    h("div", { class: "filters" }, search.element, h("div", { class: "buttons files" }, files)),
    table.element,
  );

  function refresh() {
    const { about, answers, individuals, known } = state.study;
    const what = about.outcome ? `The ${isWhole() ? "number of " : ""}${about.outcome} that is predicted` : "What is predicted";
    const learned = [answers || !known ? counted(answers, word()) : "", known ? `${whole(known)} known from the start` : ""].filter(Boolean).join(" and ");
    words.textContent = informed()
      ? `${what} for each of ${whole(individuals)} individuals, learned from ${learned}. ${percent()} of true values should lie in the interval that is drawn.`
      : "Nothing is measured yet. Predictions with their uncertainty appear here after the first answer.";
    return table.refresh();
  }

  /** Settings from an address, such as a bookmark. */
  function adopt(wanted) {
    Object.assign(table.settings, { page: 1, search: "" }, wanted);
    search.input.value = table.settings.search;
  }

  return { element, refresh, adopt, title: "Individuals", search: search.input };
}

/** Columns of a table of individuals; `view` is where links to sets lead. */
export function individualColumns(view, { set = false, sortable = true, weighed = false } = {}) {
  const sort = (key) => (sortable ? key : undefined);
  const ranked = (key) => (state.study.members_by ? sort(key) : undefined); // not by what is in files
  const inputs = state.study.inputs.map((input, i) => ({
    label: name(input, 24),
    kind: "number input",
    cell: (row) => {
      const value = row.inputs[i];
      if (value === null) return "–";
      return typeof value === "string" ? name(value, 24) : figure(value, 4);
    },
  }));
  const spans = new WeakMap(); // one scale for all rows of a page
  const known = (show) => (row, found) => (informed() ? show(row, found) : "–");
  const shared = (found) => {
    if (!spans.has(found)) spans.set(found, span(found.rows));
    return spans.get(found);
  };
  // individuals by themselves have one name
  const alike = { label: "Individual", sort: sort("set"), kind: "head", cell: (row) => (set ? h("a", { href: `#/${view}/set/${row.set.position}` }, name(row.id, 32)) : name(row.id, 32)) };
  const named = [
    ...(set ? [{ label: "Set", sort: sort("set"), kind: "head", cell: (row) => h("a", { href: `#/${view}/set/${row.set.position}` }, name(row.set.id, 32)) }] : []),
    { label: "Row", sort: sort("row"), kind: set ? "number soft" : "head", cell: (row) => (row.id === null ? whole(row.row) : name(row.id, 24)) },
  ];
  return [
    ...(alone() ? [alike] : named),
    { label: `Predicted${inUnit()}`, sort: ranked("mean"), kind: "number", first: "desc", cell: known((row) => figures(row.std, row.mean)[0]) },
    { label: h("span", null, "±", h("span", { class: "unseen" }, " uncertainty")), said: "±", sort: ranked("std"), kind: "number", first: "desc", cell: known((row) => figures(row.std, row.std)[0]) },
    { label: "Interval", kind: "drawing", said: "", cell: known((row, found) => interval(row, shared(found))) },
    { label: "From", kind: "number soft", cell: known((row) => figures(row.std, row.lower)[0]) },
    { label: "To", kind: "number soft", cell: known((row) => figures(row.std, row.upper)[0]) },
    ...(outputs() === "numbers" ? [] : [{ label: outputs() === "shares" ? "Share" : "Rate", kind: "number", cell: known(rate) }]),
    ...(weighed ? [{ label: "Weight", kind: "number", cell: (row) => figure(row.weight, 4) }] : []),
    ...inputs,
  ];
}

/** A rate, marked where the model extrapolates beyond reason. */
function rate(row) {
  if (!row.extrapolates) return steady(row.rate);
  return h("span", { class: "far", title: "More than 10 times above or below everything measured: the model extrapolates here." }, steady(row.rate), " ⚠", h("span", { class: "unseen" }, " extrapolated"));
}

function downloadButton(kind) {
  const label = `Download ${kind === "csv" ? "CSV" : "Parquet"}`;
  const button = h("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled")) return;
    button.setAttribute("aria-disabled", "true");
    button.textContent = "Preparing…";
    try {
      await download(`/api/individuals.${kind}`, `${fileName()}.${kind}`);
    } catch (error) {
      notice(error.message, "trouble");
    } finally {
      button.removeAttribute("aria-disabled");
      button.textContent = label;
    }
  });
  return button;
}

/** The study's name with what every file system takes. */
function fileName() {
  const plain = state.study.name.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `${plain.slice(0, 60) || "study"}-individuals`;
}
