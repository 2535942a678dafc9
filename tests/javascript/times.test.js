// Moments in words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { said } from "../../src/sumwise/web/static/times.js";

const now = new Date(2026, 4, 20, 15, 0, 0);
const at = (seconds) => new Date(now.getTime() + 1000 * seconds);

test("the past is relative within the hour, then a time, then a date", () => {
  assert.equal(said(at(0), now), "just now");
  assert.equal(said(at(-59), now), "just now");
  assert.equal(said(at(-60), now), "1 min ago");
  assert.equal(said(at(-3599), now), "59 min ago");
  assert.equal(said(at(-2 * 3600), now), "13:00");
  assert.equal(said(at(-20 * 3600), now), "19 May, 19:00");
  assert.equal(said(new Date(2025, 11, 31, 8, 5), now), "31 Dec 2025, 08:05");
});

test("the future is relative up to a month; a clock a little ahead is now", () => {
  assert.equal(said(at(60), now), "just now");
  assert.equal(said(at(600), now), "in 10 min");
  assert.equal(said(at(24 * 3600), now), "in 24 h");
  assert.equal(said(at(7 * 86400), now), "in 7 days");
  assert.match(said(at(60 * 86400), now), /^on 19 Jul 2026$/);
});
