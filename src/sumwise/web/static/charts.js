// Vega-Lite charts. Vega is large, so it is fetched when the first chart is about to be seen.
// Its expressions are interpreted (`ast`), since our content policy forbids eval, and it adds no
// styles of its own.

import { fill, h } from "./dom.js";
import { themed } from "./theme.js";

let vega = null;

function load() {
  vega ??= new Promise((resolve, reject) => {
    const script = h("script", { src: "/static/vega.js" });
    script.addEventListener("load", () => resolve(window.vegaEmbed));
    script.addEventListener("error", () => {
      vega = null; // so that the next chart tries again
      script.remove();
      reject(new Error("The charts could not be loaded; the tables hold the same figures."));
    });
    document.head.append(script);
  });
  return vega;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map(); // box -> {spec, view}

dark.addEventListener("change", () => {
  for (const [box, { spec }] of drawn) if (box.isConnected) draw(box, spec);
});

/** Draw `spec` into `box`, in place of what was there before. */
export async function draw(box, spec) {
  const embed = await load();
  const fresh = h("div", { class: "vega" });
  // Vega measures the element, so it has to be in the page; the former chart stays until then
  box.append(fresh);
  fresh.classList.add("coming");
  try {
    const { view } = await embed(fresh, themed(spec, box.clientWidth, dark.matches), {
      ast: true,
      actions: false,
      renderer: "svg",
      defaultStyle: false,
      tooltip,
    });
    // a mark that stands for something in a set opens that set
    view.addEventListener("click", (event, item) => {
      const position = item?.datum?.position ?? item?.datum?.properties?.position;
      if (Number.isInteger(position) && position >= 0) location.hash = `${location.hash.split(/[/?]/, 2).join("/")}/set/${position}`;
    });
    drawn.get(box)?.view.finalize();
    drawn.set(box, { spec, view });
    fresh.classList.remove("coming");
    fill(box, fresh);
  } catch (error) {
    fresh.remove();
    throw error;
  }
}

// --- tooltips ----------------------------------------------------------------------------------

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);

/** Vega's tooltip, with text as text. */
function tooltip(handler, event, item, value) {
  tip.hidden = value === null || value === undefined || value === "";
  if (tip.hidden) return;
  const rows = typeof value === "object" ? Object.entries(value) : [["", String(value)]];
  fill(tip, h("dl", null, rows.map(([key, text]) => h("div", null, key ? h("dt", null, key) : null, h("dd", null, h("bdi", null, String(text).slice(0, 300)))))));
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const above = event.clientY + 14 + height > innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${above ? event.clientY - height - 10 : event.clientY + 14}px`;
}
addEventListener("scroll", () => (tip.hidden = true), { passive: true, capture: true });
