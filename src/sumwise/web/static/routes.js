// Addresses of the page: #/view, #/view?settings, or #/view/set/12 for the sheet of a set above it.

/** `{view, set, settings}` of a location hash; an unknown view becomes the first of `views`. */
export function parseRoute(hash, views) {
  const [path, tail] = hash.replace(/^#\/?/, "").split("?");
  const [view, kind, position] = path.split("/");
  const set = kind === "set" && /^\d{1,9}$/.test(position ?? "") ? Number(position) : null;
  const settings = Object.fromEntries(new URLSearchParams(tail ?? ""));
  return { view: views.includes(view) ? view : views[0], set, settings: withPage(settings) };
}

/** The same settings with the page as a number, or without it if it is none. */
function withPage({ page, ...rest }) {
  return /^\d{1,7}$/.test(page ?? "") && Number(page) > 0 ? { ...rest, page: Number(page) } : rest;
}

/** `?a=1&b=2` of the values that are set; empty if none is. */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length ? `?${new URLSearchParams(set)}` : "";
}

/** The token in an address that `sumwise serve` prints, or null. */
export function tokenOf(hash) {
  return /^#token=([\w.~-]+)$/.exec(hash)?.[1] ?? null;
}

/** A token that was pasted alone or with the whole address; null if there is none. */
export function pastedToken(text) {
  return /(?:#token=)?([\w.~-]+)\s*$/.exec(text.trim())?.[1] ?? null;
}
