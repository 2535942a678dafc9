// Vega-Lite charts. Vega is large, so it is fetched when the first chart is about to be seen.
// Its expressions are interpreted (`ast`), since our content policy forbids eval, and it adds no
// styles of its own.

import { fill, h } from "./dom.js";

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
const NARROW = 480; // pixels below which a legend in one row runs off the side
const BESIDE = 80; // pixels that an axis may take
const TALLEST = 560;
const drawn = new Map(); // box -> {spec, view}

dark.addEventListener("change", () => {
  for (const [box, { spec }] of drawn) if (box.isConnected) draw(box, spec);
});

/** Draw `spec` into `box`, in place of what was there before. */
export async function draw(box, spec) {
  const embed = await load();
  const fresh = h("div", { class: "vega" });
  // it is measured while it is drawn, so it has to be in the page; what was there stays until then
  box.append(fresh);
  fresh.classList.add("coming");
  try {
    const { view } = await embed(fresh, dressed(spec, box.clientWidth), {
      ast: true,
      actions: false,
      renderer: "svg",
      defaultStyle: false,
      tooltip,
    });
    // a mark that stands for something in a set opens that set
    view.addEventListener("click", (event, item) => {
      const position = item?.datum?.position;
      if (Number.isInteger(position)) location.hash = `${location.hash.split(/[/?]/, 2).join("/")}/set/${position}`;
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

/** Title and subtitle of a chart as words, which wrap and can be read out. */
export function caption(spec) {
  const title = typeof spec.title === "string" ? { text: spec.title } : (spec.title ?? {});
  const line = (text) => [text ?? []].flat().join(" ");
  return { title: line(title.text), subtitle: line(title.subtitle) };
}

// --- our colours -------------------------------------------------------------------------------

// the charts are made for white paper; on a dark page the same hues need more light
const ON_DARK = {
  "#0072b2": "#56b4e9",
  "#d55e00": "#f0894a",
  "#009e73": "#3cc79a",
  "#cc79a7": "#e09cc3",
  "#56b4e9": "#8fd0f7",
  "#e69f00": "#f2b84b",
  "#555555": "#a9b2ba",
  "#c3c9cf": "#545d66",
  "#d8dde2": "#3a4149",
  black: "#e4e7ea",
  white: "#171b20",
};

function dressed(spec, room) {
  const { usermeta, title, ...rest } = structuredClone(spec);
  const ink = dark.matches ? "#e4e7ea" : "#1d2329";
  const soft = dark.matches ? "#a9b2ba" : "#58616b";
  const line = dark.matches ? "#3a4149" : "#d8dde2";
  const config = {
    ...rest.config,
    background: "transparent",
    axis: { ...rest.config?.axis, labelColor: soft, titleColor: ink, domainColor: soft, tickColor: soft, gridColor: line, labelFontSize: 12, titleFontSize: 13 },
    legend: { ...rest.config?.legend, labelColor: ink, titleColor: ink, ...(room < NARROW ? { columns: 1 } : {}) },
    text: { ...rest.config?.text, color: ink },
    font: "Arial, sans-serif",
  };
  if (room < NARROW) legendInstead(rest);
  const painted = dark.matches ? repaint(rest) : rest;
  return { ...painted, ...shape(usermeta?.ratio, room), background: "transparent", config };
}

/** Names at the ends of lines take half of a phone's width: there, a legend above says the same. */
function legendInstead(spec) {
  const lines = spec.layer?.filter((layer) => layer.data?.name !== "labels");
  if (!lines || lines.length === spec.layer.length) return;
  spec.layer = lines;
  const legend = { title: null, orient: "top", direction: "vertical", symbolType: "stroke", symbolSize: 600, labelFontSize: 12.5 };
  for (const { encoding } of lines) {
    for (const channel of ["color", "strokeDash"]) if (encoding[channel]) encoding[channel].legend = legend;
  }
}

/** Width and height of a picture in which a step is as long up as across. */
function shape(ratio, room) {
  if (!ratio) return {};
  const width = Math.round(Math.min(room - BESIDE, TALLEST / ratio));
  return { width, height: Math.round(width * ratio), autosize: "pad" };
}

function repaint(part) {
  if (typeof part === "string") return ON_DARK[part.toLowerCase()] ?? part;
  if (Array.isArray(part)) return part.map(repaint);
  if (part === null || typeof part !== "object") return part;
  const kept = (key) => key === "data" || key === "datasets"; // rows hold users' text
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, kept(key) ? value : repaint(value)]));
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
