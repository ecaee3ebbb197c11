"""Assertions on scores: what a test says of a ranking, with the verdict where it fails."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from assay.comparison.alignment import answered_queries, cluster_settings
from assay.comparison.compare import Comparison, compare
from assay.comparison.gate import Condition, worse_than_baseline
from assay.core.checks import is_real, name_few
from assay.core.text import bracket, signed, spoken
from assay.errors import FormatError, MismatchError, UsageError
from assay.measures import Measure, parse
from assay.plugins import find_hook
from assay.runs.record import HasRecord, only_measures
from assay.runs.results import aggregates_of
from assay.scoring.score_data import load_scores
from assay.scoring.scores import Scores

_QUERIES_SHOWN: Final = 5
_LOOK: Final = (
    "Inspect these queries first. To accept the change, record a new baseline: pytest "
    "--assay-update-baseline."
)
_TOO_FEW: Final = (
    "No significant loss, but too few queries to rule one out. Add queries, or allow a "
    "larger margin."
)
_OTHER: Final = "Use the same settings, or record a new baseline: pytest --assay-update-baseline."


def assert_not_worse(
    scores: Any,
    baseline: Scores | HasRecord | str | os.PathLike[str] | Callable[[Scores], Scores],
    measure: Any,
    *,
    margin: float | None = None,
    collection: Any = None,
    allow_other_settings: bool = False,
    **settings: Any,
) -> Comparison:
    """Fail where scores are worse than a baseline, as `assay compare` does.

    Without a margin they fail if they are significantly worse; with one, unless they are shown to
    be within the margin. Scores that equal the baseline on every query pass. Queries and
    conventions must be the same.

    Args:
        scores: Scores, or a run; with a collection a retriever: a function, an object of
            LangChain, LlamaIndex or Haystack, or a spec.
        baseline: Scores, a run, a file of them, or the fixture `assay_baseline`.
        measure: One or several measures.
        margin: Largest loss that is accepted.
        collection: What a retriever is scored on: a collection, or its folder.
        allow_other_settings: Compare scores with different settings, too.
        **settings: Settings of `compare` (test, level, resamples, seed, by). Without `by`, the
            clusters of a run are drawn.

    Returns:
        The comparison.

    Raises:
        AssertionError: The scores are worse, or cannot be compared.
        UsageError: An argument is wrong.

    Example:
        scores = assay.evaluate("new.run", "qrels.txt", "nDCG@10")
        assert_not_worse(scores, "baseline.json", "nDCG@10")
    """
    __tracebackhide__ = True
    try:
        new = _scores_of(scores, collection, measure)
        old = baseline(new) if callable(baseline) else _scores_of(baseline)
        columns = ((getattr(run, "clusters", ""), new) for run in (scores, baseline))
        settings = {**cluster_settings(columns), **settings}
        _refuse_others(new, old, allow_other_settings)
        sides: Any = {"names": ("new", "baseline"), "baseline": "baseline"}
        comparison = compare(new, old, **sides, measures=measure, margin=margin, **settings)
        reasons = list(worse_than_baseline(comparison))
    except UsageError:
        raise  # the test is wrong, not the ranking
    except (MismatchError, FormatError) as error:
        raise AssertionError(f"not compared with the baseline: {error}\n{_OTHER}") from None
    if reasons:
        raise AssertionError("\n".join([*reasons, *_describe(comparison)]))
    return comparison


def assert_at_least(
    scores: Any, measure: str | Measure, limit: float, *, collection: Any = None
) -> None:
    """Fail where the mean of a measure is below a number.

    Args:
        scores: Scores, or a run; with a collection a retriever.
        measure: Measure, or its name.
        limit: Smallest mean that passes, as in `--fail-if 'nDCG@10 < 0.3'`.
        collection: What a retriever is scored on: a collection, or its folder.

    Raises:
        AssertionError: The mean is below the limit.
        UsageError: The limit is not a number.

    Example:
        assert_at_least(assay.evaluate("new.run", "qrels.txt", "nDCG@10"), "nDCG@10", 0.3)
    """
    __tracebackhide__ = True
    if not is_real(limit) or not math.isfinite(limit):
        raise UsageError(f"The limit is {limit!r}. Pass a number such as 0.3.")
    parsed = measure if isinstance(measure, Measure) else parse(measure)
    values = _scores_of(scores, collection, parsed)
    aggregate = aggregates_of(only_measures(values, [parsed]))[0]
    mean = float("nan") if aggregate.value is None else aggregate.value
    if Condition(parsed, "<", limit).fails(mean, float("nan")):
        ends = bracket(aggregate.low, aggregate.high) or "no interval"
        raise AssertionError(
            f"{parsed} is {mean:.4f} {ends} over n = {aggregate.n} queries, below {limit:g}"
        )


def _scores_of(data: Any, collection: Any = None, measures: Any = None) -> Scores:
    """Return scores as they are, of a run or a file, or of a retriever on a collection."""
    if collection is not None:
        retrieved: Scores = find_hook("score_system")(data, collection, measures)
        return retrieved
    if isinstance(data, Scores):
        return data
    if isinstance(data, str | os.PathLike):
        return load_scores(data)
    if callable(getattr(data, "record", None)):
        scores: Scores = data.record().scored()
        return scores
    raise UsageError(
        "Pass Scores, a RunRecord, a scores file, or a retriever with a collection; found "
        f"{type(data).__name__}: {repr(data)[:60]}."
    )


def _refuse_others(new: Scores, old: Scores, other_settings: bool) -> None:
    """Refuse scores that were made on other queries, or in another way."""
    here, there = ({str(query) for query in answered_queries(scores)} for scores in (new, old))
    if new.conventions == old.conventions and here != there:
        only = {"new": here - there, "baseline": there - here}
        lists = {where: sorted(queries) for where, queries in only.items() if queries}
        named = [f"{len(ids)} only in {where}: {name_few(ids)}" for where, ids in lists.items()]
        raise MismatchError(f"the queries differ: {'; '.join(named)}.")
    if other_settings:
        return
    now, before = ({**scores.settings, "search": scores.search} for scores in (new, old))
    apart = [
        f"{key} is {now.get(key) or 'not set'}, was {before.get(key) or 'not set'}"
        for key in sorted({*now, *before})
        if (now.get(key) or "") != (before.get(key) or "")
    ]
    if apart:
        raise MismatchError(
            f"the signatures differ: {', '.join(apart)}. To test this change, pass "
            "allow_other_settings=True."
        )


def _describe(comparison: Comparison) -> Iterator[str]:
    """Describe every pair: means, counts, most lost queries; then what to do."""
    pairs = comparison.pairs
    for pair in pairs:
        standings, effect = comparison.standings_on(pair.measure), pair.effect
        means = {system.name: system.mean.estimate for system in standings}
        yield (
            f"  {pair.measure}: {means['new']:.4f} against {means['baseline']:.4f}, n = "
            f"{effect.n} {pair.items}: {effect.wins} better, {effect.losses} worse, "
            f"{effect.n - effect.wins - effect.losses} equal"
        )
        if lost := comparison.differences(pair.measure).losses(_QUERIES_SHOWN):
            named = ", ".join(f"{row.query} {signed(row.difference)}" for row in lost)
            yield f"  most lost: {spoken(named)}"
    yield from (f"  verdict: {verdict}" for verdict in comparison.verdicts.values())
    yield f"  signature: {comparison.signature}"
    margin = comparison.settings.margin
    worse = [pair.outcome == "worse" or pair.difference < -(margin or 1.0) for pair in pairs]
    yield f"  {_LOOK if any(worse) else _TOO_FEW}"
