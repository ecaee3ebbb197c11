"""What contestants retrieved, as run files that every tool of the field reads."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.errors import StorageError
from assay.io.writers import write_run

if TYPE_CHECKING:
    from assay.tasks.bench_result import BenchResult

__all__ = ["write_runs"]

_ODD: Final = re.compile(r"[^\w.+-]+")


def write_runs(result: BenchResult, folder: str | os.PathLike[str]) -> list[Path]:
    """Write one TREC run file for each contestant; the paths of the files."""
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{home} cannot be made: {error.strerror or error}.") from error
    names = _file_names([one.name for one in result.contestants])
    for one, name in zip(result.contestants, names, strict=True):
        write_run(one.ranking, home / f"{name}.run", format="trec", tag=name)
    return [home / f"{name}.run" for name in names]


def _file_names(names: list[str]) -> list[str]:
    """Names that any file system takes, each once.

    >>> _file_names(["st:a/b", "st:a-b", "rrf(a+b)"])
    ['st-a-b', 'st-a-b-2', 'rrf-a+b']
    """
    made: list[str] = []
    for name in names:
        plain = _ODD.sub("-", name).strip("-.")[:100] or "run"
        number = 1
        unique = plain
        while unique in made:
            number += 1
            unique = f"{plain}-{number}"
        made.append(unique)
    return made
