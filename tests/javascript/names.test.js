// Names as text that can be seen, and no longer than there is room for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { shortened, visible } from "../../src/sumwise/web/static/dom.js";

test("what cannot be seen is spelled out", () => {
  assert.equal(visible("a\u202eb"), "a⟨202E⟩b");
  assert.equal(visible("a\u200bb\u0007"), "a⟨200B⟩b⟨7⟩");
  assert.equal(visible(" a\n\tb "), " a b ");
  assert.equal(visible(" \n"), "(blank)");
  assert.equal(visible(""), "(blank)");
  assert.equal(visible(12), "12");
  assert.equal(visible("<b>"), "<b>");
});

test("names are cut between characters and not inside them", () => {
  const family = "👨‍👩‍👧";
  assert.equal(shortened("short", 10), "short");
  assert.equal(shortened("exactly10!", 10), "exactly10!");
  assert.equal(shortened("one more than ten", 10), "one more…");
  assert.equal(shortened(family.repeat(3), 3), family.repeat(3));
  assert.equal(shortened(family.repeat(4), 3), `${family.repeat(2)}…`);
  assert.equal(shortened("e\u0301".repeat(5), 3), `${"e\u0301".repeat(2)}…`);
  assert.ok(shortened("x".repeat(1e6), 10).length <= 10);
});
