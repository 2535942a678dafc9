// Typing ahead. Whoever asks for a set begins to type its total at once, while the server is still
// working out which: these keys are the total, and none that goes to another view.

let typed = null; // since something was asked for; null when nothing is, or they went elsewhere

export function begin() {
  typed = "";
}

/** What was typed meanwhile; null if the focus should stay where it is by now. */
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
