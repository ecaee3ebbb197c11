"""Tests of generated examples try some of them by default; here they try all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_all_examples_of_every_generated_test():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis and not slow", "tests"],
        cwd=ROOT,
        env={**os.environ, "ASSAY_EXAMPLES": "all"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 80
