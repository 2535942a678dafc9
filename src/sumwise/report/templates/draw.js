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
function draw({box, spec}) {
  if (box.childElementCount) return;
  const actions = {export: true, source: false, compiled: false, editor: false};
  vegaEmbed(box, {...spec, datasets}, {renderer: "svg", ast: true, actions})
    .then(() => box.querySelector("summary").setAttribute("aria-label", "Save this picture"))
    .catch((error) => { box.textContent = "This chart could not be drawn: " + error.message; });
}
for (const chart of charts) {
  if (!chart.folded) draw(chart);
  else chart.folded.addEventListener("toggle", () => draw(chart));
}
