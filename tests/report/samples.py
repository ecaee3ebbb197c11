"""Reports that several tests share."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from assay import judge, parse_many, preset, score
from assay.core.ids import Ids
from assay.io.demo_collection import N_DOCS, make_demo
from assay.io.formats import as_judgments, as_ranking
from assay.report import Report, make_report
from assay.runs import RunRecord
from assay.runs.results import QueryResults, ResultDoc
from assay.scoring.chance import chance
from assay.scoring.scores import Scores
from tests.hostile import HOSTILE

MEASURES = ("nDCG@10", "AP", "P@10")


def demo_runs(measures: Sequence[str] = MEASURES) -> list[RunRecord]:
    """The three runs of the demo, with hits, chance and a group column."""
    rankings, qrels = make_demo()
    runs = []
    for name, ranking in rankings.items():
        hits = judge(ranking, qrels)
        kinds = {query: ("short", "long")[i % 2] for i, query in enumerate(hits.query_ids)}
        scores = score(hits, measures).with_groups(kind=kinds)
        random = chance(hits, measures, n_docs=N_DOCS)
        runs.append(
            RunRecord(name, scores, chance=random, hits=hits, provenance={"file": f"{name}.run"})
        )
    return runs


def demo_report(**settings: object) -> Report:
    """The demo, compared with few draws."""
    return make_report(demo_runs(), resamples=500, **settings)


def made_up(values: np.ndarray, queries: Sequence[str], measures: Sequence[str]) -> Scores:
    """Scores of queries with these ids; values are measures × queries."""
    ids = Ids.of(list(queries), what="query")
    order = ids.order()
    return Scores(
        measures=parse_many(measures),
        query_ids=ids.take(order),
        values=values[:, order],
        tied=np.zeros(values.shape, bool),
        missing=np.zeros(values.shape[1], bool),
        conventions=preset("trec_eval"),
    )


def hostile_report() -> Report:
    """Every name, id, group, detail and text is hostile."""
    rng = np.random.default_rng(3)
    ids = [re.sub(r"\s|[\ud800-\udfff]", "", text) for text in HOSTILE]  # these no id may hold
    queries = [f"{text}{i}" for i, text in enumerate(ids * 2)]
    groups = {query: HOSTILE[i % len(HOSTILE)] for i, query in enumerate(queries)}
    runs = []
    for name in HOSTILE:
        scores = made_up(rng.random((2, len(queries))), queries, ["nDCG@10", "nDCG@5"])
        scores = scores.with_groups(**{HOSTILE[0]: groups})
        runs.append(RunRecord(name, scores, provenance=dict(zip(HOSTILE, HOSTILE, strict=True))))
    return make_report(
        runs,
        title=" ".join(HOSTILE),
        baseline=HOSTILE[1],
        resamples=500,
        command="\n".join(HOSTILE),
    )


def large_report(n_runs: int, n_measures: int, n_queries: int) -> Report:
    """Noise, which compresses worst of all."""
    rng = np.random.default_rng(0)
    measures = [f"nDCG@{k}" for k in range(1, n_measures + 1)]
    queries = [f"query-{i:06}" for i in range(n_queries)]
    runs = [
        RunRecord(f"system {i}", made_up(rng.random((n_measures, n_queries)), queries, measures))
        for i in range(n_runs)
    ]
    return make_report(runs, resamples=100, interval="t", test="t")


def rich_report(n_runs: int = 9, n_queries: int = 40, **settings: object) -> Report:
    """Systems of unlike skill with costs, groups, texts and documents: every section has a part."""
    rng = np.random.default_rng(5)
    queries = [f"q{i:02}" for i in range(n_queries)]
    qrels = {q: {f"d{i:02}_{j}": 1 + j % 2 for j in range(3)} for i, q in enumerate(queries)}
    judgments = as_judgments(qrels)
    runs = []
    for number in range(n_runs):
        found = {q: _retrieved(rng, i, skill=number / 6) for i, q in enumerate(queries)}
        hits = judge(as_ranking(found, preset("trec_eval")), judgments)
        kinds = {query: ("short", "long")[i % 2] for i, query in enumerate(queries)}
        runs.append(
            RunRecord(
                f"system-{number}",
                score(hits, RICH_MEASURES).with_groups(kind=kinds),
                config={"costs": {"search_seconds": 0.002 * 2**number, "bytes": 10**6 * number}},
                chance=chance(hits, RICH_MEASURES, n_docs=max(500, 4 * n_queries)),
                hits=hits,
                results={q: _results(q, found[q], qrels[q]) for q in queries},
                provenance={"model": f"model {number}"},
            )
        )
    return make_report(runs, resamples=500, command="assay report", **settings)


RICH_MEASURES = ("nDCG@10", "AP", "P@5", "Rprec")


def _retrieved(rng: np.random.Generator, number: int, *, skill: float) -> dict[str, float]:
    """Twelve documents of a query with scores, the relevant ones higher by the skill."""
    good = {f"d{number:02}_{j}": float(rng.normal(skill)) for j in range(2)}
    return good | {f"x{k}": float(rng.normal()) for k in rng.choice(400, 10, replace=False)}


def _results(query: str, found: dict[str, float], grades: dict[str, int]) -> QueryResults:
    ranked = sorted(found, key=lambda doc: -found[doc])
    docs = [ResultDoc(doc, found[doc], grades.get(doc), f"text of {doc}") for doc in ranked[:5]]
    missed = [
        ResultDoc(doc, found.get(doc), grade, f"text of {doc}")
        for doc, grade in grades.items()
        if doc not in ranked[:5]
    ]
    return QueryResults(f"what is {query} about", tuple(docs), tuple(missed))
