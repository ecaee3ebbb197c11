"""Time and memory of `assay diff` on two runs of ten million lines each.

    python benchmarks/diff.py [--lines N] [--depth N]

Prints wall-clock and processor seconds of reading both runs alone and of the whole command, and the
peak of memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_READ = "import sys, assay; [assay.read_run(path) for path in sys.argv[1:]]"


def write_run(path: Path, lines: int, depth: int, seed: int) -> None:
    """Write a TREC run; about a third of the documents of a query differ between two seeds."""
    random = np.random.default_rng(7)
    other = np.random.default_rng(seed)
    with path.open("w") as file:
        for query in range(lines // depth):
            docs = random.choice(5 * depth, depth, replace=False) + random.integers(500_000)
            swap = other.random(depth) < 0.3
            docs[swap] += other.integers(5 * depth, 20 * depth) + np.arange(swap.sum())
            docs = docs + np.arange(depth) % 2  # neighbours
            _, first = np.unique(docs, return_index=True)
            rows = enumerate(docs[np.sort(first)].tolist())
            file.writelines(f"q{query} Q0 doc{doc} {r} {depth - r}.5 x\n" for r, doc in rows)


def measure(*words: str) -> tuple[float, float, float]:
    """Run a command; return its seconds, those of the processor, and its peak in megabytes."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"The command failed with status {status}.")
    assert isinstance(usage, resource.struct_rusage)
    seconds = time.perf_counter() - began
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Write two runs, compare them, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--depth", type=int, default=1000, help="documents of a query")
    typed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / name for name in ("old.run", "new.run")]
        for seed, run in enumerate(runs):
            write_run(run, typed.lines, typed.depth, seed)
        print(f"two runs of {typed.lines:,} lines, {typed.depth:,} documents a query")
        for name, words in (
            ("read both runs", ("-c", _READ, *map(str, runs))),
            ("assay diff", ("-m", "assay", "diff", *map(str, runs), "-o", f"{folder}/diff.txt")),
        ):
            seconds, processor, megabytes = measure(*words)
            print(f"{name:16} {seconds:6.2f} s {processor:6.2f} CPU s {megabytes:8,.0f} MB")


if __name__ == "__main__":
    main()
