"""The table of speed in README, from measured figures.

    python benchmarks/table.py --measure --write    all of it: some minutes, 4 GB
    python benchmarks/table.py --write              from the figures that were measured last

`--measure` keeps what it finds in benchmarks/table.json, `--write` puts the table between the two
marks in README.md; without it, the table is printed.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from headlines import HEADLINES, Timing, measurable, measure_apart

FIGURES = Path(__file__).with_suffix(".json")
README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- speed: benchmarks/table.py -->", "<!-- end of speed -->"


def table(figures: dict[str, dict[str, Any]]) -> str:
    """The figures as a table in Markdown."""
    rows = ["| | assay | against |", "|---|---|---|"]
    for one in HEADLINES:
        if one.name in figures:
            figure = figures[one.name]
            timing = Timing(figure["ours"], figure["theirs"])
            words = one.words.format(size=figure["size"])
            rows.append(
                f"| {words} | {_seconds(timing.ours)} | {one.against} {_times(timing.ratio)} |"
            )
    return "\n".join(rows)


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _times(ratio: float) -> str:
    if ratio < 0.9:
        return f"{ratio:.2g} ×"
    return f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:.0f} ×"


def insert(page: str, text: str) -> str:
    """The page with the text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"The page lacks {BEGIN!r} or {END!r}.")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def measure_all(repeats: int, only: list[str] | None) -> None:
    """Measure the figures at full size, and keep each."""
    for one in measurable():
        if only and one.name not in only:
            continue
        timing = measure_apart(one, one.full, repeats)
        kept = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
        kept[one.name] = {
            "size": one.full,
            "ours": round(timing.ours, 4),
            "theirs": round(timing.theirs, 4),
            "load": round(os.getloadavg()[0], 1),
        }
        FIGURES.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", action="store_true", help="into README.md")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of figures to measure")
    options = parser.parse_args(arguments)
    if options.measure:
        measure_all(options.repeats, options.only)
    text = table(json.loads(FIGURES.read_text("utf-8")))
    if options.write:
        README.write_text(insert(README.read_text("utf-8"), text), "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
