"""What is lost by shorter vectors: codes against the float ranking and against judgments.

Every ranking comes from the engine's exact search, so that no table of all pairs is ever made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.compare import Comparison, compare
from assay.core import checks
from assay.core.conventions import Conventions, preset
from assay.core.hits import judge
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.io.formats import as_judgments
from assay.measures.neighbours import TIES, Likeness, correlations, likeness
from assay.runs.aggregates import Aggregate
from assay.runs.record import RunRecord
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.search.engine import Codes, pack_codes
from assay.search.engine.codes import MOST_BITS
from assay.stats import Interval, intervals
from assay.tables.page import text_page
from assay.tasks.codes.encoders import METHODS, make_encoder
from assay.tasks.codes.search import Metric, Sample, Task, Zero, make_task

__all__ = ["FLOAT", "CodeLoss", "CodesReport", "Settings", "evaluate_codes"]


Say = Callable[[str, int, int | None], object]

FLOAT: Final = "float"
BITS: Final = (64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Settings:
    """How codes were compared: what the report says beside its numbers."""

    k: tuple[int, ...]
    metric: str
    ties: str
    p: float
    rerank: int | None
    exclude_self: bool
    level: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Cost:
    """What a code takes: its length, and seconds to encode all and to search for all queries."""

    bits: int
    bytes_per_vector: int
    encode_seconds: float = 0.0
    search_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class CodeLoss:
    """One kind of code: what it costs, how like the float ranking it ranks, what it finds.

    `kendall` and `spearman` compare whole orders, of a sample of queries and documents where there
    are many. `near` scores its ranking with the first documents of the float ranking as the
    relevant ones, `judged` with the judgments.
    """

    name: str
    method: str
    cost: Cost
    likeness: Likeness
    kendall: Floats
    spearman: Floats
    near: Scores
    judged: Scores | None

    def neighbour_values(self, settings: Settings) -> dict[str, Floats]:
        """By the name of the measure, a number per query: how like the float ranking it is."""
        found = {f"Overlap@{k}": self.likeness.overlap[k][settings.ties] for k in settings.k}
        found[f"RBO(p={settings.p:g})"] = self.likeness.rbo
        found |= {str(measure): self.near[measure] for measure in self.near.measures}
        return {**found, "Kendall": self.kendall, "Spearman": self.spearman}


@dataclass(frozen=True, eq=False)
class CodesReport:
    """Codes compared with the vectors they were made from; made by `evaluate_codes`.

    `codes` has the float vectors first. `intervals` are of the means of `neighbour_values`, by
    code and measure. `comparison` tests every code against float on the judgments. `remarks` say
    what was left out and what to know.
    """

    codes: tuple[CodeLoss, ...]
    settings: Settings
    n_queries: int
    n_docs: int
    intervals: dict[str, dict[str, Interval]]
    comparison: Comparison | None
    remarks: tuple[str, ...]

    @property
    def signature(self) -> str:
        """The conventions behind the numbers."""
        return self.codes[0].near.signature

    def __getitem__(self, name: str) -> CodeLoss:
        """One code by its name."""
        for one in self.codes:
            if one.name == name:
                return one
        have = ", ".join(one.name for one in self.codes)
        raise UsageError(f"There is no code {name!r}; there are: {have}.")

    def chance(self, k: int) -> float:
        """Overlap@k of two random orders."""
        return k / self.n_docs

    @property
    def chance_rbo(self) -> float:
        """RBO of two random orders: at depth d they share d²/n documents, d/n of the depth."""
        p, depth = self.settings.p, self.settings.k[-1]
        shares = [(1 - p) * p ** (d - 1) * self.chance(d) for d in range(1, depth + 1)]
        return math.fsum(shares) + p**depth * self.chance(depth)

    def records(self) -> list[RunRecord]:
        """Records of the codes, the float vectors first.

        They are scored by the judgments, or by the float neighbours where there are none.
        """
        return [
            RunRecord(
                one.name,
                one.near if one.judged is None else one.judged,
                task="codes",
                config={
                    "method": one.method,
                    "bits": one.cost.bits,
                    "bytes_per_vector": one.cost.bytes_per_vector,
                    "relevant": "float neighbours" if one.judged is None else "judged",
                },
                seeds={"seed": self.settings.seed},
                aggregates=self._likeness(one),
                timings={"encode": one.cost.encode_seconds, "search": one.cost.search_seconds},
            )
            for one in self.codes
        ]

    def _likeness(self, one: CodeLoss) -> list[Aggregate]:
        """How like the float ranking a code ranks; what is scored already is left out."""
        chance = {f"Overlap@{k}": self.chance(k) for k in self.settings.k}
        chance[f"RBO(p={self.settings.p:g})"] = self.chance_rbo
        near = set(map(str, one.near.measures))
        return [
            Aggregate(
                name,
                span.estimate,
                subset="float neighbours" if name in near else "",
                low=span.low,
                high=span.high,
                level=span.level,
                method=span.method,
                note=span.note,
                chance=chance.get(name),
                n=span.n,
            )
            for name, span in self.intervals[one.name].items()
            if one.judged is not None or name not in near
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined numbers are None."""
        from assay.tasks.codes.tables import report_data

        return report_data(self)

    def svg(self) -> str:
        """The curve: likeness to the float ranking, and what is found, over bytes per vector."""
        from assay.tasks.codes.chart import report_chart

        return report_chart(self)

    def __repr__(self) -> str:
        """The tables, as plain text."""
        from assay.tasks.codes.tables import report_page

        return text_page(report_page(self))


def evaluate_codes(
    docs: Any,
    queries: Any = None,
    *,
    bits: Iterable[int] = BITS,
    methods: Iterable[str] = tuple(METHODS),
    codes: Mapping[str, Any] | None = None,
    k: Iterable[int] = (10, 50),
    qrels: Any = None,
    rerank: int | None = None,
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
    progress: Say | None = None,
) -> CodesReport:
    """What shorter vectors lose, against the float ranking and, with `qrels`, against judgments.

    Without `queries` the documents are their own queries, self left out. `bits` are the lengths of
    the codes that the `methods` gaussian and itq make; sign has one bit per dimension. `codes`
    adds ready ones by name: (documents, queries), or the documents alone where they are their own
    queries, each packed `Codes` or an array of 0 and 1. `rerank` orders the first n documents of
    each binary code again by the float vectors. `ties` is what tied documents are worth in all
    means: order, expected, best or worst. `progress` is called with a step, done and total.

    >>> vectors = np.random.default_rng(0).normal(size=(200, 16))
    >>> report = evaluate_codes(vectors, bits=[8, 64], methods=["gaussian"], k=[5])
    >>> [one.name for one in report.codes]
    ['float', 'gaussian-8', 'gaussian-64']
    """
    cuts = _cutoffs(k)
    task = make_task(
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
    settings = Settings(
        cuts,
        metric,
        _checked_ties(ties),
        p,
        rerank,
        task.exclude is not None,
        level,
        resamples,
        seed,
    )
    plan, remarks = _planned(task, bits, methods)
    ready = _ready(codes or {}, task, queries is None)
    _check_names([_name(*one) for one in plan], list(ready), remarks)
    say = progress or (lambda step, done, total: None)
    yardstick = _Yardstick.of(task, settings, qrels, say)
    found = [yardstick.float_loss()]
    found += [_of_method(task, yardstick, *one, seed, say) for one in plan]
    found += [_of_ready(task, yardstick, name, *one, say) for name, one in ready.items()]
    comparison = _compared(found, settings)
    return CodesReport(
        codes=tuple(found),
        settings=settings,
        n_queries=len(task.queries),
        n_docs=task.n_candidates,
        intervals={one.name: _intervals(one, settings) for one in found},
        comparison=comparison,
        remarks=(*remarks, *yardstick.remarks, *(comparison.remarks if comparison else ())),
    )


def _cutoffs(k: Any) -> tuple[int, ...]:
    given = [k] if isinstance(k, int) else checks.listed(k, "k")
    if not given:
        raise UsageError("No k was given. Name at least one, e.g. 10.")
    return tuple(sorted({checks.check_cutoff(one) for one in given}))


def _checked_ties(ties: Any) -> str:
    if ties not in TIES:
        raise UsageError(f"ties must be one of {', '.join(TIES)}, found {ties!r}.")
    return str(ties)


def _checked_length(bits: Any) -> int:
    length = checks.check_cutoff(bits, "bits")
    if length > MOST_BITS:
        raise UsageError(f"Codes hold up to {MOST_BITS} bits, found {length}.")
    return length


def _planned(
    task: Task, bits: Any, methods: Any
) -> tuple[list[tuple[str, int | None]], tuple[str, ...]]:
    """The codes to make, and a remark about each that cannot be or need not be made."""
    names = [methods] if isinstance(methods, str) else checks.listed(methods, "methods")
    unknown = next((name for name in names if name not in METHODS), None)
    if unknown is not None:
        raise UsageError(f"Unknown method {unknown!r}. Known: {', '.join(METHODS)}.")
    given = [bits] if isinstance(bits, int) else checks.listed(bits, "bits")
    lengths = sorted({_checked_length(one) for one in given})
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
    return plan, tuple(remarks)


def _name(method: str, bits: int | None) -> str:
    return method if bits is None else f"{method}-{bits}"


def _check_names(made: list[str], given: list[str], remarks: tuple[str, ...]) -> None:
    if not made and not given:
        why = f" ({'; '.join(remarks)})" if remarks else ""
        raise UsageError(
            f"There is nothing to compare with float{why}: name a method, or give codes."
        )
    twice = next((name for name in given if name in made), None)
    if twice is not None:
        raise UsageError(f"Two codes are called {twice!r}. Give yours another name.")


def _split(method: str, lengths: list[int], dimensions: int) -> tuple[list[int], list[int]]:
    if method != "itq":
        return lengths, []
    return [n for n in lengths if n <= dimensions], [n for n in lengths if n > dimensions]


def _ready(codes: Any, task: Task, own: bool) -> dict[str, tuple[Codes, Codes]]:
    """Codes that were given, checked against the vectors: documents, queries."""
    checks.require(codes, Mapping, "codes", "{name: (documents, queries)}")
    made = {}
    for name, given in codes.items():
        if not isinstance(name, str) or not name or name == FLOAT:
            raise UsageError(f"Codes need a name of their own; {name!r} will not do.")
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


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


@dataclass(frozen=True, eq=False)
class _Yardstick:
    """The float ranking and the judgments, against which every code is measured."""

    task: Task
    settings: Settings
    ranking: Ranking
    seconds: float
    sample: Sample
    whole: Ranking
    nearest: Judgments
    qrels: Judgments | None
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, task: Task, settings: Settings, qrels: Any, say: Say) -> _Yardstick:
        """Rank by the float vectors."""
        ranking, seconds = _timed(
            lambda: task.search(task.queries, task.docs, lambda *at: say(FLOAT, *at))
        )
        judgments = None if qrels is None else as_judgments(qrels)
        remarks = () if judgments is None else _check_judgments(judgments, ranking)
        nearest = _first_as_relevant(ranking, settings.k[0])
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
            judgments,
            (*remarks, *_about_sample(sample, task)),
        )

    def float_loss(self) -> CodeLoss:
        """The float vectors measured against themselves."""
        docs = self.task.docs
        width = docs.shape[1] * docs.dtype.itemsize
        cost = Cost(8 * width, width, 0.0, self.seconds)
        return self.loss(FLOAT, str(docs.dtype), cost, self.ranking, self.whole)

    def loss(
        self, name: str, method: str, cost: Cost, ranking: Ranking, whole: Ranking
    ) -> CodeLoss:
        """A code measured by the ranking it gives, and by its whole order of the sample."""
        cuts = self.settings.k
        names = [f"{measure}@{k}" for measure in ("R", "nDCG") for k in cuts]
        match = "exclude" if self.settings.exclude_self else "keep"
        rules = preset("document_002").but(ties=self.settings.ties, self_match=match)
        return CodeLoss(
            name,
            method,
            cost,
            likeness(self.ranking, ranking, k=cuts, p=self.settings.p),
            *correlations(self.whole, whole),
            _scores(ranking, self.nearest, names, rules),
            None if self.qrels is None else _scores(ranking, self.qrels, names, rules),
        )


def _about_sample(sample: Sample, task: Task) -> tuple[str, ...]:
    if (len(sample.queries), len(sample.docs)) == (len(task.queries), len(task.docs)):
        return ()
    return (
        f"Kendall and Spearman are of {len(sample.docs)} documents drawn at random for "
        f"{len(sample.queries)} queries",
    )


def _scores(ranking: Ranking, judgments: Judgments, names: list[str], rules: Conventions) -> Scores:
    return score(judge(ranking, judgments, conventions=rules), names, conventions=rules)


def _first_as_relevant(ranking: Ranking, k: int) -> Qrels:
    """The first k documents of each row are the relevant ones."""
    place = np.arange(len(ranking.docs)) - np.repeat(ranking.offsets[:-1], ranking.lengths)
    chosen = place < k
    rows = np.repeat(np.arange(len(ranking)), ranking.lengths)[chosen]
    docs = ranking.docs[chosen].astype(np.int64)
    return Judgments.from_pairs(ranking.query_ids, ranking.doc_ids, rows, docs, np.ones(len(docs)))


def _check_judgments(judgments: Judgments, ranking: Ranking) -> tuple[str, ...]:
    """Refuse judgments of other queries or documents; say what of them is not there."""
    remarks = []
    sides = [("queries", judgments.query_ids, ranking.query_ids)]
    if isinstance(judgments, Qrels | Labels):
        sides.append(("documents", judgments.doc_ids, ranking.doc_ids))
    for what, judged, known in sides:
        if judged.kind != known.kind and len(judged):
            raise MismatchError(
                f"The judgments name {what} by {judged.kind} ids such as {judged[0]!r}, the "
                f"vectors by {known.kind} ids such as {known[0]!r}. Give the ids of the vectors."
            )
        absent = np.flatnonzero(judged.match(known) < 0)
        if len(absent) == len(judged):
            raise MismatchError(
                f"None of the {len(judged)} judged {what}, e.g. "
                f"{checks.named_few(judged.take(absent[:3]))}, is among the {len(known)} vectors, "
                f"e.g. {checks.named_few(known.take(np.arange(min(3, len(known)))))}."
            )
        if len(absent):
            remarks.append(
                f"{len(absent)} of {len(judged)} judged {what} have no vector: "
                f"{checks.named_few(judged.take(absent))}"
            )
    return tuple(remarks)


def _of_method(
    task: Task, yardstick: _Yardstick, method: str, bits: int | None, seed: int, say: Say
) -> CodeLoss:
    name = _name(method, bits)
    say(name, 0, 1)
    encoder, fitted = _timed(
        lambda: make_encoder(
            method, task.docs, bits=bits, seed=seed, by_angle=task.metric == "cosine"
        )
    )
    docs, of_docs = _timed(lambda: encoder.encode(task.docs))
    own = task.queries is task.docs
    queries, of_queries = (docs, 0.0) if own else _timed(lambda: encoder.encode(task.queries))
    ranking, seconds = _timed(lambda: task.search(queries, docs, lambda *at: say(name, *at)))
    encoding = fitted + of_docs + of_queries
    cost = Cost(encoder.bits, encoder.bytes_per_vector, encoding, seconds)
    whole = task.rank_sample(yardstick.sample, queries, docs)
    return yardstick.loss(name, method, cost, ranking, whole)


def _of_ready(
    task: Task, yardstick: _Yardstick, name: str, docs: Codes, queries: Codes, say: Say
) -> CodeLoss:
    ranking, seconds = _timed(lambda: task.search(queries, docs, lambda *at: say(name, *at)))
    cost = Cost(docs.bits, -(-docs.bits // 8), 0.0, seconds)
    whole = task.rank_sample(yardstick.sample, queries, docs)
    return yardstick.loss(name, "given", cost, ranking, whole)


def _intervals(one: CodeLoss, settings: Settings) -> dict[str, Interval]:
    how: dict[str, Any] = {
        "level": 1 - settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    values = one.neighbour_values(settings)
    *tops, tau, rho = values.values()  # correlations may be of fewer queries
    found = [*intervals(np.array(tops), **how), *intervals(np.array([tau, rho]), **how)]
    return dict(zip(values, found, strict=True))


def _compared(found: list[CodeLoss], settings: Settings) -> Comparison | None:
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
