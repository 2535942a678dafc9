// Progress: where the study stands in sentences, and what answers have taught in charts.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { advance, trouble, working } from "./pieces.js";
import { panel } from "./panel.js";

const CHARTS = {
  progress: "Forecasts",
  predicted: "Predicted and answered",
  calibration: "Are the intervals right?",
  information: "Information per answer",
  next: "What to ask next",
};

export function create() {
  const lead = h("div", { class: "lead" });
  const words = h("div", { class: "words status" }, working());
  const panels = Object.entries(CHARTS).map(([key, title]) => panel(title, () => `/api/charts/${key}`));
  const element = h("section", { class: "view progress" }, h("h1", { tabindex: "-1" }, "Progress"), lead, words, panels.map((each) => each.element));

  async function refresh() {
    fill(lead, ...advance());
    try {
      const status = await get("/api/status");
      // after the headline a sentence counts the sets, which the line above does already
      const rest = status.words.slice(status.headline.length + 1).filter((each) => each !== status.going_on);
      const look = status.suspects.slice(0, 1).map(({ position }) => [" ", h("a", { href: `#/progress/set/${position}` }, "Look at it")]);
      const top = [...status.headline, status.going_on].filter(Boolean);
      fill(words, top.map((each, i) => h("p", { class: "advice" }, h("strong", null, each), i ? [] : look)), rest.map((each) => h("p", null, each)));
    } catch (error) {
      if (!words.querySelector("p:not(.working)")) trouble(words, error, refresh);
    }
    for (const each of panels) await each.refresh(); // one after the other: they share a model
  }

  return { element, refresh, title: "Progress", pause: 1500 };
}
