"""The gate of `compare` and `bench`: under what conditions the command ends with 1."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, cast

import click

from assay.cli import options, output
from assay.comparison.gate import failures, parse_condition, worse_than_baseline
from assay.comparison.looks import count_look, look_at
from assay.tables.page import Page, Words

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.comparison.gate import Condition, Means
    from assay.comparison.looks import Look
    from assay.measures import Measure

__all__ = ["Gate", "GateAnswer", "gate_options"]

_REASONS: Final = 3
_add_options = options.add_options(
    click.option(
        "--fail-if",
        "conditions",
        multiple=True,
        metavar="CONDITION",
        help="Exit with 1 if a run meets it: 'nDCG@10 < baseline - 0.005'. May be repeated.",
    ),
    click.option(
        "--fail-if-worse",
        is_flag=True,
        help="Exit with 1 if a run is significantly worse than the baseline; with --margin, unless "
        "it is shown to be within the margin.",
    ),
    click.option(
        "--look",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --fail-if-worse: it is asked for the N-th time on these queries; all looks "
        "together err as rarely as --level says.",
    ),
    click.option(
        "--look-file",
        type=options.output_file,
        metavar="FILE",
        help="The same, and FILE counts: numbers seen before are no new look, a new baseline "
        "begins anew.",
    ),
)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--fail-if, --fail-if-worse, --look and --look-file; the command gets `gate`."""

    @wraps(command)
    def call(
        *,
        conditions: tuple[str, ...],
        fail_if_worse: bool,
        look: int | None,
        look_file: str | None,
        **chosen: Any,
    ) -> Any:
        gate = Gate.parse(conditions, fail_if_worse, chosen.get("rel"), look, look_file)
        return command(gate=gate, **chosen)

    return cast("Callable[..., Any]", _add_options(call))


@dataclass(frozen=True)
class Gate:
    """What makes the command fail."""

    conditions: tuple[Condition, ...]
    worse: bool
    look: int | None
    look_file: str | None

    @classmethod
    def parse(
        cls,
        texts: tuple[str, ...],
        worse: bool,
        rel: float | None,
        look: int | None,
        look_file: str | None,
    ) -> Gate:
        """Read the conditions; their measures take the same smallest relevant grade as others."""
        if look is not None and look_file is not None:
            raise click.UsageError("--look and --look-file both count: give one of the two.")
        if (look is not None or look_file is not None) and not worse:
            name = "--look" if look_file is None else "--look-file"
            raise click.UsageError(f"{name} counts the looks of --fail-if-worse: add that.")
        conditions = [
            replace(one, measure=options.apply_threshold((one.measure,), rel)[0])
            for one in map(parse_condition, texts)
        ]
        return cls(tuple(conditions), worse, look, look_file)

    @property
    def wanted(self) -> bool:
        """Whether there is anything to fail for."""
        return bool(self.conditions) or self.worse

    def refuse_without(self, baseline: bool) -> None:
        """Refuse conditions on a baseline that is not named."""
        relative = [condition for condition in self.conditions if condition.limit is None]
        if not baseline and (self.worse or relative):
            what = "--fail-if-worse" if self.worse else f"'{relative[0]}'"
            raise click.UsageError(f"{what} needs a baseline: name it with --baseline.")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the conditions are about."""
        return tuple(one.measure for one in self.conditions)

    def answer(self, board: Means, comparison: Comparison | None) -> GateAnswer:
        """Whether it fails, by the means of a board and by their comparison, if there is one."""
        if not self.wanted:
            return GateAnswer()
        reasons, look = list(failures(board, self.conditions)), None
        if self.worse and comparison is not None:
            look = self._look_at(comparison)
            reasons += worse_than_baseline(comparison) if look is None else look.reasons
        return GateAnswer(reasons, look)

    def _look_at(self, comparison: Comparison) -> Look | None:
        """The look, counted; None where the gate is asked as if for the only time."""
        if self.look_file is not None:
            look_at(comparison, 1)  # what cannot be looked at is not counted
            number, seen_before = count_look(comparison, self.look_file)
            return look_at(comparison, number, seen_before=seen_before)
        return None if self.look is None else look_at(comparison, self.look)


@dataclass(frozen=True)
class GateAnswer:
    """Why a command fails; `reasons` is None where there is no gate."""

    reasons: list[str] | None = None
    look: Look | None = None

    @property
    def sentences(self) -> list[str]:
        """What is known of each system at this look."""
        return [] if self.look is None else self.look.sentences

    def page(self) -> Page:
        """The same as paragraphs."""
        return [Words(sentence) for sentence in self.sentences]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, under the key `gate`; nothing where there is none."""
        if self.reasons is None:
            return {}
        look = {} if self.look is None else {"look": self.look.to_dict()}
        return {"gate": {"failed": bool(self.reasons), "reasons": self.reasons, **look}}

    def exit_code(self) -> int:
        """The exit code, after one line that says why the gate failed."""
        if not self.reasons:
            return 0
        left = len(self.reasons) - _REASONS
        more = f"; and {left} more" if left > 0 else ""
        sys.stdout.flush()
        output.narrate(f"assay: failed: {'; '.join(self.reasons[:_REASONS])}{more}")
        return 1
