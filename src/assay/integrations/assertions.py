"""Assertions on scores: what a test says of a ranking, with the verdict where it fails."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from assay.comparison.alignment import answered_queries
from assay.comparison.compare import Comparison, compare
from assay.comparison.gate import Condition, worse_than_baseline
from assay.core.checks import is_real, name_few
from assay.core.text import signed
from assay.errors import FormatError, MismatchError, UsageError
from assay.measures import Measure, parse
from assay.runs.aggregates import aggregates_of
from assay.runs.record import HasRecord, only_measures
from assay.scoring.score_data import load_scores
from assay.scoring.scores import Scores

__all__ = ["assert_at_least", "assert_not_worse"]

_QUERIES_SHOWN: Final = 5
_LOOK: Final = (
    "Look at these queries first. Where the change is meant to cost this much, record a new "
    "baseline: pytest --assay-update-baseline."
)
_TOO_FEW: Final = (
    "Nothing is shown to be lost, but these queries do not show the contrary either: test on more "
    "queries, or allow a larger margin."
)
_OTHER: Final = (
    "Score both in the same way, or record a new baseline: pytest --assay-update-baseline."
)


def assert_not_worse(
    scores: Scores | HasRecord,
    baseline: Scores | HasRecord | str | os.PathLike[str],
    measure: Any,
    *,
    margin: float | None = None,
    allow_other_settings: bool = False,
    **settings: Any,
) -> Comparison:
    """Fail where the scores are worse than a baseline: the gate of `assay compare`.

    Without a margin they fail if they are significantly worse; with one, unless they are shown to
    be within the margin, or equal the baseline on every query. The baseline is scores, a run, or
    a file of them; `measure` one or several measures; `settings` are those of `compare` (test,
    level, resamples, seed, by). Queries and conventions must be the same, and so must other
    settings unless `allow_other_settings`.
    """
    __tracebackhide__ = True
    try:
        new, old = _scores_of(scores), _scores_of(baseline)
        _refuse_others(new, old, allow_other_settings)
        comparison = compare(
            new,
            old,
            names=("new", "baseline"),
            measures=measure,
            baseline="baseline",
            margin=margin,
            **settings,
        )
        reasons = list(worse_than_baseline(_without_identical(comparison)))
    except UsageError:
        raise  # the test is wrong, not the ranking
    except (MismatchError, FormatError) as error:
        raise AssertionError(f"not compared with the baseline: {error}\n{_OTHER}") from None
    if reasons:
        raise AssertionError("\n".join([*reasons, *_describe(comparison)]))
    return comparison


def _without_identical(comparison: Comparison) -> Comparison:
    """The pairs with any difference: where nothing changed, there is nothing to be shown.

    The command's gate asks of such runs, too, what other queries might show: it may be of systems
    that differ. A test asks whether a change did harm.
    """
    pairs = tuple(pair for pair in comparison.pairs if pair.outcome != "identical")
    return replace(comparison, pairs=pairs)


def assert_at_least(scores: Scores | HasRecord, measure: str | Measure, limit: float) -> None:
    """Fail where the mean of a measure is below a number: `--fail-if 'nDCG@10 < 0.3'`."""
    __tracebackhide__ = True
    if not is_real(limit) or not math.isfinite(limit):
        raise UsageError(f"The limit of a mean must be a number such as 0.3, found {limit!r}.")
    wanted = measure if isinstance(measure, Measure) else parse(measure)
    found = aggregates_of(only_measures(_scores_of(scores), [wanted]))[0]
    mean = float("nan") if found.value is None else found.value
    if Condition(wanted, "<", limit).fails(mean, float("nan")):
        ends = "" if found.low is None else f" [{found.low:.4f}, {found.high:.4f}]"
        raise AssertionError(
            f"{wanted} is {mean:.4f}{ends} over n = {found.n} queries, below {limit:g}"
        )


def _scores_of(given: Any) -> Scores:
    if isinstance(given, Scores):
        return given
    if isinstance(given, str | os.PathLike):
        return load_scores(given)
    if callable(getattr(given, "record", None)):
        found: Scores = given.record().scored()
        return found
    raise UsageError(
        "Scores, a RunRecord, or the path of a file of scores is needed; found "
        f"{type(given).__name__}: {repr(given)[:60]}."
    )


def _refuse_others(new: Scores, old: Scores, other_settings: bool) -> None:
    """Refuse scores that were made on other queries, or in another way."""
    here, there = ({str(query) for query in answered_queries(one)} for one in (new, old))
    if new.conventions == old.conventions and here != there:
        only = (("new", here - there), ("baseline", there - here))
        named = [
            f"{len(own)} only in {where}: {name_few(sorted(own))}" for where, own in only if own
        ]
        raise MismatchError(f"the queries differ: {'; '.join(named)}.")
    if other_settings:
        return
    now, before = ({**one.settings, "search": one.search} for one in (new, old))
    apart = [
        f"{key} is {now.get(key) or 'not set'} and was {before.get(key) or 'not set'}"
        for key in sorted({*now, *before})
        if (now.get(key) or "") != (before.get(key) or "")
    ]
    if apart:
        raise MismatchError(
            f"the signatures differ: {', '.join(apart)}. If that is the change to test, pass "
            "allow_other_settings=True."
        )


def _describe(comparison: Comparison) -> Iterator[str]:
    """Means, counts and the most lost queries of every pair, then what to do."""
    pairs = comparison.pairs
    for pair in pairs:
        means = {one.name: one.mean.estimate for one in comparison.standings_on(pair.measure)}
        effect = pair.effect
        yield (
            f"  {pair.measure}: {means['new']:.4f} against {means['baseline']:.4f}, n = "
            f"{effect.n} {pair.items}: {effect.wins} better, {effect.losses} worse, "
            f"{effect.n - effect.wins - effect.losses} equal"
        )
        lost = comparison.differences(pair.measure).losses(_QUERIES_SHOWN)
        if lost:
            named = ", ".join(f"{row.query} {signed(row.difference)}" for row in lost)
            yield f"  most lost: {named}"
    yield from (f"  verdict: {verdict}" for verdict in comparison.verdicts.values())
    yield f"  signature: {comparison.signature}"
    margin = comparison.settings.margin
    worse = [pair.outcome == "worse" or pair.difference < -(margin or 1.0) for pair in pairs]
    yield f"  {_LOOK if any(worse) else _TOO_FEW}"
