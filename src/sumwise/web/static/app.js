// The page: routes, the header, and updates when others change the study.

import { get, Refused } from "./api.js";
import { ownDoing } from "./actions.js";
import { field } from "./dialogs.js";
import { fill, h, shortened, visible } from "./dom.js";
import { openHelp } from "./help.js";
import { create as past, sentence } from "./history.js";
import { create as individuals } from "./individuals.js";
import { create as lists } from "./lists.js";
import { retry, start } from "./live.js";
import { create as next } from "./next.js";
import { notice, speak } from "./notices.js";
import { create as pool } from "./pool.js";
import { create as progress } from "./progress.js";
import { parseRoute, pastedToken, query, tokenOf } from "./routes.js";
import { openSheet } from "./sheet.js";
import { alone, loadToken, on, setToken, shortcuts, state, token, who, writable } from "./store.js";
import { askWho } from "./who.js";

const VIEWS = { next, progress, pool, individuals, history: past, lists };
const BY_KEY = Object.keys(VIEWS).slice(0, 5); // those of the header

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const views = new Map(); // name -> {element, refresh, title, …}
const places = new Map(); // name -> how far it is scrolled, and its settings in the address
let current = "";
let sheet = null; // {position, refresh, close}
let changes = -1;
let lastEvent = -1; // number of the newest event that is known

// --- routes --------------------------------------------------------------------------------------

const here = () => parseRoute(location.hash, Object.keys(VIEWS));

/** A token in the address is taken out of sight and of the history; the browser keeps a key of it. */
function takeToken() {
  const found = tokenOf(location.hash);
  if (!found) return null;
  history.replaceState(null, "", `${location.pathname}#/next`);
  return setToken(found);
}

function route({ first = false } = {}) {
  takeToken();
  if (!state.study) return;
  const { view, set, settings } = here();
  const moved = view !== current;
  if (moved) {
    if (current) places.set(current, { ...places.get(current), scroll: window.scrollY });
    showView(view, settings);
    if (!first && set === null && !sheet) main.querySelector("section:not([hidden]) h1")?.focus({ preventScroll: true });
  } else if (set === null && Object.keys(settings).length && !location.hash.endsWith(places.get(view)?.settings ?? " ")) {
    views.get(view).adopt?.(settings); // an address with other settings
    refresh();
  }
  if (sheet && sheet.position !== set) sheet.close();
  if (set !== null && sheet?.position !== set) showSheet(set, view);
  entitle();
}

function showView(wanted, settings) {
  current = wanted;
  for (const link of document.querySelectorAll("nav.views a")) {
    if (link.dataset.view === wanted) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!views.has(wanted)) {
    const view = VIEWS[wanted]({ settings, remember: (kept) => remember(wanted, kept) });
    views.set(wanted, view);
    main.append(view.element);
  }
  for (const [key, { element }] of views) element.hidden = key !== wanted;
  const place = places.get(wanted);
  if (Object.keys(settings).length) views.get(wanted).adopt?.(settings);
  else if (place?.settings && location.hash === `#/${wanted}`) history.replaceState(null, "", `#/${wanted}${place.settings}`);
  window.scrollTo({ top: place?.scroll ?? 0, behavior: "instant" });
  refresh();
}

/** Keep a view's settings in the address, without a new step for the back button. */
function remember(view, settings) {
  const text = query({ ...settings, page: settings.page === 1 ? "" : settings.page });
  places.set(view, { ...places.get(view), settings: text });
  if (view === current && !sheet) history.replaceState(null, "", `#/${view}${text}`);
}

function showSheet(position, view) {
  const own = { position };
  sheet = own;
  Object.assign(own, openSheet(position, view, () => {
    if (sheet === own) sheet = null;
    // closed by a key or a button: the address has to follow
    if (here().set === position) history.length > 1 && own.pushed ? history.back() : location.replace(`#/${view}`);
    entitle();
  }));
  own.pushed = opened;
}
let opened = false; // whether the sheet was reached from inside the page
addEventListener("click", (event) => {
  if (event.target.closest?.("a[href*='/set/']")) opened = true;
});

function entitle() {
  const parts = [sheet?.title?.(), views.get(current)?.title, state.study && shortened(state.study.name, 40), "sumwise"];
  document.title = parts.filter(Boolean).join(" · ");
}

// --- staying up to date --------------------------------------------------------------------------

let pending = 0;

/** Bring what is in sight up to date; views that are costly wait a little for more to happen. */
function refresh() {
  clearTimeout(pending);
  const view = views.get(current);
  if (!view) return;
  const go = () => {
    view.refresh();
    sheet?.refresh?.();
  };
  if (view.pause && view.shown) pending = setTimeout(go, view.pause);
  else go();
  view.shown = true;
}

async function loadStudy() {
  state.study = await get("/api/study");
  main.querySelector(".instead")?.remove();
  renderHeader();
}

async function changed(count) {
  if (count === changes && state.study) return;
  const before = changes;
  changes = count;
  try {
    await loadStudy();
    if (before < 0 && !views.size) route({ first: true });
    else refresh();
    await news();
  } catch {
    changes = before; // the next event, or a new connection, tries again
  }
}

/** Say what others have done since the last time. */
async function news() {
  const { rows } = await get("/api/history?page=1&size=20");
  const fresh = rows.filter((event) => event.number > lastEvent).reverse();
  const known = lastEvent >= 0;
  lastEvent = Math.max(lastEvent, ...rows.map((event) => event.number), 0);
  main.dataset.upTo = lastEvent; // from here on news is told
  const others = fresh.filter((event) => !ownDoing(event));
  if (!known || !others.length) return;
  if (others.length > 3) {
    notice([`${others.length === 20 ? "20 or more" : others.length} things have happened. `, h("a", { href: "#/history" }, "See the history"), "."]);
    return;
  }
  for (const event of others) notice([...capital(sentence(event)), "."]);
}

/** The first word of a sentence. */
function capital(parts) {
  const [first, ...rest] = parts;
  if (first instanceof Node && first.tagName !== "BDI") {
    first.textContent = first.textContent[0].toUpperCase() + first.textContent.slice(1);
    first.className = "";
  }
  return [first, ...rest];
}

// --- header and banner ---------------------------------------------------------------------------

function renderHeader() {
  fill(document.getElementById("study"), shortened(state.study.name, 40));
  fill(document.getElementById("version"), `sumwise ${visible(state.study.version)} · ${visible(state.study.strategy)}`);
  const pools = document.querySelector("nav.views a[data-view=pool]");
  pools.textContent = pools.dataset.text = alone() ? "Pools" : "Pool";
  renderWho();
  renderBanner();
}

function renderWho() {
  const me = who();
  fill(document.getElementById("who"), h("span", { class: "unseen" }, me ? "You are " : ""), me ? shortened(me, 20) : "Your name");
}

let shownBanner = "";

function renderBanner() {
  document.body.classList.toggle("readonly", !writable());
  const kind = bannerKind();
  if (kind === shownBanner) return;
  shownBanner = kind;
  banner.hidden = !kind;
  banner.className = `banner ${kind}`;
  if (kind === "offline" || kind === "impostor") fill(banner, ...absentWords(kind));
  else if (kind) fill(banner, tokenForm(kind));
  else fill(banner);
}

function bannerKind() {
  if (!state.online) return "offline";
  if (state.refused === "impostor") return "impostor";
  if (writable() && state.study) return "";
  if (!token()) return state.study ? "readonly" : "locked";
  if (state.refused) return "refused";
  return state.study ? "reader" : "";
}

const TOKEN_WORDS = {
  readonly: "You can look, but not write: this page has no token.",
  locked: "You need a token to see this study.",
  reader: "You can look, but not write: this page's token is for reading only.",
  refused: "The server does not accept this page's token; it may have a new one.",
};

const ABSENT_WORDS = {
  offline: "The server does not answer. What you type is kept in this browser, and the page continues when the server is back.",
  impostor: "Another program answers at this address, and not the server of this page. Nothing that you type is sent to it. Do not reload the page, and do not give it a token.",
};

function absentWords(kind) {
  const again = h("button", { type: "button" }, "Try now");
  again.addEventListener("click", retry);
  const words = ABSENT_WORDS[kind];
  speak(words);
  return [h("p", null, words), again];
}

function tokenForm(kind) {
  const text = field("Token", { type: "password", maxlength: 500, hint: "It is in the address that sumwise serve prints, after #token=. You may paste the whole address." });
  const form = h("form", { class: "token", novalidate: true }, text.element, h("button", { type: "submit" }, "Use this token"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const found = pastedToken(text.input.value);
    if (found) setToken(found);
    else text.complain("This does not look like a token.");
  });
  return h("div", null, h("p", null, TOKEN_WORDS[kind]), form);
}

// --- keys ----------------------------------------------------------------------------------------

addEventListener("keydown", (event) => {
  const inField = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
  if (inField || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !shortcuts()) return;
  const view = BY_KEY[Number(event.key) - 1];
  if (view) location.hash = `#/${view}`;
  else if (event.key === "?") openHelp();
  else if (event.key === "/" && views.get(current)?.search?.offsetParent) {
    event.preventDefault();
    views.get(current).search.focus();
  }
});

// --- begin ---------------------------------------------------------------------------------------

async function begin() {
  await (takeToken() ?? loadToken()); // the address is read before anything can change it
  document.getElementById("help").addEventListener("click", openHelp);
  document.getElementById("who").addEventListener("click", askWho);
  document.querySelector("a.skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("hashchange", () => route());
  on("change", changed);
  on("done", async () => {
    // do not wait for the stream to say what this page knows already
    try {
      await loadStudy();
    } finally {
      refresh();
    }
  });
  on("who", renderWho);
  on("titled", entitle);
  on("online", () => {
    renderBanner();
    if (state.online) refresh();
  });
  on("token", () => {
    renderBanner();
    if (!token() || state.refused) return;
    const known = state.study ? changes : -1;
    changes = -1; // the study may say something else to the holder of this token
    changed(known);
  });
  try {
    await loadStudy();
    route({ first: true });
  } catch (error) {
    // no study to show: the banner says what to do, and the stream of changes begins anew
    if (!(error instanceof Refused)) state.online = false;
    fill(main, h("section", { class: "view instead" }, h("h1", { tabindex: "-1" }, "sumwise"), error.status === 401 ? null : h("p", { class: "soft" }, error.message)));
    renderBanner();
  }
  start();
}

begin();
