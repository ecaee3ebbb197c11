"""Remarks: what limits the numbers of a comparison, and what would help, a sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.arrays import Floats
from assay.comparison.pairs import POWER, ComparisonSettings, Pair
from assay.comparison.verdict import join_names
from assay.core.text import Remark
from assay.stats import INVERTIBLE

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison, Standing
    from assay.comparison.slices import Slice

__all__ = ["comparison_remarks"]

# Of systems with equal means, unlike shapes and 10 to 50 queries, up to 80 % are called different;
# without those that these limits single out, at most 6.4 %. Of true differences with symmetric
# errors they single out 17 % at 10 queries, 9 % at 25, and none from 50 on.
_LOPSIDED: Final = 0.15  # skewness over √n, against the system that is ahead
_FEW_TO_SEE_VARIATION: Final = 100
_FEWEST_EFFECTIVE: Final = 10.0  # groups; with fewer, and uneven ones, 6 to 14 % are wrong
_UNEVEN: Final = 0.75
_FEW_GROUPS: Final = 8  # of which even slightly uneven ones err in 6 %
_SLIGHTLY_UNEVEN: Final = 0.9
_MOST_UNEQUAL: Final = 4.0
_NOISE: Final = 1e-12


def comparison_remarks(comparison: Comparison) -> Iterator[str]:
    """All remarks on a comparison, those on all measures first."""
    yield from comparison.alignment_remarks
    yield from () if comparison.slices is None else comparison.slices.remarks
    few = _too_few_resamples(comparison.pairs, comparison.settings)
    yield from _in_short("too few resamples to separate pairs", few)
    uneven = _uneven_groups(comparison.group_sizes, comparison.settings)
    yield from _in_short("groups of uneven size", uneven)
    for measure in map(str, comparison.measures):
        pairs = comparison.pairs_on(measure)
        removed = max((pair.effect.n_removed for pair in pairs), default=0)
        if removed:
            yield f"{measure}: undefined on up to {removed} queries, left out of pairs"
        standings = comparison.standings_on(measure)
        yield from _in_short("no intervals of means", _without_interval(measure, standings))
        leads = [pair for pair in pairs if pair.overstated]
        yield from _in_short("lead probably overestimated", _overstated(measure, leads))
        yield from _in_short("p too small: one-sided differences", _one_sided(measure, pairs))
        yield from _in_short("unequal variances", _unequal_variances(measure, pairs))
        if comparison.slices is not None:
            sliced = _one_sided_slices(measure, comparison.slices.slices_on(measure))
            yield from _in_short("p too small in slices", sliced)


def _in_short(short: str, remarks: Iterable[str]) -> Iterator[Remark]:
    return (Remark(remark, short) for remark in remarks)


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


def _uneven_groups(sizes: Floats | None, settings: ComparisonSettings) -> Iterable[str]:
    """Groups of which a few hold most queries count like fewer (Kish 1965, Survey sampling)."""
    if sizes is None or not len(sizes):
        return
    effective = float(sizes.sum() ** 2 / (sizes**2).sum())
    very = effective < min(_FEWEST_EFFECTIVE, _UNEVEN * len(sizes))
    if very or (len(sizes) < _FEW_GROUPS and effective < _SLIGHTLY_UNEVEN * len(sizes)):
        how = "very uneven" if very else "uneven"
        yield (
            f"the {len(sizes):,} groups by {settings.by} are of {how} size and count like "
            f"{effective:.1f} (the largest holds {sizes.max() / sizes.sum():.0%} of the queries): "
            "differences are found too often; take more groups, or fewer queries of the largest"
        )


def _without_interval(measure: str, standings: Iterable[Standing]) -> Iterable[str]:
    notes = [one.mean.note for one in standings if math.isnan(one.mean.low) and one.mean.note]
    if notes:
        yield f"{measure}: no intervals of means: {notes[0]}"


def _overstated(measure: str, pairs: list[Pair]) -> Iterable[str]:
    if not pairs:
        return
    worst = min(pairs, key=lambda pair: abs(pair.difference) / pair.minimum_detectable)
    lead = f"{abs(worst.difference):.4f} of {worst.winner} over {worst.loser}"
    yield (
        f"{measure}: the lead of {lead} is below the minimum detectable difference of "
        f"{worst.minimum_detectable:.4f} ({worst.effect.n} queries, {100 * POWER:g} % power), so "
        f"it is probably overestimated{_as_for_more(pairs)}"
    )


def _as_for_more(pairs: Sequence[Pair]) -> str:
    return f" (as for {len(pairs) - 1} more)" if len(pairs) > 1 else ""


def _one_sided(measure: str, pairs: Sequence[Pair]) -> Iterable[str]:
    """Leads that rest on what was not seen: large losses that are rare, or any variation at all."""
    flat, lopsided = _leads_without_variation(pairs), _lopsided_leads(pairs)
    if flat:
        constant = [
            name for name, same in zip((flat[0].a, flat[0].b), _same(flat[0]), strict=True) if same
        ]
        what = f"{constant[0]} has" if constant else f"{flat[0].a} and {flat[0].b} differ by"
        yield (
            f"{measure}: {what} the same value on all {flat[0].effect.n} queries, so that other "
            f"values were not seen and p is too small; take more queries{_as_for_more(flat)}"
        )
    if lopsided:
        worst = max(lopsided, key=_share_of_tail)
        skew = _share_of_tail(worst) * math.sqrt(worst.n_units)
        yield (
            f"{measure}: {worst.winner} leads {worst.loser} by many small differences against a "
            f"few large ones (skewness {-skew:.1f} with {worst.n_units} {worst.units}), so that p "
            f"is too small; take more {worst.units}, or look at the losses "
            f"(--differences){_as_for_more(lopsided)}"
        )


def _one_sided_slices(measure: str, slices: Iterable[Slice]) -> Iterable[str]:
    found = [
        one.name
        for one in slices
        if one.pairs and (_leads_without_variation(one.pairs) or _lopsided_leads(one.pairs))
    ]
    if found:
        yield (
            f"{measure}: in {join_names(found)} a lead rests on few queries that are alike, or on "
            "many small differences against a few large ones, so that its p is too small; take "
            "more queries of the kind"
        )


def _decided(pairs: Iterable[Pair]) -> list[Pair]:
    """Those with a winner by a test of means."""
    return [p for p in pairs if p.winner is not None and p.test.method in INVERTIBLE]


def _leads_without_variation(pairs: Iterable[Pair]) -> list[Pair]:
    """Where one of the two, or their difference, is the same on all of few queries."""
    few = [pair for pair in _decided(pairs) if pair.n_units < _FEW_TO_SEE_VARIATION]
    return [pair for pair in few if any(_same(pair)) or not np.ptp(pair.spread) > _NOISE]


def _same(pair: Pair) -> tuple[bool, bool]:
    """Of each of the two, whether it has one value."""
    first, second = (not np.ptp(row) > _NOISE for row in pair.values)
    return first, second


def _lopsided_leads(pairs: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in _decided(pairs) if _share_of_tail(pair) > _LOPSIDED]


def _share_of_tail(pair: Pair) -> float:
    """Skewness over √n, positive if the long tail is that of the loser's wins."""
    residuals = pair.spread - pair.spread.mean()
    scale = math.sqrt(float((residuals**2).mean()))
    if not scale > _NOISE * float(np.abs(pair.spread).max()):
        return 0.0
    skew = float(((residuals / scale) ** 3).mean()) / math.sqrt(len(residuals))
    return -skew if pair.difference > 0 else skew


def _unequal_variances(measure: str, pairs: Sequence[Pair]) -> Iterable[str]:
    """Tukey's test pools the variances of all systems."""
    if not pairs or pairs[0].settings.correction != "tukey":
        return
    found = [float(pair.spread.var(ddof=1)) for pair in pairs if pair.n_units > 2]
    known = [variance for variance in found if variance > 0]
    if known and max(known) > _MOST_UNEQUAL * min(known):
        yield (
            f"{measure}: randomised Tukey HSD takes the variances of differences for equal, and "
            f"they are as {max(known) / min(known):.0f} to 1: use correction max-t"
        )
