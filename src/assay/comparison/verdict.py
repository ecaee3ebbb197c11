"""Verdicts and remarks: the outcome of a comparison, and what limits it, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.comparison.pairs import NOISE, POWER, ComparisonSettings, Pair, skew_against
from assay.core.text import Remark, signed
from assay.stats.bounded import ONLY
from assay.stats.samples import effective_number

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.comparison.standings import Standing, SystemBlock


METHOD_NAMES: Final = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini–Hochberg",
    "tukey": "randomised Tukey HSD",
    "wilcoxon": "Wilcoxon",
    "t": "Student t",
}
_SMALLEST_SHOWN: Final = 0.0001
_NAMED: Final = 5
RESTS: Final = "the difference rests on few or one-sided queries"
_OPPOSITE: Final = "test and means point in opposite directions"
_AGAINST_BASELINE: Final = {
    "better": "better",
    "probably better": f"probably better ({RESTS})",
    "worse": "worse",
    "probably worse": f"probably worse ({RESTS})",
    "not separable": "not separable",
    "identical": "identical",
    "contradictory": _OPPOSITE,
    "undecided": "cannot be compared",
}


def pair_verdict(pair: Pair) -> str:
    """Return one sentence about two systems."""
    a, b, measure = pair.a, pair.b, pair.measure
    if pair.outcome == "undecided":
        numbers = "" if math.isnan(pair.p) else f": {describe_difference(pair, a)}"
        return f"{a} and {b} cannot be compared on {measure}: {pair.untestable}{numbers}"
    if pair.outcome == "identical":
        return f"{a} and {b} are identical on {measure}: equal on all {pair.effect.n} {pair.items}"
    if pair.outcome == "contradictory":
        return (
            f"{a} and {b} differ on {measure}, but the test and the means disagree on the "
            f"direction: {describe_difference(pair, a)}"
        )
    if pair.outcome == "not separable":
        return (
            f"{a} and {b} are not separable on {measure} at {_percent(pair.settings.level)}: "
            f"{describe_difference(pair, a)}{describe_detectable(pair)}{_describe_margin(pair)}"
        )
    ahead = describe_difference(pair, pair.winner or a)
    probably, doubt = ("probably ", f"; {RESTS}") if pair.doubt else ("", "")
    return (
        f"{pair.winner} is {probably}better than {pair.loser} on {measure}: {ahead}{doubt}"
        f"{_describe_margin(pair)}"
    )


def describe_difference(pair: Pair, of: str) -> str:
    """Return by how much one of the two (`of`) is ahead of the other, with interval and p.

    An interval that does not belong to the test is left to the tables.
    """
    interval = pair.interval_of(of)
    words = describe_test(pair.settings, pair.n_pairs, pair.n_slices)
    difference, p = signed(interval.estimate), describe_p(pair.p)
    if not pair.coherent:
        which = f"p only; the interval of the tables is {interval.kind}, not of this test"
        return f"{difference}, {p} ({words}; {which})"
    return f"{difference} {interval.sentence()}, {p} ({words})"


def describe_test(settings: ComparisonSettings, n_pairs: int, n_slices: int = 1) -> str:
    """Return the test and, where there is more than one pair, the correction and the family.

    `n_pairs` counts those of all slices.
    """
    test = METHOD_NAMES.get(settings.test, settings.test)
    if settings.correction == "tukey":
        return METHOD_NAMES["tukey"]
    if n_pairs < 2:
        return test
    family = f"{n_pairs} pairs"
    if n_slices > 1:
        each = n_pairs // n_slices
        family = f"{n_slices} slices" if each == 1 else f"{each} pairs in {n_slices} slices"
    if settings.correction == "none":
        return f"{test}, not corrected for {family}"
    if settings.correction == "max-t":
        return f"max-t over {family}"
    return f"{test}, {METHOD_NAMES[settings.correction]} over {family}"


def describe_p(p: float) -> str:
    """`p = 0.0123`, `p < 0.0001`, or `no p`."""
    if math.isnan(p):
        return "no p"
    return f"p < {_SMALLEST_SHOWN}" if p < _SMALLEST_SHOWN else f"p = {p:.4f}"


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def describe_detectable(pair: Pair) -> str:
    """Return the difference that these queries would mostly show, if it is known."""
    size = pair.minimum_detectable
    return f"; minimum detectable difference {size:.4f}" if size > 0 else ""


def _describe_margin(pair: Pair) -> str:
    if pair.equivalence is None:
        return ""
    margin, level = pair.settings.margin, pair.settings.level
    if pair.equivalence.p <= level:
        return f"; equivalent within {margin:g} ({describe_p(pair.equivalence.p)})"
    if pair.winner is not None:
        return ""
    for name, other in ((pair.a, pair.b), (pair.b, pair.a)):
        test = pair.non_inferiority(name)
        if test is not None and test.p <= level:
            return f"; {name} is not worse than {other} by {margin:g} ({describe_p(test.p)})"
    return f"; equivalence within {margin:g} is not shown"


def verdict_against(baseline: str, measure: str, pairs: Sequence[Pair]) -> str:
    """Return one sentence about systems (a) and a baseline (b).

    It says who is better, worse, or neither.
    """
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    parts = []
    for outcome, word in _AGAINST_BASELINE.items():
        members = [pair for pair in pairs if pair.outcome == outcome]
        if not members:
            continue
        names = join_names([pair.a for pair in members])
        named = [f"{p.a} {signed(p.difference)}, {describe_p(p.p)}" for p in members[:_NAMED]]
        if len(members) > _NAMED:
            named.append(f"and {len(members) - _NAMED} more")
        if outcome == "undecided":
            parts.append(f"{names} {word}: {members[0].untestable}")
        else:
            parts.append(f"{word}: {names if outcome == 'identical' else '; '.join(named)}")
    words = describe_test(pairs[0].settings, pairs[0].n_pairs, pairs[0].n_slices)
    return f"Against {baseline} on {measure}: {'; '.join(parts)} ({words})"


def verdict_of_all(measure: str, ranked: Sequence[str], pairs: Sequence[Pair]) -> str:
    """Return one sentence about several systems, given best first.

    It says who is first, and how surely.
    """
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    of_first = [pair for pair in pairs if ranked[0] in (pair.a, pair.b)]
    of_first.sort(key=lambda pair: ranked.index(pair.other(ranked[0])))
    if all(pair.outcome == "undecided" for pair in pairs):
        return (
            f"The {len(ranked)} systems cannot be compared on {measure}: {of_first[0].untestable}"
        )
    same = [pair.other(ranked[0]) for pair in of_first if pair.outcome == "identical"]
    if len(same) == len(of_first):
        n, items = of_first[0].effect.n, of_first[0].items
        who = "Both" if len(ranked) == 2 else f"All {len(ranked)}"
        return f"{who} systems are identical on {measure}: equal on all {n} {items}"
    doubtful = [
        pair for pair in of_first if pair.winner != ranked[0] and pair.outcome != "identical"
    ]
    if same:
        return _verdict_of_twins(measure, [ranked[0], *same], of_first, doubtful)
    if not doubtful:
        return (
            f"{ranked[0]} is better than {_all_others(len(of_first))} on {measure}"
            f"{_describe_unsure(ranked[0], of_first)}; the nearest is "
            f"{of_first[0].other(ranked[0])}: {describe_difference(of_first[0], ranked[0])}"
        )
    return f"{ranked[0]} is first on {measure}, but {_describe_doubts(ranked[0], doubtful)}"


def plain_verdict(
    measure: str, ranked: Sequence[str], pairs: Sequence[Pair], baseline: str | None = None
) -> tuple[str, str]:
    """Return the outcome in one plain sentence, and the numbers behind it.

    Systems are ranked best first; with a baseline (b), pairs are all against it.
    """
    if baseline is not None and len(pairs) > 1:
        words = {**_AGAINST_BASELINE, "not separable": "no significant difference"}
        kinds = {kind: [pair.a for pair in pairs if pair.outcome == kind] for kind in words}
        said = "; ".join(
            f"{words[kind]}: {join_names(kinds[kind])}" for kind in words if kinds[kind]
        )
        numbers = " · ".join(f"{pair.a} {_plain_numbers(pair, pair.a)}" for pair in pairs[:_NAMED])
        return f"Against {baseline} on {measure}: {said}", numbers
    first, of_first = ranked[0], [pair for pair in pairs if ranked[0] in (pair.a, pair.b)]
    of_first.sort(key=lambda pair: ranked.index(pair.other(first)))
    unclear = [pair for pair in of_first if pair.outcome == "not separable"]
    ahead = [pair for pair in of_first if pair.winner == first and not pair.doubt]
    if len(unclear) + len(ahead) < len(of_first):  # identical, untestable, doubtful
        sentence, _, numbers = verdict_of_all(measure, ranked, pairs).partition(": ")
        return sentence, numbers
    names = join_names([pair.other(first) for pair in unclear or of_first])
    said = f"; its lead over {names} is not significant"
    if not unclear:
        others = ahead[0].other(first) if len(ahead) == 1 else _all_others(len(ahead))
        said = f", significantly higher than {others}"
    nearest = (unclear or ahead)[0]
    numbers = f"Lead over {nearest.other(first)} {_plain_numbers(nearest, first)}"
    return f"{first} scores highest on {measure}{said}", numbers


def _plain_numbers(pair: Pair, of: str) -> str:
    """Return a lead with its interval, where that is of the test, and p."""
    span = pair.interval_of(of)
    ends = f"{100 * span.level:g} % CI {span.low:+.3f} to {span.high:+.3f}, "
    p = "p < 0.001" if pair.p < 0.001 else f"p = {pair.p:.3f}"
    return f"{span.estimate:+.3f} ({ends if pair.coherent else ''}{p})".replace("-", "−")


def _describe_unsure(first: str, pairs: Sequence[Pair]) -> str:
    """Name the systems that the first only probably leads."""
    unsure = [pair.other(first) for pair in pairs if pair.doubt]
    return f", only probably than {join_names(unsure)}: {RESTS}" if unsure else ""


def _describe_doubts(first: str, pairs: Sequence[Pair]) -> str:
    """Name the systems that the first does not clearly lead, and why; nearest first."""
    clauses = []
    for outcome, words in (
        ("not separable", f"not separable from {{names}} at {_percent(pairs[0].settings.level)}"),
        ("behind", "worse than {names} on the queries that both have"),
        ("contradictory", f"{_OPPOSITE} for {{names}}"),
        ("undecided", "cannot be compared with {names}"),
    ):
        # Undefined values can make the first a loser: it is `behind`.
        of_kind = [p for p in pairs if outcome == (p.outcome if p.winner is None else "behind")]
        if of_kind:
            names = join_names([pair.other(first) for pair in of_kind])
            nearest = of_kind[0]
            why = nearest.untestable
            if nearest.outcome != "undecided":
                whom = f"{nearest.other(first)} " if len(of_kind) > 1 else ""
                least = describe_detectable(nearest) if nearest.outcome == "not separable" else ""
                why = f"{whom}{describe_difference(nearest, first)}{least}"
            clauses.append(f"{words.format(names=names)}: {why}")
    return "; ".join(clauses)


def _all_others(number: int) -> str:
    return "both others" if number == 2 else f"all {number} others"


def _verdict_of_twins(
    measure: str, first: Sequence[str], of_first: Sequence[Pair], doubtful: Sequence[Pair]
) -> str:
    """Several systems with the same value on every query share the first place."""
    item = "query" if of_first[0].items == "queries" else "task"
    head = f"{join_names(first)} are first on {measure} and identical on every {item}"
    if doubtful:
        return f"{head}, but {_describe_doubts(first[0], doubtful)}"
    rest = [pair.other(first[0]) for pair in of_first if pair.outcome != "identical"]
    others = rest[0] if len(rest) == 1 else _all_others(len(rest))
    return f"{head}; they are better than {others}{_describe_unsure(first[0], of_first)}"


def describe_holes(bounds: Sequence[Any]) -> str:
    """Return whether the verdict depends on unjudged documents; empty where nothing is known."""
    if len(bounds) < 2:
        return "".join(f"; {each.sentence()}" for each in bounds)
    unsure = [f"{each.a} and {each.b}" for each in bounds if not each.holds]
    if not unsure:
        return f"; all {len(bounds)} pairs hold whatever the unjudged documents are"
    which = "; ".join(unsure[:_NAMED]) + (f"; … ({len(unsure)})" if len(unsure) > _NAMED else "")
    return f"; unjudged documents could change {len(unsure)} of {len(bounds)} pairs ({which})"


def join_names(names: Sequence[str]) -> str:
    """Return the first few names and how many more there are."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


_FEWEST_EFFECTIVE: Final = 10.0  # groups; with fewer, and uneven ones, 6 to 14 % are wrong
_UNEVEN: Final = 0.75
_FEW_GROUPS: Final = 8  # of which even slightly uneven ones err in 6 %
_SLIGHTLY_UNEVEN: Final = 0.9
_MOST_UNEQUAL: Final = 4.0


def comparison_remarks(comparison: Comparison) -> Iterator[str]:
    """Return all remarks on a comparison, those on all measures first."""
    yield from comparison.aligned.remarks
    yield from () if comparison.slices is None else comparison.slices.remarks
    few = _too_few_resamples(comparison.pairs, comparison.settings)
    uneven = _uneven_groups(comparison.aligned.clusters, comparison.settings)
    yield from _in_short({"too few resamples to separate pairs": few})
    yield from _in_short({"groups of uneven size": uneven})
    for measure in map(str, comparison.measures):
        pairs = comparison.pairs_on(measure)
        removed = max((pair.effect.n_removed for pair in pairs), default=0)
        if removed:
            yield f"{measure}: undefined on up to {removed} queries, left out of pairs"
        standings = comparison.standings_on(measure)
        notes = [each.mean.note for each in standings if math.isnan(each.mean.low)]
        remarks = {
            "no intervals of means": [f"no intervals of means: {n}" for n in notes if n][:1],
            "intervals near a bound are inexact": _resting_on_few(standings),
            "lead probably overestimated": _overstated([p for p in pairs if p.overstated]),
            "p too small: one-sided differences": _one_sided(pairs),
            "unequal variances": unequal_variances(pairs),
        }
        if comparison.slices is not None:
            blocks = comparison.slices.slices_on(measure)
            remarks["p too small in slices"] = _one_sided_slices(blocks)
        yield from _in_short(remarks, f"{measure}: ")


def _in_short(remarks: Mapping[str, Iterable[str]], front: str = "") -> Iterator[Remark]:
    for short, texts in remarks.items():
        yield from (Remark(front + text, short) for text in texts)


def _too_few_resamples(pairs: tuple[Pair, ...], settings: ComparisonSettings) -> Iterable[str]:
    """Say so where no resampled p can pass the correction, however large the difference."""
    drawn = [pair for pair in pairs if pair.test.resamples]
    if not drawn or settings.correction not in ("holm", "bonferroni"):
        return
    short = [pair for pair in drawn if pair.smallest_p > settings.level]
    if short:
        which = "any pair" if len(short) == len(pairs) else f"{len(short):,} of the pairs"
        enough = math.ceil(drawn[0].n_pairs / settings.level)
        yield (
            f"{settings.resamples:,} resamples are too few to separate {which}: use {enough:,} or "
            "more, or correction max-t"
        )


def _uneven_groups(clusters: NDArray[Any] | None, settings: ComparisonSettings) -> Iterable[str]:
    """Warn of uneven groups, which count like fewer (Kish 1965, Survey sampling)."""
    if clusters is None or not len(clusters):
        return
    sizes = np.unique(clusters, return_counts=True)[1]
    effective = effective_number(sizes)
    very = effective < min(_FEWEST_EFFECTIVE, _UNEVEN * len(sizes))
    if very or (len(sizes) < _FEW_GROUPS and effective < _SLIGHTLY_UNEVEN * len(sizes)):
        how = "very uneven" if very else "uneven"
        yield (
            f"the {len(sizes):,} groups by {settings.by} are of {how} size and count like "
            f"{effective:.1f} (the largest holds {sizes.max() / sizes.sum():.0%} of the queries): "
            "differences are found too often; take more groups, or fewer queries of the largest"
        )


def _resting_on_few(standings: Iterable[Standing]) -> Iterable[str]:
    """Say where an interval of a mean may not hold as often as its level says."""
    sparse = [standing for standing in standings if standing.mean.note.startswith(ONLY)]
    return [f"{each.name}: {each.mean.note}{_as_for_more(sparse)}" for each in sparse[:1]]


def _overstated(pairs: list[Pair]) -> Iterable[str]:
    if not pairs:
        return
    worst = min(pairs, key=lambda pair: abs(pair.difference) / pair.minimum_detectable)
    lead = f"{abs(worst.difference):.4f} of {worst.winner} over {worst.loser}"
    yield (
        f"the lead of {lead} is below the minimum detectable difference of "
        f"{worst.minimum_detectable:.4f} ({worst.effect.n} queries, {100 * POWER:g} % power), so "
        f"it is probably overestimated{_as_for_more(pairs)}"
    )


def _as_for_more(members: Sequence[object]) -> str:
    return f" (as for {len(members) - 1} more)" if len(members) > 1 else ""


def _one_sided(pairs: Sequence[Pair]) -> Iterable[str]:
    """Return leads that rest on what was not seen.

    These are large losses that are rare, or any variation at all.
    """
    flat, lopsided = ([p for p in pairs if p.doubt == doubt] for doubt in ("flat", "lopsided"))
    if flat:
        rows = zip((flat[0].a, flat[0].b), flat[0].values, strict=True)
        constant = [name for name, row in rows if np.ptp(row) <= NOISE]
        what = f"{constant[0]} has" if constant else f"{flat[0].a} and {flat[0].b} differ by"
        yield (
            f"{what} the same value on all {flat[0].effect.n} queries, so that other "
            f"values were not seen and p is too small; take more queries{_as_for_more(flat)}"
        )
    if lopsided:
        worst = max(lopsided, key=_tail_of)
        skew = _tail_of(worst) * math.sqrt(worst.n_units)
        yield (
            f"{worst.winner} leads {worst.loser} by many small differences against a "
            f"few large ones (skewness {-skew:.1f} with {worst.n_units} {worst.units}), so that p "
            f"is too small; take more {worst.units}, or look at the losses "
            f"(--differences){_as_for_more(lopsided)}"
        )


def _one_sided_slices(slices: Iterable[SystemBlock]) -> Iterable[str]:
    names = [block.name for block in slices if any(pair.doubt for pair in block.pairs)]
    if names:
        yield (
            f"in {join_names(names)} a lead rests on few queries that are alike, or on "
            "many small differences against a few large ones, so that its p is too small; take "
            "more queries of the kind"
        )


def _tail_of(pair: Pair) -> float:
    """Return skewness over √n, positive if the long tail is that of the loser's wins."""
    return skew_against(pair.spread if pair.difference > 0 else -pair.spread)


def unequal_variances(pairs: Sequence[Pair]) -> Iterable[str]:
    """Warn of unequal variances: Tukey's test pools those of all systems."""
    if not pairs or pairs[0].settings.correction != "tukey":
        return
    variances = [float(pair.spread.var(ddof=1)) for pair in pairs if pair.n_units > 2]
    positive = [variance for variance in variances if variance > 0]
    if positive and max(positive) > _MOST_UNEQUAL * min(positive):
        yield (
            f"randomised Tukey HSD takes the variances of differences for equal, and "
            f"they are as {max(positive) / min(positive):.0f} to 1: use correction max-t"
        )
