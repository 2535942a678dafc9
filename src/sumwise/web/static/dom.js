// Elements are made here and nowhere else. Text goes in as text: nothing is ever parsed as markup,
// because ids, notes and names come from people and files we do not know.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, and children or text; what is null or false is left out. */
export function h(tag, attributes, ...children) {
  return put(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

function put(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

function present(children) {
  return children.flat(3).filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** Put `wanted` into `box` in this order, moving only what is not in its place. */
export function arrange(box, wanted) {
  const keep = new Set(wanted);
  for (const child of [...box.children]) if (!keep.has(child)) child.remove();
  // the element with the focus is not moved; the others are placed around it
  const pinned = wanted.find((node) => node.parentNode === box && node.contains(document.activeElement));
  const at = pinned ? wanted.indexOf(pinned) : wanted.length;
  wanted.slice(0, at).forEach((node, i) => {
    if (box.children[i] !== node) box.insertBefore(node, box.children[i] ?? null);
  });
  if (!pinned) return;
  while (box.children[at] !== pinned) box.append(box.children[at]);
  wanted.slice(at + 1).forEach((node, i) => {
    if (box.children[at + 1 + i] !== node) box.insertBefore(node, box.children[at + 1 + i] ?? null);
  });
}

/** Whether an element is on the page and not hidden. */
const displayed = (node) => node.getClientRects().length > 0;

/**
 * Change the page but keep the focus, the caret and the scroll position. If the focused element goes
 * or is hidden, the focus moves to the heading of its card, or else of its view or dialog.
 */
export function undisturbed(change) {
  const active = document.activeElement;
  const typing = active instanceof HTMLInputElement || active instanceof HTMLTextAreaElement;
  const caret = typing && active.type !== "checkbox" ? [active.selectionStart, active.selectionEnd] : null;
  const headings = [".card", "section.view, dialog"].map((box) => active.closest(box)?.querySelector("h1, h2, h3"));
  const anchor = anchorOf(active);
  const before = anchor?.getBoundingClientRect().top;
  change();
  if (active !== document.body && !(active === document.activeElement && displayed(active))) {
    const place = [active, ...headings].find((node) => node && displayed(node));
    place?.focus({ preventScroll: true });
    if (place === active && caret && caret[0] !== null) active.setSelectionRange(...caret);
  }
  if (!anchor?.isConnected) return;
  const moved = anchor.getBoundingClientRect().top - before;
  if (moved) window.scrollBy({ top: moved, behavior: "instant" });
}

/** The element that should stay where it is on the screen: the focused one, or the first visible one. */
function anchorOf(active) {
  const seen = (node) => {
    const box = node.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0 && box.top < window.innerHeight;
  };
  if (active && active.closest("main") && active.id !== "main" && seen(active)) return active;
  if (window.scrollY < 8) return null;
  return [...document.querySelectorAll("main .anchor")].find(seen) ?? null;
}

// --- names -------------------------------------------------------------------------------------

// invisible characters and those that reverse text; joiners, which combine characters, stay
const UNSEEN = /[\p{Cc}\u061C\u00AD\u115F\u1160\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;
const segmenter = "Segmenter" in Intl ? new Intl.Segmenter("en") : null;

/** Text with invisible characters spelled out: a right-to-left override becomes ⟨202E⟩. */
export function visible(text) {
  const line = String(text).replace(/[\t\n\r ]+/g, " ");
  const seen = line.replace(UNSEEN, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase()}⟩`);
  return seen.trim() ? seen : "(blank)";
}

/** The first `most` characters of a text, as people count them. */
export function shortened(text, most) {
  const seen = visible(String(text).slice(0, 20 * most));
  const signs = segmenter
    ? Array.from(segmenter.segment(seen.slice(0, 20 * most)), (part) => part.segment)
    : Array.from(seen);
  if (signs.length <= most && String(text).length <= 20 * most) return seen;
  return signs.slice(0, most - 1).join("").trimEnd() + "…";
}

/** A name inside a sentence, a cell or a link: shortened, with its own text direction. */
export function name(text, most = 48) {
  const short = shortened(text, most);
  const whole = visible(String(text).slice(0, 1000));
  return h("bdi", { class: "name", title: short === whole ? null : whole }, short);
}

/** A name with a button that shows all of it, where it had to be shortened. */
export function wholeName(text, most = 80) {
  const short = shortened(text, most);
  const whole = visible(text);
  if (short === whole) return h("bdi", { class: "name" }, whole);
  const shown = h("bdi", { class: "name" }, short);
  const button = h("button", { type: "button", class: "plain whole", "aria-expanded": "false" }, "whole name");
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "shorter" : "whole name";
    shown.textContent = open ? whole : short;
    shown.classList.toggle("unfolded", open);
  });
  return h("span", { class: "named" }, shown, " ", button);
}
