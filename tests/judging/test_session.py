"""Labelling: order, undo, several labellers, the terminal, the page and its security."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from assay.core.text import spoken
from assay.errors import MismatchError, StorageError, ValueRangeError
from assay.judging import Label, LabelLog, estimate_from_labels, make_pool
from assay.judging.session import (
    GUIDELINES,
    LabelSession,
    LabelStatus,
    LabelTexts,
    best_passage,
    label_in_terminal,
    mark_words,
)
from tests.judging.samples import make_runs
from tests.waiting import until

TEXTS = LabelTexts({"q0": "red fox"}, {"q0-d0": "No.\n\nA red Fox!"}, {"q0": "the animal"})


@pytest.fixture
def pool():
    return make_pool(make_runs(2), 20)


@pytest.fixture
def log(tmp_path: Path) -> LabelLog:
    return LabelLog(tmp_path / "labels.jsonl")


def label_to_the_end(session, grade=1):
    seen = []
    while (pair := session.next_pair()) is not None:
        seen.append(pair)
        session.record(pair, grade)
    return seen


def test_every_drawn_pair_comes_once_in_random_order(pool, log):
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    seen = label_to_the_end(session)
    drawn = {pool.names[place] for place in pool.order}
    assert set(seen) == drawn
    assert len(seen) == len(drawn)
    assert seen != sorted(seen)
    assert session.progress()["mine"] == session.progress()["all"] == len(drawn)
    assert LabelSession(pool, log, "ada", texts=TEXTS).next_pair() is None  # after a restart


def test_what_a_labeller_sees_names_no_system_and_no_rank(pool, log):
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    shown = json.dumps(session.show(session.next_pair()))
    assert not any(name in shown for name in ("s0", "s1", "rank", "probab", "stage"))


def test_undo_skip_and_cannot(pool, log):
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    first = session.next_pair()
    session.record(first, 3)
    assert session.undo() == first
    assert session.next_pair() == first
    assert session.undo() is None
    session.record(first, None, state="skip")
    second = session.next_pair()
    session.record(second, None, state="cannot", note="not in English")
    rest = label_to_the_end(session)
    assert rest[-1] == first  # what was skipped comes last
    assert second not in rest
    assert log.read().aside == {"cannot": 1}


def test_two_labellers_share_the_work_and_a_part_is_labelled_twice(pool, log):
    ada, bob = (LabelSession(pool, log, name, texts=TEXTS) for name in ("ada", "bob"))
    first = ada.next_pair()
    ada.record(first, 1)
    bob.update()
    assert bob.next_pair() != first
    both = [
        LabelSession(pool, LabelLog(log.path.with_name("t")), n, texts=TEXTS, twice=1) for n in "ab"
    ]
    both[0].record(first, 1)
    both[1].update()
    assert both[1].next_pair() == first


def test_two_windows_of_one_labeller_change_nothing(pool, log):
    left, right = (LabelSession(pool, log, "ada", texts=TEXTS) for _ in range(2))
    pair = left.next_pair()
    left.record(pair, 1)
    right.record(pair, 2)
    left.update()
    assert left.next_pair() == right.next_pair() != pair
    assert [a.grade for a in log.read().labels] == [2]


def test_what_does_not_fit_is_refused(pool, log):
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    with pytest.raises(ValueRangeError, match="not on the scale"):
        session.record(session.next_pair(), 9)
    with pytest.raises(MismatchError, match="was not drawn"):
        session.record(("q", "nowhere"), 1)
    for name in ("", " ", "a\nb", "x" * 200):
        with pytest.raises(ValueRangeError, match="name"):
            LabelSession(pool, log, name, texts=TEXTS)
    assert not log.path.exists()


def test_a_log_of_another_pool_is_refused(pool, log):
    log.append(Label(*pool.names[0], 1, by="bob", pool="f" * 32))
    with pytest.raises(MismatchError, match="another pool"):
        LabelSession(pool, log, "ada", texts=TEXTS)


def test_words_of_the_query_are_marked_and_the_best_passage_found():
    parts = mark_words("A red Fox and a fox", "the red fox")
    assert [part.text for part in parts if part.marked] == ["red", "Fox", "fox"]
    assert "".join(part.text for part in parts) == "A red Fox and a fox"
    assert best_passage(TEXTS.docs["q0-d0"], "red fox") == "A red Fox!"
    assert best_passage("", "red fox") == ""


def test_the_terminal_records_what_is_typed(pool, log):
    keys = iter(["2", "7", "s", "n long text", "1", "u", "0", "m", "c", "q"])
    lines = []
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    label_in_terminal(session, GUIDELINES, read=lambda _: next(keys), write=lines.append)
    acts, _ = log.acts()
    assert [(a.state, a.grade, a.note) for a in acts] == [
        ("label", 2, ""),
        ("skip", None, ""),
        ("label", 1, "long text"),
        ("undo", None, ""),
        ("label", 0, ""),
        ("cannot", None, ""),
    ]
    assert any("Unknown key '7'" in line for line in lines)
    assert lines[-1] == f"2 of {pool.n_drawn} pairs labelled, 2 by ada."


def test_the_terminal_says_what_is_known_so_far(tmp_path: Path):
    runs = make_runs(2, 40, 10)
    pool, log = make_pool(runs, 60), LabelLog(tmp_path / "log.jsonl")
    session, lines = LabelSession(pool, log, "ada", texts=TEXTS), []
    keys = iter([str(n % 4) for n in range(pool.n_drawn)])
    state = LabelStatus(runs, pool, log)
    label_in_terminal(
        session, {}, read=lambda _: next(keys), write=lines.append, status=state.compute
    )
    assert "Too few labels yet." in lines
    sure = estimate_from_labels(runs, pool, log.read()).estimates[0].sequence
    assert f"Known so far: DCG@10, s0 − s1: {spoken(sure.text(sign=True))}" in lines
    assert LabelStatus({}, pool, log).compute() == ""


def test_the_page_gets_the_newest_interval_that_is_ready(tmp_path: Path):
    runs = make_runs(2, 40, 10)
    pool, log = make_pool(runs, 60), LabelLog(tmp_path / "log.jsonl")
    state = LabelStatus(runs, pool, log)
    assert state() == ""
    pairs = [pool.names[place] for place in pool.order.tolist()]
    log.append(*(Label(q, d, n % 4) for n, (q, d) in enumerate(pairs)))
    until(lambda: state().startswith("Known so far"))
    assert state() == state.compute()


def test_text_of_strangers_cannot_move_the_cursor(pool, log):
    evil = LabelTexts({"q0": "\x1b[2J"}, {d: "\x1b]0;x\x07" for _, d in pool.names}, {})
    lines = []

    def stop(prompt: str) -> str:
        raise EOFError

    label_in_terminal(LabelSession(pool, log, "ada", texts=evil), {}, read=stop, write=lines.append)
    assert "\x1b" not in "".join(lines)


# The page


@pytest.fixture
def client(pool, log):
    pytest.importorskip("starlette")
    testing = pytest.importorskip("starlette.testclient")
    from assay.judging.page import make_label_app

    app = make_label_app(
        lambda name: LabelSession(pool, log, name, texts=TEXTS), GUIDELINES, token="t" * 20
    )
    client = testing.TestClient(app, base_url="http://127.0.0.1:1", follow_redirects=False)
    client.headers["authorization"] = "Bearer " + "t" * 20
    client.headers["origin"] = "http://127.0.0.1:1"
    return client


def test_the_page_labels_and_every_label_is_on_disk(client, pool, log):
    assert client.get("/state").json() == {"by": ""}
    state = client.get("/state?by=ada").json()
    for n in range(pool.n_drawn):
        answer = client.post("/label", json={"by": "ada", "pair": state["pair"], "grade": n % 4})
        assert answer.status_code == 200
        assert len(log.read()) == n + 1
        state = answer.json()
    assert state["pair"] is None
    state = client.post("/undo", json={"by": "ada"}).json()
    assert state["pair"] is not None
    assert len(log.read()) == pool.n_drawn - 1


def test_the_page_refuses_what_it_should(client, pool, log, monkeypatch):
    pair = client.get("/state?by=ada").json()["pair"]
    good = {"by": "ada", "pair": pair, "grade": 1}
    for wrong in (
        {**good, "grade": 9},
        {**good, "grade": True},
        {**good, "grade": None},
        {**good, "grade": "1"},
        {**good, "pair": ["x", "y"]},
        {**good, "state": "nonsense"},
        {**good, "seconds": "long"},
        {"by": "ada"},
        [],
        {**good, "by": ""},
    ):
        assert client.post("/label", json=wrong).status_code == 400, wrong
    assert client.post("/label", content=b"{").status_code == 400
    assert client.post("/label", content=b"x" * 70_000).status_code == 413
    assert (
        client.post("/label", json=good, headers={"origin": "http://evil.org"}).status_code == 403
    )
    assert client.post("/label", json=good, headers={"authorization": ""}).status_code == 401
    assert client.get("/state", headers={"host": "evil.org"}).status_code == 421
    assert client.post("/state", json=good).status_code == 405
    assert not log.path.exists()

    def full(*labels: object) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(log, "append", full)
    answer = client.post("/label", json=good)
    assert (answer.status_code, answer.json()["error"]) == (507, "disk full")


def test_assets_are_there_and_run_nothing_inline(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "<script>" not in page.text
    assert "onclick" not in page.text
    for name in ("label.js", "label.css"):
        assert client.get(f"/{name}").status_code == 200


def test_progress_counts_what_the_log_holds(pool, log):
    """After every act of three labellers, undone ones included, against the log read anew."""
    rng = random.Random(5)
    sessions = {name: LabelSession(pool, log, name, texts=TEXTS, twice=1.0) for name in "abc"}
    drawn = [pool.names[place] for place in pool.order.tolist()]
    for _ in range(80):
        name = rng.choice("abc")
        state = rng.choice(["label", "label", "skip", "cannot", "undo"])
        sessions[name].record(rng.choice(drawn[:6]), 1, state=state)
        labels = log.read().labels
        for by, session in sessions.items():
            session.update()
            progress = session.progress()
            assert progress["mine"] == sum(label.by == by for label in labels)
            assert progress["all"] == len({(label.query, label.doc) for label in labels})


@pytest.mark.slow
def test_a_key_is_quick_with_a_hundred_thousand_pairs(tmp_path: Path):
    """Half of them labelled already; the limit is four times what the page promises."""
    runs = make_runs(2, n_queries=4200, depth=20)
    pool = make_pool(runs, 10**7, measure="DCG@20")
    assert pool.n_drawn > 100_000
    log = LabelLog(tmp_path / "labels.jsonl")
    half = [pool.names[place] for place in pool.order[:50_000].tolist()]
    log.append(*(Label(*pair, 1, by="bob") for pair in half))
    session = LabelSession(pool, log, "ada", texts=TEXTS)
    took = []
    for _ in range(20):
        began = time.process_time()
        pair = session.next_pair()
        session.record(pair, 1)
        session.show(session.next_pair())
        took.append(time.process_time() - began)
    assert sorted(took)[10] < 0.2
