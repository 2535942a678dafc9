// `ast` has Vega interpret its expressions, so that the content policy can forbid eval;
// the menu saves the picture and opens no website, because the page works offline
let datasets = {}; // such as the shapes of a map, which the first of several charts brings
for (const figure of document.querySelectorAll("figure")) {
  const box = figure.querySelector(".chart");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  spec.datasets = datasets = { ...datasets, ...spec.datasets };
  const actions = {export: true, source: false, compiled: false, editor: false};
  vegaEmbed(box, spec, {renderer: "svg", ast: true, actions}).catch((error) => {
    box.textContent = "This chart could not be drawn: " + error.message;
  });
}
