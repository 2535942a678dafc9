// The server, as two functions: `get` and `send`. Each fails in one of two ways, which the page
// tells apart: the server refused in words (`Refused`), or it did not answer (`Unreachable`).

import { fresh, runOf, signature } from "./proof.js";
import { acceptToken, refuseToken, state, token } from "./store.js";

export class Refused extends Error {
  constructor(status, body) {
    super(body.detail || `The server refused this (${status}).`);
    this.status = status;
    this.code = body.code ?? "";
    this.body = body;
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

let known = null; // a promise of the run of the server that has proved itself

/** From now on, whatever answers has to prove itself again. */
export function doubt() {
  known = null;
}

/** Let the server prove that it has the token of this page, if this page has one. */
export async function meet() {
  if (!token()) return;
  doubt();
  await runFor("GET").catch((error) => {
    if (error.code !== "token") throw error; // it may have a new one, and shows what is open to all
  });
}

/** The run of a server that has the token: asked anew for each write, and once for reads. */
function runFor(method, nonce) {
  if (method !== "GET") return proved(nonce);
  if (known) return known;
  const own = proved(fresh());
  known = own;
  own.catch(() => {
    if (known === own) known = null;
  });
  return own;
}

async function proved(nonce) {
  const key = token();
  const options = { signal: AbortSignal.timeout(20_000), cache: "no-store", credentials: "omit" };
  const response = await fetch(`/api/proof?key=${key.id}&nonce=${nonce}`, options);
  if (response.status >= 500) throw new Unreachable(); // behind a proxy
  const body = (await response.json().catch(() => null)) ?? {};
  const run = response.ok ? await runOf(body, key, nonce) : null;
  if (key !== token()) return proved(nonce); // the page has another one meanwhile
  if (run) acceptToken();
  else if (response.status === 401) refuse(401, { ...body, code: "token" });
  else refuse(401, { code: "impostor", detail: "Another program answers at this address. Nothing was sent to it." });
  return run;
}

async function headers(method, path, body) {
  const own = body === undefined ? {} : { "Content-Type": "application/json" };
  const reading = method === "GET";
  if (!token() || (reading && state.refused === "token")) return own;
  const nonce = fresh();
  let run;
  try {
    run = await runFor(method, nonce);
  } catch (error) {
    if (reading && error.code === "token") return own; // the server may show it all the same
    throw error;
  }
  const { pathname, search } = new URL(path, location.href);
  return { ...own, Authorization: await signature(token(), method, pathname + search, body ?? "", run, nonce) };
}

/** A response to a signed request, whatever it is. */
export async function request(method, path, { body, signal, last = method !== "GET" } = {}) {
  const options = { method, body, signal, headers: await headers(method, path, body), cache: "no-store", credentials: "omit" };
  const asked = known;
  const response = await fetch(path, options);
  if (response.status !== 401 || last) return response;
  const { code } = await response.clone().json().catch(() => ({}));
  if (code !== "run") return response;
  if (known === asked) known = null; // the server has started anew
  return request(method, path, { body, signal, last: true });
}

export function get(path, { signal, seconds = 60 } = {}) {
  return call("GET", path, { signal, seconds });
}

export function send(method, path, body, seconds = 30) {
  return call(method, path, { body: JSON.stringify(body), seconds });
}

/** Text that is no JSON, such as a picture. */
export async function getText(path) {
  const response = await reached("GET", path);
  return response.ok ? response.text() : refuse(response.status, await response.json().catch(() => ({})));
}

async function call(method, path, options) {
  const { signal } = options;
  const response = await reached(method, path, options);
  if (response.status === 204) return null;
  let body;
  try {
    body = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (response.ok) throw new Unreachable(); // the connection broke half-way
    body = {};
  }
  return response.ok ? body : refuse(response.status, body);
}

function refuse(status, body) {
  if (status === 401) refuseToken(body.code === "impostor" ? "impostor" : "token");
  throw new Refused(status, body);
}

async function reached(method, path, { body, signal, seconds = 60 } = {}) {
  const limit = AbortSignal.timeout(seconds * 1000);
  const either = signal ? (AbortSignal.any?.([signal, limit]) ?? signal) : limit; // not in every browser yet
  try {
    return await request(method, path, { body, signal: either });
  } catch (error) {
    if (signal?.aborted || error instanceof Refused) throw error;
    throw new Unreachable();
  }
}

/** A file that needs the token, which a plain link cannot carry. */
export async function download(path, filename) {
  const response = await reached("GET", path, { seconds: 600 });
  if (!response.ok) return refuse(response.status, await response.json().catch(() => ({})));
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
