// A chart with its heading, its words, and the table behind it.

import { get } from "./api.js";
import { draw } from "./charts.js";
import { fill, h, undisturbed, visible } from "./dom.js";
import { trouble, working } from "./pieces.js";
import { figure } from "./numbers.js";
import { plainTable } from "./table.js";
import { caption } from "./theme.js";

const show = Object.assign((value) => figure(value, 4), { text: (value) => visible(value).slice(0, 300) });

/** `{element, refresh, reset}` of what `path()` gives: `{chart, words, table}`. */
export function panel(title, path, { seconds = 120, busy = "Calculating…", bare = false } = {}) {
  const head = h("h2", { class: bare ? "unseen" : null }, title);
  const words = h("div", { class: "words" });
  const title2 = h("p", { class: "finding" });
  const subtitle = h("p", { class: "soft tight" });
  const box = h("div", { class: "chart" });
  const figureBox = h("figure", { hidden: true }, h("figcaption", null, title2, subtitle), box);
  const tableBox = h("div");
  const details = h("details", { hidden: true }, h("summary", null, "Show as table"), tableBox);
  const status = h("div");
  const element = h("section", { class: "panel anchor", "aria-busy": "false" }, head, status, figureBox, words, details);
  let shown = "";
  let latest = 0;

  async function refresh() {
    const turn = ++latest;
    element.setAttribute("aria-busy", "true");
    if (!shown) fill(status, working(busy));
    try {
      const found = await get(path(), { seconds });
      if (turn !== latest) return;
      const text = JSON.stringify(found);
      if (text !== shown) await render(found);
      shown = text;
      fill(status);
    } catch (error) {
      if (turn === latest && !shown) trouble(status, error, refresh);
    } finally {
      if (turn === latest) element.setAttribute("aria-busy", "false");
    }
  }

  async function render({ chart, words: sentences, table }) {
    undisturbed(() => {
      fill(words, sentences.map((each) => h("p", null, each)));
      const filled = table.rows.length > 0;
      details.hidden = !filled;
      if (filled) fill(tableBox, plainTable(title, table, show));
      figureBox.hidden = !chart;
      if (!chart) return;
      const said = caption(chart);
      title2.textContent = said.title;
      subtitle.textContent = said.subtitle;
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `${said.title || title}. The table below holds the same figures.`);
    });
    if (!chart) return;
    try {
      await draw(box, chart);
    } catch (error) {
      fill(box, h("p", { class: "soft" }, `This chart could not be drawn. ${error.message}`));
    }
  }

  /** Begin anew, with other data. */
  const reset = () => {
    shown = "";
    figureBox.hidden = true;
    details.hidden = true;
    fill(words);
    fill(box);
  };
  return { element, refresh, reset };
}
