"""Small inputs made to be hard: ties, near-ties, cancellation, and norms near the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.search.engine.exact import Scores, rounded_scores

Rows = npt.NDArray[Any]
METRICS = ("cosine", "dot", "l2")


@dataclass(frozen=True, eq=False)
class Nasty:
    """As many queries as documents; `metrics` are those whose scores are finite."""

    name: str
    queries: Rows
    docs: Rows
    metrics: tuple[str, ...] = METRICS


@cache
def nasty_inputs() -> dict[str, Nasty]:
    """Every input by its name, the same ones in every run; all scores round correctly."""
    made = [make(np.random.default_rng(seed)) for seed, make in enumerate(_MAKERS)]
    return {nasty.name: nasty for nasty in made}


@cache
def rare_inputs() -> dict[str, Nasty]:
    """Inputs with a few scores that need more than 106 bits to round, or that are denormal."""
    made = [make(np.random.default_rng(seed)) for seed, make in enumerate(_RARE_MAKERS)]
    return {nasty.name: nasty for nasty in made}


def nasty_cases(inputs: dict[str, Nasty] | None = None) -> list[tuple[str, str]]:
    """All (metric, name of an input) that have finite scores."""
    made = (nasty_inputs() if inputs is None else inputs).values()
    return [(metric, nasty.name) for nasty in made for metric in nasty.metrics]


@cache
def nasty_scores(metric: str, name: str) -> Scores:
    """The exact scores of one of the nasty inputs, rounded once."""
    nasty = nasty_inputs()[name]
    return rounded_scores(metric, nasty.queries, nasty.docs)


def _gauss(rng: np.random.Generator, n: int, d: int, dtype: Any = np.float32) -> Rows:
    return rng.standard_normal((n, d)).astype(dtype)


def _duplicates(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Three vectors, again and again; the queries are some of them."""
    docs = _gauss(rng, 3, d, dtype)[rng.integers(0, 3, 24)]
    return Nasty(f"duplicates-{np.dtype(dtype)}-{d}", docs[::-1].copy(), docs)


def _near_duplicates(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """One vector, each copy one step of its type away in one coordinate, or none."""
    docs = np.repeat(_gauss(rng, 1, d, dtype), 32, axis=0)
    for row in range(0, 32, 2):
        column = rng.integers(d)
        towards = dtype(np.inf if row % 4 else -np.inf)
        docs[row, column] = np.nextafter(docs[row, column], towards)
    return Nasty(f"near-{np.dtype(dtype)}-{d}", rng.permutation(docs), docs)


def _anti_parallel(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """x and −x, and both a little off."""
    x = _gauss(rng, 8, d, dtype)
    docs = np.concatenate([x, -x, x * dtype(1.0000001), -x])
    return Nasty(f"anti-parallel-{np.dtype(dtype)}-{d}", docs[rng.permutation(32)], docs)


def _proportional(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """y, 3y, 7y, −5y, exactly: they tie under cosine and under nothing else."""
    y = rng.integers(-1000, 1001, (7, d)).astype(dtype)
    y[~y.any(axis=1), 0] = 1
    docs = np.concatenate([factor * y for factor in (1, 3, 7, -5)]).astype(dtype)
    return Nasty(f"proportional-{np.dtype(dtype)}-{d}", rng.permutation(docs), docs)


def _norms(
    rng: np.random.Generator, d: int, scales: tuple[float, ...], dtype: Any, *metrics: str
) -> Nasty:
    """Rows of very different lengths, some of them copies but for the length."""
    wide = _gauss(rng, 24, d, np.float64)
    wide[12:18] = wide[:6]
    factors = np.resize(np.array(scales), 24)[:, None]
    docs = (wide * factors).astype(dtype)
    queries = (wide[::-1] * factors).astype(dtype)
    name = f"norms-{'-'.join(f'{scale:g}' for scale in scales)}-{np.dtype(dtype)}-{d}"
    return Nasty(name, queries, docs, metrics or METRICS)


def _mixed_magnitudes(rng: np.random.Generator, d: int, dtype: Any, power: int) -> Nasty:
    """Elements of very different sizes within each row."""
    powers = rng.integers(-power, power + 1, (2, 20, d))
    queries, docs = (_gauss(rng, 20, d, np.float64) * 10.0**p for p in powers)
    name = f"magnitudes-{power}-{np.dtype(dtype)}-{d}"
    return Nasty(name, queries.astype(dtype), docs.astype(dtype))


def _all_equal(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Sixty times the same vector."""
    docs = np.repeat(_gauss(rng, 1, d, dtype), 60, axis=0)
    queries = docs.copy()
    queries[1::2] = _gauss(rng, 30, d, dtype)
    return Nasty(f"all-equal-{np.dtype(dtype)}-{d}", queries, docs)


def _grid(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Elements −1, 0, 1: few different scores."""
    queries, docs = rng.integers(-1, 2, (2, 40, d)).astype(dtype)
    for rows in (queries, docs):
        rows[~rows.any(axis=1), 0] = 1
    return Nasty(f"grid-{np.dtype(dtype)}-{d}", queries, docs)


def _orthogonal(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Unit vectors of many lengths and signs, and pairs whose products cancel."""
    docs = np.zeros((24, d), dtype)
    docs[np.arange(24), np.arange(24) % d] = rng.choice([-2.5, -1, 0.1, 1, 3], 24)
    queries = docs[::-1].copy()
    a = _gauss(rng, 8, 2, dtype)
    queries[:8], docs[:8] = 0, 0
    queries[:8, :2], docs[:8, 0], docs[:8, 1] = a, -a[:, 1], a[:, 0]
    return Nasty(f"orthogonal-{np.dtype(dtype)}-{d}", queries, docs)


def _cancelling(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Dot products that are tiny beside their terms: rounding in any order would be seen."""
    half = d // 2
    x = _gauss(rng, 16, half, dtype)
    queries = np.concatenate([x, x, dtype(1e-6) * _gauss(rng, 16, d - 2 * half, dtype)], axis=1)
    y = _gauss(rng, 16, half, dtype)
    docs = np.concatenate([y, -y, _gauss(rng, 16, d - 2 * half, dtype)], axis=1)
    return Nasty(f"cancelling-{np.dtype(dtype)}-{d}", queries, docs)


def _outlier(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """One document of norm 10^6 among near-duplicates of norm 1."""
    docs = np.repeat(_gauss(rng, 1, d, np.float64), 20, axis=0)
    docs /= np.linalg.norm(docs[0])
    docs += 1e-7 * _gauss(rng, 20, d, np.float64)
    docs[11] *= 1e6
    docs = docs.astype(dtype)
    return Nasty(f"outlier-{np.dtype(dtype)}-{d}", docs[::-1].copy(), docs)


def _full_range(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Integers up to the limits of their type, the lowest one often."""
    limits = np.iinfo(dtype)
    queries, docs = rng.integers(limits.min, limits.max + 1, (2, 24, d)).astype(dtype)
    docs[:6], queries[::4], docs[6] = limits.min, limits.min, limits.max
    docs[7:10] = docs[10]
    for rows in (queries, docs):
        rows[~rows.any(axis=1), 0] = 1
    return Nasty(f"full-range-{np.dtype(dtype)}-{d}", queries, docs)


def _denormals(rng: np.random.Generator, d: int, dtype: Any, mixed: bool) -> Nasty:
    """A few times the smallest number of the type; where mixed, some beside ordinary ones."""
    smallest = np.finfo(dtype).smallest_subnormal
    numbers = rng.integers(-9, 10, (2, 24, d))
    numbers[..., 0] += np.where(numbers[..., 0] == 0, 1, 0)
    queries, docs = (numbers * smallest).astype(dtype)
    if mixed:
        queries[::3, -1], docs[::5, -1] = 1.5, -0.75
    return Nasty(f"denormals-{np.dtype(dtype)}-{d}", queries, docs)


def _permuted(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """The same numbers in other columns, and queries that do not see which: all tie."""
    docs = rng.permuted(np.repeat(_gauss(rng, 2, d, dtype), 10, axis=0), axis=1)
    queries = np.repeat(np.linspace(-1, 1, 20)[:, None], d, axis=1).astype(dtype)
    return Nasty(f"permuted-{np.dtype(dtype)}-{d}", queries, docs)


def _halfway(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Dot products half way between two float64 numbers, and a hair to either side."""
    docs = np.zeros((20, d), dtype)
    docs[:, 0] = 1 + np.arange(20) // 4 * 2.0**-20
    docs[:, 1] = rng.choice([-(2.0**-26), 2.0**-26, 3 * 2.0**-26], 20)
    docs[:, 2] = np.resize([0, 2.0**-40, -(2.0**-40)], 20)
    queries = np.repeat(np.array([[1, 2.0**-27, 2.0**-50]], dtype), 20, axis=0)
    queries *= rng.choice([-2, 1, 4], (20, 1)).astype(dtype)
    queries = np.pad(queries, ((0, 0), (0, d - 3)))
    return Nasty(f"halfway-{np.dtype(dtype)}-{d}", queries, docs)


def _zero_rows(rng: np.random.Generator, d: int, dtype: Any) -> Nasty:
    """Vectors of zeros, which have no direction but a product and a distance."""
    queries, docs = _gauss(rng, 12, d, dtype), _gauss(rng, 12, d, dtype)
    queries[3], docs[2:5], docs[9] = 0, 0, -docs[0]
    docs[4] = -docs[4]  # zeros with a sign
    return Nasty(f"zero-rows-{np.dtype(dtype)}-{d}", queries, docs, ("dot", "l2"))


def _maker(make: Callable[..., Nasty], *arguments: Any) -> Callable[[Any], Nasty]:
    return lambda rng: make(rng, *arguments)


_MAKERS = [
    _maker(_duplicates, 31, np.float32),
    _maker(_duplicates, 7, np.float64),
    _maker(_duplicates, 8, np.float16),
    _maker(_near_duplicates, 64, np.float32),
    _maker(_near_duplicates, 33, np.float64),
    _maker(_near_duplicates, 3, np.float32),
    _maker(_near_duplicates, 9, np.float16),
    _maker(_anti_parallel, 9, np.float32),
    _maker(_anti_parallel, 64, np.float64),
    _maker(_proportional, 8, np.float32),
    _maker(_proportional, 31, np.float64),
    _maker(_proportional, 2, np.int32),
    _maker(_norms, 33, (1e30,), np.float32),
    _maker(_norms, 7, (1e-30,), np.float32),
    _maker(_norms, 31, (1e30, 1e-30, 1.0), np.float32, "cosine", "dot"),
    _maker(_norms, 8, (1e4, 1e-4, 1.0), np.float32),
    _maker(_norms, 9, (1e200,), np.float64, "cosine"),
    _maker(_norms, 8, (1e-100, 1e100), np.float64),
    _maker(_norms, 33, (1e200, 1e-200, 1.0), np.float64, "cosine"),
    _maker(_norms, 3, (1e-200,), np.float64),
    _maker(_mixed_magnitudes, 31, np.float32, 15),
    _maker(_mixed_magnitudes, 9, np.float64, 70),
    _maker(_all_equal, 64, np.float32),
    _maker(_all_equal, 1, np.float64),
    _maker(_grid, 3, np.float32),
    _maker(_grid, 8, np.int8),
    _maker(_grid, 1, np.float64),
    _maker(_orthogonal, 33, np.float32),
    _maker(_orthogonal, 7, np.float64),
    _maker(_cancelling, 31, np.float32),
    _maker(_cancelling, 9, np.float64),
    _maker(_outlier, 64, np.float32),
    _maker(_outlier, 33, np.float64),
    _maker(_full_range, 64, np.int8),
    _maker(_full_range, 2, np.int8),
    _maker(_full_range, 31, np.uint8),
    _maker(_full_range, 9, np.int16),
    _maker(_denormals, 8, np.float32, True),
    _maker(_denormals, 31, np.float64, False),
    _maker(_denormals, 3, np.float16, True),
    _maker(_permuted, 33, np.float32),
    _maker(_permuted, 9, np.float64),
    _maker(_halfway, 3, np.float32),
    _maker(_halfway, 9, np.float64),
    _maker(_zero_rows, 7, np.float32),
    _maker(_zero_rows, 33, np.float64),
]

_RARE_MAKERS = [
    _maker(_norms, 8, (1e30, 1e-30, 1.0), np.float32, "l2"),
    _maker(_norms, 31, (1e-154, 1e-156, 1e-158), np.float64),
    _maker(_denormals, 31, np.float64, True),
]
