"""Journal: what was computed where, how long it took, and how many bytes it read and made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["Journal", "Step"]


class Step(NamedTuple):
    """One finished task; a shard of −1 stands for a task that is not about one shard."""

    kind: str  # "search", "merge", "finish" or "encode"
    block: int
    shard: int
    seconds: float
    bytes_read: int
    bytes_made: int
    worker: str


@dataclass
class Journal:
    """All tasks of a job.

    Of `blocks` pairs of query block and shard, `resumed` were found in the checkpoint and
    `computed` were searched now; `recomputed` of these had been started before and were lost with
    the driver, `damaged` were in the checkpoint but not sound. `most_held` is the largest number of
    partial results that were there at one time.
    """

    steps: list[Step] = field(default_factory=list)
    blocks: int = 0
    resumed: int = 0
    computed: int = 0
    recomputed: int = 0
    damaged: int = 0
    most_held: int = 0

    def totals(self) -> dict[str, dict[str, float]]:
        """For each kind of task: how many, seconds of all workers, bytes read and made."""
        kinds = dict.fromkeys(step.kind for step in self.steps)
        return {kind: _total([step for step in self.steps if step.kind == kind]) for kind in kinds}

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values."""
        counts = {name: value for name, value in vars(self).items() if name != "steps"}
        steps = [step._asdict() for step in self.steps]
        return {**counts, "totals": self.totals(), "tasks": steps}

    def resumption(self) -> str:
        """What a checkpoint was good for, in words."""
        damaged = f", {self.damaged} of them damaged in the checkpoint" if self.damaged else ""
        return (
            f"{self.resumed} of {self.blocks} blocks taken from the checkpoint, {self.computed} "
            f"computed ({self.recomputed} for the second time{damaged})"
        )


def _total(steps: list[Step]) -> dict[str, float]:
    return {
        "tasks": len(steps),
        "seconds": sum(step.seconds for step in steps),
        "bytes_read": sum(step.bytes_read for step in steps),
        "bytes_made": sum(step.bytes_made for step in steps),
    }
