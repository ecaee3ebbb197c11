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

from assay.arrays import Floats, Ints, rows_of
from assay.codes import encoders, search
from assay.codes import settings as choices
from assay.codes.encoders import FLOAT, CodeTraining, FittedCode, FoldedCodes, parse_spec
from assay.codes.result import CodeCost, CodesReport, CodesSettings, QuantizationResult
from assay.codes.search import Relevance, VectorSearch, map_measure
from assay.codes.settings import HASHING, METHODS, TIES, Metric, Zero
from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_settings, preset
from assay.core.hits import judge
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.core.text import Remark, format_percent
from assay.errors import UsageError
from assay.scoring.evaluate import score
from assay.scoring.output import zero_remark
from assay.scoring.scores import Scores
from assay.search.engine import Codes, pack_codes
from assay.search.engine.codes import MOST_BITS
from assay.search.indexes.base import FEWEST_POINTS
from assay.search.neighbours import correlations, ranking_similarity
from assay.stats import Interval, intervals
from assay.stats.samples import check_bootstraps, check_seed, check_significance_level

GIVEN: Final = "given"  # the method of codes that were made elsewhere


def rescored_name(name: str, factor: int) -> str:
    """Return the name of a code reranked by float vectors."""
    return f"{name} ×{factor}"


def evaluate_codes(
    docs: Any,
    queries: Any = None,
    *,
    bits: Iterable[int] = choices.BITS,
    methods: Iterable[str] = tuple(METHODS),
    codes: Mapping[str, Any] | None = None,
    k: Iterable[int] = choices.CUTOFFS,
    qrels: Any = None,
    labels: Any = None,
    query_labels: Any = None,
    hashing: str | None = None,
    rerank: int | None = None,
    oversample: Iterable[int] = (),
    train: Any = None,
    metric: Metric = "cosine",
    ties: str = TIES[0],
    p: float = choices.PERSISTENCE,
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
    """Measure what shorter vectors lose against the float ranking and against judgments.

    Args:
        docs: Vectors of the documents: an array, or a .npy file.
        queries: Vectors of the queries; without them the documents are their own, self left out.
        bits: Lengths of the codes that gaussian and itq make; sign has one bit per dimension.
        methods: Codes to make.
        codes: Ready codes by name: (documents, queries), or the documents alone where they are
            their own queries, each packed `Codes` or an array of 0 and 1.
        k: Cutoffs.
        qrels: Judgments, to score the codes against.
        labels: Labels of the documents, instead of judgments, one a row or 0 and 1 for each class;
            a document is relevant that shares one with the query.
        query_labels: Labels of the queries.
        hashing: Collection by whose rule mAP of learning to hash is added, with precision and
            recall by Hamming radius.
        rerank: Number of documents of each binary code that the float vectors order again.
        oversample: Factors; every code is shown, too, with its first n times the largest k
            documents ordered again.
        train: What itq, pq and rabitq learn from: vectors (an array, or a .npy file), or a share
            of the documents, by default half of them. No document is then encoded by what was
            learnt from it, unless the share is 1.
        metric: Similarity of the float vectors.
        ties: How all means count tied documents: order, expected, best or worst.
        p: Persistence of RBO.
        query_ids: Ids of the queries.
        doc_ids: Ids of the documents.
        exclude_self: Whether an item may not retrieve itself.
        zero: What happens to vectors of zeros.
        level: Significance level.
        resamples: Number of resamples.
        seed: Seed of directions, samples and resamples.
        threads: Number of threads.
        allow_mismatch: Accept judgments whose ids differ from those of the vectors (1 and 01).
        progress: Called with a step, how much of it is done, and how much there is to do.

    Returns:
        Similarity to the float ranking, scores and costs of each code.

    Raises:
        UsageError: A method or setting does not exist or does not apply.
        InputError: Vectors, ids, codes or judgments do not belong together.

    >>> vectors = np.random.default_rng(0).normal(size=(200, 16))
    >>> report = evaluate_codes(vectors, bits=[8, 64], methods=["gaussian"], k=[5])
    >>> [one.name for one in report.codes]
    ['float', 'gaussian-8', 'gaussian-64']
    """
    cuts = _whole_numbers(k, "k")
    if not cuts:
        raise UsageError("No k. Pass at least one, such as 10.")
    task = search.make_search(
        *(docs, queries, query_ids, doc_ids, exclude_self),
        metric=metric,
        depth=max(cuts),
        rerank=rerank,
        zero=zero,
        threads=threads,
    )
    checks.check_choice(ties, TIES, "ties")
    training, label, of_training = task.training(train)
    settings = CodesSettings(
        cuts,
        metric,
        ties,
        p,
        rerank,
        task.exclude is not None,
        check_significance_level(level),
        check_bootstraps(resamples),
        check_seed(seed),
        zero,
        hashing,
        _factors(oversample, rerank),
        label,
    )
    if hashing is not None:
        map_measure(hashing)
        if qrels is None and labels is None and query_labels is None:
            raise UsageError("hashing needs labels or qrels. Pass one.")
        if rerank is not None or settings.oversample:
            raise UsageError("hashing excludes rerank and oversample. Omit them.")
    plan, remarks = _plan(task, bits, methods)
    ready = _read_ready({} if codes is None else codes, task, queries is None)
    _check_names([code_name(*item) for item in plan], list(ready), remarks, settings.oversample)
    tell = progress or (lambda step, done, total: None)
    relevance, notes = search.read_relevance(
        task, qrels, labels, query_labels, queries is None, allow_mismatch
    )
    baseline = FloatBaseline(task, settings, relevance, notes, tell)
    results, fitted = [baseline.float_result()], {}
    for item in plan:
        fitted[code_name(*item)], measured = measure_method(baseline, training, *item)
        results += measured
    for name, (of_docs, of_queries) in ready.items():
        cost = CodeCost(of_docs.bits, -(-of_docs.bits // 8))
        results += measure_code(baseline, name, GIVEN, cost, (of_queries, of_docs, None))
    comparison = _compare(results, settings)
    return CodesReport(
        codes=tuple(results),
        settings=settings,
        n_queries=len(task.queries),
        n_docs=task.n_candidates,
        intervals=dict(
            zip((item.name for item in results), _intervals(results, settings), strict=True)
        ),
        comparison=comparison,
        chance_map=baseline.chance_map,
        radius_intervals={
            item.name: intervals(item.curve.near[None], **settings.resampling)[0]
            for item in results
            if item.curve is not None
        },
        remarks=(
            *remarks,
            *of_training,
            *learning_remarks(fitted, task, training, seed),
            *_tie_remarks(results[0], settings),
            *baseline.remarks,
            *(comparison.remarks if comparison else ()),
        ),
    )


def _whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    """Return the numbers of a setting, each once, in order; a number may stand alone."""
    numbers = [values] if isinstance(values, int) else checks.as_list(values, name)
    return tuple(sorted({checks.check_cutoff(number, name) for number in numbers}))


def _factors(oversample: Any, rerank: int | None) -> tuple[int, ...]:
    factors = _whole_numbers(oversample, "oversample")
    if factors and rerank is not None:
        raise UsageError("rerank and oversample exclude each other. Pass one.")
    return factors


def _plan(
    task: VectorSearch, bits: Any, methods: Any
) -> tuple[list[tuple[str, int | None]], tuple[str, ...]]:
    """Return the codes to make, and a remark about each that cannot be or need not be made."""
    named = [methods] if isinstance(methods, str) else checks.as_list(methods, "methods")
    names = [encoders.check_method(name) for name in named]
    further = [name for name in dict.fromkeys(names) if name not in METHODS]
    lengths = _whole_numbers(bits, "bits")
    if lengths and lengths[-1] > MOST_BITS:
        raise UsageError(f"Codes of {lengths[-1]} bits exceed {MOST_BITS}. Use fewer (--bits).")
    plan: list[tuple[str, int | None]] = []
    remarks = []
    for name in (name for name in METHODS if name in names):
        if name not in ("gaussian", "itq"):
            plan.append((name, None))
            continue
        most = task.docs.shape[1] if name == "itq" else MOST_BITS
        plan += [(name, length) for length in lengths if length <= most]
        beyond = [str(length) for length in lengths if length > most]
        if beyond:
            remarks.append(
                f"itq makes at most one bit per dimension, {most}: left out {', '.join(beyond)}"
            )
    if ("float16", None) in plan and task.docs.dtype == np.float16:
        plan.remove(("float16", None))
        remarks.append("float16 is what the vectors already are: left out")
    return [*plan, *((name, None) for name in further)], tuple(remarks)


def _check_names(
    names: list[str], ready: list[str], remarks: tuple[str, ...], factors: tuple[int, ...]
) -> None:
    if not names and not ready:
        why = f" ({'; '.join(remarks)})" if remarks else ""
        raise UsageError(f"Nothing to compare with float{why}. Name a method, or pass codes.")
    again = [rescored_name(name, factor) for name in (*names, *ready) for factor in factors]
    twice = next((name for name in ready if name in (*names, *again)), None)
    if twice is not None:
        raise UsageError(f"Two codes are named {twice!r}. Rename yours.")


def _read_ready(codes: Any, task: VectorSearch, same: bool) -> dict[str, tuple[Codes, Codes]]:
    """Return codes that were given, checked against the vectors: documents, queries."""
    checks.require(codes, Mapping, "codes", "{name: (documents, queries)}")
    ready = {}
    for name, parts in codes.items():
        if not isinstance(name, str) or not name or name == FLOAT:
            raise UsageError(f"{name!r} is not a valid name of codes. Use distinct names.")
        pair = parts if isinstance(parts, tuple) else (parts, parts if same else None)
        if len(pair) != 2 or pair[1] is None:
            raise UsageError(f"Codes {name!r} need two parts. Pass document and query codes.")
        docs, queries = (
            part if isinstance(part, Codes) else pack_codes(part, what=f"{name}, {side}")
            for part, side in zip(pair, ("docs", "queries"), strict=True)
        )
        for side, coded, rows in (("docs", docs, task.docs), ("queries", queries, task.queries)):
            checks.check_lengths(**{f"codes {name!r}, {side}": len(coded), side: len(rows)})
        ready[name] = (docs, queries)
    return ready


def _intervals(
    results: list[QuantizationResult], settings: CodesSettings
) -> Iterator[dict[str, Interval]]:
    """Yield the intervals of each result."""
    how, order = settings.resampling, None
    for result in results:
        values = result.neighbour_values(settings)
        *tops, tau, rho = values.values()  # correlations may be of fewer queries
        if order != (id(tau), id(rho)):  # re-ranked codes have those of the code itself
            order, of_order = (id(tau), id(rho)), intervals(np.array([tau, rho]), **how)
        yield dict(zip(values, [*intervals(np.array(tops), **how), *of_order], strict=True))


def _compare(results: list[QuantizationResult], settings: CodesSettings) -> Comparison | None:
    """Return every code against float, on the judgments."""
    judged = [result.judged for result in results if result.judged is not None]
    if len(judged) < 2:
        return None
    names, how = [result.name for result in results], settings.resampling
    return compare(*judged, names=names, baseline=FLOAT, **{**how, "level": settings.level})


# Called with a step, how much of it is done, and how much there is to do.
CodesProgress = Callable[[str, int, int | None], object]


def _time(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


# Encoded queries and documents, and what compares them where it is not the vectors' metric.
Coded = tuple[search.Vectors, search.Vectors, Metric | None]


@dataclass(eq=False)
class FloatBaseline:
    """The float ranking and the judgments, against which every code is measured."""

    task: VectorSearch
    settings: CodesSettings
    relevance: Relevance | None
    remarks: tuple[str, ...]
    tell: CodesProgress

    def __post_init__(self) -> None:
        """Rank by the float vectors."""
        task = self.task
        progress = partial(self.tell, FLOAT)
        self.ranking, self.seconds = _time(lambda: task.search(task.queries, task.docs, progress))
        self.nearest = _top_as_relevant(self.ranking, self.settings.k[0])
        self.sample = task.sample(self.settings.seed)
        self.whole = task.rank_sample(self.sample, task.queries, task.docs)
        policy = self.ranking.settings.get("zero")
        if policy and (remark := zero_remark(policy, *self.ranking.zero_rows)):
            self.remarks = (*self.remarks, remark)
        n_queries, n_docs = len(self.sample.queries), len(self.sample.docs)
        if (n_queries, n_docs) != (len(task.queries), len(task.docs)):
            note = f"{n_docs} documents drawn at random for {n_queries} queries"
            self.remarks = (*self.remarks, f"Kendall and Spearman are of {note}")

    @property
    def rules(self) -> Conventions:
        """Scoring rules."""
        base = preset("hashing" if self.settings.hashing else "binary_codes")
        match = "exclude" if self.settings.exclude_self else "keep"
        return base.replace(ties=self.settings.ties, self_match=match)

    @property
    def chance_map(self) -> float | None:
        """mAP of a random order, where it is asked for."""
        preset, relevance = self.settings.hashing, self.relevance
        if preset is None or relevance is None:
            return None
        blocks, measure = self.task.row_blocks(), map_measure(preset)
        return search.random_map(relevance, blocks, self.ranking, measure, self.rules)

    def float_result(self) -> QuantizationResult:
        """Return the float vectors measured against themselves."""
        docs = self.task.docs
        width = docs.shape[1] * docs.dtype.itemsize
        cost = CodeCost(8 * width, width, 0.0, self.seconds)
        order = correlations(self.whole, self.whole)
        coded = self.task.queries, docs, None
        return self.measure(FLOAT, str(docs.dtype), cost, self.ranking, order, coded)

    def measure(
        self,
        name: str,
        method: str,
        cost: CodeCost,
        ranking: Ranking,
        order: tuple[Floats, Floats],
        vectors: Coded,
        factor: int | None = None,
    ) -> QuantizationResult:
        """Return a code measured by the ranking it gives; `order` are τ and ρ of the sample."""
        cuts = self.settings.k
        names = [f"{measure}@{k}" for measure in ("R", "nDCG") for k in cuts]
        rules = self.rules
        again = self.settings.rerank if isinstance(vectors[1], Codes) else None
        settings = as_settings(
            code=name,
            rerank=again if factor is None else self.candidates(factor),
            seed=self.settings.seed if method in encoders.SEEDED else None,
            train=cost.train or None,
            codebook=cost.codebook_bytes or None,
        )
        placed = replace(ranking, settings={**ranking.settings, **settings})
        # Ids were compared when the judgments were read.
        hits = judge(placed, self.nearest, conventions=rules, allow_mismatch=True)
        near = score(hits, names, conventions=rules).but_settings(relevant=f"float@{cuts[0]}")
        judged = self._judge(placed, vectors, names, rules, settings)
        similarity = ranking_similarity(self.ranking, ranking, k=cuts, p=self.settings.p)
        alike = similarity.take(self.task.query_order)
        return QuantizationResult(name, method, cost, alike, *order, near, *judged, factor)

    def candidates(self, factor: int) -> int:
        """Return how many documents are re-ranked by float: so many times the largest k."""
        return min(factor * self.settings.k[-1], self.task.n_candidates)

    def _judge(
        self,
        placed: Ranking,
        vectors: Coded,
        names: list[str],
        rules: Conventions,
        settings: Settings,
    ) -> tuple[Scores | None, search.RadiusCurve | None]:
        """Return scores by what is relevant; the lists of hashing are searched again, and whole."""
        task, preset = self.task, self.settings.hashing
        if self.relevance is None:
            return None, None
        if preset is None:
            labelled = isinstance(self.relevance, search.LabelRelevance)
            blocks = task.row_blocks() if labelled else iter([np.arange(len(task.queries))])
            return search.score_rows(self.relevance, blocks, placed.rows, names, rules)
        docs = vectors[1]
        bits = docs.bits if isinstance(docs, Codes) else None
        bits = docs.length if isinstance(docs, FoldedCodes) else bits
        depth = HASHING[preset] if bits is None else None

        def rank_rows(rows: Ints) -> Ranking:
            ranking = task.rank_rows(*vectors, rows, depth)
            return replace(ranking, settings={**ranking.settings, **settings})

        names = [*names, map_measure(preset)]
        return search.score_rows(self.relevance, task.row_blocks(), rank_rows, names, rules, bits)


def _top_as_relevant(ranking: Ranking, k: int) -> Qrels:
    """Return judgments by which the first k documents of each row are relevant."""
    top = ranking.first(k)
    rows, docs = rows_of(top.offsets), top.docs.astype(np.int64)
    return Judgments.from_pairs(ranking.query_ids, ranking.doc_ids, rows, docs, np.ones(len(docs)))


def code_name(method: str, bits: int | None) -> str:
    """Return the name of a code."""
    return method if bits is None else f"{method}-{bits}"


def measure_method(
    baseline: FloatBaseline, training: CodeTraining, method: str, bits: int | None
) -> tuple[FittedCode, list[QuantizationResult]]:
    """Return the encoders of a method's code, and the code measured."""
    task, name, spec = baseline.task, code_name(method, bits), parse_spec(method)
    baseline.tell(name, 0, 1)
    how: dict[str, Any] = {"seed": baseline.settings.seed, "metric": task.metric}
    if spec is not None and spec.kind in encoders.LEARNT and any(baseline.ranking.zero_rows):
        raise UsageError(f"{method} cannot encode zero vectors. Remove them.")
    code, fitted = _time(lambda: training.fit(method, task.docs, bits=bits, **how))
    first = code.first
    by = cast("Metric | None", first.metric)
    docs, of_docs = _time(lambda: code.encode(task.docs))
    same = task.queries is task.docs and first.doc_block is first.query_block
    same = same and not isinstance(docs, FoldedCodes)
    queries, of_queries = (docs, 0.0) if same else _time(lambda: code.encode_queries(task.queries))
    train = ""
    if first.n_learnt:
        halves = training.vectors is not None or code.parts
        train = baseline.settings.train if halves else "1"
    seconds = fitted + of_docs + of_queries, 0.0
    cost = CodeCost(first.bits, first.bytes_per_vector, *seconds, first.codebook_bytes, train)
    family = method if spec is None else spec.family
    coded: Coded = (queries, docs, by)
    timed = None
    if isinstance(docs, FoldedCodes):  # a system has one encoder, and takes its time
        timed = (first.encode_queries(task.queries), first.encode(task.docs), by)
    return code, measure_code(baseline, name, family, cost, coded, timed)


def measure_code(
    baseline: FloatBaseline,
    name: str,
    method: str,
    cost: CodeCost,
    vectors: Coded,
    timed: Coded | None = None,
) -> list[QuantizationResult]:
    """Measure a code, by itself and reranked by float where asked for.

    `timed` are codes whose search takes the time that counts, where it is not that of `vectors`.
    """
    task, (queries, docs, by) = baseline.task, vectors

    def search_timed(search: Callable[..., Ranking]) -> tuple[Ranking, CodeCost]:
        ranking, seconds = _time(lambda: search(*vectors))
        if timed is not None:
            seconds = _time(lambda: search(*timed))[1]
        return ranking, replace(cost, search_seconds=seconds)

    progress = partial(baseline.tell, name)
    ranking, taken = search_timed(lambda q, d, m: task.search(q, d, progress, m))
    order = correlations(baseline.whole, task.rank_sample(baseline.sample, queries, docs, by))
    results = [baseline.measure(name, method, taken, ranking, order, vectors)]
    for factor in baseline.settings.oversample:
        again = rescored_name(name, factor)
        ranking, taken = search_timed(partial(task.rescore, depth=baseline.candidates(factor)))
        ranking = search.keep_first(ranking, int(baseline.ranking.lengths.max()))
        results.append(baseline.measure(again, method, taken, ranking, order, vectors, factor))
    return results


def _tie_remarks(of_float: QuantizationResult, settings: CodesSettings) -> Iterator[str]:
    """Yield how far equal vectors keep float from itself."""
    for k in settings.k:
        mean = float(of_float.similarity.overlap[k]["expected"].mean())
        if settings.ties == "expected" and mean < 1:
            share = format_percent(of_float.similarity.tied(k).mean())
            yield (
                f"Equal vectors tie across the cut for {share} of the queries: Overlap@{k} is "
                f"at most {mean:.4f}, also for float against itself"
            )


def learning_remarks(
    fitted: dict[str, FittedCode], task: VectorSearch, training: CodeTraining, seed: int
) -> Iterator[str]:
    """Yield what codes were learnt from, and how well RaBitQ keeps its bound."""
    learnt: dict[tuple[int, bool], list[str]] = {}
    for name, code in fitted.items():
        if code.first.method in encoders.LEARNT:
            least = min(encoder.n_learnt for encoder in code.encoders)
            learnt.setdefault((least, bool(code.parts)), []).append(name)
    rows = task.rows_to_learn_from()
    same = task.queries is task.docs or (rows is None and (task.own_docs() >= 0).any())
    whose = "which are the queries as well" if same else "none of them a query"
    for (size, held_out), names in learnt.items():
        source = f"the {size} documents that are searched, {whose}: documents added later lose more"
        if held_out:
            source = f"{size} other documents than the encoded one, {whose}"
        if training.vectors is not None:
            source = f"{size} other vectors"
        yield Remark(f"{', '.join(names)}: trained on {source}", n=0)
    for name, code in fitted.items():
        if code.first.method == "pq":
            points = min(encoder.n_learnt for encoder in code.encoders) / encoders.CENTROIDS
            few = f", faiss asks for {FEWEST_POINTS}" * (points < FEWEST_POINTS)
            yield Remark(
                f"{name}: {points:.1f} points per centroid{few}; the codebook adds "
                f"{code.first.codebook_bytes / len(task.docs):.1f} bytes to each document here",
                n=bool(few),
            )
    sample = task.sample(seed)
    queries = np.asarray(task.queries[sample.queries][:], np.float64)
    for name, code in fitted.items():
        if (quantiser := code.first.quantiser) is not None:
            inside = sample.docs[np.isin(sample.docs, code.parts[0]) if code.parts else slice(None)]
            docs = np.asarray(task.docs[inside][:], np.float64)
            bound, p = quantiser.check_bound(docs, queries)
            yield Remark(
                f"{name}: the error of a product with a query is ≤ {bound:.4g} on average (ε₀ = "
                f"{encoders.EPSILON:g}), for {100 * p:.1f} % of {len(docs)} × {len(queries)} pairs",
                n=0,
            )
