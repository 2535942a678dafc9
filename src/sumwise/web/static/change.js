// A form that changes the pool: individuals join, leave or are corrected, by a CSV table.

import { send } from "./api.js";
import { mark } from "./actions.js";
import { failure, field } from "./dialogs.js";
import { fill, h, visible } from "./dom.js";
import { counted } from "./numbers.js";
import { choice } from "./pieces.js";
import { emit, signed, state, writable } from "./store.js";

const KINDS = { add: "Join", drop: "Leave", correct: "Correct" };
const BUTTONS = { add: "Let them join", drop: "Let them leave", correct: "Correct them" };
const MOST = 3.9e6; // bytes of a table; the server takes bodies of up to 4 MB

/** `{element, refresh}`. */
export function changeForm() {
  let kind = "add";
  const kinds = choice("What is to change", KINDS, kind, (key) => {
    kind = key;
    kinds.choose(key);
    describe();
  });
  const words = h("p", { class: "soft" });
  const file = h("input", { type: "file", id: "pool-file", accept: ".csv,.tsv,.txt,text/csv" });
  const read = h("p", { class: "hint", role: "status" });
  const table = field("Or paste the table", { rows: 8, maxlength: MOST, spellcheck: "false", class: "table", hint: "The names of its columns in the first line, then a line for each individual." });
  const set = field("Column that names the set", { value: state.study.set_columns.join(", ") || "set" });
  const id = field("Column with the id", { value: state.study.id_column ?? "id" });
  const note = field("Note (optional)", { rows: 2, hint: "Kept in the history, for later readers." });
  const save = h("button", { type: "submit", class: "primary" });
  const trouble = h("p", { class: "problem", role: "alert" });
  const done = h("p", { class: "done", role: "status" });
  const form = h(
    "form",
    { class: "panel change writes", novalidate: true },
    kinds.element,
    words,
    h("div", { class: "field" }, h("label", { for: "pool-file" }, "CSV file"), file, read),
    table.element,
    h("div", { class: "columns" }, set.element, id.element),
    note.element,
    trouble,
    h("div", { class: "buttons" }, save),
  );
  const unable = h("p", { class: "soft" }, "To change the pool, this page needs the token.");
  const element = h("div", { class: "changing" }, h("h2", { class: "unseen" }, "Change the pool"), done, form, unable);
  let busy = false;

  function describe() {
    const { inputs, members_by: by } = state.study;
    const who = by === "id" ? "the id of each" : "the set of each, and a column row with its number in the set, from 1";
    const listed = inputs.slice(0, 8).map((each) => visible(each).slice(0, 40)).join(", ") + (inputs.length > 8 ? ", …" : "");
    fill(words, {
      add: `A table of those who join: the set of each, ${by === "id" ? "its id, " : ""}and its inputs (${listed}). Sets that do not exist yet are added.`,
      drop: `A table of those who leave: ${who}. A set without members leaves the pool.`,
      correct: `A table of those to correct: ${who}, and the columns that change.${by === "id" ? " If the column of the set names another set, the individual moves there." : ""}`,
    }[kind], " An answer belongs to the members that its set had when it was measured.");
    if (!busy) save.textContent = BUTTONS[kind];
  }

  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    table.complain("");
    fill(read);
    if (chosen.size > MOST) return void fill(read, "This file is larger than 4 MB; sumwise pool in the shell takes larger ones.");
    const { text, how } = decoded(await chosen.arrayBuffer());
    table.input.value = text;
    fill(read, `${counted(text.trimEnd().split("\n").length, "line")} read${how}.`);
  });

  function body() {
    const csv = table.input.value;
    if (!csv.trim()) return complain(table, "Choose a file, or paste a table.");
    if (!set.input.value.trim()) return complain(set, "Give the name of a column of the table.");
    if (!id.input.value.trim()) return complain(id, "Give the name of a column of the table.");
    const several = state.study.set_columns.length > 1; // as the table of the study had
    const group = several ? set.input.value.split(",").map((each) => each.trim()) : set.input.value.trim();
    const sent = { change: kind, csv, set: group, id: id.input.value.trim() };
    return signed(note.input.value.trim() ? { ...sent, note: note.input.value.trim() } : sent);
  }

  function complain(where, text) {
    where.complain(text);
    where.input.focus();
    return null;
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    fill(trouble);
    fill(done);
    const sent = body();
    if (!sent) return;
    busy = true;
    save.setAttribute("aria-disabled", "true");
    save.textContent = "Changing the pool…";
    try {
      const { words: said } = await send("POST", "/api/pool", sent, 300);
      mark("pool");
      for (const each of [table, note]) each.input.value = "";
      file.value = "";
      fill(read);
      fill(done, `Changed: ${said}.`);
      done.scrollIntoView({ block: "nearest" });
      emit("done");
    } catch (error) {
      fill(trouble, failure(error));
    } finally {
      busy = false;
      save.removeAttribute("aria-disabled");
      describe();
    }
  });

  function refresh() {
    unable.hidden = writable();
    describe();
  }

  refresh();
  return { element, refresh };
}

/** The text of a file, and how it was read where that is not as UTF-8. */
function decoded(bytes) {
  const begin = new Uint8Array(bytes.slice(0, 2)).join();
  const wide = { "255,254": "utf-16le", "254,255": "utf-16be" }[begin];
  try {
    return { text: new TextDecoder(wide ?? "utf-8", { fatal: true }).decode(bytes), how: wide ? " as UTF-16" : "" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), how: " as Latin-1 (Windows-1252); check letters such as é" };
  }
}
