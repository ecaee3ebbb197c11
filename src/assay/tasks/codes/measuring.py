"""Each code measured: its ranking against that of the float vectors and by what is relevant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from assay.arrays import Ints
from assay.core.conventions import Conventions, preset
from assay.core.hits import judge
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.core.settings import Settings, as_settings
from assay.errors import UsageError
from assay.measures.neighbours import correlations, ranking_similarity
from assay.scoring.evaluate import score
from assay.scoring.output import zero_remark
from assay.scoring.scores import Scores
from assay.search.engine import Codes
from assay.tasks.codes.encoders import FLOAT, SEEDED, make_encoder, sample_size
from assay.tasks.codes.hashing import (
    HASHING,
    LabelRelevance,
    RadiusCurve,
    Relevance,
    map_measure,
    random_map,
    score_rows,
)
from assay.tasks.codes.quantisers import EPSILON, FITTED, parse_spec, rabitq_of, spec_encoder
from assay.tasks.codes.result import (
    CodeCost,
    CodesSettings,
    QuantizationResult,
    rescored_name,
)
from assay.tasks.codes.search import Metric, Sample, Vectors, VectorSearch

__all__ = [
    "CodesProgress",
    "FloatBaseline",
    "code_name",
    "learning_remarks",
    "measure_code",
    "measure_method",
]

# Called with a step, how much of it is done, and how much there is to do.
CodesProgress = Callable[[str, int, int | None], object]


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


def code_name(method: str, bits: int | None) -> str:
    """What a code is called."""
    return method if bits is None else f"{method}-{bits}"


def measure_method(
    task: VectorSearch,
    baseline: FloatBaseline,
    method: str,
    bits: int | None,
    seed: int,
    tell: CodesProgress,
) -> list[QuantizationResult]:
    """A method's code, made and measured."""
    name, spec = code_name(method, bits), parse_spec(method)
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
    return measure_code(baseline, name, family, cost, (queries, docs, by), tell)


def measure_code(
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


def learning_remarks(
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
