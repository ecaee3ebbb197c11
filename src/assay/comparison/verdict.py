"""Verdicts: the outcome of a comparison in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from assay.comparison.pairs import ComparisonSettings, Pair
from assay.core.text import fixed, signed
from assay.stats import INTERVAL_NAMES

__all__ = [
    "METHOD_NAMES",
    "describe_difference",
    "describe_p",
    "describe_test",
    "join_names",
    "pair_verdict",
    "verdict_against",
    "verdict_of_all",
]

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
_OPPOSITE: Final = "test and means point in opposite directions"


def pair_verdict(pair: Pair) -> str:
    """One sentence about two systems."""
    a, b, measure = pair.a, pair.b, pair.measure
    if pair.outcome == "undecided":
        shown = "" if math.isnan(pair.p) else f": {describe_difference(pair, a)}"
        return f"{a} and {b} cannot be compared on {measure}: {pair.untestable}{shown}"
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
            f"{describe_difference(pair, a)}{_describe_needed(pair)}{_describe_margin(pair)}"
        )
    ahead = describe_difference(pair, pair.winner or a)
    return (
        f"{pair.winner} is better than {pair.loser} on {measure}: {ahead}{_describe_margin(pair)}"
    )


def describe_difference(pair: Pair, of: str) -> str:
    """By how much one of the two (`of`) is ahead of the other, with interval and p.

    An interval that does not belong to the test is left to the tables.
    """
    difference, low, high = pair.difference_of(of)
    words = describe_test(pair.settings, pair.n_pairs, pair.n_slices)
    if not pair.coherent:
        other = INTERVAL_NAMES[pair.interval.method]
        which = f"p only; the interval of the tables is {other}, not of this test"
        return f"{signed(difference)}, {describe_p(pair.p)} ({words}; {which})"
    ends = "no interval" if math.isnan(low) else f"[{fixed(low)}, {fixed(high)}]"
    return f"{signed(difference)} {ends}, {describe_p(pair.p)} ({words})"


def describe_test(settings: ComparisonSettings, n_pairs: int, n_slices: int = 1) -> str:
    """The test and, where there is more than one pair, the correction and the family.

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


def _describe_needed(pair: Pair) -> str:
    """How many queries might show this difference; a guess, because the difference is one."""
    if pair.queries_needed is None:
        return ""
    unit = "queries" if pair.settings.by is None else f"groups by {pair.settings.by}"
    least, best, most = pair.queries_needed
    if best > 10**7:
        return f"; it would take more than 10,000,000 {unit} to show"
    range_ = (
        f"{_round_up(least):,} or more"
        if most is None
        else f"{_round_up(least):,} to {_round_up(min(most, 10**9)):,}"
    )
    return f"; a guess from these: {_round_up(best):,} {unit} would show it ({range_})"


def _round_up(number: int) -> int:
    """Two digits: the number rests on an estimate."""
    scale = int(10 ** max(len(str(number)) - 2, 0))
    return -(-number // scale) * scale


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
    """One sentence about systems (a) and a baseline (b): who is better, worse, or neither."""
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    groups = [
        ("better", lambda pair: pair.outcome == "better"),
        ("worse", lambda pair: pair.outcome == "worse"),
        ("not separable", lambda pair: pair.outcome == "not separable"),
        ("identical", lambda pair: pair.outcome == "identical"),
        (_OPPOSITE, lambda pair: pair.outcome == "contradictory"),
        ("cannot be compared", lambda pair: pair.outcome == "undecided"),
    ]
    parts = [_group(word, pairs, member) for word, member in groups]
    words = describe_test(pairs[0].settings, pairs[0].n_pairs, pairs[0].n_slices)
    return f"Against {baseline} on {measure}: {'; '.join(filter(None, parts))} ({words})"


def _group(word: str, pairs: Sequence[Pair], member: Callable[[Pair], bool]) -> str:
    chosen = [pair for pair in pairs if member(pair)]
    if not chosen:
        return ""
    if word == "cannot be compared":
        return f"{join_names([pair.a for pair in chosen])} {word}: {chosen[0].untestable}"
    if word == "identical":
        return f"{word}: {join_names([pair.a for pair in chosen])}"
    shown = [
        f"{pair.a} {signed(pair.difference)}, {describe_p(pair.p)}" for pair in chosen[:_NAMED]
    ]
    more = [f"and {len(chosen) - _NAMED} more"] if len(chosen) > _NAMED else []
    return f"{word}: {'; '.join([*shown, *more]) if len(chosen) > 1 else shown[0]}"


def verdict_of_all(measure: str, ranked: Sequence[str], pairs: Sequence[Pair]) -> str:
    """One sentence about several systems, given best first: who is first, and how surely."""
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    own = [pair for pair in pairs if ranked[0] in (pair.a, pair.b)]
    own.sort(key=lambda pair: ranked.index(_other(pair, ranked[0])))
    if all(pair.outcome == "undecided" for pair in pairs):
        return f"The {len(ranked)} systems cannot be compared on {measure}: {own[0].untestable}"
    same = [_other(pair, ranked[0]) for pair in own if pair.outcome == "identical"]
    if len(same) == len(own):
        n, items = own[0].effect.n, own[0].items
        who = "Both" if len(ranked) == 2 else f"All {len(ranked)}"
        return f"{who} systems are identical on {measure}: equal on all {n} {items}"
    doubtful = [pair for pair in own if pair.winner != ranked[0] and pair.outcome != "identical"]
    if same:
        return _verdict_of_twins(measure, [ranked[0], *same], own, doubtful)
    if not doubtful:
        return (
            f"{ranked[0]} is better than {_all_others(len(own))} on {measure}; the nearest is "
            f"{_other(own[0], ranked[0])}: {describe_difference(own[0], ranked[0])}"
        )
    return f"{ranked[0]} is first on {measure}, but {_describe_doubts(ranked[0], doubtful)}"


def _describe_doubts(first: str, pairs: Sequence[Pair]) -> str:
    """Of whom the first is not shown to be ahead, and why; pairs are nearest first."""
    clauses = []
    for outcome, words in (
        ("not separable", f"not separable from {{names}} at {_percent(pairs[0].settings.level)}"),
        ("behind", "worse than {names} on the queries that both have"),
        ("contradictory", f"{_OPPOSITE} for {{names}}"),
        ("undecided", "cannot be compared with {names}"),
    ):
        own = [pair for pair in pairs if _doubt(pair) == outcome]
        if own:
            names = join_names([_other(pair, first) for pair in own])
            clauses.append(f"{words.format(names=names)}: {_describe_nearest(first, own)}")
    return "; ".join(clauses)


def _doubt(pair: Pair) -> str:
    """The outcome; where the first is the loser, which undefined values can make it, `behind`."""
    return "behind" if pair.winner is not None else pair.outcome


def _describe_nearest(first: str, pairs: Sequence[Pair]) -> str:
    nearest = pairs[0]
    if nearest.outcome == "undecided":
        return nearest.untestable
    whom = f"{_other(nearest, first)} " if len(pairs) > 1 else ""
    needed = _describe_needed(nearest) if nearest.outcome == "not separable" else ""
    return f"{whom}{describe_difference(nearest, first)}{needed}"


def _all_others(number: int) -> str:
    return "both others" if number == 2 else f"all {number} others"


def _verdict_of_twins(
    measure: str, first: Sequence[str], own: Sequence[Pair], doubtful: Sequence[Pair]
) -> str:
    """Several systems with the same value on every query share the first place."""
    item = "query" if own[0].items == "queries" else "task"
    head = f"{join_names(first)} are first on {measure} and identical on every {item}"
    if doubtful:
        return f"{head}, but {_describe_doubts(first[0], doubtful)}"
    rest = [_other(pair, first[0]) for pair in own if pair.outcome != "identical"]
    return f"{head}; they are better than {rest[0] if len(rest) == 1 else _all_others(len(rest))}"


def _other(pair: Pair, name: str) -> str:
    return pair.b if pair.a == name else pair.a


def join_names(names: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
