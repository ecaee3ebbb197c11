"""The benchmark of logits runs, at a size that takes a moment, with or without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "logits.py"


def test_it_prints_a_table() -> None:
    command = [sys.executable, SCRIPT, "--samples", "50", "--classes", "20", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "50 × 20 float32" in done.stdout
    assert "all six sums, and top-1" in done.stdout
