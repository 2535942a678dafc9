// Small notices of what happened. They are read out politely, never take the focus, and go away.

import { h } from "./dom.js";

const SECONDS = { done: 4, news: 7, trouble: 7 }; // what one has done oneself is no surprise
const MOST = 3; // at once

const box = document.getElementById("notices");
const region = document.getElementById("said");

/** Say something: text and elements, kind "done", "news" or "trouble". */
export function notice(content, kind = "news") {
  const parts = [content].flat();
  const text = parts.map((part) => (part instanceof Node ? part.textContent : part)).join("");
  speak(text);
  const close = h("button", { type: "button", class: "plain close", "aria-label": "Dismiss" }, "×");
  const note = h("div", { class: `notice ${kind}` }, h("p", null, ...parts), close);
  let timer = 0;
  const remove = () => note.remove();
  const wait = () => (timer = setTimeout(remove, SECONDS[kind] * 1000));
  close.addEventListener("click", remove);
  for (const stay of ["pointerenter", "focusin"]) note.addEventListener(stay, () => clearTimeout(timer));
  for (const go of ["pointerleave", "focusout"]) note.addEventListener(go, wait);
  box.append(note);
  while (box.children.length > MOST) box.firstElementChild.remove();
  wait();
}

/** Only for those who listen. */
export function speak(text) {
  region.textContent = "";
  // a region that is emptied and filled in one go may stay silent
  setTimeout(() => (region.textContent = text), 50);
}

/** A modal dialog makes everything outside it inert, so notices move into the one on top. */
export function follow() {
  const open = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (box.parentNode === open) return;
  open.append(box, region);
}
