// Who is working here: a label beside claims and answers, not a login.

import { field, modal } from "./dialogs.js";
import { h } from "./dom.js";
import { setWho, who } from "./store.js";

export const LABEL_NOT_LOGIN = "Others see it beside what you claim and answer. It is a label, not a login: it is kept in this browser and protects nothing.";

/** A small form for a name. */
export function nameForm({ done = () => {} } = {}) {
  const text = field("Your name", { value: who(), maxlength: 100, autocomplete: "nickname", hint: LABEL_NOT_LOGIN });
  const form = h("form", { class: "name", novalidate: true }, text.element, h("div", { class: "buttons" }, h("button", { type: "submit" }, "Use this name")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setWho(text.input.value);
    done();
  });
  return form;
}

export function askWho() {
  modal("Who are you?", (close) => [nameForm({ done: () => close() })]);
}
