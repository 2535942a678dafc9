// Typing ahead. People begin to type a total while the server still works out which set to ask for:
// these keys belong to the total and are no shortcuts.

let typed = null; // since a set was asked for; null if none was, or the focus moved elsewhere

export function begin() {
  typed = "";
}

/** The text typed meanwhile; null if the focus should stay where it is. */
export function end() {
  const text = typed;
  typed = null;
  return text;
}

addEventListener("keydown", (event) => {
  if (typed === null || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, dialog")) return;
  if (event.key === "Backspace") typed = typed.slice(0, -1);
  else if (/^[\d.,+-]$/.test(event.key)) typed += event.key;
  else if (event.key === "Tab") typed = null;
  else return;
  event.stopPropagation();
}, true);
addEventListener("pointerdown", (event) => {
  if (!event.target.closest?.("dialog, [aria-disabled]")) typed = null;
}, true);
addEventListener("hashchange", () => (typed = null));
