"""Builds the driver of the search, sanitize_search.cpp, and reads what it prints."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["HERE", "NATIVE", "PLAIN", "Answers", "answers", "link_search"]

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "src" / "assay" / "native"
PLAIN = (
    "exact/exact_score.cpp",
    "search/coarse_plain.cpp",
    "search/coarse_search.cpp",
    "search/coarse_targets.cpp",
    "search/float32_plain.cpp",
    "search/float32_search.cpp",
)


class Answers(NamedTuple):
    """How many queries the kernels take at a time, in float32 and in 8 bits; of all answers."""

    rows: tuple[int, int]
    digest: str


def link_search(
    folder: Path,
    compiler: list[str],
    vectors: dict[Path, list[str]],
    sources: tuple[Path, ...] = (HERE / "sanitize_search.cpp",),
) -> Path:
    """The driver; each source with the vector instructions it is written for."""
    objects = []
    for source in [*sources, *(NATIVE / name for name in PLAIN), *vectors]:
        objects.append(folder / f"{source.stem}.o")
        instructions = vectors.get(source, [])
        subprocess.run([*compiler, *instructions, "-c", source, "-o", objects[-1]], check=True)
    driver = folder / "driver"
    subprocess.run([*compiler, *objects, "-pthread", "-o", driver], check=True)
    return driver


def answers(output: str) -> Answers:
    """What the driver printed, which it does only where every answer was right."""
    found = re.fullmatch(r"(\d+) and (\d+) rows at a time, ([0-9a-f]{16}): ok\n", output)
    assert found is not None, output
    return Answers((int(found[1]), int(found[2])), found[3])
