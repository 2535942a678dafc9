// Changes as they happen. The stream is read with fetch, since EventSource cannot send the token.

import { headers } from "./api.js";
import { emit, on, refuseToken, state } from "./store.js";
import { eventParser } from "./stream.js";

const SLOWEST = 8000; // between tries
const SILENCE = 40_000; // the server says something every 15 seconds
const HIDDEN = 60_000; // a browser allows few connections, so a hidden page gives up its own

let stream = null; // of the connection that is open or being tried
let tries = 0;
let waiting = 0; // a timer
let watchdog = 0;
let resting = 0;

export function start() {
  connect();
  addEventListener("online", retry);
  on("token", retry);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(resting);
    if (document.hidden) resting = setTimeout(rest, HIDDEN);
    else if (!stream) retry();
  });
}

/** Try again now. */
export function retry() {
  tries = 0;
  rest();
  connect();
}

function rest() {
  clearTimeout(waiting);
  clearTimeout(watchdog);
  stream?.abort();
  stream = null;
}

async function connect() {
  const own = new AbortController();
  stream = own;
  try {
    alive();
    const options = { headers: headers(), signal: own.signal, cache: "no-store", credentials: "omit" };
    const response = await fetch("/api/events", options);
    if (response.status === 401) {
      // the server answers, but needs another token: wait for that instead of retrying
      tell(true);
      refuseToken();
      if (stream === own) rest();
      return;
    }
    if (!response.ok || !response.body) throw new Error(`events: ${response.status}`);
    await listen(response.body.pipeThrough(new TextDecoderStream()).getReader());
  } catch {
    // whatever it was, try again below
  }
  if (stream !== own) return; // another attempt has begun meanwhile
  own.abort();
  stream = null;
  tell(false);
  const pause = Math.min(SLOWEST, 500 * 2 ** tries) * (0.75 + 0.5 * Math.random());
  tries += 1;
  waiting = setTimeout(connect, pause);
}

async function listen(reader) {
  const parse = eventParser();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    tell(true);
    tries = 0;
    for (const { event, data } of parse(value)) {
      if (event === "change") emit("change", JSON.parse(data).changes);
    }
  }
}

function alive() {
  const own = stream;
  clearTimeout(watchdog);
  watchdog = setTimeout(() => own?.abort(), SILENCE);
}

function tell(online) {
  if (state.online === online) return;
  state.online = online;
  emit("online");
}
