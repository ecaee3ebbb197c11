"""Every test of the engine runs with the compiled kernels and with their twins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from assay.native import load

HERE = Path(__file__).parent
INSTRUCTIONS = ("kernels", "quantiser", "width", "simd")  # fixtures and parameters that hold them


@pytest.fixture(scope="session", params=["native", "numpy"])
def engine(request: pytest.FixtureRequest) -> str:
    try:
        load(request.param)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every third case of narrower instructions by default; slow tests are all of them."""
    from tests.search.engine.test_same_bytes import widths  # imports what may not be built

    narrower = tuple(widths()[1:])
    seen: Counter[str] = Counter()
    for item in items:
        if item.path.parent != HERE or not isinstance(item, pytest.Function) or not narrower:
            continue
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if not any(str(given.get(name)).startswith(narrower) for name in INSTRUCTIONS):
            continue
        if seen[f"{item.path}{item.originalname}"] % 3:
            item.add_marker(pytest.mark.slow)
        seen[f"{item.path}{item.originalname}"] += 1
