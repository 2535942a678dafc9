"""A page's signatures, written down a second time from docs/adr/0024."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets


def keyed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Page:
    """What a page makes of a token, and sends."""

    def __init__(self, client, token: str) -> None:
        self.client = client
        self.key = bytes.fromhex(keyed(token.encode(), "sumwise page key"))
        self.id = keyed(self.key, "sumwise key id")[:16]

    def meet(self, nonce: str):
        return self.client.get("/api/proof", params={"key": self.id, "nonce": nonce})

    def run(self) -> str:
        nonce = secrets.token_hex(16)
        said = self.meet(nonce).json()
        assert said["proof"] == keyed(self.key, f"sumwise server\n{said['run']}\n{nonce}")
        return said["run"]

    def header(self, method: str, target: str, content: bytes = b"", run: str | None = None) -> str:
        run, nonce = run or self.run(), secrets.token_hex(16)
        digest = hashlib.sha256(content).hexdigest()
        lines = ("sumwise request", method, target, digest, run, nonce)
        mac = keyed(self.key, "\n".join(lines))
        return f"Sumwise {self.id}:{run}:{nonce}:{digest}:{mac}"

    def send(self, method: str, target: str, body=None, header: str | None = None):
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Authorization": header or self.header(method, target, content)}
        if content:
            headers["Content-Type"] = "application/json"
        return self.client.request(method, target, content=content, headers=headers)
