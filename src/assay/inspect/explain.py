"""explain: one number of one query, worked out line by line.

A value over tied documents is worked out apart from `score`, over all orders of the tied documents,
some of them, or the extreme ones.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Unpack

import numpy as np

from assay.arrays import Floats, or_none
from assay.core.checks import name_few
from assay.core.conventions import Choices, Conventions, as_conventions, check_keywords
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.mismatches import describe_near
from assay.core.text import printable
from assay.errors import IdError, UsageError
from assay.io.formats import QrelsLike, RunLike, as_judgments, as_ranking, read_questions
from assay.io.streams import FilePath
from assay.measures import Measure, MeasureLike, parse_many
from assay.measures.derivations import Derivation, derive, show
from assay.measures.views import RankView, TieView
from assay.scoring.evaluate import call_of, score
from assay.tables.table import Cell, Shown, Table, Words, as_text, columns_of, html_page

_ROUNDING = 1e-12
_WHOLE = 20  # down to this rank every document is shown, below it only those that count


@dataclass(frozen=True)
class Line:
    """One rank: the document there, its score and grade, its tie group, and what it adds.

    Under another order of ties than the list's own, a tied place belongs to no single document.
    """

    rank: int
    doc: str | int | None
    score: float | None
    grade: float | None
    tie: tuple[int, int] | None
    values: tuple[int | float, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The derivation of one value, and the value that `evaluate` gives.

    Both are NaN where the measure is undefined. They are the same to the last bit, except over
    all orders of tied documents, where `error` says by how much the derivation may differ.
    """

    query: str | int
    measure: Measure
    value: float
    evaluated: float
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    working: tuple[str, ...]
    signature: str
    notes: tuple[str, ...] = field(default=())
    error: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether derivation and `evaluate` give the same number, but for the known error."""
        return self.exact or abs(self.value - self.evaluated) <= self.error

    @property
    def exact(self) -> bool:
        """Whether the derivation gives the very number that `evaluate` gives."""
        both_undefined = math.isnan(self.value) and math.isnan(self.evaluated)
        return both_undefined or self.value == self.evaluated

    def table(self) -> Table:
        """Return the ranks as a table, with a line for the ranks left out."""
        head = ("rank", "document", "score", "grade", "tied", *self.columns)
        rows: list[tuple[Cell, ...]] = []
        last = 0
        for line in self.lines:
            if line.rank > last + 1:
                n_docs = line.rank - last - 1
                what = "(1 document)" if n_docs == 1 else f"({n_docs} documents)"
                rows.append((_figure("…"), Cell(what), *[_figure("")] * (len(head) - 2)))
            rows.append(_cells(line, len(self.columns)))
            last = line.rank
        used = [i for i in range(len(head)) if any(row[i].value for row in rows)]
        return columns_of(Table(head, tuple(rows)), used)

    def closing(self) -> tuple[str, ...]:
        """Return the result, and whether it is the number that `evaluate` gives."""
        value = "undefined" if math.isnan(self.evaluated) else repr(self.evaluated)
        result = f"{self.measure} of query {self.query} = {value}"
        if self.exact:
            return (result,)
        if self.agrees:
            sampled = self.error > 2 * _ROUNDING * abs(self.evaluated)
            why = f"within {self.error:.2g} of it" if sampled else "the same but for rounding"
            return (result, f"The lines above give {self.value!r}: {why}.")
        return (
            result,
            f"WARNING: the lines above give {self.value!r}, which is not the same number. "
            "This is an internal error; please report it.",
        )

    def __str__(self) -> str:
        """Return the whole derivation as text."""
        parts = [as_text(self.table())] if self.lines else []
        blocks = (self.notes, self.working, self.closing())
        parts += ["\n".join(map(printable, block)) for block in blocks if block]
        return "\n\n".join([*parts, self.signature])

    def _repr_html_(self) -> str:
        words = map(Words, (*self.notes, *self.working, *self.closing()))
        return html_page([self.table(), *words, Words(self.signature, "signature")])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "query": self.query,
            "measure": str(self.measure),
            "value": or_none(self.value),
            "evaluated": or_none(self.evaluated),
            "exact": self.exact,
            "agrees": self.agrees,
            "columns": list(self.columns),
            "lines": [asdict(line) for line in self.lines],
            "working": list(self.working),
            "notes": list(self.notes),
            "signature": self.signature,
        }


def _figure(text: str) -> Cell:
    return Cell(text, "figure")


def _cells(line: Line, width: int) -> tuple[Cell, ...]:
    tie = "" if line.tie is None else f"{line.tie[0]}–{line.tie[1]}"
    values = [_figure(_value_text(value)) for value in line.values]
    return (
        _figure(str(line.rank)),
        Cell("(any of the tied)" if line.doc is None else line.doc),
        _figure("" if line.score is None else f"{line.score:.6g}"),
        _figure("" if line.grade is None else f"{line.grade:g}"),
        _figure(tie),
        *values,
        *[_figure("")] * (width - len(values)),
    )


def _value_text(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if value == 0 or value >= 0.001 else f"{value:.1e}"


def explain(
    run: RunLike,
    qrels: QrelsLike,
    *,
    query: str | int,
    measure: MeasureLike = "nDCG@10",
    conventions: str | Conventions = "trec_eval",
    allow_mismatch: bool = False,
    queries: FilePath | None = None,
    **choices: Unpack[Choices],
) -> Explanation:
    """Work out one measure of one query, line by line.

    Args:
        run: What `evaluate` takes: a path, a dictionary, tuples, a data frame, a `Ranking`.
        qrels: Likewise, the judgments.
        query: The id of the query.
        measure: The measure.
        conventions: A preset's name, a signature or a value.
        allow_mismatch: Continue where ids do not fit, such as `1` and `01`.
        queries: A file with ids and texts of the queries: the text is shown, and joins run or
            judgments that name queries by it.
        **choices: Single conventions, such as `ties="expected"`.

    Returns:
        The derivation, and the value that `evaluate` gives.

    Raises:
        IdError: The query is not among the judged ones.
        UsageError: The name stands for several measures.

    Example:
        >>> derived = explain({"q": {"a": 2, "b": 1}}, {"q": {"b": 1}}, query="q", measure="RR")
        >>> derived.value, derived.working
        (0.5, ('first relevant document at rank 2', 'RR = 1 / 2 = 0.5'))
    """
    check_keywords(explain, choices)
    rules = as_conventions(conventions, **choices)
    measures = parse_many([measure])
    if len(measures) != 1:
        raise UsageError(f"explain takes one measure. Name one of {', '.join(map(str, measures))}.")
    questions = read_questions(queries)
    ranking, judgments = as_ranking(run, rules, questions), as_judgments(qrels, questions)
    hits = judge(ranking, judgments, conventions=rules, allow_mismatch=allow_mismatch)
    texts = {} if questions is None else questions.texts
    row = _row_of(query, hits, texts)
    id = hits.query_ids[row]
    text = texts.get(str(id), "")
    query_hits = hits.select(np.array([row]))
    scores = score(query_hits, measures, conventions=rules)
    evaluated = float(scores.values[0, 0])
    derived, ties = _derive(query_hits, measures[0], rules)
    listed = [] if query_hits.missing[0] else ranking.under(rules).row(id)
    if rules.unjudged == "condensed" and not hits.exhaustive:  # only judged documents have a rank
        whole = judge(
            ranking,
            judgments,
            conventions=rules.replace(unjudged="nonrelevant"),
            allow_mismatch=True,
        ).select(np.array([row]))
        listed = [listed[rank - 1] for rank in whole.rank[whole.grade >= 0].tolist()]
    lines = tuple(_lines(listed, query_hits, derived, ties, measures[0]))
    return Explanation(
        query=id,
        measure=measures[0],
        value=math.nan if math.isnan(evaluated) else derived.value,
        evaluated=evaluated,
        columns=derived.columns,
        lines=lines,
        working=derived.working,
        signature=score(hits, "num_ret", conventions=rules).signature,  # of the whole evaluation
        notes=(
            *([f"query {id}: {text}"] if text else []),
            *hits.remarks,
            *_notes(query_hits, evaluated, bool(scores.tied[0, 0]), rules),
            *_found_and_not(query_hits, measures[0], call_of(measures[0], rules)[1]),
        ),
        error=_error(derived, evaluated, measures[0], rules),
    )


def _error(derivation: Derivation, evaluated: float, measure: Measure, rules: Conventions) -> float:
    """Return how far the two values may differ: 0 where each document has one rank."""
    one_rank = rules.ties != "expected" and measure.definition.extremes is None
    if rules.ties == "order" or one_rank:
        return 0.0
    return max(derivation.error, _ROUNDING * abs(evaluated))


def _row_of(query: str | int, hits: Hits, texts: Mapping[str, str]) -> int:
    if isinstance(query, str) and hits.query_ids.kind == "integer" and query.isdecimal():
        query = int(query)  # a command line knows text only
    is_text = isinstance(query, str) and len(query.split()) > 1
    place = -1 if is_text else int(Ids.of([query], what="query").match(hits.query_ids)[0])
    if place < 0:
        same = [id for id, text in texts.items() if text.split() == str(query).split()]
        hint = describe_near([query], hits.query_ids)
        hint = " Pass the id of a query, not its text." if is_text else hint
        hint = f" It is the text of query {name_few(same)}. Pass the id." if same else hint
        judged = name_few(hits.query_ids)
        raise IdError(f"Query {query!r:.200} is not among the judged queries: {judged}.{hint}")
    return place


def _derive(query_hits: Hits, measure: Measure, rules: Conventions) -> tuple[Derivation, str]:
    """Return the derivation under the tie rule, and the placement of tied documents it goes by."""
    arguments, gain = call_of(measure, rules)

    def under(ties: str, hits: Hits = query_hits) -> Derivation:
        view = RankView(hits, gain, ties)
        return replace(derive(measure, view, **arguments), ranks=tuple(view.rank.tolist()))

    if rules.ties == "order" or not bool(score(query_hits, measure, conventions=rules).tied[0, 0]):
        return under("order"), "order"
    if rules.ties == "expected":
        derivation = over_all_orders(query_hits, measure, arguments, gain)
        ranks = derivation.ranks or tuple(RankView(query_hits, gain, "order").rank.tolist())
        in_list = f"in the order of the list it would be {show(under('order').value)}"
        working = (_tie_groups_line(query_hits, gain), *derivation.working, in_list)
        derivation = replace(derivation, ranks=ranks, working=working)
        return derivation, "expected"
    search = measure.definition.extremes
    extremes = None if search is None else search(TieView(query_hits, gain), **arguments)
    if extremes is None:
        both = [under("best"), under("worst")]
    elif measure.definition.derivation is None:  # not by the number of hits alone
        line = f"{measure} over all orders of tied documents"
        both = [replace(under("order"), value=float(end[0]), working=(line,)) for end in extremes]
    else:
        both = [under("order", hits) for hits in orders_by_count(query_hits, measure, gain)]
    highest = max(both, key=lambda ranked: ranked.value)
    lowest = min(both, key=lambda ranked: ranked.value)
    if rules.ties == "midrank-up":
        return _between(lowest, under("midrank-up"), highest), "midrank-up"
    return (highest if rules.ties == "best" else lowest), rules.ties


def _between(low: Derivation, middle: Derivation, high: Derivation) -> Derivation:
    """Clip a mean derivation to what single orders can give."""
    nearest = min(max(middle.value, low.value), high.value)
    if nearest == middle.value:
        return middle
    line = f"no order gives exactly that; the nearest is {show(nearest)}"
    return replace(middle, value=nearest, working=(*middle.working, line))


def _tie_groups_line(hits: Hits, gain: Any) -> str:
    view = TieView(hits, gain)
    columns = (view.above.tolist(), view.size.tolist(), view.good.tolist())
    parts = [
        f"ranks {above + 1}–{above + size}: {good} of {size} count"
        for above, size, good in zip(*columns, strict=True)
        if size > 1
    ]
    return "tie groups: " + "; ".join(parts)


def _lines(
    listed: Sequence[tuple[str | int, float]],
    hits: Hits,
    derived: Derivation,
    ties: str,
    measure: Measure,
) -> Iterator[Line]:
    """Yield the ranks to show: the first ones, and below them those that count."""
    grades = dict(zip(hits.rank.tolist(), hits.grade.tolist(), strict=True))
    groups = _tie_groups([score for _, score in listed])
    added = dict(zip(derived.ranks, derived.rows, strict=False))
    counted = set(derived.ranks)
    cutoff = measure.cutoff if isinstance(measure.cutoff, int) else None
    last = len(listed) if cutoff is None else min(cutoff, len(listed))
    for rank in range(1, last + 1):
        tie = groups[rank - 1]
        nobody = tie is not None and ties != "order"
        inner = nobody and rank != last and rank not in (tie or ())
        if rank > _WHOLE and (inner or rank not in counted):
            continue
        doc, value = listed[rank - 1]
        yield Line(
            rank=rank,
            doc=None if nobody else doc,
            score=value,
            grade=None if nobody else grades.get(rank),
            tie=tie,
            values=added.get(rank, ()),
        )


def _tie_groups(scores: list[float]) -> list[tuple[int, int] | None]:
    """Return first and last rank of the tie group of each place, None without ties."""
    groups: list[tuple[int, int] | None] = []
    start = 0
    for stop in range(1, len(scores) + 1):
        if stop == len(scores) or scores[stop] != scores[start]:
            alone = stop - start == 1
            groups += [None if alone else (start + 1, stop)] * (stop - start)
            start = stop
    return groups


def _found_and_not(hits: Hits, measure: Measure, gain: Any) -> Iterator[str]:
    """Yield where the documents that count are, unless all of them stand in the lines."""
    view = RankView(hits, gain, "order")
    cutoff = measure.cutoff if isinstance(measure.cutoff, int) else None
    total, n_found = int(view.n_good[0]), len(view.rank)
    inside = n_found if cutoff is None else int((view.rank <= cutoff).sum())
    if bool(hits.missing[0]) or inside == total:
        return
    below = "" if cutoff is None else f", {n_found - inside} below rank {cutoff}"
    place = "in the list" if cutoff is None else f"at ranks ≤ {cutoff} of the list"
    yield (
        f"Of {total} documents that count for {measure}, {inside} are {place}{below}, and "
        f"{total - n_found} were not retrieved."
    )


def _notes(hits: Hits, evaluated: float, tied: bool, rules: Conventions) -> Iterator[str]:
    if bool(hits.missing[0]):
        fate = "left out of means" if rules.missing == "skip" else "counted as 0 in means"
        yield f"The query is judged but not in the run; it is {fate}."
    if math.isnan(evaluated):
        fate = "counted as 0 in means" if rules.empty == "zero" else "left out of means"
        yield f"The query has no relevant document, so the measure is undefined; it is {fate}."
    if tied:
        yield f"The value depends on the order of equal scores (ties: {rules.ties})."


Gain = Callable[[Floats], Floats]

_MOST_ORDERS = 5000
_SAMPLE = 1000
_DOUBT = math.log(2e6)  # the exact value is farther away than the error in one case of a million


def over_all_orders(
    hits: Hits, measure: Measure, arguments: dict[str, Any], gain: Gain
) -> Derivation:
    """Derive the mean over all orders: by a formula, or by going through them."""
    tied_derivation = measure.definition.tied_derivation
    derivation = (
        None if tied_derivation is None else tied_derivation(TieView(hits, gain), **arguments)
    )
    if derivation is not None:
        return derivation
    groups = _tied_groups(hits, gain)
    # How many orders are gone through: documents of equal gain are alike.
    number = math.prod(
        (math.comb if len(set(gains)) == 1 else math.perm)(size, len(gains))
        for _, size, gains in groups
    )
    every = number <= _MOST_ORDERS
    orders = _all_orders(groups) if every else _some_orders(groups)
    views = (RankView(_arranged(hits, gain, ranks), gain, "order") for ranks in orders)
    values = [derive(measure, view, **arguments).value for view in views]
    mean = math.fsum(values) / len(values)
    if every:
        line = f"mean of the values of all {number} orders: {measure} = {show(mean)}"
        return Derivation(mean, (line,))
    error = _sampling_error(values, measure.definition.high)
    line = (
        f"mean of the values of {len(values)} random orders, of too many to go through: "
        f"{show(mean)}, within {error:.2g} of the mean of all"
    )
    return Derivation(mean, (line,), error=error)


def _sampling_error(values: list[float], high: float | None) -> float:
    """Bound the error of a sample mean (Maurer & Pontil, COLT 2009), also if skewed."""
    n, width = len(values), max(values) - min(values) if high is None else high
    spread = math.sqrt(2 * float(np.var(values, ddof=1)) * _DOUBT / n)
    return spread + 7 * width * _DOUBT / (3 * (n - 1))


Group = tuple[int, int, tuple[float, ...]]  # first rank, size, gains that are not 0


def _tied_groups(hits: Hits, gain: Gain) -> list[Group]:
    """Return the tie groups, in the order of the list."""
    gains = gain(hits.grade)
    rows = zip(hits.rank_lo.tolist(), hits.rank_hi.tolist(), gains.tolist(), strict=True)
    counted = [row for row in rows if row[2] != 0]
    return [
        (lo, hi - lo + 1, tuple(value for _, _, value in members))
        for (lo, hi), members in itertools.groupby(counted, key=lambda row: row[:2])
    ]


def _all_orders(groups: list[Group]) -> Iterator[list[int]]:
    each = []
    for first, size, gains in groups:
        choose = itertools.combinations if len(set(gains)) == 1 else itertools.permutations
        each.append(list(choose(range(first, first + size), len(gains))))
    for choice in itertools.product(*each):
        yield list(itertools.chain.from_iterable(choice))


def _some_orders(groups: list[Group]) -> Iterator[list[int]]:
    draw = random.Random(0)
    for _ in range(_SAMPLE):
        yield [
            rank
            for first, size, gains in groups
            for rank in draw.sample(range(first, first + size), len(gains))
        ]


def _arranged(hits: Hits, gain: Gain, ranks: Iterable[int]) -> Hits:
    """Put the documents that count at these ranks, without ties."""
    counted = np.flatnonzero(gain(hits.grade))
    rank = np.fromiter(ranks, np.int64, len(counted))
    order = np.argsort(rank, kind="stable")
    rank = rank[order]
    grade = hits.grade[counted[order]]
    return replace(
        hits, rank=rank, rank_lo=rank, rank_hi=rank, grade=grade, offsets=np.array([0, len(rank)])
    )


def orders_by_count(hits: Hits, measure: Measure, gain: Gain) -> Iterator[Hits]:
    """Yield where more hits may lower a value: the best and worst order for each number of them.

    Of the group that the cutoff divides, 0, 1, 2, … documents are inside of it.
    """
    cut = measure.cutoff if isinstance(measure.cutoff, int) else math.inf
    for ties in ("best", "worst"):
        each = [_extreme_places(group, cut, ties) for group in _tied_groups(hits, gain)]
        for choice in itertools.product(*each):
            yield _arranged(hits, gain, itertools.chain.from_iterable(choice))


def _extreme_places(group: Group, cut: float, ties: str) -> list[list[int]]:
    """Return the places of counted documents, for each number of them before the cut."""
    first, size, gains = group
    m, inside = len(gains), int(min(max(cut - first + 1, 0), size))
    places = []
    for x in range(max(0, m + inside - size), min(m, inside) + 1):
        start = first if ties == "best" else first + inside - x
        places.append([*range(start, start + x), *range(first + size - m + x, first + size)])
    return places
