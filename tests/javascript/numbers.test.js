// Numbers are read only if they can be read in one way, and shown so that they can be typed back.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bounds, counted, countLike, decimalComma, exact, figure, impossible, like, listed, parse, shareOf, spread, steady, whole } from "../../src/sumwise/web/static/numbers.js";

// [text, value where 1.5 is written, value where 1,5 is written]; null is refused
const TYPED = [
  ["843", 843, 843],
  [" 843 ", 843, 843],
  ["12.5", 12.5, 12.5],
  ["12,5", 12.5, 12.5],
  ["0,125", 0.125, 0.125],
  ["1234,567", 1234.567, 1234.567],
  ["1.234", 1.234, null],
  ["1,234", null, 1.234],
  ["1,234.5", null, null],
  ["1.234,5", null, null],
  ["1,234,567", null, null],
  ["12 345", 12345, 12345],
  ["12\u202f345,5", 12345.5, 12345.5],
  ["12\u00a0345.5", 12345.5, 12345.5],
  ["12'345", 12345, 12345],
  ["1 23", null, null],
  ["12 34", null, null],
  ["12 345'678", null, null],
  ["-3", -3, -3],
  ["- 3", -3, -3],
  ["−3.5", -3.5, -3.5],
  ["+7", 7, 7],
  ["1e3", 1000, 1000],
  ["1.5E-2", 0.015, 0.015],
  ["٨٤٣", 843, 843],
  ["８４３", 843, 843],
  ["1e400", null, null],
  ["", null, null],
  ["12 kg", null, null],
  ["12%", null, null],
  ["0x10", null, null],
  ["NaN", null, null],
  ["Infinity", null, null],
  ["1..2", null, null],
  ["--1", null, null],
  ["1,", 1, 1],
  [".5", 0.5, 0.5],
  [",5", 0.5, 0.5],
  [".", null, null],
];

test("numbers are read only if they can be read in one way", () => {
  for (const [text, point, comma] of TYPED) {
    for (const [expected, language] of [[point, false], [comma, true]]) {
      const read = parse(text, language);
      assert.equal(read.problem ? null : read.value, expected, `${JSON.stringify(text)} with decimal ${language ? "comma" : "point"}`);
    }
  }
});

test("a refusal says what to type instead", () => {
  assert.match(parse("12 people", false).problem, /without a unit/);
  assert.equal(parse("12 people", false).problem, parse("244.3 km", false).problem);
  assert.match(parse("1 23", false).problem, /12\u00a0345/); // never broken between the digits
  assert.match(parse("1,234.5", false).problem, /for instance 1234\.5/);
  assert.match(parse("1.234,5", false).problem, /for instance 1234\.5/);
  assert.doesNotMatch(parse("1,234,567.8.9", false).problem, /for instance 1234567\.8/);
  assert.match(parse("1,234", false).problem, /1234 or 1\.234\. Write 1234, or 1\.2340/);
  assert.match(parse("-1.234", true).problem, /-1234 or -1\.234\. Write -1234, or -1,234/);
});

test("a plain number is told from one that is read back", () => {
  assert.equal(parse("843", false).plain, true);
  assert.equal(parse("12,5", false).plain, false);
  assert.equal(parse("12 345", false).plain, false);
});

test("what is shown can be typed back", () => {
  for (const value of [0, 1, -1, 12.5, 1234.5, 1234567, 8430000.25, 0.001234, -98765.4321, 3e-7, 2.5e13]) {
    assert.ok(Math.abs(parse(exact(value), false).value - value) <= 1e-11 * Math.abs(value), exact(value));
  }
});

test("languages have their decimal sign", () => {
  assert.equal(decimalComma("de-DE"), true);
  assert.equal(decimalComma("en-GB"), false);
  assert.equal(decimalComma("no such language"), false);
});

test("figures have three digits that count", () => {
  assert.equal(figure(0.123456), "0.123");
  assert.equal(figure(1234.56), "1\u202f235");
  assert.equal(figure(-2), "−2");
  assert.equal(figure(0), "0");
  assert.equal(figure(1.5e-7), "1.5e−7");
  assert.equal(figure(2e15), "2e15");
  for (const nothing of [null, undefined, NaN, Infinity]) assert.equal(figure(nothing), "–");
  assert.equal(steady(0.5), "0.500");
  assert.equal(steady(0), "0");
});

test("a mean is as exact as its standard deviation allows", () => {
  assert.equal(spread(820.1234, 41.7), "820 ± 42");
  assert.equal(spread(1.23456, 0.0123), "1.235 ± 0.012");
  assert.equal(spread(199.65, 2.28e-8), "199.65 ± 0"); // a measured pool, but for rounding
  assert.deepEqual(like(2e-16, 199.6499, 199.6501), ["199.65", "199.65"]);
  assert.equal(spread(3e-9, 1e-9), "3e−9 ± 1e−9");
  assert.equal(spread(null, 1), "–");
  assert.deepEqual(like(0, 1234.5), ["1\u202f235"]);
  assert.deepEqual(like(0.5, null, 2), ["–", "2.00"]);
});

test("things are counted", () => {
  assert.equal(counted(1, "set"), "1 set");
  assert.equal(counted(12345, "set"), "12\u202f345 sets");
  assert.equal(whole(1e6), "1\u202f000\u202f000");
});

test("a share is a percentage", () => {
  assert.deepEqual(shareOf("80", false), { value: 0.8 });
  assert.deepEqual(shareOf(" 62.5 % ", false), { value: 0.625 });
  assert.deepEqual(shareOf("62,5", false), { value: 0.625 });
  assert.deepEqual(shareOf("100", false), { value: 1 });
  for (const text of ["0", "-5", "101", "4/5", "%", "half"]) assert.ok(shareOf(text, false).problem, text);
});

test("ids are separated by commas or lines, and may stand in quotation marks", () => {
  assert.deepEqual(listed("7, 12\n p3,,\n"), ["7", "12", "p3"]);
  assert.deepEqual(listed('"Smith, Ann", Bob\n"say ""hi"""'), ["Smith, Ann", "Bob", 'say "hi"']);
  assert.deepEqual(listed('5" pipe, "half'), ['5" pipe', '"half']);
  assert.deepEqual(listed("  \n ,, "), []);
});

test("what is listed reads back whatever it holds", () => {
  const ids = ["a", "a,b", 'q"', '"q"', '",', "ü 🐟", "1 2", "<b>"];
  const quoted = ids.map((id) => (/[",\n]/.test(id) ? `"${id.replaceAll('"', '""')}"` : id));
  assert.deepEqual(listed(quoted.join(", ")), ids);
  assert.deepEqual(listed(quoted.join("\n")), ids);
});

test("bounds are said in words", () => {
  assert.equal(bounds(0, 420, " points"), "from 0 to 420 points");
  assert.equal(bounds(0, null), "at least 0");
  assert.equal(bounds(null, 1.5, " kg"), "at most 1.5 kg");
  assert.equal(bounds(null, undefined, " kg"), "");
});

test("what is counted is shown in whole numbers, unless it is hardly ever there", () => {
  assert.deepEqual(countLike(15.2, 89.4, 15.2), ["89", "15"]);
  assert.deepEqual(countLike(1, 2.4, 1), ["2", "1"]);
  assert.deepEqual(countLike(0.31, 0.1234, 0.31, 1), ["0.12", "0.31", "1"]);
  assert.deepEqual(countLike(3, null, NaN), ["–", "–"]);
  assert.equal(spread(89.4, 4.26, countLike), "89 ± 4");
  assert.equal(spread(89.4, 4.26), "89.4 ± 4.3");
});

test("totals that no counts, shares or amounts have are refused in words", () => {
  for (const value of [2.5, -3, 0]) assert.equal(impossible(value, "numbers"), null);
  for (const kind of ["counts", "shares"]) {
    assert.match(impossible(2.5, kind), /the count, not the rate/);
    assert.match(impossible(-3, kind), /at least 0/);
    assert.equal(impossible(0, kind), null);
  }
  assert.match(impossible(0, "amounts"), /above 0/);
  assert.equal(impossible(0.5, "amounts"), null);
});
