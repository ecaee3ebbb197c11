"""Scores: one value per measure and query, and their means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.arrays import Floats, exact_group_sums, exact_row_sums, log, numbers_or_none, or_none
from assay.core import checks
from assay.core.conventions import (
    Conventions,
    Settings,
    as_settings,
    join_settings,
    query_digest,
    setting_parts,
)
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.core.mismatches import CUT_BY_ROW, describe_near
from assay.core.text import format_percent, natural_order
from assay.errors import IdError, MeasureError, MismatchError, UsageError, ValueRangeError
from assay.io.lines import build_frame
from assay.measures import Measure, parse
from assay.native import engine_name
from assay.plugins import find_hook
from assay.tables.table import Cell, Page, Shown, Table, Words

SCHEMA_VERSION = 1
GEOMETRIC_FLOOR = 0.00001
LARGEST_WEIGHT = 1e100
_COUNTED = ("n", "empty", "missing", "tied", "tied_share")


@dataclass(frozen=True)
class Counts:
    """How many queries stand behind one mean, and what was done with the rest.

    `n` queries were averaged, `empty` of the judged ones have no relevant document (the measure is
    undefined there), `missing` are judged but not in the ranking, `tied` have a value that depends
    on the order of tied documents, `groups_left_out` is for means over groups.
    """

    n: int
    empty: int
    missing: int
    tied: int
    groups_left_out: int = 0

    @property
    def tied_share(self) -> float:
        """Share of the averaged queries whose value depends on ties."""
        return self.tied / self.n if self.n else 0.0


@dataclass(frozen=True)
class Mean(Mapping[str, float]):
    """Means by measure name, with the kind of average and the counts behind each.

    `average` is micro (over queries), macro (over groups) or weighted (over groups with weights).
    `groups` are the means of each group, and `sizes` how many queries stand behind them; where
    measures are undefined for some queries, the measure with the most counts.
    """

    values_by_name: dict[str, float]
    average: str
    counts: dict[str, Counts]
    by: str | None = None
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str | Measure) -> float:
        key = str(name)
        if key in self.values_by_name:
            return self.values_by_name[key]
        try:
            return self.values_by_name[str(parse(key))]
        except MeasureError as error:  # what a mapping lacks is a KeyError
            raise KeyError(str(error)) from None

    @property
    def n(self) -> int:
        """How many queries, or groups, were averaged, for the measure that has the most."""
        if self.by is None:
            return max((counts.n for counts in self.counts.values()), default=0)
        left_out = min((counts.groups_left_out for counts in self.counts.values()), default=0)
        return len(self.groups) - left_out

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: means with counts, and those of groups.

        Undefined ones are None.
        """
        data: dict[str, Any] = {
            "average": self.average,
            "measures": {
                name: {
                    "mean": or_none(value),
                    **{key: getattr(self.counts[name], key) for key in _COUNTED},
                }
                for name, value in self.items()
            },
        }
        if self.by is None:
            return data
        groups = {name: numbers_or_none(values) for name, values in self.groups.items()}
        return {**data, "by": self.by, "groups": groups, "sizes": self.sizes}

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a row per measure, as a pandas, polars or pyarrow data frame."""
        counts = [asdict(self.counts[name]) for name in self]
        columns: dict[str, Any] = {"measure": list(self), "mean": list(self.values())}
        columns |= {key: [row[key] for row in counts] for key in (counts[0] if counts else ())}
        return build_frame(columns, backend)

    def __repr__(self) -> str:
        body = ", ".join(f"{name}={value:.4f}" for name, value in self.items())
        return f"Mean({self.average}: {body})"


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Shown):
    """Measures × queries; NaN where a measure is undefined. Queries are in order of their ids.

    `tied` marks values that depend on the order of tied documents, `missing` the judged queries
    that the ranking does not hold; `extra` are the queries of the ranking without judgments;
    `groups` are columns such as scene, label or user; `search` says how the engine found the
    ranking, where it did, and that its order is certified; `settings` are what else made the
    numbers, such as the metric of the search; `remarks` say what is odd about the input;
    `not_computed` are measures without a value for any query, which have no mean; `hits` are there
    under `unjudged: bounds`.
    """

    measures: tuple[Measure, ...]
    query_ids: Ids
    values: Floats
    tied: NDArray[np.bool_]
    missing: NDArray[np.bool_]
    conventions: Conventions
    extra: Ids = field(default_factory=lambda: Ids.count(0))
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)
    search: str = ""
    settings: Settings = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    not_computed: frozenset[Measure] = frozenset()
    hits: Hits | None = None

    @property
    def n_queries(self) -> int:
        """Number of judged queries."""
        return len(self.query_ids)

    @property
    def signature(self) -> str:
        """All that decides these numbers beside the data; see `signature_of`."""
        return signature_of([self])

    @cached_property
    def query_set(self) -> str:
        """How many queries the means are over and a digest of their ids; `/`, those answered."""
        if not self.missing.any():
            return query_digest(self.query_ids)
        answered = query_digest(self.query_ids.take(np.flatnonzero(~self.missing)))
        if self.conventions.missing == "skip":
            return answered
        return f"{query_digest(self.query_ids)}/{answered}"

    def but_settings(self, **settings: Any) -> Scores:
        """Return the scores with more settings in the signature; None and False change nothing."""
        return replace(self, settings={**self.settings, **as_settings(**settings)})

    def __getitem__(self, measure: str | Measure) -> Floats:
        values: Floats = self.values[self._number_of(measure)]
        return values

    def _number_of(self, measure: str | Measure) -> int:
        parsed = measure if isinstance(measure, Measure) else parse(measure)
        if parsed not in self.measures:
            have = ", ".join(map(str, self.measures))
            raise UsageError(f"{parsed} was not computed. Name one of {have}.")
        return self.measures.index(parsed)

    def with_groups(self, **columns: Mapping[Any, Any] | Sequence[Any]) -> Scores:
        """Return the scores with group columns, each a {query id: group} that names every query.

        Where queries have no ids but are numbered 0, 1, …, a list with one group per query will do.
        """
        taken = [name for name in columns if name == "query" or name in map(str, self.measures)]
        if taken:
            raise UsageError(f"The group column name {taken[0]!r} is reserved. Choose another.")
        added = {name: self._column(name, values) for name, values in columns.items()}
        return replace(self, groups={**self.groups, **added})

    def _column(self, name: str, values: Mapping[Any, Any] | Sequence[Any]) -> NDArray[Any]:
        if isinstance(values, Mapping):
            absent = [query for query in self.query_ids if query not in values]
            if absent:
                raise MismatchError(
                    f"The group column {name!r} has no entry for {len(absent)} queries: "
                    f"{checks.name_few(absent)}.{describe_near(absent, values)}"
                )
            values = [values[query] for query in self.query_ids]
        elif self.query_ids != Ids.count(self.n_queries):
            raise UsageError(
                f"The group column {name!r} is a list, but the queries have ids. Give a "
                "dictionary {query id: group}."
            )
        checks.check_lengths(
            **{f"the group column {name!r}": len(values), "queries": self.n_queries}
        )
        groups = checks.check_labels(values, f"the group column {name!r}")
        return np.asarray([str(group) for group in groups.tolist()], dtype=np.str_)

    def mean(
        self,
        *,
        by: str | None = None,
        empty: str | None = None,
        missing: str | None = None,
        weights: Mapping[Any, float] | None = None,
    ) -> Mean:
        """Return the mean of each measure: over queries, or over the groups of a column (`by`).

        `empty` and `missing` override the conventions for this mean. With `weights`, one for each
        group, the mean over groups is weighted.

        >>> from assay import evaluate
        >>> run, qrels = {"q": {"a": 1}, "r": {"a": 1}}, {"q": {"a": 1}, "r": {"a": 0}}
        >>> scores = evaluate(run, qrels, "RR", conventions="label_retrieval")
        >>> scores.mean()["RR"], scores.mean(empty="zero")["RR"]
        (1.0, 0.5)
        """
        rules = self.conventions.replace(empty=empty, missing=missing)
        if rules.missing == "error" and self.missing.any():
            names = self.query_ids.take(np.flatnonzero(self.missing))
            raise MismatchError(f"Judged queries without a ranking: {checks.name_few(names)}.")
        if by is None:
            if weights is not None:
                raise UsageError("weights requires by=, the group column.")
            answered = np.flatnonzero(~self.missing) if rules.missing == "skip" else slice(None)
            return self._micro(answered, rules)
        return self._macro(by, rules, weights)

    def averaged(self, rules: Conventions | None = None) -> Floats:
        """Return measures × queries as the mean counts them; NaN where it leaves a query out."""
        rules = rules or self.conventions
        values: Floats = np.array(self.values)
        if rules.empty == "zero":
            values[np.isnan(values)] = 0.0
        if rules.missing == "skip":
            values[:, self.missing] = np.nan
        return values

    def bounds(self) -> dict[str, Any]:
        """Return the least and largest mean that unjudged documents allow, by measure.

        They need scores of a run under `unjudged="bounds"`.

        >>> from assay import evaluate
        >>> run, qrels = {"q": {"a": 2, "b": 1}}, {"q": {"a": 1}}
        >>> ends = evaluate(run, qrels, "P@2", unjudged="bounds").bounds()["P@2"]
        >>> ends.worst, ends.best
        (0.5, 1.0)
        """
        return dict(find_hook("bound_scores")(self))

    def _micro(self, rows: NDArray[np.int64] | slice, rules: Conventions) -> Mean:
        means, counts = {}, {}
        table, missing = self.values[:, rows], int(self.missing.sum())
        undefined = np.isnan(table)
        empty, tied = undefined.sum(axis=1).tolist(), self.tied[:, rows].sum(axis=1).tolist()
        sums = exact_row_sums(self._terms(table, undefined, rules))
        for number, measure in enumerate(self.measures):
            name, used = str(measure), table.shape[1]
            if measure in self.not_computed:
                means[name], counts[name] = math.nan, Counts(0, 0, missing, 0)
                continue
            if empty[number]:
                gaps = np.arange(self.n_queries)[rows][undefined[number]]
                self._refuse_empty(measure, gaps, rules)
                used -= 0 if rules.empty == "zero" else empty[number]
            means[name] = _aggregate(measure.definition.aggregate, sums[number], used)
            counts[name] = Counts(used, empty[number], missing, tied[number])
        return Mean(means, "micro", counts)

    def _terms(self, table: Floats, undefined: NDArray[np.bool_], rules: Conventions) -> Floats:
        """Return what is added up for each measure.

        These are values or their logarithms, 0 for what is left out.
        """
        terms = np.where(undefined, 0.0, table) if undefined.any() else table
        kinds = [measure.definition.aggregate for measure in self.measures]
        if "geometric" in kinds:
            geometric = [number for number, kind in enumerate(kinds) if kind == "geometric"]
            left_out = undefined[geometric] & (rules.empty != "zero")
            terms, logs = terms.copy(), log(np.maximum(terms[geometric], GEOMETRIC_FLOOR))
            terms[geometric] = np.where(left_out, 0.0, logs)
        return terms

    def _refuse_empty(self, measure: Measure, rows: NDArray[np.int64], rules: Conventions) -> None:
        if rules.empty == "error" and len(rows):
            names = self.query_ids.take(rows)
            raise ValueRangeError(
                f"{measure} is undefined for queries without a relevant document: "
                f"{checks.name_few(names)}. Use empty='skip' or empty='zero'."
            )

    def _macro(self, by: str, rules: Conventions, weights: Mapping[Any, float] | None) -> Mean:
        names, rows, numbers = self._members(by, rules)
        share = np.ones(len(names)) if weights is None else _weights(names, weights)
        means, counts, columns = {}, {}, {}
        sizes = np.zeros(len(names), np.int64)
        for number, measure in enumerate(self.measures):
            values = self.values[number, rows]
            undefined = np.isnan(values)
            if measure in self.not_computed:
                means[str(measure)] = math.nan
                columns[str(measure)] = [math.nan] * len(names)
                counts[str(measure)] = Counts(0, 0, int(self.missing.sum()), 0, len(names))
                continue
            self._refuse_empty(measure, rows[undefined], rules)
            if rules.empty == "zero":
                used, of = np.where(undefined, 0.0, values), numbers
            else:
                used, of = values[~undefined], numbers[~undefined]
            sizes = np.maximum(sizes, np.bincount(of, minlength=len(names)))
            aggregates = _group_aggregates(measure.definition.aggregate, used, of, len(names))
            defined = ~np.isnan(aggregates)
            total = math.fsum(share[defined].tolist())
            top = math.fsum((share * aggregates)[defined].tolist())
            columns[str(measure)] = aggregates.tolist()
            means[str(measure)] = top / total if total else math.nan
            counts[str(measure)] = Counts(
                n=len(used),
                empty=int(undefined.sum()),
                missing=int(self.missing.sum()),
                tied=int(self.tied[number, rows].sum()),
                groups_left_out=int(len(names) - defined.sum()),
            )
        rows_of_groups = zip(*columns.values(), strict=True)
        groups = {
            name: dict(zip(columns, row, strict=True))
            for name, row in zip(names, rows_of_groups, strict=True)
        }
        average = "macro" if weights is None else "weighted"
        counted = dict(zip(names, sizes.tolist(), strict=True))
        return Mean(means, average, counts, by, groups, counted)

    def _members(
        self, by: str, rules: Conventions
    ) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """Return the group names (2 before 10), the rows that count by group, and their groups."""
        if not isinstance(by, str) or by not in self.groups:
            have = ", ".join(self.groups) or "none; add one with with_groups()"
            raise UsageError(f"Group column {by!r} not found. Columns: {have}.")
        labels, codes = np.unique(self.groups[by], return_inverse=True)
        names = sorted(labels.tolist(), key=natural_order)
        place = {name: number for number, name in enumerate(names)}
        numbers = np.array([place[name] for name in labels.tolist()], np.int64)[codes]
        used = ~self.missing if rules.missing == "skip" else np.ones(self.n_queries, bool)
        rows = np.flatnonzero(used)
        rows = rows[np.argsort(numbers[rows], kind="stable")]
        return names, rows, numbers[rows]

    @classmethod
    def merge(cls, *parts: Scores) -> Scores:
        """Return one `Scores` from parts with different queries.

        The order of parts changes nothing.
        """
        if not parts:
            raise UsageError("merge needs at least one Scores.")
        for part in parts:
            checks.require(part, Scores, "every part", "a Scores")
        first = parts[0]
        for part in parts[1:]:
            _check_alike(first, part)
        query_ids = Ids.concat([part.query_ids for part in parts])
        pair = query_ids.first_duplicate()
        if pair is not None:
            raise IdError(
                f"Query {query_ids[pair[0]]!r} is in two of the parts. Give each batch its own "
                "query_ids; numbers from 0 repeat."
            )
        # Remarks on every part are on the whole; a tie that was cut in one part was cut.
        remarks = [text for text in first.remarks if all(text in p.remarks for p in parts[1:])]
        if len({CUT_BY_ROW in part.remarks for part in parts}) > 1:
            remarks.append(CUT_BY_ROW)
        by_id = query_ids.order()
        extra = Ids.concat([part.extra for part in parts if len(part.extra)] or [first.extra])
        return replace(
            first,
            query_ids=query_ids.take(by_id),
            values=np.concatenate([part.values for part in parts], axis=1)[:, by_id],
            tied=np.concatenate([part.tied for part in parts], axis=1)[:, by_id],
            missing=np.concatenate([part.missing for part in parts])[by_id],
            extra=extra.take(extra.order()),
            groups={
                name: np.concatenate([part.groups[name] for part in parts])[by_id]
                for name in first.groups
            },
            settings=join_settings(part.settings for part in parts),
            remarks=tuple(remarks),
            hits=None,
        )

    def to_dict(self, *, per_query: bool = True) -> dict[str, Any]:
        """Return plain data for JSON.

        It holds signature, means with counts and, if wanted, per-query values.
        """
        mean = self.mean()
        data: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "signature": self.signature,
            "settings": dict(self.settings),
            "queries": {
                "judged": self.n_queries,
                "missing": int(self.missing.sum()),
                "extra": len(self.extra),
            },
            **mean.to_dict(),
            "remarks": list(self.remarks),
        }
        if self.hits is not None:
            data["bounds"] = {name: ends.to_dict() for name, ends in self.bounds().items()}
        if per_query:
            data["per_query"] = {
                str(query): {
                    str(measure): or_none(self.values[number, row])
                    for number, measure in enumerate(self.measures)
                }
                for row, query in enumerate(self.query_ids)
            }
        return data

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a table with a row per query, as a pandas, polars or pyarrow data frame."""
        columns: dict[str, Any] = {"query": self.query_ids.to_list()}
        columns.update({name: column.tolist() for name, column in self.groups.items()})
        columns.update({str(m): self.values[i] for i, m in enumerate(self.measures)})
        return build_frame(columns, backend)

    def plot(self) -> Any:
        """Return a chart of the means with 95 % intervals; needs the extra `report`."""
        return find_hook("plot_means")(self)

    def __str__(self) -> str:
        """Return a line for each measure, then remarks and signature."""
        mean = self._lenient_mean()
        width, n = max(map(len, mean)), self.n_queries
        lines = [f"Scores of {n} {'query' if n == 1 else 'queries'}, {mean.average} averages"]
        for name, value in mean.items():
            lines.append(f"  {name:<{width}}  {value:.4f}  {describe_counts(mean.counts[name])}")
        return "\n".join([*lines, *(f"  {words}" for words in (*self.remarks, self.signature))])

    def _lenient_mean(self) -> Mean:
        """Return the mean, also where the conventions refuse one.

        Looking at a value must not fail.
        """
        return self.mean(
            empty="skip" if self.conventions.empty == "error" else None,
            missing="skip" if self.conventions.missing == "error" else None,
        )

    def page(self) -> Page:
        """Return the means as a table, then remarks and signature."""
        mean = self._lenient_mean()
        rows = tuple(
            (Cell(name), Cell(value, "fraction"), Cell(describe_counts(mean.counts[name])))
            for name, value in mean.items()
        )
        table = Table(("measure", f"{mean.average} mean", "queries"), rows)
        remarks = [Words(remark) for remark in self.remarks]
        return [table, *remarks, Words(self.signature, "signature")]


def signature_of(
    systems: Sequence[Scores],
    settings: Mapping[str, Any] | None = None,
    *,
    queries: Ids | None = None,
) -> str:
    """Return all that decides the numbers of systems, except the data.

    The conventions, the version and the kernels that computed them, how the rankings were found,
    the settings and those of the whole (`settings`), and the query set: that of the systems, or
    `queries` where only those count. What differs from system to system is listed in their order.
    """
    rules = join_settings(scores.conventions.parts() for scores in systems)
    settings_of_all = join_settings(
        {**as_settings(search=scores.search or None), **scores.settings} for scores in systems
    )
    parts = {"version": __version__, "engine": engine_name(), **settings_of_all}
    sets = join_settings({"queries": scores.query_set} for scores in systems)
    query_part = sets if queries is None else {"queries": query_digest(queries)}
    own_settings = as_settings(**settings or {})
    return "|".join(setting_parts({**rules, **parts, **own_settings, **query_part}))


def describe_counts(counts: Counts) -> str:
    """Describe the number of queries, and which of them need a remark."""
    parts = [f"n={counts.n}"]
    parts += [f"{counts.empty} empty"] if counts.empty else []
    parts += [f"{counts.missing} missing"] if counts.missing else []
    parts += [f"{format_percent(counts.tied_share)} depend on ties"] if counts.tied else []
    parts += [f"{counts.groups_left_out} groups left out"] if counts.groups_left_out else []
    return ", ".join(parts)


def _aggregate(kind: str, total: float, used: int) -> float:
    """Return sum or mean, exactly rounded whatever the order of queries."""
    if kind == "sum":
        return total
    if not used:
        return math.nan
    return math.exp(total / used) if kind == "geometric" else total / used


def _group_aggregates(
    kind: str, values: Floats, numbers: NDArray[np.int64], n_groups: int
) -> Floats:
    """Return `_aggregate` of each group, all at once."""
    if kind == "sum":
        return exact_group_sums(values, numbers, n_groups)
    logs = log(np.maximum(values, GEOMETRIC_FLOOR)) if kind == "geometric" else values
    sums, sizes = exact_group_sums(logs, numbers, n_groups), np.bincount(numbers, None, n_groups)
    means: Floats = np.divide(sums, sizes, out=np.full(n_groups, np.nan), where=sizes > 0)
    if kind == "geometric":
        return np.array(list(map(math.exp, means.tolist())), np.float64)
    return means


def _weights(names: list[str], weights: Mapping[Any, float]) -> Floats:
    checks.require(weights, Mapping, "weights", "{group: weight}")
    by_query = {str(key): value for key, value in weights.items()}
    absent = [name for name in names if name not in by_query]
    if absent:
        raise MismatchError(
            f"weights has no entry for groups: {checks.name_few(absent)}."
            f"{describe_near(absent, by_query)}"
        )
    weighed = [(name, by_query[name]) for name in names]
    bad = [n for n, w in weighed if not (checks.is_real(w) and 0 <= w <= LARGEST_WEIGHT)]
    if bad:
        raise ValueRangeError(
            f"The weight of group {bad[0]!r} is {by_query[bad[0]]!r}; it must be from 0 to 10^100."
        )
    if not any(by_query[name] for name in names):
        raise ValueRangeError("All weights are 0. Give one group a weight above 0.")
    return np.array([by_query[name] for name in names], np.float64)


def _check_alike(left: Scores, right: Scores) -> None:
    for what in ("measures", "conventions"):
        here, there = getattr(left, what), getattr(right, what)
        if here != there:
            raise MismatchError(f"The parts have unlike {what}: {here} and {there}. Score alike.")
    if set(left.groups) != set(right.groups):
        raise MismatchError(
            f"The parts have different group columns: {sorted(left.groups)} and "
            f"{sorted(right.groups)}. Give all the same ones."
        )
