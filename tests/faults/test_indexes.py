"""Faults of search engines: wrong answers and missing packages."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

from assay.errors import MissingPackageError, StorageError, install_command
from assay.search.indexes import Index, build_index


def answering(index: Index, answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "find", lambda ready, k: np.asarray(answer))
    index.exactness = "approximate"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [([[2, -1]], [2, -1]), ([[2]], [2, -1]), ([[2, 2]], [2, -1]), ([[0, 2]], [2, 0])],
)
def test_an_index_returns_minus_one_fewer_duplicates_or_unsorted(
    answer: Any, wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with build_index("exact", np.eye(3)) as index:
        answering(index, answer, monkeypatch)
        assert index.search([[0.2, 0.1, 0.9]], 2)[0].tolist() == [wanted]


@pytest.mark.parametrize("answer", [[[np.nan, 1.0]], [[3, 1]], [[1], [1]]])
def test_an_index_returns_nan_or_what_is_not_there(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with build_index("exact", np.eye(3)) as index:
        answering(index, answer, monkeypatch)
        with pytest.raises(StorageError, match="The index exact answered with"):
            index.search([[0.2, 0.1, 0.9]], 2)


@pytest.mark.parametrize(
    ("spec", "module", "extra"),
    [
        ("faiss:Flat", "faiss", "faiss"),
        ("usearch", "usearch", "usearch"),
        ("lancedb", "lancedb", "lancedb"),
        ("qdrant", "qdrant_client", "qdrant"),
        ("pgvector:postgresql://h/d", "psycopg", "pgvector"),
        ("sqlite-vec", "sqlite_vec", "sqlite-vec"),
    ],
)
def test_a_missing_engine_is_told_with_the_pip_command(
    spec: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command(extra))):
        build_index(spec, np.eye(3))
