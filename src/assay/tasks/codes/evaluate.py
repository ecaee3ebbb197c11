"""evaluate_codes: codes of vectors against the float ranking and against judgments.

Every ranking comes from the engine's exact search, so that no matrix of all pairs is ever made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np

from assay.arrays import Ints
from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.core.conventions import Conventions, preset
from assay.core.hits import judge
from assay.core.id_hints import check_match
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.ranking import Ranking
from assay.core.settings import Settings, as_settings
from assay.errors import MismatchError, UsageError
from assay.io.formats import as_judgments
from assay.measures.neighbours import TIES, correlations, ranking_similarity
from assay.scoring.evaluate import score
from assay.scoring.output import zero_remark
from assay.scoring.scores import Scores
from assay.search.engine import Codes, pack_codes
from assay.search.engine.codes import MOST_BITS
from assay.stats import Interval, intervals
from assay.tasks.codes.encoders import (
    FLOAT,
    METHODS,
    ON_REQUEST,
    SEEDED,
    make_encoder,
    sample_size,
)
from assay.tasks.codes.hashing import (
    HASHING,
    LabelRelevance,
    PairRelevance,
    RadiusCurve,
    Relevance,
    map_measure,
    random_map,
    score_rows,
)
from assay.tasks.codes.quantisers import (
    EPSILON,
    FITTED,
    SPECS,
    parse_spec,
    rabitq_of,
    spec_encoder,
)
from assay.tasks.codes.result import (
    CodeCost,
    CodesReport,
    CodesSettings,
    QuantizationResult,
    rescored_name,
)
from assay.tasks.codes.search import Metric, Sample, Vectors, VectorSearch, Zero, make_search

__all__ = ["BITS", "evaluate_codes"]


# Called with a step, how much of it is done, and how much there is to do.
CodesProgress = Callable[[str, int, int | None], object]

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
        level,
        resamples,
        seed,
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
    _check_names([_name(*one) for one in plan], list(ready), remarks, settings.oversample)
    tell = progress or (lambda step, done, total: None)
    relevance, notes = _relevance(
        task, qrels, labels, query_labels, queries is None, allow_mismatch
    )
    baseline = FloatBaseline.of(task, settings, relevance, notes, tell)
    found = [baseline.float_result()]
    for one in plan:
        found += _measure_method(task, baseline, *one, seed, tell)
    for name, (of_docs, of_queries) in ready.items():
        cost = CodeCost(of_docs.bits, -(-of_docs.bits // 8))
        found += _measure_code(baseline, name, GIVEN, cost, (of_queries, of_docs, None), tell)
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
            *_learning_remarks(plan, task, seed),
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


def _relevance(
    task: VectorSearch, qrels: Any, labels: Any, query_labels: Any, own: bool, allow: bool
) -> tuple[Relevance | None, tuple[str, ...]]:
    """What is relevant, and remarks about it."""
    if labels is not None or query_labels is not None:
        if qrels is not None:
            raise UsageError("Give labels or qrels, not both: each says what is relevant.")
        return LabelRelevance.of(task, labels, query_labels, own), ()
    if qrels is None:
        return None, ()
    judged = as_judgments(qrels)
    if not isinstance(judged, Qrels | Labels):
        raise UsageError("qrels must be graded pairs or labels.")
    query_ids = task.query_ids or Ids.count(len(task.queries))
    doc_ids = task.doc_ids or Ids.count(len(task.docs))
    return PairRelevance(query_ids, judged), _check_judgments(judged, query_ids, doc_ids, allow)


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


def _learning_remarks(
    plan: list[tuple[str, int | None]], task: VectorSearch, seed: int
) -> Iterator[str]:
    """What codes were learnt from, and how well RaBitQ keeps its bound."""
    specs = {name: spec for name, _ in plan if (spec := parse_spec(name)) is not None}
    learnt = [name for name, spec in specs.items() if spec.kind in FITTED]
    if not learnt:
        return
    rows = task.rows_to_learn_from()
    size = sample_size(len(task.docs) if rows is None else len(rows))
    own = task.queries is task.docs or (rows is None and (task.own_docs() >= 0).any())
    whose = "which are the queries as well" if own else "none of them a query"
    yield f"{', '.join(learnt)}: learnt from {size} documents, {whose}"
    sample = task.sample(seed)
    docs = np.asarray(task.docs[sample.docs][:], np.float64)
    queries = np.asarray(task.queries[sample.queries][:], np.float64)
    for name, spec in specs.items():
        if spec.kind == "rabitq":
            made = rabitq_of(spec.number, task.docs, rows=rows, seed=seed, metric=task.metric)
            bound, kept = made.check_bound(docs, queries)
            yield (
                f"{name}: the error of a product with a query is within {bound:.4g} on average "
                f"(ε₀ = {EPSILON:g}), for {kept:.1%} of {len(docs)} × {len(queries)} pairs"
            )


def _name(method: str, bits: int | None) -> str:
    return method if bits is None else f"{method}-{bits}"


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


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


# Encoded queries and documents, and what compares them where it is not the vectors' metric.
Coded = tuple[Vectors, Vectors, Metric | None]


@dataclass(frozen=True, eq=False)
class FloatBaseline:
    """The float ranking and the judgments, against which every code is measured."""

    task: VectorSearch
    settings: CodesSettings
    ranking: Ranking
    seconds: float
    sample: Sample
    whole: Ranking
    nearest: Judgments
    relevance: Relevance | None
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls,
        task: VectorSearch,
        settings: CodesSettings,
        relevance: Relevance | None,
        remarks: tuple[str, ...],
        tell: CodesProgress,
    ) -> FloatBaseline:
        """Rank by the float vectors."""
        ranking, seconds = _time(
            lambda: task.search(task.queries, task.docs, lambda *at: tell(FLOAT, *at))
        )
        nearest = _top_as_relevant(ranking, settings.k[0])
        sample = task.sample(settings.seed)
        whole = task.rank_sample(sample, task.queries, task.docs)
        return cls(
            task,
            settings,
            ranking,
            seconds,
            sample,
            whole,
            nearest,
            relevance,
            (*remarks, *_note_zeros(ranking), *_note_sample(sample, task)),
        )

    @property
    def rules(self) -> Conventions:
        """How everything is scored."""
        base = preset("hashing" if self.settings.hashing else "binary_codes")
        match = "exclude" if self.settings.exclude_self else "keep"
        return base.but(ties=self.settings.ties, self_match=match)

    @property
    def chance_map(self) -> float | None:
        """mAP of a random order, where it is asked for."""
        preset, relevance = self.settings.hashing, self.relevance
        if preset is None or relevance is None:
            return None
        blocks, measure = self.task.row_blocks(), map_measure(preset)
        return random_map(relevance, blocks, self.ranking, measure, self.rules)

    def float_result(self) -> QuantizationResult:
        """The float vectors measured against themselves."""
        docs = self.task.docs
        width = docs.shape[1] * docs.dtype.itemsize
        cost = CodeCost(8 * width, width, 0.0, self.seconds)
        vectors = self.task.queries, docs, None
        return self.measure(FLOAT, str(docs.dtype), cost, self.ranking, self.whole, vectors)

    def measure(
        self,
        name: str,
        method: str,
        cost: CodeCost,
        ranking: Ranking,
        whole: Ranking,
        vectors: Coded,
        factor: int | None = None,
    ) -> QuantizationResult:
        """A code measured by the ranking it gives, and by its whole order of the sample."""
        cuts = self.settings.k
        names = [f"{measure}@{k}" for measure in ("R", "nDCG") for k in cuts]
        rules = self.rules
        again = self.settings.rerank if isinstance(vectors[1], Codes) else None
        made = as_settings(
            code=name,
            rerank=again if factor is None else self.candidates(factor),
            seed=self.settings.seed if method in SEEDED else None,
        )
        placed = replace(ranking, settings={**ranking.settings, **made})
        near = _scores(placed, self.nearest, names, rules)
        judged, curve = self._judge(placed, vectors, names, rules, made)
        return QuantizationResult(
            name,
            method,
            cost,
            ranking_similarity(self.ranking, ranking, k=cuts, p=self.settings.p).take(
                self.task.query_order
            ),
            *correlations(self.whole, whole),
            near.but_settings(relevant=f"float@{cuts[0]}"),
            judged,
            curve,
            factor,
        )

    def candidates(self, factor: int) -> int:
        """How many documents are re-ranked by float: so many times the largest k."""
        return min(factor * self.settings.k[-1], self.task.n_candidates)

    def _judge(
        self,
        placed: Ranking,
        vectors: Coded,
        names: list[str],
        rules: Conventions,
        made: Settings,
    ) -> tuple[Scores | None, RadiusCurve | None]:
        """Scores by what is relevant; the lists of hashing are searched again, and whole."""
        task, preset = self.task, self.settings.hashing
        if self.relevance is None:
            return None, None
        if preset is None:
            blocks = (
                task.row_blocks()
                if isinstance(self.relevance, LabelRelevance)
                else (iter([np.arange(len(task.queries))]))
            )
            return score_rows(self.relevance, blocks, placed.rows, names, rules)
        docs = vectors[1]
        bits = docs.bits if isinstance(docs, Codes) else None
        depth = HASHING[preset] if bits is None else None

        def rank_rows(rows: Ints) -> Ranking:
            found = task.rank_rows(*vectors, rows, depth)
            return replace(found, settings={**found.settings, **made})

        names = [*names, map_measure(preset)]
        return score_rows(self.relevance, task.row_blocks(), rank_rows, names, rules, bits)


def _note_zeros(ranking: Ranking) -> list[str]:
    policy = ranking.settings.get("zero")
    return [remark] if policy and (remark := zero_remark(policy, *ranking.zero_rows)) else []


def _note_sample(sample: Sample, task: VectorSearch) -> tuple[str, ...]:
    if (len(sample.queries), len(sample.docs)) == (len(task.queries), len(task.docs)):
        return ()
    return (
        f"Kendall and Spearman are of {len(sample.docs)} documents drawn at random for "
        f"{len(sample.queries)} queries",
    )


def _scores(ranking: Ranking, judgments: Judgments, names: list[str], rules: Conventions) -> Scores:
    hits = judge(ranking, judgments, conventions=rules, allow_mismatch=True)  # was looked at
    return score(hits, names, conventions=rules)


def _top_as_relevant(ranking: Ranking, k: int) -> Qrels:
    """The first k documents of each row are the relevant ones."""
    place = np.arange(len(ranking.docs)) - np.repeat(ranking.offsets[:-1], ranking.lengths)
    chosen = place < k
    rows = np.repeat(np.arange(len(ranking)), ranking.lengths)[chosen]
    docs = ranking.docs[chosen].astype(np.int64)
    return Judgments.from_pairs(ranking.query_ids, ranking.doc_ids, rows, docs, np.ones(len(docs)))


def _check_judgments(
    judgments: Qrels | Labels, query_ids: Ids, doc_ids: Ids, allow: bool
) -> tuple[str, ...]:
    """Refuse judgments of other queries or documents; remark on those without a vector."""
    remarks: list[str] = []
    sides = [
        ("queries", judgments.query_ids, query_ids),
        ("documents", judgments.doc_ids, doc_ids),
    ]
    for what, judged, known in sides:
        if known.numbered and judged.kind == "text" and len(judged):
            raise MismatchError(
                f"The judgments name {what} by ids such as {judged[0]!r}, and the vectors are only "
                "numbered. Give the ids of the vectors."
            )
        found = judged.match(known) >= 0
        absent = np.flatnonzero(~found)
        place = f"the {len(known)} vectors"
        remarks += check_match(judged, known, f"judged {what}", place, allow=allow, found=found)
        if len(absent):
            remarks.append(
                f"{len(absent)} of {len(judged)} judged {what} have no vector: "
                f"{checks.name_few(judged.take(absent))}"
            )
    return tuple(remarks)


def _measure_method(
    task: VectorSearch,
    baseline: FloatBaseline,
    method: str,
    bits: int | None,
    seed: int,
    tell: CodesProgress,
) -> list[QuantizationResult]:
    name, spec = _name(method, bits), parse_spec(method)
    tell(name, 0, 1)
    how: dict[str, Any] = {"seed": seed, "metric": task.metric, "rows": task.rows_to_learn_from()}
    if spec is not None and spec.kind in FITTED and any(baseline.ranking.zero_rows):
        raise UsageError(f"{method} has no code for a vector of zeros; leave such vectors out.")
    encoder, fitted = _time(
        lambda: (
            make_encoder(method, task.docs, bits=bits, **how)
            if spec is None
            else spec_encoder(spec, task.docs, **how)
        )
    )
    by = cast("Metric | None", encoder.metric)
    docs, of_docs = _time(lambda: encoder.encode(task.docs))
    same = task.queries is task.docs and encoder.doc_block is encoder.query_block
    queries, of_queries = (
        (docs, 0.0) if same else _time(lambda: encoder.encode_queries(task.queries))
    )
    cost = CodeCost(encoder.bits, encoder.bytes_per_vector, fitted + of_docs + of_queries)
    family = method if spec is None else spec.family
    return _measure_code(baseline, name, family, cost, (queries, docs, by), tell)


def _measure_code(
    baseline: FloatBaseline,
    name: str,
    method: str,
    cost: CodeCost,
    vectors: Coded,
    tell: CodesProgress,
) -> list[QuantizationResult]:
    """The code by itself and, where asked for, with its first documents re-ranked by float."""
    task, (queries, docs, by) = baseline.task, vectors
    ranking, seconds = _time(lambda: task.search(queries, docs, lambda *at: tell(name, *at), by))
    whole = task.rank_sample(baseline.sample, queries, docs, by)
    timed = replace(cost, search_seconds=seconds)
    found = [baseline.measure(name, method, timed, ranking, whole, vectors)]
    for factor in baseline.settings.oversample:
        again = rescored_name(name, factor)
        depth = baseline.candidates(factor)
        ranking, seconds = _time(partial(task.rescore, queries, docs, by, depth))
        timed = replace(cost, search_seconds=seconds)
        found.append(baseline.measure(again, method, timed, ranking, whole, vectors, factor))
    return found


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
