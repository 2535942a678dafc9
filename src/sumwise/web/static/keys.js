// The key that this page makes of a token (src/sumwise/web/tokens.py). The token itself is forgotten. Where the
// browser can, it keeps the key so that scripts may use it but not read it, not even one that another program
// serves from this address later. On plain HTTP from other machines it cannot, and the key is kept as text.

import { bytesOf, hex, hmac, unhex } from "./hmac.js";

const TEXT = "sumwise.key";
const subtle = globalThis.crypto?.subtle;

/** `{id, sign(...words)}` of a token, kept in this browser if it lets us. */
export async function adopt(token) {
  const bytes = hmac(bytesOf(token), bytesOf("sumwise page key"));
  forget();
  if (!subtle) {
    await quietly(() => localStorage.setItem(TEXT, hex(bytes)));
    return ofBytes(bytes);
  }
  const own = await subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const kept = { id: idOf(bytes), own };
  await quietly(() => stored("readwrite", (keys) => keys.put(kept, "key")));
  return ofKept(kept);
}

/** The key that was kept, or null. */
export async function load() {
  const kept = subtle ? await quietly(() => stored("readonly", (keys) => keys.get("key"))) : null;
  if (kept) return ofKept(kept);
  const text = subtle ? null : await quietly(() => localStorage.getItem(TEXT));
  return text ? ofBytes(unhex(text)) : null;
}

function forget() {
  quietly(() => localStorage.removeItem(TEXT));
}

const idOf = (bytes) => hex(hmac(bytes, bytesOf("sumwise key id"))).slice(0, 16);
const lines = (words) => bytesOf(words.join("\n"));

export function ofBytes(bytes) {
  return { id: idOf(bytes), sign: async (...words) => hex(hmac(bytes, lines(words))) };
}

function ofKept({ id, own }) {
  return { id, sign: async (...words) => hex(new Uint8Array(await subtle.sign("HMAC", own, lines(words)))) };
}

/** What a browser may refuse: then the key lasts as long as the page. */
async function quietly(act) {
  try {
    return await act();
  } catch {
    return null;
  }
}

async function stored(mode, act) {
  const base = await answered(indexedDB.open("sumwise", 1), (database) => database.createObjectStore("keys"));
  try {
    return await answered(act(base.transaction("keys", mode).objectStore("keys")));
  } finally {
    base.close();
  }
}

function answered(request, upgrade) {
  return new Promise((resolve, reject) => {
    request.onupgradeneeded = () => upgrade?.(request.result);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
