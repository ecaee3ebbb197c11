"""What a comparison says, in a sentence. Equal means are no win, and silence is no proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from assay.comparison.pairs import Pair, Settings
from assay.core.text import signed

__all__ = [
    "METHOD_NAMES",
    "figures",
    "method_words",
    "pair_verdict",
    "spelled_p",
    "verdict_against",
    "verdict_of_all",
]

METHOD_NAMES: Final = {
    "holm": "Holm",
    "bonferroni": "Bonferroni",
    "bh": "Benjamini–Hochberg",
    "tukey": "randomised Tukey HSD",
    "wilcoxon": "Wilcoxon",
    "bca": "BCa",
    "t": "Student t",
}
_SMALLEST_SHOWN: Final = 0.0001
_NAMED: Final = 5


def pair_verdict(pair: Pair) -> str:
    """One sentence about two systems."""
    a, b, measure = pair.a, pair.b, pair.measure
    if pair.outcome == "undecided":
        shown = "" if math.isnan(pair.p) else f": {figures(pair, a)}"
        return f"{a} and {b} cannot be compared on {measure}: {pair.untestable}{shown}"
    if pair.outcome == "identical":
        return f"{a} and {b} are identical on {measure}: equal on all {pair.effect.n} queries"
    if pair.outcome == "contradictory":
        return (
            f"{a} and {b} differ on {measure}, but the means and the test point different ways: "
            f"{figures(pair, a)}"
        )
    if pair.outcome == "not separable":
        return (
            f"{a} and {b} are not separable on {measure} at {_percent(pair.settings.level)}: "
            f"{figures(pair, a)}{_needed(pair)}{_within_margin(pair)}"
        )
    ahead = figures(pair, pair.winner or a)
    return f"{pair.winner} is better than {pair.loser} on {measure}: {ahead}{_within_margin(pair)}"


def figures(pair: Pair, of: str) -> str:
    """By how much one of the two (`of`) is ahead of the other, with interval and p."""
    difference, low, high = pair.seen_from(of)
    ends = "no interval" if math.isnan(low) else f"[{low:.4f}, {high:.4f}]"
    words = method_words(pair.settings, pair.n_pairs)
    return f"{signed(difference)} {ends}, {spelled_p(pair.p)} ({words})"


def method_words(settings: Settings, n_pairs: int) -> str:
    """The test and, where there is more than one pair, the correction."""
    if settings.correction == "tukey":
        return METHOD_NAMES["tukey"]
    test = METHOD_NAMES.get(settings.test, settings.test)
    if n_pairs < 2:
        return test
    if settings.correction == "none":
        return f"{test}, not corrected for {n_pairs} pairs"
    return f"{test}, {METHOD_NAMES[settings.correction]}"


def spelled_p(p: float) -> str:
    """`p = 0.0123`, `p < 0.0001`, or `no p`."""
    if math.isnan(p):
        return "no p"
    return f"p < {_SMALLEST_SHOWN}" if p < _SMALLEST_SHOWN else f"p = {p:.4f}"


def _percent(level: float) -> str:
    return f"{100 * level:g} %"


def _needed(pair: Pair) -> str:
    number = pair.queries_needed
    if number is None:
        return ""
    unit = "queries" if pair.settings.by is None else f"groups by {pair.settings.by}"
    if number > 10**7:
        return f"; no set of {unit} that can be made would tell"
    return f"; you would need about {_rounded(number):,} {unit}"


def _rounded(number: int) -> int:
    """Two digits: the number rests on an estimate."""
    scale = int(10 ** max(len(str(number)) - 2, 0))
    return -(-number // scale) * scale


def _within_margin(pair: Pair) -> str:
    if pair.equivalence is None:
        return ""
    margin, level = pair.settings.margin, pair.settings.level
    if pair.equivalence.p <= level:
        return f"; equivalent within {margin:g} ({spelled_p(pair.equivalence.p)})"
    if pair.winner is not None:
        return ""
    for name, other in ((pair.a, pair.b), (pair.b, pair.a)):
        test = pair.non_inferiority(name)
        if test is not None and test.p <= level:
            return f"; {name} is not worse than {other} by {margin:g} ({spelled_p(test.p)})"
    return f"; a difference of {margin:g} either way is not excluded"


def verdict_against(baseline: str, measure: str, pairs: Sequence[Pair]) -> str:
    """One sentence about systems (a) and a baseline (b): who is better, worse, or neither."""
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    groups = [
        ("better", lambda pair: pair.outcome == "better"),
        ("worse", lambda pair: pair.outcome == "worse"),
        ("not separable", lambda pair: pair.winner is None and pair.outcome != "undecided"),
        ("cannot be compared", lambda pair: pair.outcome == "undecided"),
    ]
    parts = [_group(word, pairs, member) for word, member in groups]
    words = method_words(pairs[0].settings, len(pairs))
    return f"Against {baseline} on {measure}: {'; '.join(filter(None, parts))} ({words})"


def _group(word: str, pairs: Sequence[Pair], member: Callable[[Pair], bool]) -> str:
    chosen = [pair for pair in pairs if member(pair)]
    if not chosen:
        return ""
    if word == "cannot be compared":
        return f"{_few([pair.a for pair in chosen])} {word}: {chosen[0].untestable}"
    shown = [f"{pair.a} {signed(pair.difference)}, {spelled_p(pair.p)}" for pair in chosen[:_NAMED]]
    more = [f"and {len(chosen) - _NAMED} more"] if len(chosen) > _NAMED else []
    return f"{word}: {'; '.join([*shown, *more]) if len(chosen) > 1 else shown[0]}"


def verdict_of_all(measure: str, ranked: Sequence[str], pairs: Sequence[Pair]) -> str:
    """One sentence about several systems, given best first: who is first, and how surely."""
    if len(pairs) == 1:
        return pair_verdict(pairs[0])
    own = [pair for pair in pairs if ranked[0] in (pair.a, pair.b)]
    own.sort(key=lambda pair: ranked.index(_other(pair, ranked[0])))
    if all(pair.outcome == "undecided" for pair in own):
        return f"The {len(ranked)} systems cannot be compared on {measure}: {own[0].untestable}"
    doubtful = [pair for pair in own if pair.winner != ranked[0]]
    if not doubtful:
        return (
            f"{ranked[0]} is better than all {len(own)} others on {measure}; the nearest is "
            f"{_other(own[0], ranked[0])}: {figures(own[0], ranked[0])}"
        )
    rivals = _few([_other(pair, ranked[0]) for pair in doubtful])
    nearest = doubtful[0]
    whom = f"{_other(nearest, ranked[0])} " if len(doubtful) > 1 else ""
    return (
        f"{ranked[0]} is first on {measure}, but not separable from {rivals} at "
        f"{_percent(nearest.settings.level)}: {whom}{figures(nearest, ranked[0])}{_needed(nearest)}"
    )


def _other(pair: Pair, name: str) -> str:
    return pair.b if pair.a == name else pair.a


def _few(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
