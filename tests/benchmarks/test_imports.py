"""The benchmark of imported results runs, on a small tree like that of a training script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the benchmark asks the system for peak memory")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "imports.py"


@pytest.mark.slow
def test_it_prints_seconds_and_memory() -> None:
    command = [sys.executable, SCRIPT, "--models", "24", "--seeds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    title, units, *rows = done.stdout.splitlines()[-6:]
    assert title.split() == ["processor", "clock", "memory", "options"]
    assert units.split() == ["seconds", "seconds", "MiB"]
    assert all(float(number) > 0 for row in rows for number in row.split()[:3])
    assert rows[2].endswith("--split test --baseline BASELINE")
