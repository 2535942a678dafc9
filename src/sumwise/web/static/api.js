// The server, as two functions: `get` and `send`. Each fails in one of two ways, which the page
// tells apart: the server refused in words (`Refused`), or it did not answer (`Unreachable`).

import { refuseToken, token } from "./store.js";

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

export const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

export function get(path, { signal, seconds = 60 } = {}) {
  return call(path, { method: "GET", headers: headers() }, signal, seconds);
}

export function send(method, path, body, seconds = 30) {
  const sent = { ...headers(), "Content-Type": "application/json" };
  return call(path, { method, headers: sent, body: JSON.stringify(body) }, undefined, seconds);
}

/** Text that is no JSON, such as a picture. */
export async function getText(path) {
  const response = await reached(path, { method: "GET", headers: headers() }, undefined, 60);
  return response.ok ? response.text() : refuse(response.status, await response.json().catch(() => ({})));
}

async function call(path, options, signal, seconds) {
  const response = await reached(path, options, signal, seconds);
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
  if (status === 401) refuseToken();
  throw new Refused(status, body);
}

async function reached(path, options, signal, seconds) {
  const limit = AbortSignal.timeout(seconds * 1000);
  const either = signal ? (AbortSignal.any?.([signal, limit]) ?? signal) : limit; // not in every browser yet
  try {
    return await fetch(path, { ...options, signal: either, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable();
  }
}

/** A file that needs the token, which a plain link cannot carry. */
export async function download(path, filename) {
  const response = await reached(path, { headers: headers() }, undefined, 600);
  if (!response.ok) return refuse(response.status, await response.json().catch(() => ({})));
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
