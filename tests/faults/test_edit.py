"""Tags and notes are changed from our own pages only, where the server allows it; numbers never."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

import assay.store
from assay.errors import UsageError
from assay.web import make_app
from assay.web.app import StoreHandle
from tests.comparison.made_scores import made_scores
from tests.hostile import HOSTILE
from tests.web.samples import Answer, Client

TOKEN = "a-token-of-a-test-server"
OWN = "http://localhost:8420"
COOKIE = {"cookie": f"assay_token_8420={TOKEN}"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "one", tags=["old", *HOSTILE[:3]], notes="first\nsecond")
        store.save(made_scores(2), "two")
    return tmp_path / "s.db"


@pytest.fixture
def client(place: Path) -> Client:
    return Client(place, token=TOKEN, allow_edit=True)


def secret_of(client: Client) -> str:
    page = client("/run/1", headers=COOKIE).text
    return re.search(r'name="secret" value="([^"]+)"', page).group(1)


def post(client: Client, address: str = "/run/1/edit", *, headers=None, **fields) -> Answer:
    """What the form of the page sends; `headers` replace those of a browser."""
    sent = {"secret": secret_of(client), "notes": "first\r\nsecond", **fields}
    given = {"origin": OWN, **COOKIE, **FORM, **(headers or {})}
    kept = {name: value for name, value in given.items() if value is not None}
    body = urlencode(sent, doseq=True).encode()
    return client(address, method="POST", headers=kept, body=body)


def state_of(place: Path) -> tuple:
    with assay.store.open(place, create=False) as store:
        run = store.run(1)
        assert store.damages() == []
        return run.tags, run.notes, run.digest, run.aggregates, run.scores().values.tobytes()


def test_tags_and_notes_change_and_nothing_else(place: Path, client: Client):
    before = state_of(place)
    removed = [HOSTILE[0], "old"]
    answer = post(client, add=" new , other tag,", remove=removed, notes="third\r\nfourth")
    assert (answer.status, answer.headers["location"]) == (303, "/run/1")
    tags, notes, *numbers = state_of(place)
    assert set(tags) == {"new", "other tag", *HOSTILE[1:3]}
    assert notes == "third\nfourth"
    assert numbers == list(before[2:])
    page = client("/run/1", headers=COOKIE).text
    assert "third\nfourth</textarea>" in page
    assert post(client, notes="third\nfourth").status == 303
    assert state_of(place)[:2] == (tags, notes)


def test_it_is_off_unless_it_was_asked_for(place: Path):
    client = Client(place, token=TOKEN)
    page = client("/run/1", headers=COOKIE)
    assert page.status == 200
    assert "<textarea" not in page.text
    before = state_of(place)
    headers = {"origin": OWN, **COOKIE, **FORM}
    answer = client("/run/1/edit", method="POST", headers=headers, body=b"add=x")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert state_of(place) == before


def test_editing_without_a_token_is_refused(place: Path, client: Client):
    with pytest.raises(UsageError, match="requires a token"):
        make_app(StoreHandle(place), allow_edit=True)
    before = state_of(place)
    assert post(client, headers={"cookie": None}, add="x").status == 401
    assert post(client, headers={"cookie": "assay_token_8420=wrong"}, add="x").status == 401
    assert state_of(place) == before
    assert post(client, headers={"cookie": None, "authorization": f"Bearer {TOKEN}"}).status == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "https://localhost.evil.example:8420"},
        {"origin": "null"},
        {"origin": None},
        {"origin": "file://localhost:8420"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_changes_nothing(place: Path, client: Client, headers):
    """Even where it knew the cookie and the secret of the form."""
    before = state_of(place)
    answer = post(client, headers=headers, add="x", notes="gone")
    assert answer.status == 403
    assert state_of(place) == before


@pytest.mark.parametrize("secret", ["", "x" * 32, "\ud83d".encode("utf-8", "surrogatepass"), TOKEN])
def test_a_form_without_the_secret_changes_nothing(place: Path, client: Client, secret):
    before = state_of(place)
    answer = post(client, secret=secret, add="x", notes="gone")
    assert answer.status == 403
    assert "Load the page again" in answer.text
    assert state_of(place) == before


def test_secrets_are_of_one_server(place: Path, client: Client):
    other = Client(place, token=TOKEN, allow_edit=True)
    assert secret_of(other) != secret_of(client)
    assert post(client, secret=secret_of(other), add="x").status == 403


def test_odd_forms_are_refused(place: Path, client: Client):
    before = state_of(place)
    assert post(client, headers={"content-type": "text/plain"}, add="x").status == 415
    assert post(client, notes="x" * 200_000).status == 413
    assert post(client, "/run/99/edit", add="x").status == 404
    assert post(client, "/run/1", add="x").status == 405
    assert post(client, "/runs", add="x").status == 405
    assert post(client, add="x" * 600).status == 400  # longer than a name may be
    headers = {"origin": OWN, **COOKIE, **FORM}
    assert client("/run/1/edit", headers=headers).status in (404, 405)
    for method in ("PUT", "DELETE", "PATCH"):
        assert client("/run/1/edit", method=method, headers=headers).status == 405
    for body in (b"\xff\xfe", b"%ff=%ff", b"&&&=", b"a" * 1000):
        assert client("/run/1/edit", method="POST", headers=headers, body=body).status in (400, 403)
    assert state_of(place) == before


def test_a_store_that_cannot_be_written_says_so(place: Path, client: Client, monkeypatch):
    from assay.errors import StorageError

    def refuse(*_, **__):
        raise StorageError("The store is for reading only.")

    monkeypatch.setattr("assay.store.Store.tag", refuse)
    answer = post(client, add="x")
    assert answer.status == 503
    assert "cannot be changed" in answer.text
