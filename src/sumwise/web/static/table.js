// A table that the server pages, sorts and searches. Its settings are in the address, so that a
// reload, a bookmark or the back button finds the same rows.

import { get } from "./api.js";
import { arrange, fill, h, undisturbed } from "./dom.js";
import { informed, trouble, working } from "./pieces.js";
import { whole } from "./numbers.js";
import { speak } from "./notices.js";
import { query } from "./routes.js";
import { who, writable } from "./store.js";

const SIZE = 50;

/**
 * `{element, refresh, settings}`.
 *
 * `columns`: [{label, cell(row, all), sort, kind, first, said}] where `sort` is the server's name for
 * it, `first` the order that a first press gives, and `said` the label beside it on a phone. `key(row)`
 * identifies a row, `none()` is shown if there are none, `changed(settings)` puts them into the
 * address, and `stamp(page)` is anything else that all cells depend on. `unpack` takes the page out
 * of the server's response.
 */
export function serverTable({ path, label, columns, key, none, settings, changed, stamp = () => null, unpack = (found) => found }) {
  const current = { page: 1, sort: "", order: "", search: "", ...settings };
  const rows = new Map();
  const body = h("tbody", { role: "rowgroup" });
  const heads = columns.map(head);
  // on a phone rows become blocks, and a table that is no table to CSS loses its roles unless told
  const table = h(
    "table",
    { class: "stack", role: "table" },
    h("caption", { class: "unseen" }, label),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(({ cell }) => cell))),
    body,
  );
  const box = h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, table);
  const message = h("div", null, working());
  const pager = pagerOf((page) => apply({ page }, true));
  const element = h("div", { class: "table" }, message, box, pager.element);
  box.hidden = true;
  let latest = 0;
  let abort = new AbortController();

  function head(column) {
    const cell = h("th", { scope: "col", role: "columnheader", class: `${column.kind ?? ""} ${column.sort ? "" : "unsorted"}` });
    if (!column.sort) return { column, cell: fill(cell, column.label) };
    const button = h("button", { type: "button", class: "plain sort" }, h("span", null, column.label), h("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      const other = current.order === "asc" ? "desc" : "asc";
      const order = current.sort === column.sort ? other : (column.first ?? "asc");
      apply({ sort: column.sort, order, page: 1 });
    });
    return { column, cell: fill(cell, button) };
  }

  function apply(change, scroll = false) {
    Object.assign(current, change);
    changed?.({ ...current });
    return refresh({ scroll });
  }

  async function refresh({ scroll = false } = {}) {
    const turn = ++latest;
    abort.abort();
    abort = new AbortController();
    markOrder();
    box.setAttribute("aria-busy", "true");
    const { page, sort, order, search, ...others } = current;
    const asked = query({ page, size: SIZE, sort, order, search, ...others });
    try {
      const found = unpack(await get(path + asked, { signal: abort.signal }));
      if (turn !== latest) return;
      if (!found.rows.length && found.total && page > 1) {
        apply({ page: Math.ceil(found.total / SIZE) }); // rows have gone since
        return;
      }
      undisturbed(() => render(found));
      if (scroll) {
        element.scrollIntoView({ block: "start" });
        speak(`Page ${found.page} of ${Math.ceil(found.total / SIZE)}`);
      }
    } catch (error) {
      if (turn === latest && !abort.signal.aborted && !rows.size) trouble(message, error, refresh);
    } finally {
      if (turn === latest) box.removeAttribute("aria-busy");
    }
  }

  function markOrder() {
    for (const { column, cell } of heads) {
      if (!column.sort) continue;
      const mine = current.sort === column.sort;
      if (mine) cell.setAttribute("aria-sort", current.order === "desc" ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }

  function render(found) {
    box.hidden = !found.rows.length;
    fill(message, found.rows.length ? null : none(current));
    const gone = new Set(rows.keys());
    const seen = JSON.stringify([who(), writable(), informed(), stamp(found)]);
    const order = found.rows.map((row) => {
      const name = String(key(row));
      gone.delete(name);
      const text = JSON.stringify(row) + seen;
      const known = rows.get(name);
      // a row that has the focus is left alone until it has let go, unless it says something else now
      if (known && known.text === text) return known.element;
      const made = h("tr", { class: "anchor", role: "row" }, columns.map((column) => cellOf(column, row, found)));
      if (known?.element.contains(document.activeElement)) {
        keepFocus(known.element, made);
        known.text = text;
        Object.assign(known.row, row); // for the buttons of the cell that stays
        return known.element;
      }
      known?.element.remove();
      rows.set(name, { element: made, text, row });
      return made;
    });
    for (const name of gone) rows.delete(name);
    arrange(body, order);
    pager.show(found);
  }

  return { element, refresh, apply, settings: current };
}

/** Replace the cells of a row, but not the one with the focus in it. */
function keepFocus(row, made) {
  const cells = [...made.children];
  [...row.children].forEach((cell, i) => {
    if (!cell.contains(document.activeElement)) cell.replaceWith(cells[i]);
  });
}

function cellOf(column, row, found) {
  const content = column.cell(row, found);
  if (column.kind === "head") return h("th", { scope: "row", role: "rowheader" }, content);
  const blank = content === "" || content === "–" ? "blank" : "";
  const label = column.said === undefined ? column.label : column.said; // beside the figure, on a phone
  const text = label instanceof Node ? label.textContent : label;
  return h("td", { role: "cell", class: `${column.kind ?? ""} ${blank}`, "data-label": text || null }, content);
}

function pagerOf(go) {
  const words = h("p", { class: "soft tight" });
  const button = (label, step) => {
    const made = h("button", { type: "button" }, label);
    made.addEventListener("click", () => made.getAttribute("aria-disabled") || go(step()));
    return made;
  };
  let page = 1;
  let last = 1;
  const back = [button("First", () => 1), button("Previous", () => page - 1)];
  const on = [button("Next", () => page + 1), button("Last", () => last)];
  const nav = h("nav", { "aria-label": "Pages", class: "buttons", hidden: true }, back, on);
  const element = h("div", { class: "pager" }, words, nav);
  const show = (found) => {
    page = found.page;
    last = Math.max(1, Math.ceil(found.total / SIZE));
    const from = (page - 1) * SIZE + 1;
    words.textContent = found.total ? `${whole(from)} to ${whole(from + found.rows.length - 1)} of ${whole(found.total)}` : "";
    nav.hidden = last === 1;
    for (const each of back) setDisabled(each, page <= 1);
    for (const each of on) setDisabled(each, page >= last);
  };
  return { element, show };
}

// a button with the `disabled` attribute would lose the focus
function setDisabled(button, off) {
  if (off) button.setAttribute("aria-disabled", "true");
  else button.removeAttribute("aria-disabled");
}

/** A search field that waits until one has stopped typing. */
export function searchField(label, value, changed) {
  const input = h("input", { type: "search", value, maxlength: 200, autocomplete: "off", spellcheck: "false", class: "search" });
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(input.value), 250);
  });
  return { element: h("label", { class: "filter" }, h("span", null, label), input), input };
}

/** A table of numbers behind a chart, from `{columns, rows}`. */
export function plainTable(label, { columns, rows }, show) {
  const number = columns.map((_, i) => rows.length > 0 && rows.every((row) => row[i] === null || typeof row[i] === "number"));
  const cell = (value, i) => h("td", { class: number[i] ? "number" : null }, value === null ? "–" : number[i] ? show(value) : show.text(value));
  return h(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": label },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, columns.map((column, i) => h("th", { scope: "col", class: number[i] ? "number" : null }, column)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map(cell)))),
    ),
  );
}
