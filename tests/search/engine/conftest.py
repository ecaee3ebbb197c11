"""Every test of the engine runs with the compiled kernels and with their twins."""

from __future__ import annotations

import pytest

from assay.native import load


@pytest.fixture(scope="session", params=["native", "numpy"])
def engine(request: pytest.FixtureRequest) -> str:
    try:
        load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    return request.param
