"""Faults are met by the compiled kernels and by their twins in the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay import native
from tests.models.cached_runs import place

__all__ = ["engine", "place"]


@pytest.fixture(params=["native", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Use one engine for the whole test."""
    try:
        native.load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    monkeypatch.setenv("ASSAY_NATIVE", "1" if request.param == "native" else "0")
    _forget_engine()
    yield request.param
    monkeypatch.undo()
    _forget_engine()


def _forget_engine() -> None:
    native.engine_name.cache_clear()
    native.kernels.cache_clear()
