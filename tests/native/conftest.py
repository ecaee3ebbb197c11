"""Every kernel test runs with the compiled kernels and with their twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assay.native import load

if TYPE_CHECKING:
    from assay.native.signatures import Kernels


@pytest.fixture(scope="session", params=["native", "numpy"])
def engine(request: pytest.FixtureRequest) -> Kernels:
    return _load_or_skip(request.param)


@pytest.fixture(scope="session")
def both() -> tuple[Kernels, Kernels]:
    return _load_or_skip("native"), load("numpy")


def _load_or_skip(name: str) -> Kernels:
    try:
        return load(name)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
