"""evaluate_codes: codes of vectors against the float ranking and against judgments.

Every ranking comes from the engine's exact search, so that no matrix of all pairs is ever made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.errors import UsageError
from assay.measures.neighbours import TIES
from assay.search.engine import Codes, pack_codes
from assay.search.engine.codes import MOST_BITS
from assay.stats import Interval, intervals
from assay.stats.samples import check_bootstraps, check_seed, check_significance_level
from assay.tasks.codes.encoders import FLOAT, METHODS, ON_REQUEST
from assay.tasks.codes.hashing import map_measure, read_relevance
from assay.tasks.codes.measuring import (
    CodesProgress,
    FloatBaseline,
    code_name,
    learning_remarks,
    measure_code,
    measure_method,
)
from assay.tasks.codes.quantisers import SPECS, parse_spec
from assay.tasks.codes.result import (
    CodeCost,
    CodesReport,
    CodesSettings,
    QuantizationResult,
    rescored_name,
)
from assay.tasks.codes.search import Metric, VectorSearch, Zero, make_search

__all__ = ["BITS", "evaluate_codes"]


BITS: Final = (64, 128, 256, 512, 1024)
GIVEN: Final = "given"  # the method of codes that were made elsewhere


def evaluate_codes(
    docs: Any,
    queries: Any = None,
    *,
    bits: Iterable[int] = BITS,
    methods: Iterable[str] = tuple(METHODS),
    codes: Mapping[str, Any] | None = None,
    k: Iterable[int] = (10, 50),
    qrels: Any = None,
    labels: Any = None,
    query_labels: Any = None,
    hashing: str | None = None,
    rerank: int | None = None,
    oversample: Iterable[int] = (),
    metric: Metric = "cosine",
    ties: str = "expected",
    p: float = 0.9,
    query_ids: Any = None,
    doc_ids: Any = None,
    exclude_self: bool | None = None,
    zero: Zero = "error",
    level: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
    threads: int | None = None,
    allow_mismatch: bool = False,
    progress: CodesProgress | None = None,
) -> CodesReport:
    """What shorter vectors lose, against the float ranking and against `qrels` or `labels`.

    Without `queries` the documents are their own queries, self left out. `bits` are the lengths of
    the codes that the `methods` gaussian and itq make; sign has one bit per dimension. `codes`
    adds ready ones by name: (documents, queries), or the documents alone where they are their own
    queries, each packed `Codes` or an array of 0 and 1. `rerank` orders the first n documents of
    each binary code again by the float vectors; `oversample` does so for every code, beside the
    code itself, with the first n times the largest k documents. `ties` is how all means count tied
    documents: order, expected, best or worst. By `labels`, one a row or 0 and 1 for each class,
    a document is relevant that shares one with the query. `hashing` adds mAP by the rule of
    learning to hash, for the collection named, and precision and recall by Hamming radius.

    >>> vectors = np.random.default_rng(0).normal(size=(200, 16))
    >>> report = evaluate_codes(vectors, bits=[8, 64], methods=["gaussian"], k=[5])
    >>> [one.name for one in report.codes]
    ['float', 'gaussian-8', 'gaussian-64']
    """
    cuts = _cutoffs(k)
    task = make_search(
        docs,
        queries,
        query_ids=query_ids,
        doc_ids=doc_ids,
        exclude_self=exclude_self,
        metric=metric,
        depth=max(cuts),
        rerank=rerank,
        zero=zero,
        threads=threads,
    )
    settings = CodesSettings(
        cuts,
        metric,
        _check_ties(ties),
        p,
        rerank,
        task.exclude is not None,
        check_significance_level(level),
        check_bootstraps(resamples),
        check_seed(seed),
        zero,
        hashing,
        _factors(oversample, rerank),
    )
    if hashing is not None:
        given = any(one is not None for one in (qrels, labels, query_labels))
        _check_hashing(hashing, rerank is not None or bool(settings.oversample), given)
    plan, remarks = _plan(task, bits, methods)
    own = queries is None
    ready = _read_ready(codes or {}, task, own)
    _check_names([code_name(*one) for one in plan], list(ready), remarks, settings.oversample)
    tell = progress or (lambda step, done, total: None)
    relevance, notes = read_relevance(
        task, qrels, labels, query_labels, queries is None, allow_mismatch
    )
    baseline = FloatBaseline.of(task, settings, relevance, notes, tell)
    found = [baseline.float_result()]
    for one in plan:
        found += measure_method(task, baseline, *one, seed, tell)
    for name, (of_docs, of_queries) in ready.items():
        cost = CodeCost(of_docs.bits, -(-of_docs.bits // 8))
        found += measure_code(baseline, name, GIVEN, cost, (of_queries, of_docs, None), tell)
    comparison = _compare(found, settings)
    return CodesReport(
        codes=tuple(found),
        settings=settings,
        n_queries=len(task.queries),
        n_docs=task.n_candidates,
        intervals={one.name: _intervals(one, settings) for one in found},
        comparison=comparison,
        chance_map=baseline.chance_map,
        radius_intervals=_radius_intervals(found, settings),
        remarks=(
            *remarks,
            *learning_remarks(plan, task, seed),
            *baseline.remarks,
            *(comparison.remarks if comparison else ()),
        ),
    )


def _cutoffs(k: Any) -> tuple[int, ...]:
    given = [k] if isinstance(k, int) else checks.as_list(k, "k")
    if not given:
        raise UsageError("No k given. Name at least one, e.g. 10.")
    return tuple(sorted({checks.check_cutoff(one) for one in given}))


def _check_ties(ties: Any) -> str:
    if ties not in TIES:
        raise UsageError(f"ties must be one of {', '.join(TIES)}, found {ties!r}.")
    return str(ties)


def _check_length(bits: Any) -> int:
    length = checks.check_cutoff(bits, "bits")
    if length > MOST_BITS:
        raise UsageError(f"Codes hold up to {MOST_BITS} bits, found {length}.")
    return length


def _factors(oversample: Any, rerank: int | None) -> tuple[int, ...]:
    given = (
        [oversample] if isinstance(oversample, int) else checks.as_list(oversample, "oversample")
    )
    factors = tuple(sorted({checks.check_cutoff(one, "oversample") for one in given}))
    if factors and rerank is not None:
        raise UsageError("rerank and oversample both say how many documents to re-rank: give one.")
    return factors


def _check_hashing(preset: str, again: bool, judged: bool) -> None:
    map_measure(preset)
    if not judged:
        raise UsageError("hashing needs to know what is relevant: give labels or qrels.")
    if again:
        raise UsageError(
            "hashing orders the documents by the codes alone: leave rerank out, and oversample."
        )


def _plan(
    task: VectorSearch, bits: Any, methods: Any
) -> tuple[list[tuple[str, int | None]], tuple[str, ...]]:
    """The codes to make, and a remark about each that cannot be or need not be made."""
    names = [methods] if isinstance(methods, str) else checks.as_list(methods, "methods")
    known = (*METHODS, *ON_REQUEST)
    others = [str(name) for name in dict.fromkeys(names) if name not in METHODS]
    unknown = next((n for n in others if n not in known and parse_spec(n) is None), None)
    if unknown is not None:
        raise UsageError(f"Unknown method {unknown!r}. Known: {', '.join((*known, *SPECS))}.")
    given = [bits] if isinstance(bits, int) else checks.as_list(bits, "bits")
    lengths = sorted({_check_length(one) for one in given})
    plan: list[tuple[str, int | None]] = []
    remarks = []
    for name in (name for name in METHODS if name in names):
        if name not in ("gaussian", "itq"):
            plan.append((name, None))
            continue
        possible, beyond = _split(name, lengths, task.docs.shape[1])
        plan += [(name, length) for length in possible]
        if beyond:
            remarks.append(
                f"itq makes at most one bit per dimension, {task.docs.shape[1]}: left out "
                f"{', '.join(map(str, beyond))}"
            )
    if ("float16", None) in plan and task.docs.dtype == np.float16:
        plan.remove(("float16", None))
        remarks.append("float16 is what the vectors already are: left out")
    return [*plan, *((name, None) for name in others)], tuple(remarks)


def _check_names(
    made: list[str], given: list[str], remarks: tuple[str, ...], factors: tuple[int, ...]
) -> None:
    if not made and not given:
        why = f" ({'; '.join(remarks)})" if remarks else ""
        raise UsageError(f"Nothing to compare with float{why}: name a method, or give codes.")
    again = [rescored_name(name, factor) for name in (*made, *given) for factor in factors]
    twice = next((name for name in given if name in (*made, *again)), None)
    if twice is not None:
        raise UsageError(f"Two codes are called {twice!r}. Give yours another name.")


def _split(method: str, lengths: list[int], dimensions: int) -> tuple[list[int], list[int]]:
    if method != "itq":
        return lengths, []
    return [n for n in lengths if n <= dimensions], [n for n in lengths if n > dimensions]


def _read_ready(codes: Any, task: VectorSearch, own: bool) -> dict[str, tuple[Codes, Codes]]:
    """Codes that were given, checked against the vectors: documents, queries."""
    checks.require(codes, Mapping, "codes", "{name: (documents, queries)}")
    made = {}
    for name, given in codes.items():
        if not isinstance(name, str) or not name or name == FLOAT:
            raise UsageError(f"{name!r} is not a valid name of codes; give each a name of its own.")
        pair = given if isinstance(given, tuple) else (given, given if own else None)
        if len(pair) != 2 or pair[1] is None:
            raise UsageError(f"Codes {name!r} need two parts: those of documents and of queries.")
        docs, queries = (
            part if isinstance(part, Codes) else pack_codes(part, what=f"{name}, {side}")
            for part, side in zip(pair, ("docs", "queries"), strict=True)
        )
        checks.check_lengths(**{f"codes {name!r}, docs": len(docs), "docs": len(task.docs)})
        checks.check_lengths(
            **{f"codes {name!r}, queries": len(queries), "queries": len(task.queries)}
        )
        made[name] = (docs, queries)
    return made


def _intervals(one: QuantizationResult, settings: CodesSettings) -> dict[str, Interval]:
    how: dict[str, Any] = {
        "level": 1 - settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    values = one.neighbour_values(settings)
    *tops, tau, rho = values.values()  # correlations may be of fewer queries
    found = [*intervals(np.array(tops), **how), *intervals(np.array([tau, rho]), **how)]
    return dict(zip(values, found, strict=True))


def _radius_intervals(
    found: list[QuantizationResult], settings: CodesSettings
) -> dict[str, Interval]:
    """Intervals of precision within radius 2, by code."""
    curves = {one.name: one.curve for one in found if one.curve is not None}
    spans = (
        intervals(
            curve.near[None],
            level=1 - settings.level,
            resamples=settings.resamples,
            seed=settings.seed,
        )[0]
        for curve in curves.values()
    )
    return dict(zip(curves, spans, strict=True))


def _compare(found: list[QuantizationResult], settings: CodesSettings) -> Comparison | None:
    """Every code against float, on the judgments."""
    judged = [one.judged for one in found if one.judged is not None]
    if len(judged) < 2:
        return None
    return compare(
        *judged,
        names=[one.name for one in found],
        baseline=FLOAT,
        level=settings.level,
        resamples=settings.resamples,
        seed=settings.seed,
    )
