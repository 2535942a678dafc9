"""Who may do what: attacks on the server, from other sites, other machines and other users."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from urllib.parse import unquote

import pytest

import sumwise as sw
from sumwise.web import create_app, security, tokens
from sumwise.web.security import LARGEST_BODY, POLICY
from tests.studies import copy_of, with_one_answer
from tests.web.apps import BASE, client_of, got

WRITES = (
    ("POST", "/api/questions"), ("POST", "/api/claims"), ("POST", "/api/claims/1/renew"),
    ("POST", "/api/claims/1/release"), ("POST", "/api/skips"), ("POST", "/api/skips/1/undo"),
    ("POST", "/api/answers"), ("PATCH", "/api/answers/1"), ("POST", "/api/answers/1/retract"),
    ("POST", "/api/pool"),
)  # fmt: skip


@pytest.fixture
def study(tmp_path):
    with sw.open_study(copy_of(with_one_answer, tmp_path / "a.db")) as study:
        yield study


@pytest.fixture
def app(study):
    return create_app(study)


# --- tokens ---------------------------------------------------------------------------------------


def test_the_list_of_writes_is_complete(app):
    document = app.openapi()["paths"]
    found = {
        (method.upper(), path.replace("{position}", "1"))
        for path, methods in document.items()
        for method in methods
        if method != "get"
    }
    assert found == set(WRITES)


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_every_write_needs_the_token(app, study, method, path):
    before = study.history()
    stranger = client_of(app, token=False)
    body = {"position": 1, "total": 7.0}
    token = app.state.token
    given = ("", "Bearer", "Bearer ", f"Bearer {token}x", f"Bearer {token[:-1]}", token,
             f"Basic {token}", f"Bearer {token} {token}", "Bearer ü")  # fmt: skip
    for value in given:
        headers = {"Authorization": value.encode("latin-1")} if value else {}
        refused = stranger.request(method, path, json=body, headers=headers)
        assert got(refused, 401)["code"] == "token"
        assert refused.headers["www-authenticate"] == "Bearer"
    assert study.history() == before


def test_the_word_bearer_may_be_written_in_any_way(app):
    stranger = client_of(app, token=False)
    headers = {"Authorization": f"bearer {app.state.token}"}
    got(stranger.post("/api/questions", headers=headers), 201)


def test_reading_needs_no_token_on_this_machine_alone(app, study):
    got(client_of(app, token=False).get("/api/study"))
    for host in ("0.0.0.0", "192.168.1.7", "::", "example.org"):
        other = create_app(study, host=host)
        assert got(client_of(other, token=False).get("/api/study"), 401)["code"] == "token"
        got(client_of(other).get("/api/study"))
        assert client_of(other, token=False).get("/").status_code == 200
        assert client_of(other, token=False).get("/openapi.json").status_code == 200


def test_no_token_is_in_the_page_or_the_document(app):
    web = client_of(app)
    for path in ("/", "/openapi.json", "/api/study"):
        assert app.state.token not in web.get(path).text


def test_a_token_that_can_be_guessed_is_refused(study):
    with pytest.raises(sw.SettingError, match="too short"):
        create_app(study, token="secret")


# --- hosts and origins ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example",
     "127.0.0.1@evil.example", "evil.example#127.0.0.1", "0.0.0.0", "192.168.1.7", "", "[::1",
     "localhost/", "127.0.0.1:x"],
)  # fmt: skip
def test_names_that_were_made_to_lead_here_are_refused(app, host):
    for path in ("/", "/api/study", "/static/app.js", "/openapi.json"):
        refused = client_of(app).get(path, headers={"Host": host})
        assert got(refused, 400)["code"] == "host"
        assert refused.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8765", "127.0.0.1:8765"]
)
def test_names_of_this_machine_are_fine(app, host):
    got(client_of(app).get("/api/study", headers={"Host": host}))


def test_a_server_for_all_addresses_answers_to_addresses_and_its_own_name(study):
    import socket

    everywhere = create_app(study, host="0.0.0.0")
    for host in ("10.1.2.3:8765", "[fe80::1]:8765", socket.gethostname(), "localhost"):
        got(client_of(everywhere).get("/api/study", headers={"Host": host}))
    got(client_of(everywhere).get("/api/study", headers={"Host": "evil.example"}), 400)
    one = create_app(study, host="10.1.2.3")
    got(client_of(one).get("/api/study", headers={"Host": "10.1.2.3:8765"}))
    got(client_of(one).get("/api/study", headers={"Host": "10.1.2.4:8765"}), 400)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:8766", "", "http://[",
     "http://localhost:8765", "http://127.0.0.1:8765.evil.example", "127.0.0.1:8765"],
)  # fmt: skip
def test_writes_from_another_site_are_refused_even_with_the_token(app, study, origin):
    before = study.history()
    refused = client_of(app).post("/api/questions", headers={"Origin": origin})
    assert got(refused, 403)["code"] == "origin"
    assert "access-control-allow-origin" not in refused.headers
    assert study.history() == before


def test_writes_from_the_page_itself_are_fine(app):
    got(client_of(app).post("/api/questions", headers={"Origin": BASE}), 201)


def test_other_sites_are_not_told_that_they_may_ask(app):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client_of(app).options("/api/questions", headers=headers)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_what_a_page_of_another_site_causes_is_refused(app, study, site):
    """Reading needs no token here, and a download takes time and room on the disk."""
    before, headers = study.history(), {"Sec-Fetch-Site": site}
    for method, path in (("GET", "/api/individuals.csv"), ("GET", "/api"), *WRITES):
        refused = client_of(app).request(method, path, headers=headers)
        assert got(refused, 403)["code"] == "origin"
    assert study.history() == before
    assert client_of(app).get("/", headers=headers).status_code == 200  # a link to the page


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_what_the_page_or_a_person_causes_is_fine(app, site):
    got(client_of(app).get("/api/study", headers={"Sec-Fetch-Site": site}))
    got(client_of(app).post("/api/questions", headers={"Sec-Fetch-Site": site}), 201)


def test_no_request_waits_for_a_name_server(study, monkeypatch):
    looked = []
    monkeypatch.setattr("socket.getfqdn", lambda: looked.append(1) or "Lab.example")
    app = create_app(study, host="0.0.0.0")
    assert looked == [1]
    for host, status in (("lab.example", 200), ("evil.example", 400), ("10.1.2.3", 200)):
        got(client_of(app).get("/api/study", headers={"Host": host}), status)
    assert looked == [1]
    create_app(study, host="10.1.2.3")
    assert looked == [1]


# --- headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/api/study", "/api/nothing", "/static/app.js", "/static/vega.js", "/nothing",
             "/openapi.json", "/api/sets/99", "/api/sets?page=0"],
)  # fmt: skip
def test_headers_on_everything(app, path):
    headers = client_of(app).get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "script-src 'self';" in POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    if path.startswith("/api"):
        assert headers["cache-control"] == "no-store"


def test_a_mistake_of_ours_shows_no_traceback(app, monkeypatch, caplog):
    def broken():
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(app.state.served.session.state, "snapshot", broken)
    answer = client_of(app).get("/api/study")
    assert got(answer, 500)["code"] == "internal"
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY
    assert "secret of the house" in caplog.text


# --- bodies ---------------------------------------------------------------------------------------


def test_bodies_are_limited(app, study):
    web = client_of(app)
    padded = b'{"position": 2, "total": 1}' + b" " * LARGEST_BODY
    headers = {"Content-Type": "application/json"}
    assert (
        got(web.post("/api/answers", content=padded, headers=headers), 413)["code"] == "too_large"
    )
    chunks = iter([b'{"position": 2, "total": 1}', *[b" " * 1000] * 100])
    assert (
        got(web.post("/api/answers", content=chunks, headers=headers), 413)["code"] == "too_large"
    )
    got(web.post("/api/answers", content=padded[:LARGEST_BODY], headers=headers), 201)
    assert len(study.answers) == 2


def straight(app, method, path, receive, headers=()):
    """Status and body of a request as no client would send it."""

    async def ask():
        sent = []

        async def send(message):
            sent.append(message)

        token = (b"authorization", f"Bearer {app.state.token}".encode())
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "headers": [(b"host", b"127.0.0.1"), token, *headers],
        }
        await app(scope, receive, send)
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])

    return asyncio.run(ask())


@pytest.mark.parametrize("length", ["65537", "9" * 30, "-1", "x", "²"])
def test_a_length_that_is_too_large_is_refused_before_anything_is_read(app, length):
    async def receive():
        raise AssertionError("the body was read")

    headers = [(b"content-length", length.encode("latin-1"))]
    assert straight(app, "POST", "/api/answers", receive, headers)[0] == 413


def test_a_body_without_an_end_is_cut_off(app):
    read = []

    async def receive():
        read.append(1000)
        return {"type": "http.request", "body": b" " * 1000, "more_body": True}

    assert straight(app, "POST", "/api/answers", receive)[0] == 413
    assert sum(read) <= LARGEST_BODY + 1000


def test_a_body_that_does_not_come_is_not_waited_for(app, monkeypatch):
    monkeypatch.setattr(security, "SLOWEST_BODY", 0.05)

    async def receive():
        await asyncio.sleep(600)

    status, body = straight(app, "POST", "/api/answers", receive)
    assert status == 408
    assert b"nothing was stored" in body


def test_a_client_that_leaves_before_its_body_has_come_asks_for_nothing(app, study):
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(IndexError):  # no answer was sent
        straight(app, "POST", "/api/questions", receive)
    assert study.claims == ()


@pytest.mark.parametrize("body", [b"", b'{"by": "ann"', b'{"by": "ann"}' + b" " * 8])
@pytest.mark.parametrize("call", ["answers/1/retract", "questions", "claims", "skips"])
def test_a_body_of_another_length_than_was_said_does_nothing(app, study, call, body):
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    before = study.history()
    said = (b"content-type", b"application/json"), (b"content-length", b"20")
    status, words = straight(app, "POST", f"/api/{call}", receive, said)
    assert (status, b"cut_off" in words) == (400, True)
    assert study.history() == before


def test_a_client_that_leaves_in_the_middle_of_its_body_asks_for_nothing(app, study):
    parts = [{"type": "http.request", "body": b"{}", "more_body": True}]

    async def receive():
        return parts.pop() if parts else {"type": "http.disconnect"}

    before = study.history()
    with pytest.raises(IndexError):  # no answer was sent
        straight(app, "POST", "/api/answers/1/retract", receive)
    assert study.history() == before


@pytest.mark.parametrize(
    "body",
    ['{"position": 2, "total": 1, "total": 9}', '{"position": 2, "position": 3, "total": 1}',
     '{"position": 2, "t\\u006ftal": 1, "total": 1}',
     '{"position": 2, "total": 1, "of": {"": 1, "": 1}}'],
)  # fmt: skip
def test_a_key_that_is_there_twice_is_refused(app, study, body):
    headers = {"Content-Type": "application/json"}
    refused = got(client_of(app).post("/api/answers", content=body, headers=headers), 400)
    assert refused["code"] == "not_json"
    assert "twice" in refused["detail"]
    assert len(study.answers) == 1


def test_a_websocket_is_closed_at_once(app):
    async def attack():
        sent = []

        async def send(message):
            sent.append(message)

        await app({"type": "websocket", "path": "/api/events", "headers": []}, None, send)
        return sent

    assert asyncio.run(attack())[0]["type"] == "websocket.close"


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd",
     "/static/%2fetc%2fpasswd", "/static/..%5capp.py", "/static/%00", "/static/", "/static",
     "/static/../../../../../../../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd"],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(app, path):
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    status, body = straight(app, "GET", path, receive)
    assert status in (400, 404, 405)
    assert b"root:" not in body
    assert b"import" not in body


# --- the token's file -----------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "sumwise"


def test_a_token_is_kept_for_each_database_and_for_its_owner_alone(state):
    first = tokens.kept_token("'a.db'")
    assert tokens.kept_token("'a.db'") == first
    assert tokens.kept_token("'b.db'") != first
    assert len(first) >= 43
    files = list(state.iterdir())
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert not any("a.db" in file.name for file in files)


def test_a_new_token_takes_the_place_of_the_old(state):
    first = tokens.kept_token("'a.db'")
    second = tokens.kept_token("'a.db'", anew=True)
    assert second != first
    assert tokens.kept_token("'a.db'") == second
    assert len(list(state.iterdir())) == 1


@pytest.mark.parametrize("content", ["", "short", "x" * 20, "a b" * 20, "ü" * 40, "../" * 20])
def test_a_damaged_token_is_replaced(state, content):
    first = tokens.kept_token("'a.db'")
    (file,) = state.iterdir()
    file.write_text(content)
    second = tokens.kept_token("'a.db'")
    assert second not in (first, content)
    assert tokens.kept_token("'a.db'") == second


def test_a_token_that_others_could_read_is_replaced(state):
    first = tokens.kept_token("'a.db'")
    (file,) = state.iterdir()
    file.chmod(0o644)
    assert tokens.kept_token("'a.db'") != first
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_in_place_of_a_token_is_not_followed(state, tmp_path):
    tokens.kept_token("'a.db'")
    (file,) = state.iterdir()
    other = tmp_path / "other"
    other.write_text("A" * 43)
    other.chmod(0o600)
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(sw.StorageError, match="cannot be kept"):
        tokens.kept_token("'a.db'")
    tokens.kept_token("'a.db'", anew=True)
    assert other.read_text() == "A" * 43


def test_two_servers_that_start_together_have_one_token(state):
    script = "from sumwise.web.tokens import kept_token; print(kept_token('a'))"
    command = [sys.executable, "-c", script]
    starts = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate(timeout=120)[0] for process in starts}) == 1


def test_where_tokens_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "relative/folder")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tokens.folder() == tmp_path / ".local" / "state" / "sumwise"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert tokens.folder() == tmp_path / ".local" / "state" / "sumwise"


def test_a_folder_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(sw.StorageError, match="set XDG_STATE_HOME"):
        tokens.kept_token("a")


def test_loopback_addresses_are_known():
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"):
        assert security.is_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", "127.0.0.1.example.org", ""):
        assert not security.is_loopback(host)
