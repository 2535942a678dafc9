// Digests and signatures of the page are those of Node's own cryptography, and of the server.

import assert from "node:assert/strict";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { test } from "node:test";

import { bytesOf, hex, hmac, sha256, unhex } from "../../src/sumwise/web/static/hmac.js";
import { ofBytes } from "../../src/sumwise/web/static/keys.js";
import { fresh, runOf, signature } from "../../src/sumwise/web/static/proof.js";

test("a digest is that of FIPS 180-4", () => {
  assert.equal(hex(sha256(bytesOf("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});

test("digests of all lengths around a block are right", () => {
  for (const length of [...Array(200).keys(), 100_000]) {
    const bytes = randomBytes(length);
    assert.equal(hex(sha256(bytes)), createHash("sha256").update(bytes).digest("hex"), `${length} bytes`);
  }
});

test("HMACs with keys of all lengths are right", () => {
  for (const length of [0, 1, 32, 63, 64, 65, 200]) {
    const [key, bytes] = [randomBytes(length), randomBytes(length + 7)];
    assert.equal(hex(hmac(key, bytes)), createHmac("sha256", key).update(bytes).digest("hex"), `${length} bytes`);
  }
});

test("text and bytes are the same, there and back", () => {
  const bytes = randomBytes(33);
  assert.deepEqual(unhex(hex(bytes)), new Uint8Array(bytes));
});

const key = ofBytes(randomBytes(32));
const run = fresh();
const nonce = fresh();

test("a proof is believed for its own nonce and key only", async () => {
  const proof = await key.sign("sumwise server", run, nonce);
  assert.equal(await runOf({ run, proof }, key, nonce), run);
  assert.equal(await runOf({ run, proof }, key, fresh()), null);
  assert.equal(await runOf({ run: fresh(), proof }, key, nonce), null);
  assert.equal(await runOf({ run, proof }, ofBytes(randomBytes(32)), nonce), null);
  assert.equal(await runOf({ run, proof: undefined }, key, nonce), null);
  assert.equal(await runOf({}, key, nonce), null);
});

test("a program cannot have the page sign its own words as a run", async () => {
  const signed = [];
  const spy = { id: key.id, sign: async (...words) => signed.push(words) && "x" };
  assert.equal(await runOf({ run: `${run}\nPOST`, proof: "x" }, spy, nonce), null);
  assert.deepEqual(signed, []);
});

test("a signature is for one request", async () => {
  const one = ["POST", "/api/answers", '{"total":1}', run, nonce];
  const mac = async (words) => (await signature(key, ...words)).split(":").at(-1);
  assert.equal(await mac(one), await mac(one));
  const others = [["PATCH"], ["/api/skips"], ['{"total":2}'], [fresh()], [fresh()]];
  for (const [at, [word]] of others.entries()) assert.notEqual(await mac(one.with(at, word)), await mac(one));
});
