// Charts in the colours and the width of the page. The server makes them for white paper.

const NARROW = 480; // pixels below which a legend in one row runs off the side
const AXIS = 80; // pixels that an axis may take
const TALLEST = 560;

// the same hues, lighter, for a dark page
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

/** A copy of a Vega-Lite specification for `width` pixels, without its title, which the page shows. */
export function themed(spec, width, dark) {
  const { usermeta, title, ...rest } = structuredClone(spec);
  const ink = dark ? "#e4e7ea" : "#1d2329";
  const soft = dark ? "#a9b2ba" : "#58616b";
  const line = dark ? "#3a4149" : "#d8dde2";
  const config = {
    ...rest.config,
    background: "transparent",
    axis: { ...rest.config?.axis, labelColor: soft, titleColor: ink, domainColor: soft, tickColor: soft, gridColor: line, labelFontSize: 12, titleFontSize: 13 },
    legend: { ...rest.config?.legend, labelColor: ink, titleColor: ink, ...(width < NARROW ? { columns: 1 } : {}) },
    text: { ...rest.config?.text, color: ink },
    font: "Arial, sans-serif",
  };
  if (width < NARROW) legendInstead(rest);
  const painted = dark ? repaint(rest) : rest;
  return { ...painted, ...shape(usermeta?.ratio, width), background: "transparent", config };
}

/** Title and subtitle of a chart as text, which wraps and can be read out. */
export function caption(spec) {
  const title = typeof spec.title === "string" ? { text: spec.title } : (spec.title ?? {});
  const line = (text) => [text ?? []].flat().join(" ");
  return { title: line(title.text), subtitle: line(title.subtitle) };
}

/** Labels at the ends of lines take half of a phone's width; a legend above the chart replaces them. */
function legendInstead(spec) {
  const lines = spec.layer?.filter((layer) => layer.data?.name !== "labels");
  if (!lines || lines.length === spec.layer.length) return;
  spec.layer = lines;
  const legend = { title: null, orient: "top", direction: "vertical", symbolType: "stroke", symbolSize: 600, labelFontSize: 12.5 };
  for (const { encoding } of lines) {
    for (const channel of ["color", "strokeDash"]) if (encoding[channel]) encoding[channel].legend = legend;
  }
}

/** Width and height of a picture whose two axes have the same scale. */
function shape(ratio, width) {
  if (!ratio) return {};
  const drawn = Math.round(Math.min(width - AXIS, TALLEST / ratio));
  return { width: drawn, height: Math.round(drawn * ratio), autosize: "pad" };
}

function repaint(part) {
  if (typeof part === "string") return ON_DARK[part.toLowerCase()] ?? part;
  if (Array.isArray(part)) return part.map(repaint);
  if (part === null || typeof part !== "object") return part;
  const data = (key) => key === "data" || key === "datasets"; // rows hold users' text
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, data(key) ? value : repaint(value)]));
}
