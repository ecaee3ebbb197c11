"""Machine labels: prompts, grades, a local endpoint that fails, resumption, costs."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.errors import EndpointError, InputError, UsageError
from assay.judging import LabelLog, make_pool
from assay.judging.machine import (
    fill_prompt,
    judge_pool,
    open_model,
    parse_grade,
    read_answer,
    read_chat,
)
from assay.judging.session import LabelTexts
from tests.judging.samples import make_runs

SCALE = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("Grade: 2", 2),
        ("grade 1 at first … **Grade:** 3", 3),
        ("2", 2),
        (" 0\n", 0),
        ('{"grade": 1}', 1),
        ("Grade: 7", None),
        ("Grade: 2.5", None),
        ("Grade: 30", None),
        ("I would say two.", None),
        ("It has 3 parts, 2 of them good.", None),
        ("", None),
        ("nan", None),
        ("Grade: -1", None),
    ],
)
def test_grades_are_read_or_not_and_never_guessed(answer, grade):
    assert parse_grade(answer, SCALE) == grade


def test_answers_of_functions():
    assert [read_answer(value, SCALE).grade for value in (2, 2.0, True, 9, None, [1])] == [
        2,
        2,
        None,
        None,
        None,
        None,
    ]


def test_texts_with_braces_stay_as_they_are():
    filled = fill_prompt("{query}|{document}|{other}", query="{document}", document="{query}")
    assert filled == "{document}|{query}|{other}"


class Endpoint:
    """A chat endpoint on this machine; `script` says what each request gets."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.script = lambda request, number: (200, "Grade: 2")
        lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    endpoint.requests.append({**body, "key": self.headers.get("authorization")})
                    number = len(endpoint.requests)
                status, text = endpoint.script(body, number)
                message = {"choices": [{"message": {"content": text}}]}
                usage = {"prompt_tokens": 100, "completion_tokens": 7}
                content = {**message, "usage": usage} if status == 200 else {"error": text}
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setattr("assay.models.adapters.openai.sleep", lambda seconds: None)
    running = Endpoint()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def pool():
    return make_pool(make_runs(2, n_queries=3, depth=3), 6)


@pytest.fixture
def texts(pool):
    return LabelTexts(
        {str(q): f"what is {q}?" for q in pool.query_ids},
        {d: f"about {d}" for _, d in pool.names},
        {},
    )


def test_an_endpoint_labels_every_pair_once(endpoint, pool, texts, tmp_path: Path):
    log = LabelLog(tmp_path / "machine.jsonl")
    judge = open_model("openai:m", base_url=endpoint.url, temperature=0.0)
    settings = {"model": "openai:m", "ask": judge, "prices": (1.0, 10.0)}
    report = judge_pool(pool, texts, log, **settings)
    n = len(pool)
    assert (report.labelled, report.unreadable, report.earlier) == (n, 0, 0)
    assert (report.tokens_in, report.tokens_out) == (100 * n, 7 * n)
    assert report.price == pytest.approx(170 * n / 1e6)
    assert all(request["key"] == "Bearer sk-very-secret" for request in endpoint.requests)
    assert all(request["temperature"] == 0 for request in endpoint.requests)
    labels = log.read()
    assert {(a.query, a.doc) for a in labels.labels} == set(pool.names)
    assert {(a.kind, a.grade, a.pool) for a in labels.labels} == {("machine", 2.0, pool.digest)}
    assert "sk-very-secret" not in log.path.read_text()
    again = judge_pool(pool, texts, log, **settings)
    assert (again.labelled, again.earlier, len(endpoint.requests)) == (0, n, n)
    changed = LabelTexts(texts.queries, {**texts.docs, pool.names[0][1]: "new text"}, {})
    third = judge_pool(pool, changed, log, **settings)
    assert third.labelled == sum(doc == pool.names[0][1] for _, doc in pool.names)
    other = judge_pool(pool, texts, log, prompt="{query} {document}", **settings)
    assert other.labelled == n


def test_answers_that_cannot_be_read_are_counted(endpoint, pool, texts, tmp_path: Path):
    endpoint.script = lambda request, number: (200, "Grade: 1" if number % 2 else "no idea")
    log = LabelLog(tmp_path / "machine.jsonl")
    judge = open_model("openai:m", base_url=endpoint.url, temperature=0.0)
    report = judge_pool(pool, texts, log, model="openai:m", ask=judge, concurrency=1)
    assert report.unreadable == len(pool) // 2
    assert report.labelled + report.unreadable == len(pool)
    assert len(log.read()) == report.labelled
    assert "could not be read" in str(report)


def test_an_endpoint_that_fails_half_way_loses_nothing(endpoint, pool, texts, tmp_path: Path):
    half = len(pool) // 2
    endpoint.script = lambda request, number: (
        (200, "Grade: 3") if number <= half else (400, "broken")
    )
    log = LabelLog(tmp_path / "machine.jsonl")
    judge = open_model("openai:m", base_url=endpoint.url, temperature=0.0)
    with pytest.raises(EndpointError, match=r"broken.*continues from there") as failure:
        judge_pool(pool, texts, log, model="openai:m", ask=judge, concurrency=1)
    assert "sk-very-secret" not in str(failure.value)
    assert len(log.read()) == half
    endpoint.script = lambda request, number: (200, "Grade: 0")
    report = judge_pool(pool, texts, log, model="openai:m", ask=judge)
    assert (report.earlier, report.labelled) == (half, len(pool) - half)


def test_a_busy_endpoint_is_asked_again(endpoint, pool, texts, tmp_path: Path):
    endpoint.script = lambda request, number: (200, "1") if number % 3 else (429, "slow down")
    judge = open_model("openai:m", base_url=endpoint.url, temperature=0.0)
    log = LabelLog(tmp_path / "machine.jsonl")
    report = judge_pool(pool, texts, log, model="openai:m", ask=judge)
    assert report.labelled == len(pool)


def test_answers_of_another_shape_are_named():
    with pytest.raises(EndpointError, match="choices"):
        read_chat({"choices": []}, "http://x/v1")
    assert read_chat({"choices": [{"message": {"refusal": "No."}}]}, "x") == ("No.", (0, 0))


def test_a_function_is_a_judge(pool, texts, tmp_path: Path, monkeypatch):
    (tmp_path / "my_judges.py").write_text(
        "def sure(prompt): return 2, 0.9\n"
        "def words(prompt): return 'Grade: 1'\n"
        "def none(prompt): return None\n"
        "def wrong(prompt): return 1, 7\n"
        "def fails(prompt): raise RuntimeError('boom')\n"
    )
    monkeypatch.chdir(tmp_path)
    for name, grade in (("sure", 2), ("words", 1), ("none", None)):
        log = LabelLog(tmp_path / f"{name}.jsonl")
        report = judge_pool(pool, texts, log, model=f"py:my_judges:{name}")
        labels = log.read()
        assert {a.grade for a in labels.labels} == ({grade} if grade is not None else set())
        assert report.unreadable == (0 if grade is not None else len(pool))
    doubt = LabelLog(tmp_path / "sure.jsonl").read().uncertainty()
    assert set(doubt) == set(pool.names)
    assert list(doubt.values()) == pytest.approx([0.1] * len(doubt))
    for name, message in (("wrong", "from 0 to 1"), ("fails", "RuntimeError: boom")):
        with pytest.raises(InputError, match=message):
            judge_pool(pool, texts, LabelLog(tmp_path / "x.jsonl"), model=f"py:my_judges:{name}")


def test_what_makes_no_sense_is_refused(pool, texts, tmp_path: Path):
    log = LabelLog(tmp_path / "x.jsonl")

    def judge(prompt: str) -> tuple[int, tuple[int, int]]:
        return 1, (0, 0)

    with pytest.raises(UsageError, match="names no model"):
        open_model("gpt-4")
    with pytest.raises(UsageError, match="needs the places"):
        judge_pool(pool, texts, log, model="m", ask=judge, prompt="json has none")
    with pytest.raises(InputError, match="no text of document"):
        judge_pool(pool, LabelTexts(texts.queries, {}, {}), log, model="m", ask=judge)
    report = judge_pool(pool, texts, log, model="m", ask=judge, limit=2)
    assert report.labelled == 2


def test_cost_before_is_of_the_pairs_that_remain(pool, texts, tmp_path: Path):
    log, said = LabelLog(tmp_path / "x.jsonl"), []

    def judge(prompt: str) -> tuple[int, tuple[int, int]]:
        return 1, (0, 0)

    def tell(sent: int, received: int) -> None:
        said.append((sent, received))

    about = {"model": "m", "ask": judge, "before": tell, "prompt": "{query} {document}"}
    judge_pool(pool, texts, log, limit=2, **about)
    judge_pool(pool, texts, log, **about)
    judge_pool(pool, texts, log, **about)
    sizes = [len(f"{texts.queries[q]} {texts.docs[d]}") for q, d in pool.names]
    assert said == [
        (sum(sizes[:2]) // 4, 200),
        (sum(sizes[2:]) // 4, 100 * (len(pool) - 2)),
        (0, 0),
    ]


def test_requests_keep_a_rate_across_threads(
    monkeypatch: pytest.MonkeyPatch, pool, texts, tmp_path
):
    """A clock that only sleeping moves: 30 requests a minute start 2 seconds apart."""
    clock, lock, starts = [100.0], threading.Lock(), list[float]()

    def sleep(seconds: float) -> None:
        with lock:
            starts.append(clock[0] + seconds)

    monkeypatch.setattr("assay.judging.machine.time.sleep", sleep)
    monkeypatch.setattr("assay.judging.machine.time.monotonic", lambda: clock[0])
    monkeypatch.setitem(sys.modules, "rated", SimpleNamespace(judge=lambda prompt: 1))
    ask = open_model("py:rated:judge", rate=30)
    log = LabelLog(tmp_path / "m.jsonl")
    judge_pool(pool, texts, log, model="py:rated:judge", ask=ask, concurrency=3)
    assert sorted(starts) == [100.0 + 2 * n for n in range(len(pool))]


def test_a_busy_endpoint_without_a_header_is_given_longer_each_time(
    endpoint, pool, texts, tmp_path: Path, monkeypatch
):
    waits: list[float] = []
    monkeypatch.setattr("assay.models.adapters.openai.sleep", waits.append)
    endpoint.script = lambda request, number: (429, "slow") if number < 5 else (200, "Grade: 1")
    judge = open_model("openai:m", base_url=endpoint.url)
    log = LabelLog(tmp_path / "m.jsonl")
    report = judge_pool(pool, texts, log, model="openai:m", ask=judge, concurrency=1)
    assert report.labelled == len(pool)
    assert all(low <= wait <= 2 * low for wait, low in zip(waits, (0.25, 0.5, 1, 2), strict=True))
