"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Callable[[str], Path]:
    """A folder of real data, by name; the test is skipped, visibly, where it is absent."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("ASSAY_DATA", _DEFAULT_DATA)) / name
        if not folder.is_dir():
            pytest.skip(f"real data not found: {name} (set ASSAY_DATA)")
        return folder

    return find
