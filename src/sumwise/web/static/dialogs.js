// Questions in a <dialog>: the browser keeps the focus inside, and gives it back afterwards.

import { fill, h } from "./dom.js";
import { follow } from "./notices.js";
import { Unreachable } from "./api.js";

export const KEEP_OPEN = Symbol("keep open");

let made = 0;

/** Show a dialog; `done` resolves with what `close` was given, or null. */
export function modal(title, content, { name = "", light = true } = {}) {
  const id = `dialog-${++made}`;
  const back = document.activeElement;
  const head = h("h2", { id, tabindex: "-1" }, title);
  const dialog = h("dialog", { "aria-labelledby": id, class: name }, head);
  let finish;
  const done = new Promise((resolve) => (finish = resolve));
  // at once: the event "close" comes later, and keys pressed meanwhile would be lost
  const close = (value = null) => {
    if (!dialog.isConnected) return;
    dialog.close();
    dialog.remove();
    follow();
    refocus(back);
    finish(value);
  };
  for (const over of ["cancel", "close"]) dialog.addEventListener(over, (event) => event.target === dialog && close());
  dialog.append(...content(close));
  // a click beside it closes it, unless something may be typed, or it began inside (selecting text)
  let outside = false;
  dialog.addEventListener("pointerdown", (event) => (outside = light && beside(dialog, event)));
  dialog.addEventListener("click", (event) => outside && beside(dialog, event) && close());
  document.body.append(dialog);
  dialog.showModal();
  follow();
  return { dialog, done, close };
}

/** Whether a pointer is on the backdrop; the dialog's own margin is not. */
function beside(dialog, event) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  const inside = event.clientX >= left && event.clientX <= right && event.clientY >= top && event.clientY <= bottom;
  return event.target === dialog && !inside;
}

/** Where the focus was, or if that is gone, the heading of what is in front. */
function refocus(back) {
  if (back?.isConnected && !back.closest("[hidden]") && back !== document.body) {
    back.focus({ preventScroll: true });
    return;
  }
  const open = [...document.querySelectorAll("dialog[open]")].at(-1);
  (open ?? document.querySelector("main > section:not([hidden])"))
    ?.querySelector("h1, h2")
    ?.focus({ preventScroll: true });
}

/**
 * Ask for a few fields and do something with them; the dialog stays, with words, if that fails.
 *
 * `fields` are made by `field`, or groups of them; `check` gives a problem as [field, words], and `submit` is awaited;
 * if it gives KEEP_OPEN, the dialog stays for further changes.
 * Resolves with what `submit` gave, or null.
 */
export function ask({ title, words = [], fields = [], confirm, cancel = "Cancel", danger = false, calm = false, check, submit }) {
  const trouble = h("p", { class: "problem", role: "alert" });
  const yes = h("button", { type: "submit", class: danger ? "danger" : calm ? "" : "primary" }, confirm);
  const no = h("button", { type: "button", class: calm ? "primary" : "" }, cancel);
  let busy = false;
  const { done } = modal(title, (close) => {
    no.addEventListener("click", () => close());
    const form = h(
      "form",
      { novalidate: true },
      words,
      fields.map((each) => each.element),
      trouble,
      h("div", { class: "buttons end" }, no, yes),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (busy) return;
      for (const each of fields) for (const one of each.fields ?? [each]) one.complain("");
      trouble.textContent = "";
      const problem = check?.();
      if (problem) {
        problem[0].complain(problem[1]);
        problem[0].input.focus();
        return;
      }
      busy = true;
      yes.setAttribute("aria-disabled", "true");
      try {
        const outcome = (await submit()) ?? true;
        if (outcome !== KEEP_OPEN) close(outcome);
      } catch (error) {
        fill(trouble, failure(error));
      } finally {
        busy = false;
        yes.removeAttribute("aria-disabled");
      }
    });
    return [form];
  }, { light: false });
  // the careful answer stands out and has the focus where the other one is hard to undo
  if (calm) no.focus();
  else fields[0]?.input.focus();
  return done;
}

/** The message for an action that failed. */
export function failure(error) {
  if (error instanceof Unreachable) {
    return "Not saved: the server does not answer. What you typed is kept; try again when it is back.";
  }
  return error.message;
}

/** A labelled text field: `{element, input, complain}`. */
export function field(label, { value = "", rows = 0, hint = "", ...attributes } = {}) {
  const id = `field-${++made}`;
  const shared = { id, autocomplete: "off", "aria-describedby": `${id}-hint ${id}-problem`, maxlength: 10_000, ...attributes };
  const input = rows ? h("textarea", { rows, ...shared }) : h("input", { type: "text", ...shared });
  input.value = value;
  const problem = h("p", { class: "problem", id: `${id}-problem`, "aria-live": "assertive" });
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    h("p", { class: "hint", id: `${id}-hint` }, hint),
    problem,
  );
  const complain = (words) => {
    problem.textContent = words;
    if (words) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  input.addEventListener("input", () => complain(""));
  return { element, input, complain, hint: element.querySelector(".hint") };
}

/** A field for a reason, which has to be given. */
export function reason(label = "Why?", hint = "A few words are enough; they are kept in the history.") {
  const text = field(label, { rows: 2, hint });
  text.missing = () => (text.input.value.trim() ? null : [text, "Say why, in a few words."]);
  return text;
}
