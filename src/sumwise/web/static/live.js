// Changes as they happen. The stream is read with fetch, since EventSource cannot send the token.

import { doubt, meet, Refused, request } from "./api.js";
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
  let refused = false;
  try {
    alive();
    await meet();
    if (stream !== own) return; // another attempt has begun meanwhile
    const response = await request("GET", "/api/events", { signal: own.signal });
    if (response.status === 401) refuseToken("token");
    if (response.status === 401) throw new Refused(401, {}); // it may be another program's answer
    if (!response.ok || !response.body) throw new Error(`events: ${response.status}`);
    await listen(response.body.pipeThrough(new TextDecoderStream()).getReader());
  } catch (error) {
    refused = error instanceof Refused; // whatever it was, try again below
  }
  if (stream !== own) return; // another attempt has begun meanwhile
  own.abort();
  stream = null;
  doubt();
  tell(refused); // then it does answer
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
