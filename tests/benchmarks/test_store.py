"""The benchmark of the dashboard runs, at a size that takes a moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "store.py"


@pytest.mark.slow
def test_it_times_every_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            SCRIPT,
            "--runs",
            "90",
            "--queries",
            "20",
            "--measures",
            "2",
            "--repeats",
            "1",
            "--keep",
            str(tmp_path / "s.db"),
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["values"] == 3600
    assert len(report["pages"]) > 10
    assert all(page["first"] > 0 for page in report["pages"])
