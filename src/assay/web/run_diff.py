"""Settings and environment of runs side by side, and where they differ."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assay.store import Run

__all__ = ["SettingRow", "setting_rows"]

_NOT_SETTINGS: Final = ("costs",)  # results, though they are kept with the settings


@dataclass(frozen=True)
class SettingRow:
    """One setting in each of the runs; None where a run does not have it."""

    section: str
    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Whether two of the runs do not have the same."""
        return len(set(self.values)) > 1


def setting_rows(runs: Sequence[Run]) -> list[SettingRow]:
    """Every setting that one of the runs has, in the order of the first."""
    found = [dict(_settings(run)) for run in runs]
    keys = dict.fromkeys(key for own in found for key in own)
    order = {section: i for i, section in enumerate(dict.fromkeys(section for section, _ in keys))}
    rows = [SettingRow(*key, tuple(own.get(key) for own in found)) for key in keys]
    return sorted(rows, key=lambda row: order[row.section])


def _settings(run: Run) -> Iterator[tuple[tuple[str, str], str]]:
    facts = {
        "task": run.task,
        "dataset": run.dataset,
        "model": run.model,
        "queries": str(run.n_queries or ""),
        "tags": " ".join(run.tags),
        "signature": run.signature,
        "search": run.search,
    }
    made = {
        "command": shlex.join(("assay", *run.command)) if run.command else "",
        "folder": run.folder,
        "commit": run.git_commit,
        "imported from": run.origin,
    }
    settings = {key: value for key, value in run.config.items() if key not in _NOT_SETTINGS}
    sections: dict[str, Mapping[str, Any]] = {
        "run": facts,
        "settings": settings,
        "seeds": run.seeds,
        "data": run.data,
        "environment": {**made, **run.versions},
    }
    for section, values in sections.items():
        for name, text in _flatten(values):
            yield (section, name), text


def _flatten(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings by their path; those that are not set are left out.

    >>> list(_flatten({"a": {"b": 1, "c": None}, "d": "x"}))
    [('a.b', '1'), ('d', 'x')]
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{before}{key}.")
        elif value not in (None, "", []):
            yield f"{before}{key}", value if isinstance(value, str) else json.dumps(value)
