"""The scores of several systems on the queries they share, and clusters of dependent queries.

Queries of one cluster, such as the keypoints of one scene, are not independent of each other. A
stored run names the group column by which its intervals were resampled, and comparisons of such
runs resample and test the same groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.checks import as_list, require
from assay.core.conventions import Conventions
from assay.core.hits import Hits
from assay.core.ids import Ids
from assay.core.mismatches import check_match
from assay.core.text import did_you_mean, remark_about
from assay.errors import MismatchError, UsageError
from assay.measures import Measure, parse_many
from assay.scoring.scores import Scores, signature_of

LEAST_SHARE = 0.5  # of the largest query set; with fewer in common, systems are not compared


@dataclass(frozen=True, eq=False)
class Aligned:
    """Systems × measures × queries, with undefined values as the conventions treat them.

    `sizes` says how many queries each system had (queries that are missing and skipped do not
    count), `clusters` which group each query is in, `slices` which slice, `remarks` what was left
    out on the way, and `hits` where documents stand, under `unjudged: bounds`.
    """

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    query_ids: Ids
    values: Floats
    clusters: NDArray[Any] | None
    conventions: Conventions
    signature: str
    sizes: tuple[int, ...]
    remarks: tuple[str, ...]
    slices: NDArray[Any] | None = None
    hits: tuple[Hits | None, ...] = ()


def align(
    systems: Sequence[Scores],
    *,
    names: Iterable[str] | None,
    measures: Any,
    by: str | None,
    settings: Mapping[str, Any] | None = None,
    slices: str | None = None,
) -> Aligned:
    """Check that the systems belong together, and take the queries that all of them have.

    `settings` are those of the comparison, for the signature.
    """
    for number, scores in enumerate(systems):
        if not isinstance(scores, Scores):
            raise UsageError(
                f"compare takes Scores or runs by name; system {number} is a "
                f"{type(scores).__name__}. Score it."
            )
    labels = _check_names(names, len(systems))
    shared, left_out = _choose_measures(systems, measures, labels)
    for what, column in (("by", by), ("slices", slices)):
        if column is not None:
            require(column, str, what, "the name of one group column, a text")
    answered = [answered_queries(scores) for scores in systems]
    rows = _shared_rows(systems, answered, labels)
    values = np.stack(
        [
            np.stack([_values_to_average(scores, measure)[places] for measure in shared])
            for scores, places in zip(systems, rows, strict=True)
        ]
    )
    return Aligned(
        names=labels,
        measures=shared,
        query_ids=systems[0].query_ids.take(rows[0]),
        values=values,
        clusters=None if by is None else _shared_clusters(systems, rows, by, labels),
        conventions=systems[0].conventions,
        signature=signature_of(systems, settings, queries=systems[0].query_ids.take(rows[0])),
        sizes=tuple(map(len, answered)),
        remarks=(*left_out, *_remarks(systems, labels, answered, values)),
        slices=None if slices is None else _shared_clusters(systems, rows, slices, labels),
        hits=tuple(scores.hits for scores in systems),
    )


def comparable(measure: Measure) -> bool:
    """Return whether the measure is a mean over queries where higher is better.

    A difference of sums or of geometric means is not a mean of per-query differences.
    """
    return measure.definition.aggregate == "mean" and measure.is_quality


def _check_names(names: Iterable[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(chr(65 + i) if count <= 26 else f"S{i + 1}" for i in range(count))
    if isinstance(names, str):
        raise UsageError(f"names must be a list, one name per system, found {names!r}.")
    labels = tuple(as_list(names, "names"))
    odd = next((name for name in labels if not isinstance(name, str)), labels)
    if odd is not labels:
        raise UsageError(f"The name of a system must be a text, found {odd!r}.")
    if len(labels) != count:
        raise UsageError(f"There are {count} systems and {len(labels)} names. Give one for each.")
    twice = next((name for name in labels if labels.count(name) > 1), None)
    if twice is not None or "" in labels:
        fault = "one name is empty" if twice is None else f"{twice!r} names two systems"
        raise UsageError(f"Each system needs its own name: {fault}. Pass other names.")
    return labels


def _choose_measures(
    systems: Sequence[Scores], measures: Any, names: tuple[str, ...]
) -> tuple[tuple[Measure, ...], list[str]]:
    """Return the measures to compare, and remarks on those that cannot be, if any."""
    depths = {scores.conventions.depth for scores in systems}
    reach = min(depth or math.inf for depth in depths) if len(depths) > 1 else None
    _check_alike(systems, names, measures is None and reach is None)
    if measures is not None:
        if not isinstance(measures, Measure | Iterable):
            raise UsageError(
                f"measures must be a text or a list such as ['nDCG@10'], found {measures!r}."
            )
        named = parse_many(measures)
        bad = [measure for measure in named if not comparable(measure)]
        if bad:
            raise UsageError(_not_comparable(bad[:1]))
        if deep := [measure for measure in named if not _reaches(reach, measure)]:
            raise MismatchError(_too_deep(deep, reach))
        return named, []
    first, *others = (scores.measures for scores in systems)
    shared = [m for m in first if _reaches(reach, m) and all(m in other for other in others)]
    usable = tuple(measure for measure in shared if comparable(measure))
    left_out = [measure for measure in shared if not comparable(measure)]
    deep = [measure for measure in first if measure not in shared]
    if not usable:
        raise (
            MismatchError(_too_deep(deep, reach)) if deep else UsageError(_not_comparable(left_out))
        )
    listed = ", ".join(map(str, left_out))
    remark = f"left out: {listed} (not a mean over queries where higher is better)"
    remarks = [remark] if left_out else []
    return usable, [*remarks, f"left out: {_too_deep(deep, reach)}"] if deep else remarks


def _reaches(reach: float | None, measure: Measure) -> bool:
    """Return whether lists cut at `reach` hold all that the measure looks at; None if all do."""
    return reach is None or (isinstance(measure.cutoff, int) and measure.cutoff <= reach)


def _too_deep(measures: Sequence[Measure], reach: float | None) -> str:
    return (
        f"{', '.join(map(str, measures))}. Some systems retrieved only {reach} documents per "
        f"query. Compare at cutoffs up to {reach}"
    )


def _not_comparable(measures: Sequence[Measure]) -> str:
    named = ", ".join(map(str, measures))
    return (
        f"{named} cannot be compared: it is not a mean over queries where higher is better. "
        "Compare AP in place of GMAP, R or P in place of counts."
    )


def _check_alike(systems: Sequence[Scores], names: tuple[str, ...], same_measures: bool) -> None:
    first = systems[0]
    for name, other in zip(names[1:], systems[1:], strict=True):
        left, right = first.conventions, other.conventions
        # A cut of the lists leaves what stands above it, unless it splits ties that count.
        if left != (right.replace(depth=left.depth) if right.ties == "order" else right):
            choices = [item.name for item in fields(left) if item.compare]
            both = [(key, getattr(left, key), getattr(right, key)) for key in choices]
            unlike = [f"{key} is {here} and {there}" for key, here, there in both if here != there]
            raise MismatchError(
                f"{names[0]!r} and {name!r} follow different conventions: {', '.join(unlike)}. "
                "Score both alike."
            )
        if same_measures and set(first.measures) != set(other.measures):
            lists = [", ".join(map(str, each.measures)) for each in (first, other)]
            raise MismatchError(
                f"{names[0]!r} and {name!r} have different measures: {lists[0]}; and {lists[1]}. "
                "Choose some with measures=."
            )


def answered_queries(scores: Scores) -> Ids:
    """Return the queries that a system answers, without those that are missing and skipped.

    A run that answers only easy queries must not pass for one that answers all.
    """
    if scores.conventions.missing != "skip" or not scores.missing.any():
        return scores.query_ids
    return scores.query_ids.take(np.flatnonzero(~scores.missing))


def _shared_rows(
    systems: Sequence[Scores], answered: Sequence[Ids], names: tuple[str, ...]
) -> list[Ints]:
    """Return for each system the places of the queries that all systems have, in one order."""
    first = answered[0]
    shared = np.ones(len(first), bool)
    for ids_there in answered[1:]:
        shared &= first.match(ids_there) >= 0
    ids = first.take(np.flatnonzero(shared))
    largest = max(map(len, answered))
    if len(ids) < LEAST_SHARE * largest:
        sizes = list(zip(names, map(len, answered), strict=True))[:5]
        counts = ", ".join(f"{name!r} has {size}" for name, size in sizes)
        raise MismatchError(
            f"Only {len(ids)} queries are in all {len(systems)} systems, less than half of the "
            f"largest set: {counts}{', …' if len(systems) > 5 else ''}. Score them on the same "
            f"queries.{''.join(f' {words}.' for words in _describe_near(names, answered))}"
        )
    return [ids.match(scores.query_ids) for scores in systems]


def _values_to_average(scores: Scores, measure: Measure) -> Floats:
    """Return per query what the mean counts: NaN only where the measure is undefined."""
    rules = scores.conventions
    if "error" in (rules.empty, rules.missing):
        scores.mean()
    values = scores[measure]
    return np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values


def _shared_clusters(
    systems: Sequence[Scores], rows: list[Ints], by: str, names: tuple[str, ...]
) -> NDArray[Any]:
    groups: NDArray[Any] | None = None
    for name, scores, places in zip(names, systems, rows, strict=True):
        if by not in scores.groups:
            continue
        column = scores.groups[by][places]
        if groups is None:
            groups = column
        elif (groups != column).any():
            row = int(np.argmax(groups != column))
            query, here, there = scores.query_ids[int(places[row])], groups[row], column[row]
            raise MismatchError(
                f"Query {query!r} is in group '{here}' for one system and in '{there}' for "
                f"{name!r}. Give it one group."
            )
    if groups is None:
        raise UsageError(f"No system has the group column {by!r}. Add scores.with_groups({by}=…).")
    return groups


def _describe_near(names: tuple[str, ...], answered: Sequence[Ids]) -> list[str]:
    """Return queries that systems would share if their ids were written alike."""
    first = answered[0]
    return [
        remark
        for name, ids in zip(names[1:], answered[1:], strict=True)
        for remark in check_match(
            first, ids, f"queries of {names[0]}", name, allow=True, none=False
        )
    ]


def _remarks(
    systems: Sequence[Scores], names: tuple[str, ...], answered: Sequence[Ids], values: Floats
) -> Iterator[str]:
    """Yield which queries were left out, what is odd about the input, and which systems are equal.

    Of one system, its own remarks say it; of two equal ones, the verdict.
    """
    shared = values.shape[2]
    more = [f"{n} has {len(q)}" for n, q in zip(names, answered, strict=True) if len(q) != shared]
    if more:
        rest = f" and {len(more) - 5} more systems have others" if len(more) > 5 else ""
        listed = ", ".join(more[:5])
        yield f"{shared} queries are in all systems and were compared; {listed}{rest}"
    yield from _describe_near(names, answered)
    if len(names) > 1:
        for name, scores in zip(names, systems, strict=True):
            yield from (remark_about(name, remark) for remark in scores.remarks)
    alike: dict[bytes, list[str]] = {}
    for name, row in zip(names, values, strict=True):
        alike.setdefault(row.tobytes(), []).append(name)
    copies = [same for same in alike.values() if len(same) > 1 and len(names) > 2]
    yield from (f"{', '.join(s[:-1])} and {s[-1]} are equal on every query" for s in copies[:5])


def cluster_labels(scores: Scores, clusters: str) -> NDArray[Any] | None:
    """Return the group of each query in the column `clusters`; None without a column."""
    require(clusters, str, "clusters", "the name of one group column, a text")
    if not clusters:
        return None
    if clusters not in scores.groups:
        hint = did_you_mean(clusters, scores.groups)
        have = ", ".join(map(repr, scores.groups)) or "none"
        raise UsageError(
            f"The scores have no group column {clusters!r} to resample by.{hint} They have: {have}."
        )
    return scores.groups[clusters]


def cluster_settings(runs: Iterable[tuple[str, Scores]]) -> dict[str, str]:
    """Return arguments of `compare` for runs given by their cluster column and scores.

    None where queries are resampled one by one; where columns differ, that with the fewest groups.
    """
    counts = {
        clusters: len(np.unique(scores.groups[clusters][~np.isnan(scores.values).all(axis=0)]))
        for clusters, scores in runs
        if clusters in scores.groups
    }
    if not counts:
        return {}
    return {"by": min(counts, key=lambda name: (counts[name], name))}
