// Charts in the page's colours and width.

import assert from "node:assert/strict";
import { test } from "node:test";

import { caption, themed } from "../../src/sumwise/web/static/theme.js";

const LINES = {
  title: { text: ["Two", "lines"], subtitle: "under it" },
  data: { values: [{ name: "black", y: 1 }] },
  layer: [
    { mark: { type: "line", color: "#0072B2" }, encoding: { color: { field: "a" }, x: { field: "b" } } },
    { data: { name: "labels" }, mark: "text", encoding: {} },
  ],
};

test("a title becomes text", () => {
  assert.deepEqual(caption(LINES), { title: "Two lines", subtitle: "under it" });
  assert.deepEqual(caption({ title: "short" }), { title: "short", subtitle: "" });
  assert.deepEqual(caption({}), { title: "", subtitle: "" });
});

test("on a dark page colours change and data do not", () => {
  const dark = themed(LINES, 800, true);
  assert.equal(dark.layer[0].mark.color, "#56b4e9");
  assert.equal(dark.data.values[0].name, "black");
  assert.equal(themed(LINES, 800, false).layer[0].mark.color, "#0072B2");
  assert.equal(dark.title, undefined);
  assert.equal(LINES.layer[0].mark.color, "#0072B2"); // the chart itself is left alone
});

test("on a phone a legend replaces the labels at the ends of lines", () => {
  const narrow = themed(LINES, 360, false);
  assert.equal(narrow.layer.length, 1);
  assert.equal(narrow.layer[0].encoding.color.legend.orient, "top");
  assert.equal(narrow.layer[0].encoding.x.legend, undefined);
  assert.equal(narrow.config.legend.columns, 1);
  assert.equal(themed(LINES, 800, false).layer.length, 2);
});

test("a picture keeps its ratio within the width and a height", () => {
  const shape = ({ width, height }) => [width, height];
  assert.deepEqual(shape(themed({ usermeta: { ratio: 0.5 } }, 680, false)), [600, 300]);
  assert.deepEqual(shape(themed({ usermeta: { ratio: 2 } }, 2000, false)), [280, 560]);
  assert.deepEqual(shape(themed({}, 680, false)), [undefined, undefined]);
});
