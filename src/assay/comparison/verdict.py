"""Verdicts and remarks: the outcome of a comparison, and what limits it, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.comparison.pairs import NOISE, POWER, ComparisonSettings, Pair, skew_against
from assay.core.text import Remark, describe_p, spoken
from assay.stats.bounded import ONLY
from assay.stats.samples import effective_number
from assay.tables.table import Words

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
_NAMED: Final = 5
RESTS: Final = "the difference rests on few or one-sided queries"
_OPPOSITE: Final = "test and means point in opposite directions"
_AGAINST_BASELINE: Final = {
    "better": "better",
    "probably better": f"probably better ({RESTS})",
    "worse": "worse",
    "probably worse": f"probably worse ({RESTS})",
    "not separable": "no significant difference",
    "identical": "identical",
    "contradictory": _OPPOSITE,
    "undecided": "cannot be compared",
}


class Verdict(str):
    """The outcome in one plain sentence (`headline`), and the `numbers` behind it.

    As text it is both, one after the other.

    >>> Verdict("a is better than b on AP", "Lead +0.012 (p = 0.013)").headline
    'a is better than b on AP'
    """

    headline: str
    numbers: str
    holes: str

    def __new__(cls, headline: str, numbers: str = "", holes: str = "") -> Verdict:
        """Take the sentence, the numbers, and what unjudged documents could change."""
        verdict = super().__new__(cls, ". ".join(filter(None, (headline, numbers, holes))))
        verdict.headline, verdict.numbers, verdict.holes = headline, numbers, holes
        return verdict

    def extended(self, clause: str = "", holes: str = "") -> Verdict:
        """Return the verdict with more in its sentence, or what unjudged documents could change."""
        return Verdict(self.headline + clause, self.numbers, holes or self.holes)


def verdict_words(verdicts: Iterable[str]) -> Iterator[Words]:
    """Yield verdicts as paragraphs: each sentence, then its numbers, a line each."""
    for verdict in verdicts:
        parts = verdict if isinstance(verdict, Verdict) else Verdict(verdict)
        yield Words(parts.headline, "verdict")
        yield from (Words(text, "numbers") for text in (parts.numbers, parts.holes))


def describe_test(
    settings: ComparisonSettings, n_pairs: int, n_slices: int = 1, family: str = ""
) -> str:
    """Return the test and, where there is more than one pair, the correction and the family.

    `n_pairs` counts those of all slices.
    """
    test = METHOD_NAMES.get(settings.test, settings.test)
    if settings.correction == "tukey":
        return METHOD_NAMES["tukey"]
    if n_pairs < 2:
        return test
    family = family or f"{n_pairs} pairs"
    if n_slices > 1:
        each = n_pairs // n_slices
        family = f"{n_slices} slices" if each == 1 else f"{each} pairs in {n_slices} slices"
    if settings.correction == "none":
        return f"{test}, not corrected for {family}"
    if settings.correction == "max-t":
        return f"max-t over {family}"
    return f"{test}, {METHOD_NAMES[settings.correction]} over {family}"


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


# What is said of the first, by the outcome against others.
_SAID: Final = {
    "better": "better than {names} on {measure}",
    "probably better": f"probably better than {{names}} on {{measure}}: {RESTS}",
    "not separable": "{its} lead over {names} is not significant",
    "behind": "{names} score higher on the queries that both have",
    "contradictory": f"{_OPPOSITE} for {{names}}",
    "undecided": "{names} cannot be compared with {it}",
}


def sum_up(
    measure: str, ranked: Sequence[str], pairs: Sequence[Pair], baseline: str | None = None
) -> Verdict:
    """Return the verdict on systems, given best first; with a baseline, pairs are against it."""
    if baseline is not None and len(pairs) > 1:
        return _sum_up_against(baseline, measure, pairs)
    first, kinds = [ranked[0]], {kind: list[Pair]() for kind in _SAID}
    of_first = [pair for pair in pairs if ranked[0] in (pair.a, pair.b)]
    of_first.sort(key=lambda pair: ranked.index(pair.other(ranked[0])))
    for pair in of_first:
        if pair.outcome == "identical":
            first.append(pair.other(ranked[0]))
        else:  # undefined values can make the first a loser
            ahead = "probably better" if pair.doubt else "better"
            behind = pair.outcome if pair.winner is None else "behind"
            kinds[ahead if pair.winner == ranked[0] else behind].append(pair)
    n, items = of_first[0].effect.n, of_first[0].items
    if not any(kinds.values()):
        return Verdict(f"{join_names(first)} are identical on {measure}: equal on all {n} {items}")
    if all(pair.outcome == "undecided" for pair in pairs):
        who = join_names(list(ranked))
        short, _, least = of_first[0].untestable.partition(": ")
        if short.startswith("too few"):
            return Verdict(f"T{short[1:]} to compare {who} on {measure}: {least}")
        return Verdict(f"{who} cannot be compared on {measure}: {short}")
    rivals = {
        kind: join_names([pair.other(ranked[0]) for pair in members])
        for kind, members in kinds.items()
        if members
    }
    if len(kinds["better"]) == len(of_first) > 1:
        rivals["better"] = _all_others(len(of_first))
    who = f"{join_names(first)}{' (identical)' if len(first) > 1 else ''}"
    if set(rivals) <= {"better", "probably better"}:
        said = f"{who} {'are' if len(first) > 1 else 'is'} {_and_probably(rivals, measure)}"
    else:
        # Leads that are clear go without saying: every other system is named.
        open_kinds = [kind for kind in rivals if "better" not in kind]
        verb, its, it = ("score", "their", "them") if len(first) > 1 else ("scores", "its", "it")
        clauses = [_SAID[kind].format(names=rivals[kind], its=its, it=it) for kind in open_kinds]
        said = f"{who} {verb} highest on {measure}; {'; '.join(clauses)}"
    unsettled = [pair for kind in list(_SAID)[2:] for pair in kinds[kind]]
    nearest = (unsettled or [pair for pair in of_first if pair.outcome != "identical"])[0]
    if len(pairs) == 1 and nearest.outcome == "not separable" and nearest.difference == 0:
        said = f"{join_names(list(ranked))} have the same mean on {measure}"
    return Verdict(said, _describe_lead(nearest, ranked[0], alone=len(pairs) == 1))


def _and_probably(rivals: Mapping[str, str], measure: str) -> str:
    """Return whom the first is better than, and whom only probably."""
    sure, unsure = rivals.get("better"), rivals.get("probably better")
    if sure is None or unsure is None:
        kind = "better" if unsure is None else "probably better"
        return _SAID[kind].format(names=rivals[kind], measure=measure)
    clear = _SAID["better"].format(names=sure, measure=measure)
    return f"{clear}, only probably than {unsure}: {RESTS}"


def _sum_up_against(baseline: str, measure: str, pairs: Sequence[Pair]) -> Verdict:
    words = []
    for outcome, word in _AGAINST_BASELINE.items():
        members = [pair for pair in pairs if pair.outcome == outcome]
        why = f" ({members[0].untestable})" if members and outcome == "undecided" else ""
        if members:
            words.append(f"{word}: {join_names([pair.a for pair in members])}{why}")
    leads = [f"{pair.a} {describe_numbers(pair, pair.a)}" for pair in pairs[:_NAMED]]
    leads += [f"{len(pairs) - _NAMED} more"] if len(pairs) > _NAMED else []
    return Verdict(f"Against {baseline} on {measure}: {'; '.join(words)}", " · ".join(leads))


def _describe_lead(pair: Pair, first: str, *, alone: bool) -> str:
    """Return the numbers of the pair that decides, and what these queries could have shown."""
    numbers = describe_numbers(pair, first)
    lead = f"Lead {numbers}" if alone else f"Lead over {pair.other(first)} {numbers}"
    if pair.winner == first and not alone:
        lead = f"Closest competitor: {pair.other(first)}, lead {numbers}"
    least = describe_detectable(pair) if pair.outcome == "not separable" else ""
    return f"{lead}{least}{_describe_margin(pair) if alone else ''}"


def describe_numbers(pair: Pair, of: str) -> str:
    """Return a lead with its interval, where that is of the test, and p."""
    span = pair.interval_of(of)
    low, high = (_describe_end(end, sure=pair.winner is not None) for end in (span.low, span.high))
    ends = f"{span.heading(span.level)} {low} to {high}, "
    has_ends = pair.coherent and not math.isnan(span.low)
    return f"{_decimals(span.estimate)} ({ends if has_ends else ''}{describe_p(pair.p)})"


def _describe_end(end: float, *, sure: bool) -> str:
    """Return an end of an interval; next to 0 the side of 0 where a sure lead puts it."""
    if sure and 0 < abs(end) <= NOISE:
        return "just above 0" if end > 0 else "just below 0"
    return _decimals(end)


def _decimals(value: float) -> str:
    """Return three decimals with a sign, more where these would be zeros; no sign of 0.

    >>> _decimals(0.0312), _decimals(-0.00004), _decimals(0.0), _decimals(-2e-17), _decimals(3e-8)
    ('+0.031', '−0.00004', '0.000', '0.000', '+3e-08')
    """
    if abs(value) <= NOISE:
        return "0.000"
    digits = 3
    while digits < 6 and float(f"{value:.{digits}f}") == 0:
        digits += 1
    text = f"{value:+.{digits}f}" if float(f"{value:.{digits}f}") else f"{value:+.0e}"
    return spoken(text)


def _all_others(number: int) -> str:
    return "both others" if number == 2 else f"all {number} others"


def describe_holes(bounds: Sequence[Any]) -> str:
    """Return whether the verdict depends on unjudged documents, in a line; empty if unknown."""
    if len(bounds) < 2:
        return "".join(f"{each.sentence().capitalize()}" for each in bounds)
    unsure = [f"{each.a} and {each.b}" for each in bounds if not each.holds]
    if not unsure:
        return f"All {len(bounds)} pairs hold whatever the unjudged documents are"
    which = "; ".join(unsure[:_NAMED]) + (f"; … ({len(unsure)})" if len(unsure) > _NAMED else "")
    return f"Unjudged documents could change {len(unsure)} of {len(bounds)} pairs ({which})"


def join_names(names: Sequence[str]) -> str:
    """Return the first few names and how many more there are."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


_NO_INTERVALS: Final = "means have no intervals"
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
    yield from few
    yield from (Remark(words, "groups differ in size and count like fewer") for words in uneven)
    for measure in map(str, comparison.measures):
        pairs = comparison.pairs_on(measure)
        removed = max((pair.effect.n_removed for pair in pairs), default=0)
        if removed:
            yield f"{measure}: undefined on up to {removed} queries, left out of pairs"
        standings = comparison.standings_on(measure)
        notes = [each.mean.note for each in standings if math.isnan(each.mean.low)]
        remarks = [Remark(f"no intervals of means: {n}", _NO_INTERVALS) for n in notes if n][:1]
        remarks += _resting_on_few(standings)
        remarks += _overstated([pair for pair in pairs if pair.overstated])
        remarks += _one_sided(pairs)
        remarks += [Remark(words, "variances differ") for words in unequal_variances(pairs)]
        if comparison.slices is not None:
            remarks += _one_sided_slices(comparison.slices.slices_on(measure))
        yield from (remark.about(measure) for remark in remarks)


def _too_few_resamples(pairs: tuple[Pair, ...], settings: ComparisonSettings) -> Iterable[Remark]:
    """Say so where no resampled p can pass the correction, however large the difference."""
    drawn = [pair for pair in pairs if pair.test.resamples]
    if not drawn or settings.correction not in ("holm", "bonferroni"):
        return
    short = [pair for pair in drawn if pair.smallest_p > settings.level]
    if short:
        which = "any pair" if len(short) == len(pairs) else f"{len(short):,} of the pairs"
        enough = math.ceil(drawn[0].n_pairs / settings.level)
        yield Remark(
            f"{settings.resamples:,} resamples are too few to separate {which}: use {enough:,} or "
            "more, or correction max-t",
            f"{settings.resamples:,} resamples are too few",
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
            f"{effective:.1f} (the largest holds {100 * sizes.max() / sizes.sum():.0f} % of "
            "queries), so false positives are more frequent: use more groups, or fewer queries of "
            "the largest"
        )


def _resting_on_few(standings: Iterable[Standing]) -> Iterable[Remark]:
    """Say where an interval of a mean may not hold as often as its level says."""
    sparse = [standing for standing in standings if standing.mean.note.startswith(ONLY)]
    for each in sparse[:1]:
        yield Remark(
            f"{each.name}: {each.mean.note}{_as_for_more(sparse)}",
            "an interval near the bound is inexact",
            "{} intervals near the bound are inexact",
            len(sparse),
        )


def _overstated(pairs: list[Pair]) -> Iterable[Remark]:
    if not pairs:
        return
    worst = min(pairs, key=lambda pair: abs(pair.difference) / pair.minimum_detectable)
    lead = f"{abs(worst.difference):.4f} of {worst.winner} over {worst.loser}"
    yield Remark(
        f"the lead of {lead} is below the minimum detectable difference of "
        f"{worst.minimum_detectable:.4f} ({worst.effect.n} queries, {100 * POWER:g} % power), so "
        f"it is probably overestimated{_as_for_more(pairs)}",
        "a lead is near the detection limit and probably overestimated",
        "{} leads are near the detection limit and probably overestimated",
        len(pairs),
    )


def _as_for_more(members: Sequence[object]) -> str:
    return f" (and {len(members) - 1} more)" if len(members) > 1 else ""


def _one_sided(pairs: Sequence[Pair]) -> Iterable[Remark]:
    """Return leads that rest on what was not seen.

    These are large losses that are rare, or any variation at all.
    """
    flat, lopsided = ([p for p in pairs if p.doubt == doubt] for doubt in ("flat", "lopsided"))
    if flat:
        rows = zip((flat[0].a, flat[0].b), flat[0].values, strict=True)
        constant = [name for name, row in rows if np.ptp(row) <= NOISE]
        what = f"{constant[0]} has" if constant else f"{flat[0].a} and {flat[0].b} differ by"
        yield Remark(
            f"{what} the same value on all {flat[0].effect.n} queries, so p is too small: use "
            f"more queries{_as_for_more(flat)}",
            "p may be too small: values do not vary",
            "p of {} pairs may be too small: values do not vary",
            len(flat),
        )
    if lopsided:
        worst = max(lopsided, key=_tail_of)
        skew = _tail_of(worst) * math.sqrt(worst.n_units)
        yield Remark(
            f"{worst.winner} leads {worst.loser} by many small differences against a few large "
            f"ones (skewness {-skew:.1f} with {worst.n_units} {worst.units}), so p is too small: "
            f"use more {worst.units}, or look at the losses "
            f"(--differences){_as_for_more(lopsided)}",
            "p may be too small: nearly all differences point one way",
            "p of {} pairs may be too small: nearly all differences point one way",
            len(lopsided),
        )


def _one_sided_slices(slices: Iterable[SystemBlock]) -> Iterable[Remark]:
    names = [block.name for block in slices if any(pair.doubt for pair in block.pairs)]
    if names:
        yield Remark(
            f"in {join_names(names)} a lead rests on few queries that are alike, or on many small "
            "differences against a few large ones, so its p is too small: use more queries of "
            "the kind",
            "p may be too small in a slice",
            "p may be too small in {} slices",
            len(names),
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
            "randomised Tukey HSD assumes equal variances of differences, and they are as "
            f"{max(positive) / min(positive):.0f} to 1: use correction max-t"
        )
