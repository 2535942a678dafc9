// What stays in this browser: the key of a token, a name, settings, and totals that are typed but not saved.
// A browser may refuse to keep anything (private windows, a full disk); then it lasts as long as the page.

import { adopt, load } from "./keys.js";

const memory = new Map();
const PREFIX = "sumwise.";

function read(key) {
  try {
    return localStorage.getItem(PREFIX + key) ?? memory.get(key) ?? null;
  } catch {
    return memory.get(key) ?? null;
  }
}

function write(key, value) {
  memory.delete(key);
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    if (value !== null) memory.set(key, value);
  }
}

const listeners = new Map();

/**
 * Call `listener` on every `what`; gives a function that ends it.
 *
 * "change": the study changed; "done": this page changed it; "online", "token", "who" and "titled":
 * these have a new value; "draft": the text typed for a set changed.
 */
export function on(what, listener) {
  listeners.set(what, [...(listeners.get(what) ?? []), listener]);
  return () => listeners.set(what, listeners.get(what).filter((each) => each !== listener));
}

export function emit(what, ...details) {
  for (const listener of listeners.get(what) ?? []) listener(...details);
}

// --- what the page knows -----------------------------------------------------------------------

export const state = {
  key: null, // made of the token
  study: null, // as GET /api/study gives it
  online: true,
  refused: "", // "token": the server does not accept it; "impostor": another program answers
};

export const token = () => state.key; // or rather what is made of it, if there is one
export const own = () => state.study?.you ?? null; // the name that the token is for
export const who = () => own() ?? read("who") ?? "";
export const nameless = () => read("nameless") === "yes"; // the person chose to go on without a name
/** What measuring a set gives: total, mean, weighted sum or count; of what; and the unit behind a number. */
export const word = () => state.study?.about?.word ?? "total";
export const measured = () => state.study?.about?.title ?? word();
export const outputs = () => state.study?.about?.outputs ?? "numbers";
export const isWhole = () => ["counts", "shares"].includes(outputs()); // what is measured, always
export const unit = () => (state.study?.about?.unit ? ` ${state.study.about.unit}` : "");
export const inUnit = () => (unit() ? ` (${unit().trim()})` : ""); // behind the name of a field or column

/** Of what a study designs its sets; null where all are given. */
export const designing = () => state.study?.designing ?? null;
/** Whether it began with individuals, and asks for pools alone. */
export const alone = () => Boolean(designing()?.alone);
export const isPool = (position) => position === null || Boolean(designing() && position >= designing().begun);
/** What is asked for. */
export const thing = () => (alone() ? "pool" : "set");
/** What is at a position. */
export const kindOf = (position) => (isPool(position) ? "pool" : alone() ? "individual" : "set");

export const writable = () => Boolean(token()) && state.refused !== "token" && state.study?.writable !== false;
export const shortcuts = () => read("shortcuts") !== "off";

export async function setToken(text) {
  state.key = await adopt(text);
  write("key-id", state.key.id); // for other tabs
  acceptToken(true);
}

export async function loadToken() {
  state.key = await load();
}

/** The server has proved that it has this token. */
export function acceptToken(anew = false) {
  if (!state.refused && !anew) return;
  state.refused = "";
  emit("token");
}

export function refuseToken(why) {
  if (state.refused === why) return;
  state.refused = why;
  emit("token");
}

export function setWho(text) {
  write("who", text.trim().slice(0, 100) || null);
  emit("who");
}

export function goNameless() {
  write("nameless", "yes");
}

export function setShortcuts(use) {
  write("shortcuts", use ? null : "off");
}

/** The body with `by`, if a name was given. */
export function signed(body) {
  return who() ? { ...body, by: who() } : body;
}

// another tab of the same browser has changed something
addEventListener("storage", async (event) => {
  if (event.key === PREFIX + "key-id") {
    await loadToken();
    acceptToken(true);
  }
  if (event.key === PREFIX + "who") emit("who");
});

// --- drafts ------------------------------------------------------------------------------------

// several studies may be served from one address, one after the other; a pool may change its size
function prefix() {
  const { name, inputs } = state.study;
  return `draft/${name.slice(0, 200)}/${inputs.join().slice(0, 200)}/`;
}

/** `{id, total, note, noise, share, members}` as they were typed, or null. */
export function draft(position) {
  try {
    return JSON.parse(read(prefix() + position));
  } catch {
    return null;
  }
}

export function keepDraft(position, content, from) {
  const empty = !Object.entries(content ?? {}).some(([key, text]) => key !== "id" && text?.trim());
  write(prefix() + position, empty ? null : JSON.stringify(content));
  emit("draft", position, from);
}

/** Positions of sets with something typed. */
export function drafted() {
  const start = prefix();
  const keys = new Set(memory.keys());
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX)) keys.add(key.slice(PREFIX.length));
    }
  } catch {
    // only what is in memory
  }
  return [...keys].filter((key) => key.startsWith(start)).map((key) => Number(key.slice(start.length)));
}
