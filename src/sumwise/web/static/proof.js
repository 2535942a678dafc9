// What a request is sent with. First the server has to prove that it has the token of this page, since another
// program may have taken its port; then the page signs the request, so that nothing it sends serves for another one.

import { bytesOf, hex, sha256 } from "./hmac.js";

const RUN = /^[0-9a-f]{32}$/;

export const fresh = () => hex(crypto.getRandomValues(new Uint8Array(16)));

/** The run of the server, if this is its answer to `nonce`; null if another program has made it up. */
export async function runOf({ run, proof }, key, nonce) {
  if (!RUN.test(run)) return null;
  return proof === (await key.sign("sumwise server", run, nonce)) ? run : null;
}

/** The header that signs a request; `target` is path and query as they are sent. */
export async function signature(key, method, target, body, run, nonce) {
  const digest = hex(sha256(bytesOf(body)));
  const mac = await key.sign("sumwise request", method, target, digest, run, nonce);
  return `Sumwise ${[key.id, run, nonce, digest, mac].join(":")}`;
}
