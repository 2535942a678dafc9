// `ast` has Vega interpret its expressions, so that the content policy can forbid eval;
// the menu saves the picture and opens no website, because the page works offline.
// Vega measures the box it draws in, so what is folded away is drawn when it is opened.
const charts = [...document.querySelectorAll("figure")].map((figure) => ({
  box: figure.querySelector(".chart"),
  folded: figure.closest("details"),
  spec: JSON.parse(figure.querySelector("script").textContent),
}));
// such as the shapes of a map, which one of several charts brings
const datasets = Object.assign({}, ...charts.map(({spec}) => spec.datasets));
// A title does not wrap by itself, and a map keeps its shape.
function fold(text, most) {
  return [text].flat().flatMap((line) => line.split(" ").reduce((lines, word) => {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + word.length < most) lines[last] += " " + word;
    else lines.push(word);
    return lines;
  }, []));
}
function fitted(spec, width) {
  const {text = "", subtitle = ""} = spec.title ?? {};
  const title = {...spec.title, text: fold(text, width / 11), subtitle: fold(subtitle, width / 7)};
  const ratio = spec.usermeta?.ratio;
  const config = {...spec.config, axis: {...spec.config?.axis, titleLimit: 0.6 * width}};
  return {...spec, title, config, ...(ratio && {height: Math.min(spec.height, Math.round((width - 28) * ratio))})};
}
function draw({box, spec}) {
  if (box.childElementCount) return;
  const actions = {export: true, source: false, compiled: false, editor: false};
  vegaEmbed(box, {...fitted(spec, box.clientWidth), datasets}, {renderer: "svg", ast: true, actions})
    .then(() => box.querySelector("summary").setAttribute("aria-label", "Save this picture"))
    .catch((error) => { box.textContent = "This chart could not be drawn: " + error.message; });
}
for (const chart of charts) {
  if (!chart.folded) draw(chart);
  else chart.folded.addEventListener("toggle", () => draw(chart));
}
