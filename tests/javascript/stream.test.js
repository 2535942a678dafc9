// Server-sent events, in whatever pieces the network delivers them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { eventParser } from "../../src/sumwise/web/static/stream.js";

const TEXT = 'retry: 500\n\n: still here\n\nevent: change\ndata: {"changes": 7}\n\nevent: trouble\ndata: one\ndata: two\n\n';
const EVENTS = [{ event: "change", data: '{"changes": 7}' }, { event: "trouble", data: "one\ntwo" }];

test("events are the same however the text is cut", () => {
  for (let size = 1; size <= TEXT.length; size++) {
    const parse = eventParser();
    const found = [];
    for (let at = 0; at < TEXT.length; at += size) found.push(...parse(TEXT.slice(at, at + size)));
    assert.deepEqual(found, EVENTS, `in pieces of ${size}`);
  }
});

test("an event counts once its blank line has come", () => {
  const parse = eventParser();
  assert.deepEqual(parse("data: 1"), []);
  assert.deepEqual(parse("\r\n\r\n"), [{ event: "message", data: "1" }]);
});
