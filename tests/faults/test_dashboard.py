"""Hostile text and hostile requests at the dashboard; tests/browser opens the same pages."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from assay.core.text import printable
from assay.web.security import allowed_hosts
from tests.hostile import HOSTILE
from tests.web.samples import Answer, Client, hostile_store

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "header",
    "nav",
    "img",
    "button",
    "main",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "form",
    "label",
    "select",
    "option",
    "input",
    "figure",
    "figcaption",
    "span",
    "div",
    "table",
    "thead",
    "tr",
    "th",
    "tbody",
    "td",
    "small",
    "strong",
    "footer",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "pre",
    "code",
    "svg",
    "line",
    "circle",
    "rect",
    "path",
    "text",
    "details",
    "fieldset",
    "legend",
    "summary",
    "wbr",
    "progress",
}
QUERY = f"{HOSTILE[0]}0"


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("hostile") / "s.db"
    hostile_store(found)
    return found


@pytest.fixture(scope="module")
def client(place: Path) -> Client:
    return Client(place)


@pytest.fixture(scope="module")
def answers(client: Client) -> dict[str, Answer]:
    """Every page, requested once for all tests that read them."""
    return {address: client(address) for address in pages()}


def pages() -> list[str]:
    number = len(HOSTILE)
    return [
        "/",
        "/runs",
        *(f"/runs?group={key}" for key in ("name", "dataset", "tag", "model")),
        "/runs?column=tags&column=nDCG%4010",
        "/diff?run=1&run=2&run=3&show=all",
        f"/compare?run=1&run=2&slice={quote(HOSTILE[0])}&q={quote(HOSTILE[0])}",
        *(f"/run/{i}" for i in range(1, number + 3)),
        "/leaderboard",
        "/trends",
        "/compare?run=1&run=2&run=3",
        "/compare?run=1&run=9999",
        f"/query?run=1&run=2&query={quote(QUERY)}",
        "/run/%3Cscript%3E",
        *(
            f"/runs?{key}={quote(text, errors='surrogatepass')}"
            for text in HOSTILE
            for key in ("dataset", "sort")
        ),
        *(f"/leaderboard?dataset={quote(text, errors='surrogatepass')}" for text in HOSTILE),
    ]


def test_names_are_shown_literally_and_make_no_markup(answers):
    for address, answer in answers.items():
        page = answer.text
        assert set(re.findall(r"<(\w+)", page)) - {"title"} <= TAGS, address
        assert len(re.findall("<script", page)) == 2, address
        assert not re.search(
            r"\son\w+\s*=\s*[\"'a-z]", re.sub(r'"[^"]*"', '""', re.sub(r">[^<]*<", "><", page))
        ), address
        assert not re.search(r'(href|src|action)="(?!/|#)', page), address
    shown = unescape(answers["/runs"].text)
    for text in HOSTILE:
        assert printable(text) in shown
    for number, text in enumerate(HOSTILE, 1):
        page = unescape(answers[f"/run/{number}"].text)
        assert page.count(printable(text)) >= 8  # name, task, model, tag, notes, settings, …
    query = unescape(answers[f"/query?run=1&run=2&query={quote(QUERY)}"].text)
    for text in HOSTILE:
        assert printable(text) in query


def test_names_are_found_by_link_and_by_form(client: Client):
    """A link holds the name itself; a form can only send what people see of it."""
    for number, text in enumerate(HOSTILE, 1):
        for sent in (text, printable(text)):
            found = client(f"/runs.json?model={quote(sent, errors='surrogatepass')}").json
            assert [row["id"] for row in found["runs"] if row["n_queries"]] == [number], sent


def test_cells_of_csv_are_no_formulas(client: Client):
    for address in (
        "/runs.csv",
        "/leaderboard.csv",
        "/run/10.csv?table=queries",
        "/run/10.csv?table=groups",
        "/run/10.csv?table=numbers",
        "/trends.csv",
        "/compare.csv?run=10&run=11&table=queries",
        "/compare.csv?run=10&run=11&table=pairs",
        f"/query.csv?run=10&run=11&query={quote(QUERY)}",
    ):
        rows = list(csv.reader(io.StringIO(client(address).text)))
        assert len({len(row) for row in rows}) == 1, address
        cells = [cell for row in rows for cell in row if re.match(r"[=+\-@\t\r]", cell)]
        assert all(re.fullmatch(r"-\d+(\.\d+)?(e-\d+)?", cell) for cell in cells), cells


def test_no_terminal_code_reaches_a_page_or_the_terminal(client: Client, answers, capfd):
    found = [*answers.values(), client("/runs.json"), client("/run/14.json"), client("/run/14")]
    for answer in found:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", answer.text)
    said = capfd.readouterr()
    assert "\x1b" not in said.out + said.err


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        "127.0.0.1@evil.example",
        "[::1].evil.example",
        "192.168.1.7",
        "localhost\x00",
    ],
)
def test_a_foreign_host_is_refused(client: Client, host: str):
    for address in ("/runs", "/runs.json", "/static/dashboard.js", "/nothing"):
        answer = client(address, host=host)
        assert answer.status == 421
        assert b"first" not in answer.body
        assert len(answer.body) < 300


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8420", "[::1]:8420"])
def test_our_own_names_are_not(client: Client, host: str):
    assert client("/runs", host=host).status == 200


def test_beyond_this_machine_numbers_and_allowed_names_only():
    hosts = allowed_hosts("0.0.0.0", ["dash.example"])
    assert "192.168.1.7:8420" in hosts
    assert "DASH.example" in hosts
    assert "localhost" in hosts
    assert "evil.example" not in hosts
    assert "192.168.1.7.evil.example" not in hosts


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
def test_other_methods_are_refused(client: Client, method: str):
    for address in ("/runs", "/run/1", "/static/dashboard.css", "/nothing"):
        answer = client(address, method=method)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET, HEAD"


def test_no_page_may_be_read_from_elsewhere(client: Client):
    for address in ("/runs", "/runs.json", "/static/dashboard.js", "/nothing"):
        answer = client(address, headers={"origin": "http://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client("/runs", method="HEAD").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/static/dashboard.css%00.js",
        "/../../etc/passwd",
        "/run/../../etc/passwd",
        "/static/",
        "/static/app.py",
        "//evil.example/",
        "/run//etc/passwd",
    ],
)
def test_paths_are_never_taken_from_a_request(client: Client, path: str):
    answer = client(path)
    assert answer.status == 404
    assert b"root:" not in answer.body
    assert b"def make_app" not in answer.body


def test_a_file_that_is_named_in_a_parameter_is_not_opened(client: Client):
    for name in ("store", "file", "path", "template", "table", "folder"):
        for address in ("/runs", "/runs.csv", "/run/1.csv"):
            answer = client(f"{address}?{name}=/etc/passwd")
            assert answer.status in (200, 400)
            assert b"root:" not in answer.body


def test_a_policy_without_inline_script_and_no_other_host(client: Client, answers):
    others = [client(address) for address in ("/runs.json", "/runs.csv", "/static/dashboard.js")]
    for answer in [*answers.values(), *others]:
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert answer.headers["referrer-policy"] == "no-referrer"
        if "html" in answer.headers["content-type"]:
            assert not re.search(r"<script(?![^>]* src=)", answer.text)
            assert "style=" not in re.sub(r">[^<]*<", "><", answer.text)
    loaded = b"".join(
        client(f"/static/{name}").body
        for name in ("dashboard.css", "dashboard.js", "theme.js", "icon.svg")
    )
    outside = re.findall(rb"(?:https?:)?//[a-z][\w.]+", loaded.replace(b"http://www.w3.org/", b""))
    assert not [one for one in outside if b"." in one]


def test_a_token_is_compared_whole_and_the_redirect_stays_here(place: Path):
    token = "a-token-of-many-letters"
    client = Client(place, host="0.0.0.0", token=token)
    for given in ("", token[:-1], token + "x", token.upper(), "%00", "\ud800", "é"):
        sent = quote(given, errors="surrogatepass")
        assert client(f"/runs?token={sent}").status == 401
    for header in ("Bearer", "Bearer ", f"Basic {token}", token, f"Bearer {token}x"):
        assert client("/runs", headers={"authorization": header}).status == 401
    for cookie in ("assay_token_8420=", "assay_token_8420=x", "\x00=;;", f"other={token}"):
        assert client("/runs", headers={"cookie": cookie}).status == 401
    assert client("/runs", headers={"authorization": f"Bearer {token}"}).status == 200
    for path in ("//evil.example", "/\\evil.example", "/runs"):
        answer = client(f"{path}?token={token}&status=failed")
        assert answer.status == 303
        assert re.match(r"/[^/\\]", answer.headers["location"])
        assert token not in answer.headers["location"]
    assert (
        client("/runs", host="evil.example", headers={"authorization": f"Bearer {token}"}).status
        == 421
    )
