"""From a folder of Markdown to a verdict, with a judge behind an endpoint on this machine."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.judging.test_machine import Endpoint, endpoint

__all__ = ["endpoint"]
WORDS = [
    "river",
    "stone",
    "light",
    "engine",
    "garden",
    "winter",
    "market",
    "signal",
    "copper",
    "letter",
    "bridge",
    "salt",
]


def test_from_notes_to_a_verdict(
    assay: Callable[..., Answer],
    endpoint: Endpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    for n in range(24):
        first, second, third = (WORDS[(n * step + step) % 12] for step in (1, 5, 7))
        body = f"The {first} of number {n} is near the {second}, and far from any {third} we know."
        more = f"Every {second} has a {third}."
        Path(f"notes/{n}.md").write_text(f"# {first} {n}\n\n{body}\n\n## {second}\n\n{more}\n")

    def run(*words: str) -> str:
        answer = assay(*words)
        assert answer.code == 0, answer.err
        return answer.out

    made = ("--queries", "q.jsonl", "--docs", "notes")
    run("queries", "notes", "-n", "60", "--per-doc", "3", "-o", "q.jsonl", "--qrels", "q.txt")
    systems = ("--model", "bm25", "--model", "tfidf", "--runs", "runs", "--no-cache")
    few = ("--resamples", "200")
    run("bench", "--corpus", "notes", "--queries", "q.jsonl", "--qrels", "q.txt", *systems, *few)
    runs = ("runs/bm25.run", "runs/tfidf.run")
    pool = json.loads(run("pool", *runs, "-n", "60", "-o", "pool.tsv", "--json"))
    endpoint.script = lambda request, number: (200, f"Grade: {number % 4}")
    model = ("--model", "openai:m", "--base-url", endpoint.url, "--labels", "judge.jsonl")
    judged = json.loads(run("judge", "pool.tsv", *made, *model, "--price", "1", "2", "--json"))
    assert judged["labelled"] == len(endpoint.requests) == pool["pairs"]
    assert judged["price"] > 0
    keys = "".join(f"{n % 3}\n" for n in range(pool["drawn"]))
    monkeypatch.setattr("sys.stdin", io.StringIO(keys))
    shown = run("label", "pool.tsv", *made, "--by", "ada", "--terminal")
    assert f"{pool['drawn']} of {pool['drawn']} pairs labelled, {pool['drawn']} by ada." in shown
    labels = ("--pool", "pool.tsv", "--labels", "pool.labels.jsonl")
    verdict = run("compare", *runs, *labels, "--machine-labels", "judge.jsonl", "-m", "DCG@10")
    assert f"{pool['drawn']} of {pool['pairs']} pairs labelled" in verdict
    agreed = json.loads(run("agreement", "pool.labels.jsonl", "judge.jsonl", *few, "--json"))
    assert agreed["pairs"] == pool["drawn"]
