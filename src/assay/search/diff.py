"""What changed between two runs: overlap, RBO and moved documents, without any judgments.

Overlap@k is |A_k ∩ B_k| / min(k, length of the longer list), so that equal short lists give 1.
RBO is RBO_EXT of Webber, Moffat and Zobel 2010 (ACM TOIS 28, 4), equation 32, which also takes
lists of two lengths s ≤ l; X_d counts the documents that the first d ranks have in common:

    (1 − p)/p · (Σ_{d=1..l} X_d/d · p^d + Σ_{d=s+1..l} X_s (d − s)/(s d) · p^d)
        + ((X_l − X_s)/l + X_s/s) · p^l

Lists are cut at `depth` first. Ties stand in the order of the file, and a query that one run alone
has counts as overlap 0. Documents are joined by numbers: no id becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from assay.arrays import Flags, Floats, Ints, offsets_of, power, rows_of
from assay.core import checks
from assay.core.conventions import Conventions, as_settings, query_digest, setting_parts
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.mismatches import check_match
from assay.core.on_demand import OnDemand
from assay.core.ranking import Ranking
from assay.core.text import bracket, interval_heading, natural_order
from assay.errors import UsageError
from assay.io.columns import read_groups
from assay.io.fingerprints import digest_of_arrays
from assay.io.formats import as_judgments, as_ranking, read_questions
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate
from assay.search.neighbours import check_persistence
from assay.stats import Interval, intervals
from assay.stats.choices import LEVEL, RESAMPLES, SEED
from assay.tables.table import Cell, Page, Shown, Table, Words, columns_of, table_of

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison, compare
    from assay.io.formats import QrelsLike, RunLike
    from assay.measures import MeasuresLike
else:
    compare = OnDemand("assay.comparison.compare").compare

_RULES: Final = Conventions(tiebreak="index")
_BLOCK: Final = 1 << 16  # documents to join at once; their keys fit into the caches
_SHOWN: Final = 2  # documents of a query in a table
_MEANS: Final = ("queries", "measure", "mean", interval_heading(0.95), "n")
_MOVED: Final = ("query", "overlap", "RBO", "first change", "text", "appeared", "vanished")


class QueryChange(NamedTuple):
    """How far one query moved; `first` is the first rank that changed.

    `appeared` and `vanished` are the documents that only the new, or only the old list has among
    its first k; `only` names the run that has the query, where the other has not.
    """

    query: str | int
    text: str
    overlap: float
    rbo: float
    first: int
    appeared: list[str | int]
    vanished: list[str | int]
    only: str

    @property
    def cells(self) -> tuple[Any, ...]:
        """The change as a row of a table, with the first few documents."""
        docs = [_name_few(self.appeared), _name_few(self.vanished)]
        docs = [f"only in {self.only}", ""] if self.only else docs
        return (str(self.query), self.overlap, self.rbo, self.first, self.text[:60], *docs)


@dataclass(frozen=True, eq=False, repr=False)
class RunDiff(Shown):
    """What changed between two runs; made by `diff`.

    `values` has a number for each query of `query_ids` by name: Overlap at each cutoff, RBO, and
    how many documents `appeared` and `vanished` within the first cutoff. `first` is the first
    changed rank, 0 where lists are equal. `join` counts the queries and documents that the old, and
    the new run has alone; `unjudged` the unjudged documents that one alone has among its first k.
    """

    names: tuple[str, str]
    join: _Join
    values: Mapping[str, Floats]
    first: Ints
    moved: tuple[QueryChange, ...]
    slices: Mapping[str, Flags]
    column: str
    settings: Mapping[str, Any]
    comparison: Comparison | None
    unjudged: tuple[int, int] | None
    remarks: tuple[str, ...]
    signature: str
    gate: Mapping[str, Any] = field(default_factory=dict)

    @property
    def query_ids(self) -> Ids:
        """The queries of either run, those of the old one first."""
        return self.join.query_ids

    @cached_property
    def means(self) -> dict[str, dict[str, Interval]]:
        """The mean of each similarity with its interval: of all queries, and of each slice."""
        names = list(self.values)[:-2]
        rows = np.array([self.values[name] for name in names])
        how: dict[str, Any] = {"bounds": [(0.0, 1.0)] * len(names), **self.settings}
        parts = {"all": np.ones(len(self.query_ids), bool), **self.slices}
        return {
            part: dict(zip(names, intervals(rows[:, inside], **how), strict=True))
            for part, inside in parts.items()
        }

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        (name, mean), *_ = self.means["all"].items()
        n, changed = len(self.query_ids), int((self.first > 0).sum())
        if not changed:
            return f"No change: {' and '.join(self.names)} agree on every query (n = {n:,})."
        ends = f"{mean.estimate:.4f} {mean.sentence()}"
        return f"{changed:,} of {n:,} queries changed; mean {name} {ends}."

    def mean_table(self) -> Table:
        """Return means with intervals, of all queries and of each slice."""
        rows = [
            (part, name, span.estimate, span.text() or "", span.n)
            for part, spans in self.means.items()
            for name, span in spans.items()
        ]
        interval = Interval.heading(self.settings["level"])
        return table_of((self.column or "queries", "measure", "mean", interval, "n"), rows)

    def table(self) -> Table:
        """Return a row for each query, with every digit."""
        first = [rank or None for rank in self.first.tolist()]
        columns = [values.tolist() for values in self.values.values()]
        rows = zip(map(str, self.query_ids), *columns, first, strict=True)
        return table_of(("query", *self.values, "first_change"), rows)

    def page(self) -> Page:
        """Return verdict, means, the queries that moved most, and whether it helped."""
        names = ("appeared", "vanished")
        counts = " and ".join(f"{int(self.values[name].sum()):,} {name}" for name in names)
        page: Page = [Words(self.verdict, "verdict"), self.mean_table()]
        page.append(Words(f"Documents in the top of a query: {counts}."))
        if self.moved:
            moved = _table_moved([change.cells for change in self.moved])
            page += [Words("Queries that moved most"), replace(moved, n_optional=2)]
        if self.comparison is not None:
            page += self.comparison.page([])[:-1]
        page += [Words(remark, "remark") for remark in self.remarks]
        return [*page, Words(self.signature, "signature")]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; undefined numbers are None."""
        means = {
            part: {name: {**span.to_dict("mean"), "n": span.n} for name, span in spans.items()}
            for part, spans in self.means.items()
        }
        table = self.table()
        judged = None
        if self.comparison is not None:
            judged = {"unjudged": self.unjudged, "comparison": self.comparison.to_dict()}
        return {
            "signature": self.signature,
            "verdict": self.verdict,
            "names": self.names,
            "only_queries": self.join.only_queries,
            "only_docs": self.join.only_docs,
            "slices": self.column,
            "means": means,
            "moved": [change._asdict() for change in self.moved],
            "queries": [
                dict(zip(table.columns, [cell.value for cell in row], strict=True))
                for row in table.rows
            ],
            "judged": judged,
            "remarks": self.remarks,
            **self.gate,
        }

    def record(self) -> RunRecord:
        """Return the diff as a record, for stores, reports and the dashboard.

        It has no scores: overlap is likeness of two runs, not quality of one.
        """
        aggregates = []
        for part, spans in self.means.items():
            subset = "" if part == "all" else f"{self.column}: {part}"
            for name, span in spans.items():
                number = Aggregate.of_interval(name, span, average="overlap", subset=subset)
                aggregates.append(number)
        judged = [] if self.comparison is None else [*self.comparison.verdicts.values()]
        details = {
            "signature": self.signature,
            "verdict": self.verdict,
            "remarks": [*judged, *self.remarks],
            "moved": [change.cells for change in self.moved],
        }
        return RunRecord(
            f"{self.names[1]} against {self.names[0]}",
            task="diff",
            model=self.names[1],
            aggregates=aggregates,
            details=details,
            seeds={"seed": self.settings["seed"]},
        )

    def __repr__(self) -> str:
        return self.verdict


def diff(
    old: RunLike,
    new: RunLike,
    *,
    k: int | Iterable[int] = 10,
    depth: int = 100,
    p: float = 0.9,
    names: Sequence[str] = ("old", "new"),
    queries: str | None = None,
    slices: str | Mapping[Any, str] | None = None,
    qrels: QrelsLike | None = None,
    measures: MeasuresLike = "nDCG@10",
    moved: int = 10,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    allow_mismatch: bool = False,
) -> RunDiff:
    """Compare two runs with each other, without judgments: what changed, and for which queries.

    Args:
        old: The run before the change: a file, a `Ranking` or data, as `evaluate` takes it.
        new: The run after it.
        k: Cutoffs of the overlap; documents that appear and vanish are those of the first.
        depth: Ranks of each list to compare.
        p: Persistence of RBO.
        names: What the two are called.
        queries: A file with ids and texts of the queries.
        slices: Slices of the queries: a file, `FILE:COLUMN`, or {query: slice}.
        qrels: Judgments, to tell whether the movement helped.
        measures: With judgments: the measures.
        moved: How many of the queries that moved most to list.
        level: Significance level; intervals have 1 − level.
        resamples: Number of resamples.
        seed: Seed of the draws.
        allow_mismatch: Go on where ids nearly match.

    Returns:
        The differences, by query and in the mean.

    Raises:
        UsageError: An argument is out of range.
        MismatchError: Ids of the two runs differ only in how they are written.

    Example:
        >>> diff({"q": ["a", "b", "c"]}, {"q": ["a", "c", "d"]}, k=2)
        1 of 1 queries changed; mean Overlap@2 0.5000 no interval.
    """
    cuts = checks.as_list([k] if checks.is_real(k) else k, "k")
    cutoffs = tuple(dict.fromkeys(checks.check_cutoff(cut) for cut in cuts))
    names = checks.as_list(names, "names")
    if not cutoffs or len(names) != 2 or names[0] == names[1]:
        raise UsageError("A diff needs a cutoff k and two names. Pass them.")
    depth = max(checks.check_cutoff(depth, "depth"), *cutoffs)
    moved = checks.check_cutoff(moved, "moved")
    persistence, questions = check_persistence(p), read_questions(queries)
    with ThreadPoolExecutor(2) as pool:  # files are parsed side by side
        before, after = pool.map(lambda run: as_ranking(run, _RULES, questions), (old, new))
    join = _Join.of(before, after, depth)
    remarks = [*_check_ids(before, after, names, allow=allow_mismatch)]
    values, first = _compare_lists(join, cutoffs, persistence)
    column, groups = _read_slices(slices, join.query_ids)
    for n, name in zip(join.only_queries, names, strict=True):
        if n:
            which = "query is" if n == 1 else "queries are"
            remarks.append(f"{n:,} {which} in {name} only (counted as overlap 0)")
    drawn = {"resamples": resamples, "seed": seed}
    comparison = unjudged = judgments = None
    if qrels is not None:
        judgments = as_judgments(qrels, questions)
        about: dict[str, Any] = {"baseline": names[0], "level": level, **drawn}
        about |= {"conventions": _RULES, "allow_mismatch": allow_mismatch}
        systems = {names[1]: after, names[0]: before}
        comparison = compare(systems, judgments, measures, **about)
        if isinstance(judgments, Qrels):
            unjudged = _count_unjudged(join, judgments, cutoffs[0])
            remarks += _describe_pools(unjudged, names, cutoffs[0])
    deciding: dict[str, Any] = {
        "old": f"{names[0]}-{_digest(before)}",
        "new": f"{names[1]}-{_digest(after)}",
        "k": cutoffs,
        "RBO_ext": f"p={persistence:g}",
        "ranks": f"{depth}-ties-in-order-of-lines",
        "union": query_digest(join.query_ids),
        "slices": f"{column}-{digest_of_arrays(*groups.values())[:8]}" if column else None,
        "level": level,
        **drawn,
        "judgments": None if judgments is None else _digest(judgments),
        "measures": None if comparison is None else [*map(str, comparison.measures)],
    }
    rules = "" if comparison is None else f"|{_RULES.signature()}"
    texts = {} if questions is None else questions.texts
    changes = _find_moved(join, values, first, cutoffs[0], names, texts)
    result = RunDiff(
        names=(names[0], names[1]),
        join=join,
        values=values,
        first=first,
        moved=tuple(islice(changes, moved)),
        slices=groups,
        column=column,
        settings={"level": 1 - level, **drawn},
        comparison=comparison,
        unjudged=unjudged,
        remarks=tuple(remarks),
        signature="|".join(["diff", *setting_parts(as_settings(**deciding))]) + rules,
    )
    _ = result.means  # settings that make no interval are refused here
    return result


@dataclass(frozen=True, eq=False)
class _Lists:
    """One run, row by row of the union of queries: lists of document numbers, cut at a depth."""

    ranking: Ranking
    starts: Ints
    lengths: Ints
    numbers: Ints

    @classmethod
    def of(cls, ranking: Ranking, rows: Ints, numbers: Ints, depth: int) -> _Lists:
        """Return the lists of these rows of a ranking; row −1 is an empty list."""
        lengths = np.append(np.minimum(ranking.lengths, depth), 0)[rows]
        return cls(ranking, ranking.offsets[rows], lengths, numbers)

    def block(self, start: int, stop: int) -> tuple[Ints, Ints, Ints]:
        """Return row (from 0), rank and document of every entry of some rows."""
        offsets = offsets_of(self.lengths[start:stop])
        row = rows_of(offsets)
        place = np.arange(offsets[-1]) - offsets[row]
        docs = self.ranking.docs[place + self.starts[start:stop][row]]
        return row, place + 1, self.numbers[docs]

    def top(self, row: int, k: int) -> list[str | int]:
        """Return the ids of the first k documents of one row."""
        start = self.starts[row]
        docs = self.ranking.docs[start : start + min(k, self.lengths[row])]
        return list(self.ranking.doc_ids.take(docs.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class _Join:
    """Two runs over the union of their queries, with one numbering of documents."""

    query_ids: Ids
    old: _Lists
    new: _Lists
    only_queries: tuple[int, int]
    only_docs: tuple[int, int]
    bits: tuple[int, int]  # of a rank and of a document number

    @classmethod
    def of(cls, old: Ranking, new: Ranking, depth: int) -> _Join:
        rows_of_new = old.query_ids.match(new.query_ids)
        extra = np.flatnonzero(new.query_ids.match(old.query_ids) < 0)
        old_rows = np.concatenate([np.arange(len(old)), np.full(len(extra), -1)])
        matches, n_old = new.doc_ids.match(old.doc_ids), len(old.doc_ids)
        alone = matches < 0
        n_alone = int(alone.sum())
        numbers = np.where(alone, n_old + np.cumsum(alone) - 1, matches)
        lists = (
            _Lists.of(old, old_rows, np.arange(n_old), depth),
            _Lists.of(new, np.concatenate([rows_of_new, extra]), numbers, depth),
        )
        longest = max(int(side.lengths.max()) for side in lists)
        return cls(
            Ids.concat([old.query_ids, new.query_ids.take(extra)]),
            *lists,
            (int((rows_of_new < 0).sum()), len(extra)),
            (n_old - len(alone) + n_alone, n_alone),
            (longest.bit_length(), (n_old + n_alone).bit_length()),
        )

    def blocks(self) -> Iterator[tuple[int, int, Ints]]:
        """Yield some rows at a time, with their sorted keys: row, document, side and rank.

        A document that both lists hold has two keys side by side, the old one first.
        """
        rank_bits, doc_bits = self.bits
        most = 1 << max(0, 61 - rank_bits - doc_bits)  # rows whose keys fit into 63 bits
        size = np.cumsum(self.old.lengths + self.new.lengths)
        start = 0
        while start < len(size):
            before = size[start - 1] if start else 0
            stop = int(np.searchsorted(size, before + _BLOCK, side="right"))
            stop = min(max(stop, start + 1), start + most, len(size))
            parts = []
            for side, lists in enumerate((self.old, self.new)):
                row, rank, doc = lists.block(start, stop)
                parts.append((((row << doc_bits | doc) << 1 | side) << rank_bits) | rank)
            keys = np.concatenate(parts)
            keys.sort()
            yield start, stop, keys
            start = stop


def _compare_lists(join: _Join, cutoffs: Sequence[int], p: float) -> tuple[dict[str, Floats], Ints]:
    """Return the values of each query by measure, and the first changed rank."""
    rank_bits, doc_bits = join.bits
    mask, n = (1 << rank_bits) - 1, len(join.query_ids)
    shared = {k: np.zeros(n) for k in cutoffs}
    rbo, first = np.zeros(n), np.zeros(n, np.int64)
    for start, stop, keys in join.blocks():
        docs = keys >> (rank_bits + 1)
        same = np.flatnonzero(docs[1:] == docs[:-1])
        row = docs[same] >> doc_bits
        left, right = keys[same] & mask, keys[same + 1] & mask
        deeper = np.maximum(left, right)
        for k, counts in shared.items():
            counts[start:stop] = np.bincount(row[deeper <= k], minlength=stop - start)
        old, new = (side.lengths[start:stop] for side in (join.old, join.new))
        rbo[start:stop] = _rbo(row, deeper, old, new, p)
        fixed = left == right
        first[start:stop] = _first_changes(row[fixed], left[fixed], np.maximum(old, new))
    old, new, k = join.old.lengths, join.new.lengths, cutoffs[0]
    longer = np.maximum(np.maximum(old, new), 1)
    values = {f"Overlap@{cut}": shared[cut] / np.minimum(cut, longer) for cut in cutoffs}
    values[f"RBO(p={p:g})"] = rbo
    for numbers in values.values():
        numbers[first == 0] = 1.0  # also of empty lists; rounding must not tell equal ones apart
    values["appeared"], values["vanished"] = (np.minimum(n, k) - shared[k] for n in (new, old))
    return values, first


def _first_changes(row: Ints, rank: Ints, longer: Ints) -> Ints:
    """Return the first rank at which each row differs, 0 where none does.

    `row` and `rank` are of the documents that kept their rank.
    """
    offsets = offsets_of(longer)
    moved = np.ones(offsets[-1], bool)
    moved[offsets[row] + rank - 1] = False
    at = np.flatnonzero(moved)[::-1]  # the last value written, that of the first rank, stays
    rows = rows_of(offsets)[at]
    first = np.zeros(len(longer), np.int64)
    first[rows] = at - offsets[rows] + 1
    return first


def _rbo(row: Ints, deeper: Ints, old: Ints, new: Ints, p: float) -> Floats:
    """Return RBO_EXT of each row from the deeper rank of each shared document.

    A document that is shared from depth m on adds p^d / d at all depths from m.
    """
    n, short, long = len(old), np.minimum(old, new), np.maximum(old, new)
    depths = np.arange(1, long.max() + 1)
    powers, shares = (
        np.append(0, np.cumsum(power(p, depths))),
        np.append(0, np.cumsum(power(p, depths) / depths)),
    )
    at_long = np.bincount(row, minlength=n)
    at_short = np.bincount(row[deeper <= short[row]], minlength=n)
    agreement = at_short / np.maximum(short, 1)
    listed = at_long * shares[long] - np.bincount(row, shares[deeper - 1], minlength=n)
    beyond = agreement * (powers[long] - powers[short]) - at_short * (shares[long] - shares[short])
    last = (at_long - at_short) / np.maximum(long, 1) + agreement
    rbo: Floats = (1 - p) / p * (listed + beyond) + last * power(p, long)
    return rbo.clip(0.0, 1.0)


def _find_moved(
    join: _Join,
    values: Mapping[str, Floats],
    first: Ints,
    k: int,
    names: Sequence[str],
    texts: Mapping[str, str],
) -> Iterator[QueryChange]:
    """Yield the queries that moved, most first: by RBO, then by overlap, then in order."""
    overlaps, rbo = values[f"Overlap@{k}"], list(values.values())[-3]
    order = np.lexsort([overlaps, rbo])
    for row in order[first[order] > 0].tolist():
        query, numbers = join.query_ids[row], (float(overlaps[row]), float(rbo[row]))
        old, new = join.old.top(row, k), join.new.top(row, k)
        docs = [doc for doc in new if doc not in old], [doc for doc in old if doc not in new]
        only = "" if old and new else names[0 if old else 1]
        yield QueryChange(query, texts.get(str(query), ""), *numbers, int(first[row]), *docs, only)


def _count_unjudged(join: _Join, judged: Qrels, k: int) -> tuple[int, int]:
    """Count unjudged documents of judged queries that one run alone has among its first k."""
    (rank_bits, doc_bits), n_docs = join.bits, len(judged.doc_ids)
    pool = rows_of(judged.offsets) * n_docs + judged.docs
    to_judged = join.query_ids.match(judged.query_ids)
    number = np.full(1 << doc_bits, -1)
    for side in (join.old, join.new):
        number[side.numbers] = side.ranking.doc_ids.match(judged.doc_ids)
    counts = np.zeros(2, np.int64)
    for start, _, keys in join.blocks():
        top = keys[keys & ((1 << rank_bits) - 1) <= k] >> rank_bits
        same = np.concatenate([[False], top[1:] >> 1 == top[:-1] >> 1, [False]])
        alone = top[~(same[1:] | same[:-1])]
        row = to_judged[start + (alone >> (1 + doc_bits))]
        doc = number[(alone >> 1) & ((1 << doc_bits) - 1)]
        is_judged = (doc >= 0) & np.isin(row * n_docs + doc, pool)
        counts += np.bincount((alone & 1)[(row >= 0) & ~is_judged], minlength=2)
    return int(counts[0]), int(counts[1])


def _describe_pools(unjudged: tuple[int, int], names: Sequence[str], k: int) -> Iterator[str]:
    if any(unjudged):
        both = " and ".join(
            f"{n:,} of {name}" for n, name in zip(unjudged, names, strict=True) if n
        )
        yield (
            f"unjudged documents in the top {k} of one run only: {both} (counted as not "
            "relevant). Label them first: measures are not comparable otherwise"
        )


def _read_slices(
    slices: str | Mapping[Any, str] | None, queries: Ids
) -> tuple[str, dict[str, Flags]]:
    """Return the name of the column and the queries of each slice, in natural order."""
    if slices is None:
        return "", {}
    column, groups = "slice", cast("Mapping[Any, str]", slices)
    if not isinstance(slices, Mapping):
        checks.require(slices, str, "slices", "a file or {query: slice}")
        column, groups = read_groups(slices, queries)
    labels = np.array([str(groups.get(query, "")) for query in queries])
    names = sorted(set(labels.tolist()) - {""}, key=natural_order)
    if not names:
        raise UsageError(f"No query has a slice: column {column!r} is empty. Fill it.")
    # "all" is what all queries together are called.
    return column, {name + " (slice)" * (name == "all"): labels == name for name in names}


def _check_ids(old: Ranking, new: Ranking, names: Sequence[str], *, allow: bool) -> Iterator[str]:
    """Refuse ids of the two runs that differ only in how they are written."""
    for what, words in (("query_ids", "queries"), ("doc_ids", "documents")):
        ids, there = getattr(old, what), getattr(new, what)
        labels = (f"{words} of {names[0]}", str(names[1]))
        yield from check_match(ids, there, *labels, allow=allow, none=False)


def _digest(data: Ranking | Judgments) -> str:
    """Return a digest of judgments, or of a run's lists: only the order of its scores counts."""
    names = [part.name for part in fields(cast("Any", data))]
    if isinstance(data, Ranking):
        names = ["query_ids", "doc_ids", "offsets", "docs"]
    parts = [getattr(data, name) for name in names]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    texts = (part.as_text().utf8 for part in parts if isinstance(part, Ids))
    return digest_of_arrays(*arrays, *(array for pair in texts for array in pair))[:8]


def _name_few(ids: Sequence[object]) -> str:
    """Return the first ids, and how many more there are."""
    more = f" +{len(ids) - _SHOWN}" if len(ids) > _SHOWN else ""
    return " ".join(map(str, ids[:_SHOWN])) + more


def _table_moved(rows: Sequence[Sequence[Any]]) -> Table:
    """Return a row for each query that moved; texts only where there are some."""
    table, texts = table_of(_MOVED, rows), _MOVED.index("text")
    used = any(row[texts] for row in rows)
    return columns_of(table, [i for i in range(len(_MOVED)) if used or i != texts])


def show_stored(run: Any) -> list[tuple[str, Table | str]]:
    """Return verdict and moved queries of a stored diff, for its page; its numbers are there."""
    stored = run.task == "diff" and run.status == "finished"
    return show_records([run.record()])[::2] if stored else []


def show_records(runs: Iterable[RunRecord]) -> list[tuple[str, Table | str]]:
    """Return verdict, means and moved queries of each diff, for reports."""
    parts: list[tuple[str, Table | str]] = []
    runs = [run for run in runs if run.task == "diff"]
    for run in runs:
        about, of = run.details, f": {run.name}" if len(runs) > 1 else ""
        numbers = ((m, Cell(bracket(m.low, m.high), "figure")) for m in run.aggregates)
        means = [(m.subset or "all", m.measure, m.value, ends, m.n) for m, ends in numbers]
        parts += [
            (f"What changed{of}", "\n".join([about["verdict"], *about["remarks"]])),
            (f"Similarity of the runs{of}", table_of(_MEANS, means)),
            (f"Queries that moved{of}", _table_moved(about["moved"])),
            (f"Signature{of}", about["signature"]),
        ]
    return parts
