"""The application in this process, and somebody who talks to it."""

from __future__ import annotations

from starlette.testclient import TestClient

BASE = "http://127.0.0.1:8765"


def client_of(app, *, token: bool = True, base: str = BASE) -> TestClient:
    client = TestClient(app, base_url=base, raise_server_exceptions=False)
    if token:
        client.headers["Authorization"] = f"Bearer {app.state.token}"
    return client


def got(response, status: int = 200):
    """The body, if the status is as expected."""
    assert response.status_code == status, response.text
    return response.json() if response.content else None
