// Who is working here: a label beside claims and answers, not a login.

import { field, modal } from "./dialogs.js";
import { h } from "./dom.js";
import { goNameless, nameless, own, setWho, who } from "./store.js";

export const LABEL_NOT_LOGIN = "Others see it with your claims and answers. It is a label, not a login: it is kept in this browser and protects nothing.";

/** A small form for a name; with `without`, a way to go on without one that has to be chosen. */
export function nameForm({ done = () => {}, without = null } = {}) {
  const text = field("Your name", { value: who(), maxlength: 100, autocomplete: "nickname", hint: LABEL_NOT_LOGIN });
  const form = h("form", { class: "name", novalidate: true }, text.element, h("div", { class: "buttons" }, h("button", { type: "submit", class: without ? "primary" : "" }, "Use this name"), without));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (without && !text.input.value.trim()) {
      text.complain("Write a name, or go on without one.");
      return;
    }
    setWho(text.input.value);
    done();
  });
  return form;
}

export function askWho() {
  if (own()) modal("Who are you?", () => [h("p", null, "This page's token is for ", h("bdi", null, own()), ", and everything is stored under this name.")]);
  else modal("Who are you?", (close) => [nameForm({ done: () => close() })]);
}

/** Ask for a name if there is none; whether to go on, with a name or deliberately without. */
export async function named() {
  if (who() || nameless()) return true;
  const without = h("button", { type: "button" }, "Go on without a name");
  const { done, dialog } = modal("Who is going to measure?", (close) => {
    without.addEventListener("click", () => {
      goNameless();
      close(true);
    });
    return [
      h("p", null, "If a claim has no name, nobody can see who made it."),
      nameForm({ done: () => close(true), without }),
    ];
  }, { light: false });
  dialog.querySelector("input").focus();
  return Boolean(await done);
}
