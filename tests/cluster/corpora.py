"""Corpora with many ties, written as shards, and what one machine makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from assay import SparseVectors
from assay.arrays import offsets_of
from assay.core.mismatches import CUT_BY_ROW
from assay.core.ranking import Ranking
from assay.scoring.scores import Scores

CUTS = (0, 1, 40, 41, 90, 150, 187, 240)
N_DOCS, COLUMNS = CUTS[-1], 13


@dataclass(frozen=True)
class Sample:
    """Queries and documents that tie a lot; their ids do not stand in the order of rows."""

    queries: np.ndarray
    docs: np.ndarray
    query_ids: list[str]
    doc_ids: list[str]
    labels: np.ndarray
    query_labels: np.ndarray
    targets: np.ndarray
    codes: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """Exclusions by row, none of which is a target."""
        pairs = np.stack([np.arange(200) % len(self.queries), np.arange(200) * 7 % N_DOCS], axis=1)
        return pairs[pairs[:, 1] != self.targets[pairs[:, 0]]]

    @property
    def named_pairs(self) -> list[tuple[str, str]]:
        """The same by id."""
        return [(self.query_ids[query], self.doc_ids[doc]) for query, doc in self.pairs]


def sample(seed: int = 5) -> Sample:
    rng = np.random.default_rng(seed)
    docs = rng.integers(-1, 2, (N_DOCS, COLUMNS)).astype(np.float32)
    docs[::4] = rng.standard_normal((4, COLUMNS))[rng.integers(0, 4, len(docs[::4]))]
    docs[1::5] *= 3
    docs[~docs.any(axis=1), 0] = 1
    queries = docs[rng.permutation(N_DOCS)[:37]].copy()
    queries[::3] = rng.standard_normal(queries[::3].shape)
    names = [f"d{number * 7919 % 1000:03}" for number in range(N_DOCS)]
    return Sample(
        queries,
        docs,
        [names[(number * 5) % N_DOCS] for number in range(36)] + ["stranger"],
        names,
        rng.integers(0, 6, N_DOCS),
        rng.integers(0, 6, 37),
        np.where(np.arange(37) % 9 == 4, -1, rng.integers(0, N_DOCS, 37)),
        rng.integers(0, 2, (N_DOCS, 11)).astype(np.uint8),
    )


def write_npy(folder: Path, rows: np.ndarray, cuts: Any = CUTS) -> str:
    """Shards part-0.npy, part-1.npy, … and the pattern that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (first, last) in enumerate(pairwise(cuts)):
        np.save(folder / f"part-{number}.npy", rows[first:last])
    return str(folder / "part-*.npy")


def write_npz(folder: Path, rows: np.ndarray, ids: list[str], cuts: Any = CUTS) -> str:
    """The same with ids."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (first, last) in enumerate(pairwise(cuts)):
        np.savez(
            folder / f"part-{number}.npz", vectors=rows[first:last], ids=np.array(ids[first:last])
        )
    return str(folder / "part-*.npz")


def ranking_bytes(ranking: Ranking) -> tuple[Any, ...]:
    """All that a ranking says; documents by their ids."""
    return (
        ranking.offsets.tobytes(),
        ranking.doc_ids.take(ranking.docs.astype(np.int64)).to_list(),
        ranking.scores.tobytes(),
        ranking.query_ids.to_list(),
        ranking.n_docs,
        ranking.has_ids,
        ranking.search,
        None if ranking.tie_split is None else ranking.tie_split.tobytes(),
    )


def scores_bytes(scores: Scores) -> tuple[Any, ...]:
    """All that scores say."""
    return (
        [str(measure) for measure in scores.measures],
        scores.query_ids.to_list(),
        scores.values.tobytes(),
        scores.tied.tobytes(),
        scores.missing.tobytes(),
        scores.extra.to_list(),
        scores.signature,
        CUT_BY_ROW in scores.remarks,
    )


def as_sparse(rows: np.ndarray) -> SparseVectors:
    counts = np.count_nonzero(rows, axis=1)
    columns = np.nonzero(rows)[1].astype(np.int32)
    return SparseVectors(offsets_of(counts), columns, rows[rows != 0], rows.shape[1])


def write_sparse(folder: Path, docs: np.ndarray, cuts: tuple[int, ...] = CUTS) -> str:
    """Write shards as scipy.sparse.save_npz does; return a pattern."""
    folder.mkdir(parents=True)
    for start, stop in pairwise(cuts):
        rows = as_sparse(docs[start:stop])
        arrays = {"indptr": rows.offsets, "indices": rows.columns, "data": rows.weights}
        np.savez(folder / f"part-{start}.npz", format="csr", shape=rows.shape, **arrays)
    return f"{folder}/*.npz"
