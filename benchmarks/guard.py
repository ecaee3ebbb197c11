"""Did a headline ratio move? Measures the ten of them small and compares with the stored ones.

    python benchmarks/guard.py            about two minutes; exit code 1 if one became slower
    python benchmarks/guard.py --store    write them anew, into benchmarks/guard.json

A ratio is the other side's processor time over Assay's in the same run, so that it depends little
on the machine and its load; one that moved by more than 15 % is told. What the packages that
are not installed would tell is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from headlines import BOUND, measurable, measure_apart

STORED = Path(__file__).with_suffix(".json")


def moved(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """By what share each ratio moved beyond the bound; negative ones became slower."""
    changes = {name: now[name] / before[name] - 1 for name in now if name in before}
    # As far down as up: a ratio of 1 / 1.15 is as far from 1 as 1.15.
    return {
        name: change
        for name, change in changes.items()
        if max(1 + change, 1 / (1 + change)) > 1 + BOUND
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--store", action="store_true", help="write the ratios anew")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of figures")
    options = parser.parse_args(arguments)
    before = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    now = {}
    for one in measurable():
        if options.only and one.name not in options.only:
            continue
        timing = measure_apart(one, one.small, options.repeats)
        now[one.name] = float(f"{timing.ratio:.4g}")
        stored = f"{before[one.name]:10.3g}" if one.name in before else f"{'-':>10}"
        print(
            f"{one.name:18}{timing.ours:9.4f} s {stored}{timing.ratio:10.3g}  ÷ {one.against}",
            flush=True,
        )
    if options.store:
        STORED.write_text(json.dumps({**before, **now}, indent=2) + "\n", "utf-8")
        return 0
    changes = moved(before, now)
    for name, change in changes.items():
        print(f"{name} moved by {change:+.0%}: {'slower' if change < 0 else 'faster'} than stored")
    return int(any(change < 0 for change in changes.values()))


if __name__ == "__main__":
    sys.exit(main())
