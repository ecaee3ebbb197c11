"""Stores of the dashboard's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay.store
from tests.web.samples import Client, save_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three systems, six nights, a running run and a failed one."""
    place = tmp_path_factory.mktemp("store") / "demo.db"
    with assay.store.open(place) as store:
        save_demo(store)
    return place


@pytest.fixture(scope="module")
def client(demo: Path) -> Client:
    """The dashboard over that store."""
    return Client(demo)
