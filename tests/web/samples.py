"""Stores that the tests of the dashboard share, and a client that needs no network."""

from __future__ import annotations

import asyncio
import atexit
import json
import re
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import assay.store
from assay import Ids, Scores, parse_many, preset
from assay.io.demo_collection import make_demo
from assay.runs.results import QueryResults, ResultDoc
from assay.store import RunRecord, Store
from assay.web import make_app
from assay.web.app import StoreHandle
from tests.comparison.made_scores import made_scores
from tests.hostile import HOSTILE
from tests.report.samples import demo_runs


def shown_of(name: str, depth: int = 6) -> dict[str, QueryResults]:
    """Texts and the first documents of every query of a demo run."""
    rankings, qrels = make_demo()
    ranking, grades = rankings[name], _grades(qrels)
    found = {}
    for row, query in enumerate(ranking.query_ids):
        part = slice(ranking.offsets[row], ranking.offsets[row] + depth)
        docs = [str(doc) for doc in ranking.doc_ids.take(ranking.docs[part])]
        own = grades.get(query, {})
        missed = [doc for doc, grade in sorted(own.items()) if grade > 0 and doc not in docs]
        found[str(query)] = QueryResults(
            f"what is known about {query}, and since when",
            tuple(
                ResultDoc(doc, float(score), own.get(doc), f"The document {doc} says so.")
                for doc, score in zip(docs, ranking.scores[part], strict=True)
            ),
            tuple(ResultDoc(doc, None, own[doc]) for doc in missed[:3]),
        )
    return found


def _grades(qrels: Any) -> dict[Any, dict[str, float]]:
    return {
        query: {
            str(qrels.doc_ids[int(qrels.docs[i])]): float(qrels.grades[i])
            for i in range(qrels.offsets[row], qrels.offsets[row + 1])
        }
        for row, query in enumerate(qrels.query_ids)
    }


def save_demo(store: Store) -> None:
    """Three systems, one every night with a bad one among them, a running and a failed run."""
    for one in demo_runs():
        chance = dict(one.chance.mean())
        store.save(
            one.scores,
            one.name,
            task="retrieval",
            dataset="demo",
            model=f"{one.name}-v1",
            tags=["paper"],
            chance=chance,
            command=("eval", f"{one.name}.run", "-r", "qrels.txt"),
            config={"depth": 100},
            data={"qrels.txt": {"sha256": "0" * 64, "bytes": 3}},
            notes="before the new tokeniser",
            seconds=1.5,
            results=None if one.name == "coarse" else shown_of(one.name),
        )
    for night, skill in enumerate((0.42, 0.44, 0.45, 0.38, 0.45, 0.46)):
        scores = made_scores(night, skill=skill)
        store.save(
            scores,
            "nightly",
            task="retrieval",
            dataset="cranfield",
            tags=["ci"],
            chance={"nDCG@10": 0.02},
        )
    running = store.begin(RunRecord("dense-large", task="retrieval", dataset="demo", model="large"))
    running.progress(37, 100)
    store.begin(RunRecord("splade", dataset="demo")).fail(ValueError("no such index"))


def hostile_shown(text: str) -> QueryResults:
    """A query whose every text is hostile."""
    docs = tuple(ResultDoc(doc, 0.5, None, text) for doc in (text, *HOSTILE))
    return QueryResults(text, docs, (ResultDoc(text, None, 1, text),))


def hostile_store(place: Path) -> None:
    """Every name, id, group, tag, note and setting is hostile."""
    ids = [re.sub(r"\s|[\ud800-\udfff]", "", text) for text in HOSTILE]  # these no id may hold
    queries = [f"{text}{i}" for i, text in enumerate(ids * 2)]
    chosen = Ids.of(queries, "query")
    order = chosen.order()
    rng = np.random.default_rng(3)
    with assay.store.open(place) as store:
        for text in HOSTILE:
            scores = Scores(
                parse_many(["nDCG@10", "nDCG@5"]),
                chosen.take(order),
                rng.random((2, len(queries))),
                tied=np.zeros((2, len(queries)), bool),
                missing=np.zeros(len(queries), bool),
                conventions=preset("trec_eval"),
                groups={HOSTILE[0]: np.asarray([HOSTILE[i % 9] for i in order], np.str_)},
            )
            store.save(
                scores,
                text,
                task=text,
                dataset=HOSTILE[0],
                model=text,
                tags=[text],
                notes=text,
                config={text: text},
                seeds={text: text},
                data={text: text},
                folder=text,
                command=("eval", text),
                results={queries[0]: hostile_shown(text)},
            )
        with store.start_run(HOSTILE[1], dataset=HOSTILE[0]) as run:
            run.progress(1, 3)
            run.set_result(None)
        failing = store.begin(RunRecord(HOSTILE[2]))
        failing.fail(RuntimeError(HOSTILE[1]))


@dataclass(frozen=True)
class Answer:
    """What the application said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A client of the dashboard over a store; it calls the application without a network."""

    def __init__(self, place: Path | str, **settings: Any) -> None:
        self.source = StoreHandle(place)
        weakref.finalize(self, self.source.close)
        self._app = make_app(self.source, **settings)

    def __call__(self, address: str, **more: Any) -> Answer:
        return _get(self._app, address, **more)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all requests: its threads take as long to start as a page takes to be made."""
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


def _get(
    app: Any,
    address: str,
    *,
    method: str = "GET",
    host: str = "localhost:8420",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """One request."""
    path, _, query = address.partition("?")
    given = {"host": host, **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("utf-8", "surrogatepass"),
        "scheme": "http",
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in given.items()],
        "server": ("localhost", 8420),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "http_version": "1.1",
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    _loop().run_until_complete(app(scope, receive, send))
    found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return Answer(sent[0]["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))
