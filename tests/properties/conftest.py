"""One folder with inputs in many layouts for all tests of this package."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def sayings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What command lines say."""
    from tests.properties.metamorphic import Sayings  # needs pyarrow

    return Sayings(tmp_path_factory.mktemp("inputs"))
