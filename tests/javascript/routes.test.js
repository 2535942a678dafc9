// Addresses of the page, and tokens in them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseRoute, pastedToken, query, tokenOf } from "../../src/sumwise/web/static/routes.js";

const VIEWS = ["next", "pool", "history"];

test("an address names a view, its settings and a set", () => {
  assert.deepEqual(parseRoute("#/pool", VIEWS), { view: "pool", set: null, settings: {} });
  assert.deepEqual(parseRoute("#/pool?state=free&page=3", VIEWS), { view: "pool", set: null, settings: { state: "free", page: 3 } });
  assert.deepEqual(parseRoute("#/history/set/12", VIEWS), { view: "history", set: 12, settings: {} });
});

test("what is not understood is left out", () => {
  for (const hash of ["", "#", "#/nowhere", "#/__proto__", "#/constructor/set"]) assert.equal(parseRoute(hash, VIEWS).view, "next");
  for (const hash of ["#/pool/set/x", "#/pool/set/-1", "#/pool/set/1234567890", "#/pool/12"]) assert.equal(parseRoute(hash, VIEWS).set, null);
  for (const page of ["0", "-1", "1.5", "x", "99999999"]) assert.deepEqual(parseRoute(`#/pool?page=${page}`, VIEWS).settings, {});
});

test("settings become an address and come back", () => {
  const settings = { search: "a&b=c ü", state: "free", page: 2 };
  assert.deepEqual(parseRoute(`#/pool${query(settings)}`, VIEWS).settings, settings);
  assert.equal(query({ search: "", page: null, sort: undefined }), "");
  assert.equal(query({ page: 0 }), "?page=0");
});

test("a token is found in the address and in what is pasted", () => {
  assert.equal(tokenOf("#token=aB-9._~"), "aB-9._~");
  assert.equal(tokenOf("#/next"), null);
  assert.equal(tokenOf("#token=a b"), null);
  assert.equal(pastedToken(" http://127.0.0.1:8765/#token=abc123 \n"), "abc123");
  assert.equal(pastedToken("abc123"), "abc123");
  assert.equal(pastedToken("   "), null);
});
