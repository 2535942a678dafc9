// The form that takes a measured total. What is typed is kept in the browser until the server has
// acknowledged it, so neither a restart nor a closed lid loses anything; and the same total sent
// twice is the same answer.

import { send } from "./api.js";
import { amend, confirmUnlikely, mark } from "./actions.js";
import { failure, field } from "./dialogs.js";
import { fill, h, name, shortened } from "./dom.js";
import { notice } from "./notices.js";
import { exact, impossible, parse } from "./numbers.js";
import { partFields, refusedField } from "./part.js";
import { draft, emit, inUnit, isWhole, keepDraft, kindOf, measured, on, outputs, signed, unit, word } from "./store.js";

/** The form and its methods; `saved` is called once the answer is stored. */
export function answerForm(set, { saved = () => {}, cancel = null } = {}) {
  const label = [`Measured ${measured()}${inUnit()}`, h("span", { class: "unseen" }, ` of ${shortened(set.id, 60)}`)];
  const total = field(label, { inputmode: isWhole() ? "numeric" : "decimal", maxlength: 100, class: "total" });
  const note = field("Note (optional)", { rows: 2, hint: "Stored with the answer, for later readers." });
  const part = partFields(kindOf(set.position));
  part.element.hidden = set.size === 1;
  const noise = field("Known noise (optional)", { inputmode: "decimal", maxlength: 100, hint: "Standard deviation of this measurement's known noise, such as noise added for privacy." });
  const known = h("button", { type: "button", class: "quiet known" }, "This measurement has known noise…");
  const noisy = outputs() === "numbers"; // others have noise of their own
  const more = h("div", { class: "more", hidden: true }, note.element, ...(noisy ? [known, noise.element] : []));
  const save = h("button", { type: "submit", class: "primary" }, "Save answer");
  const drop = h("button", { type: "button" }, "Cancel");
  const trouble = h("p", { class: "problem", role: "alert" });
  const element = h(
    "form",
    { class: "answer", novalidate: true },
    h("div", { class: "line" }, total.element, h("div", { class: "buttons" }, save, cancel ? drop : null)),
    part.element,
    more,
    trouble,
  );
  const fields = [total, note, noise, ...part.fields];
  let busy = false;

  const content = () => ({ id: set.id.slice(0, 200), total: total.input.value, note: note.input.value, noise: noise.input.value, ...part.values() });
  const typed = () => fields.some((each) => each.input.value.trim());

  function restore() {
    const kept = draft(set.position);
    const mine = kept && kept.id === set.id.slice(0, 200) ? kept : null;
    total.input.value = mine?.total ?? "";
    note.input.value = mine?.note ?? "";
    noise.input.value = mine?.noise ?? "";
    part.put(mine ?? {});
    more.hidden = !(mine?.note || mine?.noise) && more.hidden;
    showNoise(Boolean(mine?.noise));
    readBack();
    return Boolean(mine);
  }

  function showNoise(wanted) {
    noise.element.hidden = !wanted;
    known.hidden = wanted;
  }

  /** Show how the text will be read, unless it is a plain number, and what the number can be. */
  function readBack() {
    const read = total.input.value.trim() ? parse(total.input.value) : {};
    const range = part.range(set);
    total.hint.textContent = "value" in read && !read.plain ? `Saved as ${exact(read.value)}` : range && range[0].toUpperCase() + range.slice(1);
  }

  function clear() {
    part.clear();
    for (const each of [total, note, noise]) {
      each.input.value = "";
      each.complain("");
    }
    more.hidden = true;
    showNoise(false);
    fill(trouble);
    readBack();
    keepDraft(set.position, null, element);
  }

  function body() {
    if (!total.input.value.trim()) return complain(total, `Type the measured ${word()} first.`);
    const read = parse(total.input.value);
    if (read.problem) return complain(total, read.problem);
    const odd = impossible(read.value, outputs());
    if (odd) return complain(total, odd);
    const { problem, ...covered } = part.read();
    if (problem) return complain(...problem);
    const sent = { position: set.position, total: read.value, ...covered };
    if (noise.input.value.trim()) {
      const std = parse(noise.input.value);
      if (std.problem || std.value < 0) return complain(noise, std.problem ?? "Noise cannot be negative.");
      if (std.value > 0) sent.noise_std = std.value;
    }
    if (note.input.value.trim()) sent.note = note.input.value.trim();
    return signed(sent);
  }

  function complain(where, words) {
    if ([note, noise].includes(where)) more.hidden = false;
    if (part.fields.includes(where)) part.element.open = true;
    if (where === noise) showNoise(true);
    where.complain(words);
    where.input.focus();
    return null;
  }

  async function submit(event) {
    event.preventDefault();
    if (busy) return;
    fill(trouble);
    const sent = body();
    if (!sent) return;
    busy = true;
    save.setAttribute("aria-disabled", "true");
    save.textContent = "Saving…";
    try {
      const kept = await deliver(sent);
      if (kept) finish(kept);
    } catch (error) {
      refused(error);
    } finally {
      busy = false;
      save.removeAttribute("aria-disabled");
      save.textContent = "Save answer";
    }
  }

  async function deliver(sent) {
    try {
      return await send("POST", "/api/answers", sent);
    } catch (error) {
      if (error.code !== "unlikely") throw error;
      const kept = await confirmUnlikely(set, sent.total, error.body, () => send("POST", "/api/answers", { ...sent, sure: true }));
      if (!kept) total.input.focus();
      return kept;
    }
  }

  function finish(answer) {
    mark("told", set.position);
    clear();
    notice(["Saved ", exact(answer.total), unit(), " for ", name(set.id), answer.part ? ` (${answer.part}).` : "."], "done");
    saved();
    emit("done");
  }

  function refused(error) {
    const where = refusedField(error, total, part);
    if (where) return void complain(where, error.message);
    if (error.code !== "answered") return void fill(trouble, failure(error));
    const button = h("button", { type: "button" }, "Amend it…");
    button.addEventListener("click", async () => {
      if (await amend(set, error.body.answer, content())) clear();
    });
    fill(trouble, error.message, " ", button);
    emit("done");
  }

  for (const each of fields) {
    each.input.addEventListener("input", () => {
      readBack();
      keepDraft(set.position, content(), element);
    });
  }
  known.addEventListener("click", () => {
    showNoise(true);
    noise.input.focus();
  });
  element.addEventListener("submit", submit);
  drop.addEventListener("click", () => {
    clear();
    cancel();
  });
  // the same set may be open in a card and in the sheet above it
  const dispose = on("draft", (position, from) => {
    if (position === set.position && from !== element && !element.contains(document.activeElement)) restore();
  });
  const restored = restore();
  return {
    element,
    restored,
    typed,
    clear,
    dispose,
    /** What the server says of the set now: its bounds may have changed. */
    update: ({ low, high, size }) => {
      set = { ...set, low, high, size };
      part.element.hidden = size === 1;
      readBack();
    },
    /** Focus the field and add `text`, which was typed before the field existed. */
    focus: (text = "") => {
      total.input.focus();
      if (!text) return;
      total.input.value += text;
      total.input.dispatchEvent(new Event("input"));
    },
    /** Another person has answered: make discarding the text, not saving it, the main button. */
    settle: (settled) => {
      save.classList.toggle("primary", !settled);
      drop.classList.toggle("primary", settled);
      drop.textContent = settled ? "Discard what I typed" : "Cancel";
    },
    openNote: () => {
      more.hidden = false;
      note.input.focus();
    },
  };
}
