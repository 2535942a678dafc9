// What of a set an answer covers, where it is not all: a share of it, or some of its members.

import { field } from "./dialogs.js";
import { h } from "./dom.js";
import { bounds, listed, shareOf } from "./numbers.js";
import { outputs, state, unit, word } from "./store.js";

/**
 * `{element, fields, values, put, read, range}`: two fields, folded away until one is needed; `kind`
 * is a set or a pool.
 *
 * `values()` gives `{share, members}` as they are typed, `put` fills them in, and `read` gives
 * `{covers}`, `{of}`, `{}` for all of the set, or `{problem: [field, words]}`.
 */
export function partFields(kind) {
  const { members_by: by } = state.study;
  const [did, all] = kind === "pool" ? ["was measured", "were measured"] : ["answered", "answered"];
  const scaled = word() === "mean" ? `The mean of those who ${all}.` : `The ${word()} of that share, as it was measured; it is scaled up to the ${kind}.`;
  const share = field(`Share of the ${kind} that ${did}, in per cent`, { inputmode: "decimal", maxlength: 20, class: "short", hint: `${scaled} 80 says that four in five ${all}.` });
  const named = by === "id" ? "Their ids" : `Their numbers within the ${kind}, from 1`;
  const members = field(`Or who ${did}, if that is known`, { rows: 2, maxlength: 4_000_000, hint: `${named}, separated by commas or lines. The ${word()} is theirs alone.` });
  members.element.hidden = !by;
  share.element.hidden = outputs() !== "numbers"; // what is counted is not scaled up
  const nothing = members.element.hidden && share.element.hidden;
  const element = nothing ? h("div") : h("details", { class: "covering" }, h("summary", null, `Only part of the ${kind} ${did}?`), h("div", { class: "either" }, share.element, members.element));
  const values = () => ({ share: share.input.value, members: members.input.value });

  function put({ share: some = "", members: names = "" } = {}) {
    share.input.value = some;
    members.input.value = names;
    if (some || names) element.open = true;
  }

  function read() {
    const of = listed(members.input.value);
    const text = share.input.value.trim();
    if (text && of.length) return problem(members, "Give a share or who answered, not both.");
    if (of.length) return { of };
    const found = text ? shareOf(text) : { value: 1 };
    if (found.problem) return problem(share, found.problem);
    return found.value < 1 ? { covers: found.value } : {};
  }

  function problem(where, words) {
    element.open = true;
    return { problem: [where, words] };
  }

  /** What the number that is typed can be, given what it covers, in words. */
  function range({ low, high }) {
    const { about } = state.study;
    const { of, covers = 1, problem: unclear } = read();
    if (unclear || (of && (about.word === "weighted sum" || outputs() !== "numbers"))) return "";
    if (of && about.word === "total") return bounds(times(about.low, of.length), times(about.high, of.length), unit());
    const factor = about.word === "mean" ? 1 : covers;
    return bounds(times(low, factor), times(high, factor), unit());
  }

  /** Clear the fields and fold them away. */
  function clear() {
    put();
    for (const each of [share, members]) each.complain("");
    element.open = false;
  }

  return { element, share, members, fields: [share, members], values, put, read, range, clear };
}

const times = (end, factor) => (Number.isFinite(end) ? Number((end * factor).toPrecision(12)) : end);

/** What an answer covers, as `put` takes it. */
export function partOf({ of, covers }) {
  const quoted = (id) => (/[",\n]/.test(id) ? `"${id.replaceAll('"', '""')}"` : id);
  return { share: covers ? String(Number((100 * covers).toPrecision(12))) : "", members: (of ?? []).map(quoted).join(", ") };
}

/** The field that a refusal of the server is about, or null. */
export function refusedField(error, total, part) {
  if (error.code === "of") return part.members;
  if (error.code === "setting" && part.share.input.value.trim()) return part.share;
  return error.code === "total" ? total : null;
}
