"""sensitivity: whether the outcome depends on the tie rule or another convention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from assay.comparison.compare import Comparison, compare
from assay.comparison.pairs import Pair
from assay.comparison.standings import format_p
from assay.core.conventions import CHOICES, Conventions, as_conventions
from assay.core.ranking import Ranking
from assay.core.text import printable
from assay.errors import AssayError, UsageError
from assay.io.formats import as_judgments, as_ranking
from assay.measures import Measure, parse
from assay.scoring.evaluate import evaluate
from assay.tables.table import Cell, Table, as_text

_MOST_MEANS: Final = 6  # systems with a column of their own
AS_GIVEN: Final = "as given"
# What can change any measure, beside the conventions that are parameters of a measure.
_FOR_ALL: Final = ("ties", "tiebreak", "scores", "empty", "missing", "self", "unjudged")


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """One comparison under several rules, by what each rule changes; the first changes nothing.

    `refused` are the rules under which the systems cannot be compared, and why.
    """

    measure: Measure
    comparisons: dict[str, Comparison]
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> Comparison:
        """The comparison under the conventions given."""
        return next(iter(self.comparisons.values()))

    @property
    def unchanged(self) -> tuple[str, ...]:
        """The rules under which no mean changes."""
        means = _means(self.base)
        return tuple(
            rule for rule in list(self.comparisons)[1:] if _means(self.comparisons[rule]) == means
        )

    def firsts(self) -> dict[str, tuple[str, ...]]:
        """Under each rule the system with the highest mean, or all that share it."""
        return {rule: _firsts(each) for rule, each in self.comparisons.items()}

    @property
    def winner_changes(self) -> bool:
        """Whether any rule puts another system first."""
        return len(set(self.firsts().values())) > 1

    @property
    def verdict(self) -> str:
        """The outcome that depends on the rules, in a sentence or two."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        firsts = self.firsts()
        base = next(iter(firsts.values()))
        ties = {r: f for r, f in firsts.items() if r == AS_GIVEN or r.startswith("ties:")}
        if len(set(ties.values())) > 1:
            yield f"The winner depends on the tie rule: {_describe_firsts(ties)}."
        different = {r: f for r, f in firsts.items() if r not in ties and f != base}
        if different:
            yield f"The winner depends on the conventions: {_describe_firsts(different)}."
        if not self.winner_changes:
            yield f"{' and '.join(base)} is first on {self.measure} under all {len(firsts)} rules."
            yield from self._describe_certainty()
        if self.refused:
            named = ", ".join(self.refused)
            yield f"They cannot be compared under {named}."
        changed = [r for r, each in self.comparisons.items() if _order(each) != _order(self.base)]
        if changed and not self.winner_changes:
            yield f"The order of the others changes under {', '.join(changed)}."

    def _describe_certainty(self) -> Iterator[str]:
        """Describe leaders that stay first but are not as clearly separable."""
        if self.base.baseline is None:
            clear = [rule for rule, each in self.comparisons.items() if _is_clear(each)]
            if 0 < len(clear) < len(self.comparisons):
                rules = ", ".join(clear)
                yield f"Its lead is significant only under {rules}."
            return
        outcomes = [[pair.outcome for pair in each.pairs] for each in self.comparisons.values()]
        varying = [
            pair.a
            for pair, *outcomes_elsewhere in zip(self.base.pairs, *outcomes, strict=True)
            if len(set(outcomes_elsewhere)) > 1
        ]
        if varying:
            names = ", ".join(varying)
            yield f"The outcome against {self.base.baseline} depends on the rule for {names}."

    def table(self) -> Table:
        """Return a row for each rule that changes a number: means, the first system, and p."""
        base, firsts = self.base, self.firsts()
        names = base.names if len(base.names) <= _MOST_MEANS else ()
        rows = []
        for rule, comparison in self.comparisons.items():
            if rule in self.unchanged:
                continue
            means = {standing.name: standing.mean.estimate for standing in comparison.standings}
            cells = [Cell(means[name], "fraction", name in firsts[rule]) for name in names]
            if base.baseline is not None:
                better = [pair.a for pair in comparison.pairs if pair.winner == pair.a]
                last = Cell(", ".join(better) or None)
            else:
                pair = _top_pair(comparison)
                last = Cell(format_p(pair.p), "figure", pair.winner is not None)
            rows.append((Cell(rule), *cells, Cell(" and ".join(firsts[rule])), last))
        head = "p (1st, 2nd)" if base.baseline is None else f"better than {base.baseline}"
        return Table(("rule", *names, "first", head), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "measure": str(self.measure),
            "verdict": self.verdict,
            "winner_changes": self.winner_changes,
            "unchanged": list(self.unchanged),
            "refused": dict(self.refused),
            "rules": [
                {
                    "rule": rule,
                    "signature": each.signature,
                    "first": list(_firsts(each)),
                    "separable": _is_clear(each),
                    "means": {n: m if math.isfinite(m) else None for n, m in _means(each).items()},
                }
                for rule, each in self.comparisons.items()
            ],
        }

    def __repr__(self) -> str:
        return f"{printable(self.verdict)}\n\n{as_text(self.table())}"


def sensitivity(
    runs: Mapping[str, Any],
    qrels: Any,
    measure: str | Measure = "nDCG@10",
    *,
    conventions: str | Conventions = "trec_eval",
    rules: Mapping[str, str | Conventions] | None = None,
    groups: Mapping[str, Any] | None = None,
    allow_mismatch: bool = False,
    **settings: Any,
) -> Sensitivity:
    """Compare runs, given by name, under other tie rules and conventions than those given.

    `rules` are conventions by name; by default every single choice that can matter to
    the measure is changed in turn. `groups` and `allow_mismatch` are as in `evaluate`, `settings`
    as in `compare`.

    >>> runs = {"tied": {"q": {"a": 1, "b": 1}}, "late": {"q": {"a": 2, "b": 1}}}
    >>> sensitivity(runs, {"q": {"a": 1}}, "RR").verdict
    'The winner depends on the tie rule: late (as given, expected, worst, midrank-up); tied and
    late (best). The winner depends on the conventions: tied and late (tiebreak: id-ascending,
    tiebreak: index, unjudged: condensed).'
    """
    if not isinstance(runs, Mapping) or len(runs) < 2:
        raise UsageError("sensitivity takes two or more runs by name: {'bm25': …, 'dense': …}.")
    parsed = measure if isinstance(measure, Measure) else parse(measure)
    base = as_conventions(conventions)
    judgments = as_judgments(qrels)
    # In the order and precision of the file every other order and precision can be had.
    raw = base.replace(tiebreak="index", scores="float64")
    read = {name: as_ranking(run, raw) for name, run in runs.items()}
    named_rules = {name: as_conventions(each) for name, each in (rules or {}).items()}
    tried = {AS_GIVEN: base, **(other_rules(parsed, base) if rules is None else named_rules)}

    def compare_under(rule: Conventions) -> Comparison:
        options: dict[str, Any] = {"groups": groups, "allow_mismatch": allow_mismatch}
        runs = read.values()
        scores = [evaluate(run, judgments, parsed, conventions=rule, **options) for run in runs]
        return compare(*scores, names=read, **settings)

    possible = {
        name: rule
        for name, rule in tried.items()
        if not any(_lacks(ranking, rule) for ranking in read.values())
    }
    comparisons: dict[str, Comparison] = {}
    refused: dict[str, str] = {}
    for name, rule in possible.items():
        try:
            comparisons[name] = compare_under(rule)
        except AssayError as error:
            if not comparisons:  # the conventions given
                raise
            refused[name] = str(error)
    return Sensitivity(parsed, comparisons, refused)


def other_rules(measure: Measure, base: Conventions) -> dict[str, Conventions]:
    """Return every single choice that can matter to the measure, changed: `ties: expected`, …"""
    conventions = [p.convention for p in measure.definition.params.values() if p.convention]
    named = [key for key in (*_FOR_ALL, *conventions) if key != "tiebreak" or base.ties == "order"]
    base = base.replace(unjudged="nonrelevant") if base.unjudged == "bounds" else base
    rules = {}
    for key in named:
        attribute = "self_match" if key == "self" else key
        for choice in CHOICES[key]:
            if choice not in (getattr(base, attribute), "error", "bounds"):
                rules[f"{key}: {choice}"] = base.replace(**{attribute: choice})
    return rules


def _lacks(ranking: Ranking, rule: Conventions) -> bool:
    """Return whether a ranking made under some rule no longer holds what this one needs."""
    by_index = rule.tiebreak == "index" and ranking.tiebreak != "index"
    return by_index or (rule.scores == "float64" and ranking.precision == "float32")


def _means(comparison: Comparison) -> dict[str, float]:
    """Return means by name, in the order given.

    -∞ stands for none, so that two can be compared.
    """
    means = {standing.name: standing.mean.estimate for standing in comparison.standings}
    return {n: -math.inf if math.isnan(means[n]) else means[n] for n in comparison.names}


def _firsts(comparison: Comparison) -> tuple[str, ...]:
    means = _means(comparison)
    return tuple(name for name, mean in means.items() if mean == max(means.values()))


def _order(comparison: Comparison) -> list[str]:
    return [standing.name for standing in comparison.standings]


def _is_clear(comparison: Comparison) -> bool:
    """Return whether the first is separable from the second, or better than the baseline."""
    return _top_pair(comparison).winner is not None


def _top_pair(comparison: Comparison) -> Pair:
    """Return the first system and the second.

    With a baseline, the first that is not it, and it.
    """
    first, second, *_ = _order(comparison)
    if comparison.baseline is not None:
        first = second if first == comparison.baseline else first
        second = comparison.baseline
    return comparison.pair(first, second)


def _describe_firsts(firsts: Mapping[str, tuple[str, ...]]) -> str:
    """Return rules by their leaders: `a (as given, best); b (worst)`."""
    rules: dict[tuple[str, ...], list[str]] = {}
    for rule, names in firsts.items():
        rules.setdefault(names, []).append(rule.removeprefix("ties: "))
    return "; ".join(f"{' and '.join(who)} ({', '.join(when)})" for who, when in rules.items())
