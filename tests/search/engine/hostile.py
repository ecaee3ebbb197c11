"""Random inputs made to break an exact search, by the hundred: each is a seed and a type.

Rows are drawn from a few families (numbers of all sizes, small integers, copies, neighbours one
step apart, sums that cancel), then stretched to lengths at the limits of their type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.search.engine.exact import Scores, rounded_scores

Rows = npt.NDArray[Any]

TYPES = (np.float16, np.float32, np.float64)
# Decimal exponents that a row may be stretched by; the extremes overflow under dot and l2.
_REACH = {np.float16: (-7, 4), np.float32: (-44, 37), np.float64: (-320, 300)}
_ZERO_SCORE = -2.0


class Hostile(NamedTuple):
    """A few queries and documents, and the k to search for."""

    queries: Rows
    docs: Rows
    k: int


def hostile(seed: int, dtype: Any) -> Hostile:
    """The input of a seed: the same in every run."""
    rng = np.random.default_rng([seed, np.dtype(dtype).itemsize])
    d = int(rng.choice([1, 1, 2, 3, 5, 8, 9, 17]))
    n_queries, n_docs = int(rng.integers(1, 4)), int(rng.integers(2, 12))
    family = _FAMILIES[seed % len(_FAMILIES)]
    queries, docs = family(rng, n_queries, n_docs, d)
    queries, docs = _stretched(rng, queries, dtype), _stretched(rng, docs, dtype)
    if rng.random() < 0.25:
        docs[rng.integers(n_docs)] = 0
    if rng.random() < 0.1:
        queries[rng.integers(n_queries)] = 0
    return Hostile(queries, docs, int(rng.integers(1, n_docs + 2)))


def hostile_scores(metric: str, case: Hostile) -> Scores:
    """Exact scores rounded once; a row of zeros has the cosine that zero='last' gives it."""
    if metric != "cosine":
        return rounded_scores(metric, case.queries, case.docs)
    empty = ~case.queries.any(axis=1)[:, None] | ~case.docs.any(axis=1)
    full = [np.where(rows.any(axis=1)[:, None], rows, 1) for rows in case[:2]]
    scores = np.array(rounded_scores(metric, *full))
    scores[empty] = _ZERO_SCORE
    return scores.tolist()


def _stretched(rng: np.random.Generator, rows: Rows, dtype: Any) -> Rows:
    """Rows times powers of ten: none, one for all, or one for each."""
    low, high = _REACH[dtype]
    if rng.random() < 0.5:  # not so far that every score is 0 or infinite
        low, high = low // 4, high // 4
    powers = rng.integers(low, high + 1, (len(rows), 1))
    way = rng.integers(4)
    powers = powers if way == 0 else np.full_like(powers, 0 if way == 1 else powers[0, 0])
    limit = np.finfo(dtype).max
    with np.errstate(all="ignore"):
        wide = rows.astype(np.longdouble) * np.longdouble(10) ** powers
        return np.clip(wide, -limit, limit).astype(dtype)


def _any_size(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Elements of very different sizes within a row."""
    rows = rng.standard_normal((n_queries + n_docs, d))
    rows *= 10.0 ** rng.integers(-12, 13, rows.shape)
    return rows[:n_queries], rows[n_queries:]


def _gauss(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    rows = rng.standard_normal((n_queries + n_docs, d))
    return rows[:n_queries], rows[n_queries:]


def _integers(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Few different numbers: ties, and products that are exactly 0."""
    rows = rng.integers(-2, 3, (n_queries + n_docs, d)).astype(float)
    return rows[:n_queries], rows[n_queries:]


def _copies(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Two documents again and again, and multiples of them; the queries are some of these."""
    some = rng.standard_normal((2, d)).astype(np.float16).astype(float)
    docs = some[rng.integers(0, 2, n_docs)] * rng.choice([1, 1, 2, 3, -1], (n_docs, 1))
    return docs[rng.integers(0, n_docs, n_queries)], docs


def _neighbours(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Copies that are a step of some type away in one coordinate."""
    docs = np.repeat(rng.standard_normal((1, d)), n_docs, axis=0)
    steps = rng.integers(-2, 3, n_docs) * 2.0 ** rng.choice([-10, -23, -24, -52, -53])
    docs[np.arange(n_docs), rng.integers(0, d, n_docs)] *= 1 + steps
    return docs[rng.integers(0, n_docs, n_queries)] * rng.choice([1, 1 + 2.0**-20]), docs


def _cancelling(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Large terms that take each other back, and small ones that are left."""
    d += 2 + d % 2
    big = 10.0 ** int(rng.integers(0, 20))
    x, y = rng.standard_normal((n_queries, d)), rng.standard_normal((n_docs, d))
    if rng.random() < 0.5:
        x, y = np.rint(2 * x), np.rint(2 * y)
    half = d // 2 - 1
    x[:, half : 2 * half], y[:, half : 2 * half] = x[:, :half], -y[:, :half]
    x[:, : 2 * half] *= big
    y[:, : 2 * half] *= big if rng.random() < 0.5 else 1
    return x, y


def _halves(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Sums half way between two float64 numbers, or a hair beside."""
    d += 2
    queries, docs = np.zeros((n_queries, d)), np.zeros((n_docs, d))
    queries[:, :3] = 1, 2.0**-27, 2.0 ** int(rng.integers(-60, -10))
    docs[:, 0] = 1 + rng.integers(0, 4, n_docs) * 2.0**-10
    docs[:, 1] = rng.choice([-1, 1, 3], n_docs) * 2.0**-26
    docs[:, 2] = rng.choice([-1, 0, 0, 1], n_docs) * 2.0 ** int(rng.integers(-60, -20))
    return queries, docs


def _far_apart(rng: np.random.Generator, n_queries: int, n_docs: int, d: int) -> tuple[Rows, Rows]:
    """Documents so short, or so long, beside the queries that their distances are hardly theirs."""
    docs = np.rint(3 * rng.standard_normal((n_docs, d))) * 10.0 ** int(rng.integers(-30, 31))
    return rng.standard_normal((n_queries, d)), docs


_FAMILIES = (
    _any_size,
    _gauss,
    _integers,
    _copies,
    _neighbours,
    _cancelling,
    _halves,
    _far_apart,
)
