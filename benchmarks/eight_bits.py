"""Search by 8-bit products beside the float32 product and numpy's matrix product alone.

    python benchmarks/eight_bits.py             by the instructions that this machine has
    ASSAY_SIMD=avx2 OPENBLAS_CORETYPE=Haswell python benchmarks/eight_bits.py
    python benchmarks/eight_bits.py --hard      documents that 8 bits tell apart badly

Seconds of one processor, not of a clock, so that other work on the machine counts less; the
shortest of some turns. All ways find the same bytes, which is checked.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.search.engine import plan, prepare, rank, target_ranks

Floats = NDArray[np.float32]
MOST = 1 << 60


def directions(rng: np.random.Generator, rows: int, dims: int) -> Floats:
    found = rng.standard_normal((rows, dims), dtype=np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def clusters(noise: float, count: int = 20) -> Callable[[np.random.Generator, Floats], Floats]:
    def make(rng: np.random.Generator, docs: Floats) -> Floats:
        centres = directions(rng, count, docs.shape[1])
        return (centres[rng.integers(0, count, len(docs))] + noise * docs).astype(np.float32)

    return make


def cone(noise: float) -> Callable[[np.random.Generator, Floats], Floats]:
    return lambda rng, docs: (directions(rng, 1, docs.shape[1]) + noise * docs).astype(np.float32)


HARD: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    **{f"clusters, noise {noise}": clusters(noise) for noise in (1, 0.6, 0.5, 0.4, 0.3, 0.1, 0.01)},
    **{f"5 clusters, noise {noise}": clusters(noise, 5) for noise in (0.3, 0.1, 0.03, 0.01, 0.001)},
    **{f"cone, noise {noise}": cone(noise) for noise in (1, 0.7, 0.5, 0.4, 0.3, 0.1)},
    "a tight half": lambda rng, docs: np.concatenate([docs[::2], clusters(0.05)(rng, docs[1::2])]),
    "copies": lambda rng, docs: docs[rng.integers(0, 300, len(docs))],
    "norms": lambda rng, docs: (
        docs * np.exp(rng.standard_normal((len(docs), 1))).astype(np.float32)
    ),
    "sorted": lambda _, docs: docs[np.argsort(docs[:, 0])],
}


def seconds(turns: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest of some turns of each, one after the other; what they find must agree."""
    spent: dict[str, float] = {}
    answers = set()
    for _ in range(turns):
        for name, work in works.items():
            start = time.process_time()
            found = work()
            spent[name] = min(spent.get(name, np.inf), time.process_time() - start)
            answers |= {found} - {None}
    assert len(answers) <= 1, "ways that find other documents"
    return spent


def multiply(queries: Floats, docs: Floats) -> None:
    out = np.empty((200, len(docs)), np.float32)
    for start in range(0, len(queries), 200):
        some = queries[start : start + 200]
        np.matmul(some, docs.T, out=out[: len(some)])


def by(fewest_docs: int, work: Callable[[], Any]) -> Callable[[], bytes]:
    """A search where 8 bits are used for so many documents or more."""

    def search() -> bytes:
        kept = plan.COARSE_DOCS
        plan.COARSE_DOCS = fewest_docs  # type: ignore[misc]
        try:
            found = work()
        finally:
            plan.COARSE_DOCS = kept  # type: ignore[misc]
        return bytes(found.rank if hasattr(found, "above") else found.docs)

    return search


def top(queries: Floats, docs: Floats, k: int, metric: Any) -> dict[str, Callable[[], Any]]:
    ready = prepare(docs)
    few, never = 4096, MOST
    return {
        "float32": by(never, lambda: rank(queries, docs, k, metric=metric, threads=1)),
        "prepared": by(few, lambda: rank(queries, ready, k, metric=metric, threads=1)),
        "one call": by(few, lambda: rank(queries, docs, k, metric=metric, threads=1)),
    }


def targets(queries: Floats, docs: Floats, place: int) -> dict[str, Callable[[], Any]]:
    """Ranks of documents that stand at about this place."""
    ready = prepare(docs)
    scores = queries @ docs.T
    wanted = np.argpartition(-scores, place, axis=1)[:, place]
    return {
        "float32": by(MOST, lambda: target_ranks(queries, docs, wanted, metric="dot", threads=1)),
        "prepared": by(4096, lambda: target_ranks(queries, ready, wanted, metric="dot", threads=1)),
        "one call": by(4096, lambda: target_ranks(queries, docs, wanted, metric="dot", threads=1)),
    }


def show(title: str, spent: dict[str, float], unit: str) -> None:
    ratios = "  ".join(f"{name} {each / spent[unit]:.2f}" for name, each in spent.items())
    print(f"{title:24} {ratios}  ({unit} {spent[unit]:.3f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", nargs="?", default="500x60000x384", help="queries x docs x columns")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    n_queries, n_docs, dims = map(int, options.size.split("x"))
    rng = np.random.default_rng(1)
    queries, docs = directions(rng, n_queries, dims), directions(rng, n_docs, dims)
    if options.hard:
        for name, make in HARD.items():
            given = make(np.random.default_rng(2), docs)
            near = (given[:: n_docs // n_queries][:n_queries] + 0.3 * queries).astype(np.float32)
            show(name, seconds(options.turns, top(near, given, 100, "cosine")), "float32")
        return
    product = {"sgemm": lambda: multiply(queries, docs)}
    for k in (10, 100, 1000):
        works = top(queries, docs, k, "dot")
        show(f"best {k}", seconds(options.turns, {**product, **works}), "sgemm")
    for place in (1, 100, n_docs // 100, n_docs // 2):
        works = targets(queries, docs, place)
        show(f"target at place {place}", seconds(options.turns, {**product, **works}), "sgemm")


if __name__ == "__main__":
    main()
