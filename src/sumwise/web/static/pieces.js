// Small parts that several views share.

import { fill, h, name, svg } from "./dom.js";
import { counted, countLike, exact, figure, like, spread, whole } from "./numbers.js";
import { alone, designing, isWhole, outputs, state, unit, who } from "./store.js";
import { said } from "./times.js";

const STATES = { free: "free", open: "being measured", answered: "answered", skipped: "skipped" };

export function badge(kind, designed = false) {
  return h("span", { class: `badge ${kind}` }, designed && kind === "free" ? "unclaimed" : STATES[kind]);
}

/** A person's name as a label: it may hold any text. */
export function person(by) {
  if (!by) return h("span", { class: "soft" }, "someone");
  return by === who() ? h("span", null, "you") : name(by, 30);
}

/** Whether anything is measured or known yet: before that, predictions have no unit. */
export const informed = () => (state.study?.answers ?? 0) + (state.study?.known ?? 0) > 0;

export function percent() {
  return `${Math.round(1000 * (state.study?.level ?? 0.9)) / 10} %`;
}

/** Several numbers of what is measured, each only as exact as `std` allows. */
export const figures = (std, ...values) => (isWhole() ? countLike : like)(std, ...values);

/** A mean and its standard deviation; that of a measured pool is 0, or what rounding leaves. */
export const estimate = (mean, std) => spread(mean, std === 0 && designing() ? Number.MIN_VALUE : std, figures);

/** How many individuals a set has, and the trials or the exposure of all of them. */
export function size(set) {
  const people = counted(set.size, "individual");
  if (outputs() === "shares") return `${people} · ${counted(set.exposure, "trial")}`;
  return Number.isFinite(set.exposure) && set.exposure !== set.size ? `${people} · exposure ${exact(set.exposure)}` : people;
}

/** What is expected of a set, in figures. */
export function expectation(set) {
  if (!informed()) return h("span", { class: "soft" }, "not known before the first answer");
  const [low, high] = figures(set.std, set.lower, set.upper);
  return h(
    "span",
    null,
    h("strong", { class: "figure" }, estimate(set.expected, set.std)),
    unit(),
    h("span", { class: "soft" }, ` ${percent()} within ${low} to ${high}`),
  );
}

/** What a set would teach beside the runner-up, as shares of the most: thin bars with their figures. */
export function scores(question) {
  const first = question.score_per_cost ?? question.score; // what sets are ranked by
  const second = question.runner_up_score_per_cost ?? question.runner_up_score;
  const bound = Number.isFinite(question.bound) && question.score_per_cost === null ? question.bound : null;
  const best = Math.max(first, second ?? 0, bound ?? 0, 1e-300);
  const runner = question.runner_up;
  const compared = runner !== null && second !== null;
  const rows = [bar(first, best, question.designed ? "this pool" : "this set", "own")];
  if (compared) {
    rows.push(bar(second, best, [name(runner.id, 24), h("span", { class: "soft" }, " (runner-up)")], "other"));
  }
  if (bound !== null) rows.push(bar(bound, best, h("span", { class: "soft" }, "no pool has more"), "other"));
  return h("div", { class: "scores" }, rows);
}

function bar(value, best, label, kind) {
  const share = Math.max(0, Math.min(1, value / best));
  return h(
    "div",
    { class: `score ${kind}` },
    h("span", { class: "number" }, `${Math.floor(100 * share + 1e-6)} %`),
    svg(
      "svg",
      { class: "bar", "aria-hidden": "true", focusable: "false" },
      svg("rect", { width: "100%", height: "100%", rx: 3, class: "track" }),
      svg("rect", { width: `${(100 * share).toFixed(1)}%`, height: "100%", rx: 3, class: "value" }),
    ),
    h("span", { class: "label" }, label),
  );
}

/** How good a pool is, in words; empty if that is not known. The best pool may be below the bound. */
export function certificate({ fraction }) {
  return Number.isFinite(fraction) ? `Reaches at least ${Math.floor(100 * fraction + 1e-6)} % of what any pool could teach` : "";
}

const FEW = 12; // members that are shown without unfolding

/** Whether members of a pool have weights of their own. */
export const differ = (members) => new Set(members.map(({ weight }) => weight)).size > 1;

/** An individual in a pool, and the set it comes from if its own id does not say so. */
export function member({ id, set }) {
  const from = alone() || id.startsWith(set.id) ? [] : [h("span", { class: "soft" }, " of ", name(set.id, 24))];
  return [name(id, 32), ...from];
}

/** Who goes into a pool, folded if there are many. */
export function membersOf(members) {
  const weighed = differ(members);
  const list = h("ul", { class: "people" }, members.map((each) => h("li", null, member(each), weighed ? h("span", { class: "soft" }, ` × ${figure(each.weight)}`) : null)));
  const title = h("span", { class: "label" }, "Who goes in");
  if (members.length <= FEW) return [h("p", { class: "soft small" }, title), list];
  const first = members.slice(0, 3).flatMap(({ id }) => [name(id, 20), ", "]).slice(0, -1);
  const summary = h("summary", null, "Who goes in: ", first, ` and ${whole(members.length - 3)} more`);
  return [h("details", null, summary, list)];
}

/** How far along the study is, as a bar in three shades and a sentence. */
export function advance() {
  const { sets, answers, open, skipped, known, spent } = state.study;
  const pools = designing();
  const free = Math.max(0, sets - answers - open - skipped);
  const words = [`${whole(answers)} of ${counted(sets, "set")} measured`, `${whole(open)} being measured`, `${whole(free)} free`];
  if (pools) words.splice(0, 3, pools.alone ? `${counted(answers, "pool")} measured` : `${whole(answers)} of ${whole(sets)} sets and pools measured`, `${whole(open)} being measured`);
  if (skipped) words.push(`${whole(skipped)} skipped`);
  if (pools) words.push(`${whole(pools.used)} of ${counted(pools.candidates, "individual")} used`);
  if (pools?.aside) words.push(`${whole(pools.aside)} set aside`);
  if (known) words.push(`${whole(known)} known from the start`);
  if (Number.isFinite(spent)) words.push(`${exact(spent)} spent`);
  let from = 0;
  const shares = pools ? [[pools.used, "answered"], [pools.aside, "skipped"]] : [[answers, "answered"], [open, "open"], [skipped, "skipped"]];
  const parts = shares.map(([count, kind]) => {
    const width = count ? Math.max(0.4, (100 * count) / (pools ? pools.candidates : sets)) : 0; // one of a million is still there
    const part = svg("rect", { x: `${from}%`, width: `${width}%`, height: "100%", class: kind });
    from += width;
    return part;
  });
  const drawing = svg(
    "svg",
    { class: "advance", "aria-hidden": "true", focusable: "false" },
    svg("rect", { width: "100%", height: "100%", class: "track" }),
    parts,
  );
  return [h("p", { class: "soft tight" }, words.join(" · ")), drawing];
}

// --- dot and interval --------------------------------------------------------------------------

/** The span that all rows of a table share, so that their drawings can be compared. */
export function span(rows) {
  const drawn = rows.filter((row) => Number.isFinite(row.lower) && Number.isFinite(row.upper));
  const low = Math.min(...drawn.map((row) => row.lower));
  const high = Math.max(...drawn.map((row) => row.upper));
  return Number.isFinite(low) && high > low ? [low, high] : [low - 1, low + 1];
}

/** A dot at the mean on a line from lower to upper. The figures stand beside it. */
export function interval(row, [low, high]) {
  if (![row.mean, row.lower, row.upper].every(Number.isFinite)) return "–"; // beyond what can be drawn
  const at = (value) => `${(2 + (96 * (value - low)) / (high - low)).toFixed(2)}%`;
  const zero = low < 0 && high > 0 ? svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: "100%" }) : null;
  return svg(
    "svg",
    { class: "interval", "aria-hidden": "true", focusable: "false" },
    zero ?? [],
    svg("line", { class: "reach", x1: at(row.lower), x2: at(row.upper), y1: "50%", y2: "50%" }),
    svg("circle", { class: "dot", cx: at(row.mean), cy: "50%", r: 4 }),
  );
}

// --- states of a page part ---------------------------------------------------------------------

export function empty(title, ...words) {
  return h("div", { class: "empty" }, h("p", { class: "title" }, title), h("p", null, ...words));
}

/** A box that says it is working, but only if that takes long enough to notice. */
export function working(words = "Loading…") {
  return h("p", { class: "working", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), words);
}

/** A group of buttons of which one is chosen: `{element, choose}`. */
export function choice(label, options, chosen, pick) {
  const buttons = Object.entries(options).map(([key, words]) => {
    const button = h("button", { type: "button", "aria-pressed": String(key === chosen), "data-key": key }, words);
    button.addEventListener("click", () => pick(key));
    return button;
  });
  const choose = (key) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
  };
  return { element: h("div", { class: "choice", role: "group", "aria-label": label }, buttons), choose };
}

/** Words with a button to try again, where something could not be loaded. */
export function trouble(box, error, again) {
  const button = h("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  fill(box, h("div", { class: "empty" }, h("p", null, error.message), button));
}

// --- times -------------------------------------------------------------------------------------

const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "medium" });

/** A moment in words that stay right while the page is open; the title holds the exact time. */
export function when(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return h("span", null, "–");
  return h("time", { datetime: text, title: full.format(moment), class: "when" }, said(moment));
}

setInterval(() => {
  for (const node of document.querySelectorAll("time.when")) {
    const text = said(new Date(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
}, 30_000);
