"""Runs as one wide table."""

from __future__ import annotations

import math
from typing import Any

from assay.io.frames import build_frame
from assay.store.lines import RunLine

__all__ = ["run_frame"]

_COLUMNS = ("id", "name", "task", "dataset", "model", "status", "created", "seconds", "n_queries",
            "conventions")  # fmt: skip


def run_frame(runs: list[RunLine], backend: str) -> Any:
    """A row for each run: what it is, its tags, and its means over queries."""
    columns: dict[str, Any] = {name: [getattr(run, name) for run in runs] for name in _COLUMNS}
    columns["seconds"] = [math.nan if s is None else s for s in columns["seconds"]]
    columns["tags"] = [" ".join(run.tags) for run in runs]
    means = [run.means() for run in runs]
    for measure in dict.fromkeys(name for each in means for name in each):
        found = [each.get(measure) for each in means]
        columns[measure] = [math.nan if value is None else value for value in found]
    return build_frame(columns, backend)
