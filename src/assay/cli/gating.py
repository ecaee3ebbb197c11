"""The gate of `compare` and `bench`: under what conditions the command ends with 1."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, cast

import click

from assay.cli import options, output
from assay.core.on_demand import OnDemand
from assay.tables.table import Page, Words

if TYPE_CHECKING:
    from assay.comparison import gate as gates
    from assay.comparison.compare import Comparison
    from assay.measures import Measure
else:
    gates = OnDemand("assay.comparison.gate")


_REASONS: Final = 3
_add_options = options.add_options(
    options.in_gate(
        "--fail-if CONDITION",
        "conditions",
        multiple=True,
        help="Exit with 1 if true: 'nDCG@10 < baseline - 0.005'. May be repeated.",
    ),
    options.in_gate(
        "--fail-if-worse",
        is_flag=True,
        help="Exit with 1 if significantly worse than the baseline.",
    ),
    options.in_gate(
        "--look N", least=1, help="N-th check on these queries; keeps false alarms at --level."
    ),
    options.in_gate(
        "--look-file FILE",
        type=options.output_file,
        help="File that counts the checks for --look.",
        writes=True,
    ),
)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare --fail-if, --fail-if-worse, --look and --look-file; the command gets `gate`."""

    @wraps(command)
    def call(*, conditions: tuple[str, ...], fail_if_worse: bool, **settings: Any) -> Any:
        looks = {name: settings.pop(name) for name in ("look", "look_file")}
        gate = Gate.parse(conditions, fail_if_worse, settings.get("rel"), **looks)
        return command(gate=gate, **settings)

    return cast("Callable[..., Any]", _add_options(call))


@dataclass(frozen=True)
class Gate:
    """The conditions under which the command fails."""

    conditions: tuple[gates.Condition, ...]
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
            raise click.UsageError("--look and --look-file exclude each other.")
        if (look is not None or look_file is not None) and not worse:
            name = "--look" if look_file is None else "--look-file"
            raise click.UsageError(f"{name} requires --fail-if-worse.")
        conditions = [
            replace(text, measure=options.apply_threshold((text.measure,), rel)[0])
            for text in map(gates.parse_condition, texts)
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
            raise click.UsageError(f"{what} requires --baseline.")

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of the conditions."""
        return tuple(condition.measure for condition in self.conditions)

    def answer(
        self, board: gates.Means, comparison: Comparison | None, baseline: str | None = None
    ) -> GateAnswer:
        """Return whether it fails, by the means of a board and by their comparison, if any.

        `baseline` is what a user calls the baseline, such as its file.
        """
        if not self.wanted:
            return GateAnswer()
        reasons, look, lines = list(gates.failures(board, self.conditions)), None, []
        if self.worse and comparison is not None:
            look = self._look_at(comparison)
            reasons += gates.worse_than_baseline(comparison) if look is None else look.reasons
            lines.append(gates.describe_pass(comparison, baseline or comparison.baseline or ""))
        if self.conditions:
            several = f"any of {len(self.conditions)} conditions"
            met = f"'{self.conditions[0]}'" if len(self.conditions) == 1 else several
            lines.append(f"no system meets {met}")
        return GateAnswer(reasons, look, "; ".join(lines))

    def _look_at(self, comparison: Comparison) -> gates.SequentialTest | None:
        """Count the look; return None where the gate is asked as if for the only time."""
        if self.look_file is not None:
            gates.look_at(comparison, 1)  # what cannot be looked at is not counted
            number, seen_before = gates.count_look(comparison, self.look_file)
            return gates.look_at(comparison, number, seen_before=seen_before)
        return None if self.look is None else gates.look_at(comparison, self.look)


@dataclass(frozen=True)
class GateAnswer:
    """Why a command fails; `reasons` is None where there is no gate."""

    reasons: list[str] | None = None
    look: gates.SequentialTest | None = None
    shown: str = ""

    @property
    def message(self) -> str:
        """Say in one line whether the gate passed, and why."""
        if not self.reasons:
            return f"Passed: {self.shown}."
        left = len(self.reasons) - _REASONS
        more = f"; and {left} more" if left > 0 else ""
        return f"Failed: {'; '.join(self.reasons[:_REASONS])}{more}"

    def sign(self, comparison: Comparison) -> Comparison:
        """Return the comparison with the number of the look in its signature."""
        if self.look is None:
            return comparison
        aligned, look = comparison.aligned, f"|look:{self.look.number}|queries:"
        signature = aligned.signature.replace("|queries:", look)
        return replace(comparison, aligned=replace(aligned, signature=signature))

    def page(self) -> Page:
        """Return what is known of each system at this look, a paragraph each."""
        return [] if self.look is None else [Words(sentence) for sentence in self.look.sentences]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data under the key `gate`; empty without a gate."""
        if self.reasons is None:
            return {}
        look = {} if self.look is None else {"look": self.look.to_dict()}
        failed = bool(self.reasons)
        return {
            "gate": {"failed": failed, "reasons": self.reasons, "message": self.message, **look}
        }

    def exit_code(self) -> int:
        """Return the exit code, after one line that says whether the gate passed, and why."""
        if self.reasons is None:
            return 0
        sys.stdout.flush()
        output.log(self.message)
        return 1 if self.reasons else 0
