// Numbers as people type and read them. What could be read in two ways is refused, never guessed.

const ZEROS = [0x660, 0x6f0, 0x966, 0xff10]; // Arabic, Persian, Devanagari and full-width digits
const SPACE = "\u202f"; // narrow and unbreakable: groups digits, and may be typed back in

/** Whether the reader's language writes 1,5 for one and a half. */
export function decimalComma(language = navigator.language) {
  try {
    return new Intl.NumberFormat(language).formatToParts(1.5).some((part) => part.type === "decimal" && part.value !== ".");
  } catch {
    return false;
  }
}

const NUMBER_ONLY = "Write the number only, without a unit, such as 843 or 12.5.";

/** `{value, plain}`, or `{problem}` in words that say what to type instead. */
export function parse(text, comma = decimalComma()) {
  const typed = plainDigits(text.trim());
  if (!typed) return { problem: "Type a number first." };
  if (/[^\d\s.,'’+\-e]/i.test(typed)) return { problem: NUMBER_ONLY };
  const joined = ungrouped(typed);
  if (joined === null) {
    return { problem: "Spaces may only group digits by three, as in 12\u00a0345. Write the number without them." };
  }
  const commas = joined.split(",").length - 1;
  const dots = joined.split(".").length - 1;
  if (commas + dots > 1) {
    const last = Math.max(joined.lastIndexOf(","), joined.lastIndexOf("."));
    const single = (joined[last] === "." ? dots : commas) === 1;
    const bare = joined.replace(/[.,]/g, (sign, at) => (single && at === last ? "." : ""));
    const instead = /^[-+]?\d+(\.\d+)?$/.test(bare) ? `, for instance ${bare}` : "";
    return { problem: `Commas and points can be read in two ways here. Write one decimal sign and no sign between thousands${instead}.` };
  }
  // 1,234 is a thousand or so to some and a little over one to others; 1234,5 and 0,125 are not
  const two = /^([-+]?)([1-9]\d{0,2})([.,])(\d{3})$/.exec(joined);
  if (two && (two[3] === ",") !== comma) {
    const [, sign, front, , back] = two;
    return { problem: `“${typed}” may mean ${sign}${front}${back} or ${sign}${front}.${back}. Write ${sign}${front}${back}, or ${sign}${front}${comma ? "," : "."}${back}${comma ? "" : "0"}.` };
  }
  const plain = joined.replace(",", ".").replace(/^\+/, "");
  if (!/^-?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(plain)) {
    return { problem: NUMBER_ONLY };
  }
  const value = Number(plain);
  if (!Number.isFinite(value)) return { problem: "This number is too large." };
  return { value, plain: plain === typed };
}

/** Why no counts, shares or amounts add up to this, in words; null if they can. */
export function impossible(value, outputs) {
  if (outputs === "numbers") return null;
  if (outputs === "amounts") return value > 0 ? null : "An amount is above 0.";
  if (!Number.isInteger(value)) return "Write a whole number: the count, not the rate or the share.";
  return value < 0 ? "A count is at least 0." : null;
}

/** ASCII digits, signs and spaces, whatever keyboard they came from. */
function plainDigits(text) {
  return Array.from(text.replace(/[\u2212\u2012\u2013\uFE63\uFF0D]/g, "-"), (c) => {
    const code = c.codePointAt(0);
    const zero = ZEROS.find((first) => code >= first && code < first + 10);
    return zero === undefined ? c : String(code - zero);
  })
    .join("")
    .replace(/[\u00a0\u2000-\u200a\u202f\u3000]/g, " ")
    .replace(/[٫]/g, ",")
    .replace(/^([-+]) +/, "$1");
}

/** Without the spaces or apostrophes between thousands; null if they stand elsewhere. */
function ungrouped(text) {
  for (const sign of [" ", "'", "’"]) {
    if (!text.includes(sign)) continue;
    const body = /^([-+]?)(\d{1,3}(?:[ '’]\d{3})+)([.,]\d*)?$/.exec(text);
    if (!body || [...body[2]].some((c) => " '’".includes(c) && c !== sign)) return null;
    return body[1] + body[2].replaceAll(sign, "") + (body[3] ?? "");
  }
  return text;
}

/** Ids that are separated by commas or lines; one with a comma stands in quotation marks. */
export function listed(text) {
  const found = [...text.matchAll(/\s*(?:"((?:[^"]|"")*)"\s*(?=[,\n]|$)|([^,\n]+))/g)];
  return found.map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain.trim()).filter(Boolean);
}

/** The share that a percentage stands for, `{value}`, or `{problem}`. */
export function shareOf(text, comma = decimalComma()) {
  const read = parse(text.replace(/%\s*$/, ""), comma);
  if (read.problem) return read;
  if (read.value <= 0 || read.value > 100) return { problem: "Give a percentage above 0, up to 100." };
  return { value: read.value / 100 };
}

// --- showing -----------------------------------------------------------------------------------

function grouped(value, decimals, least = 0) {
  const text = value.toLocaleString("en", { minimumFractionDigits: least, maximumFractionDigits: decimals });
  return text.replaceAll(",", SPACE).replace("-", "−");
}

function scientific(value, digits) {
  return value.toExponential(digits).replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
}

const plainSize = (value) => value === 0 || (Math.abs(value) >= 1e-4 && Math.abs(value) < 1e12);

/** A number with the digits it was given, up to twelve. */
export function exact(value) {
  return figure(value, 12);
}

/** A number to three digits that count, or as many as a whole number has. */
export function figure(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (!plainSize(value)) return scientific(value, digits - 1);
  return grouped(value, decimalsOf(value, digits));
}

function decimalsOf(value, digits) {
  if (value === 0) return 0;
  return Math.min(16, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
}

/** A number to three digits that count, zeros included: for columns. */
export function steady(value) {
  if (!value || !Number.isFinite(value) || !plainSize(value)) return figure(value);
  return grouped(value, decimalsOf(value, 3), decimalsOf(value, 3));
}

/** Several numbers, each only as exact as `std` allows. */
export function like(std, ...values) {
  const usable = Number.isFinite(std) && std > 0 && plainSize(std);
  const nothing = 1e-6 * Math.max(...values.map((value) => (Number.isFinite(value) ? Math.abs(value) : 0))); // beside the largest
  return values.map((value) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (std > 0 && std < nothing) return Math.abs(value) < nothing ? "0" : figure(value, 6); // what rounding leaves
    if (!usable || !plainSize(value)) return figure(value);
    return grouped(value, decimalsOf(std, 2), decimalsOf(std, 2));
  });
}

/** 820 ± 40; `shown` is how figures are as exact as the last allows. */
export function spread(mean, std, shown = like) {
  if (!Number.isFinite(mean) || !Number.isFinite(std)) return "–";
  return shown(std, mean, std).join(" ± ");
}

/** `like` for what is counted: whole numbers, unless `std` is below one. */
export function countLike(std, ...values) {
  return values.map((value) => (Number.isFinite(value) && plainSize(value) && (std >= 1 || Number.isInteger(value)) ? whole(value) : like(std, value)[0]));
}

export const whole = (count) => grouped(count, 0);

export function counted(count, thing) {
  return `${whole(count)} ${thing}${count === 1 ? "" : "s"}`;
}

/** What a number can be, in words: "from 0 to 420 points"; empty without bounds. */
export function bounds(low, high, unit = "") {
  const some = [low, high].map((end) => Number.isFinite(end));
  if (!some[0] && !some[1]) return "";
  if (!some[0]) return `at most ${exact(high)}${unit}`;
  if (!some[1]) return `at least ${exact(low)}${unit}`;
  return `from ${exact(low)} to ${exact(high)}${unit}`;
}
