"""From vectors to smaller ones: bits by sign, random directions or learned rotation; int8; float16.

An encoder is made from the documents and then encodes documents and queries, a block of rows at a
time. The same vectors, method, bits and seed give the same codes. What cannot change a ranking by
the metric cannot change its codes: the size of a vector under cosine, that of a query or of all
documents under dot, a factor on everything under l2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.errors import UsageError, ValueRangeError
from assay.search.engine import Codes
from assay.search.engine.blas_scan import one_blas_thread
from assay.stats.samples import check_seed

__all__ = ["BINARY", "FLOAT", "METHODS", "ON_REQUEST", "SEEDED", "CodeEncoder", "make_encoder"]


FLOAT: Final = "float"  # the vectors themselves, beside their codes
METHODS: Final[dict[str, str]] = {  # what is made unless methods are named
    "sign": "one bit per dimension: is it above 0?",
    "gaussian": "one bit per random direction: which side of it?",
    "itq": "one bit per principal direction, rotated to fit the bits (iterative quantisation)",
    "int8": "one byte per dimension",
    "float16": "two bytes per dimension",
}
ON_REQUEST: Final[dict[str, str]] = {
    "int4": "half a byte per dimension",
    "asymmetric": "one bit per dimension of a document, compared with the numbers of the query",
}

BINARY: Final = ("sign", "gaussian", "itq")  # compared by Hamming distance
SEEDED: Final = ("gaussian", "itq", "pq", "rabitq")  # these draw directions at random

_BLOCK: Final = 1 << 22  # numbers to encode at once
_SAMPLE: Final = 50_000  # documents that itq learns from
_ROUNDS: Final = 50
_METRICS: Final = ("cosine", "dot", "l2")
_TOP_FLOAT16: Final = 2.0**15  # where numbers of 1 are put, so that small ones are not lost

Encode = Callable[[Floats], NDArray[Any]]


@dataclass(frozen=True)
class CodeEncoder:
    """A way to shorten vectors; `bits` is the length of what it makes of a document.

    Under dot and l2 queries are encoded in their own way, `query_block`. `metric` is what
    compares the two, where it is not that of the vectors.
    """

    method: str
    bits: int
    doc_block: Encode
    query_block: Encode
    metric: str | None = None

    @property
    def is_binary(self) -> bool:
        """Whether it makes codes of bits, to be compared by Hamming distance."""
        return self.method in BINARY

    @property
    def bytes_per_vector(self) -> int:
        """How many bytes one encoded vector takes."""
        return -(-self.bits // 8)

    def encode(self, vectors: NDArray[Any]) -> NDArray[Any] | Codes:
        """Documents, shortened: packed codes, or an array of int8 or float16."""
        return self._encode(vectors, self.doc_block)

    def encode_queries(self, vectors: NDArray[Any]) -> NDArray[Any] | Codes:
        """Queries for such documents; under l2 they are as wide as their numbers need."""
        return self._encode(vectors, self.query_block)

    def _encode(self, vectors: NDArray[Any], encode: Encode) -> NDArray[Any] | Codes:
        # One thread: how many there are would change the last bits of a product.
        with one_blas_thread():
            parts = (encode(block) for block in _blocks(vectors))
            if not self.is_binary:
                return _stacked(parts, len(vectors))
            packed = (np.packbits(part, axis=1) for part in parts)
            return Codes(_stacked(packed, len(vectors)), self.bits)


def _stacked(parts: Iterator[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    """The parts below each other; each is let go of as soon as it is copied."""
    part = next(parts)
    made = np.empty((n_rows, part.shape[1]), part.dtype)
    made[: len(part)] = part
    done = len(part)
    for part in parts:
        made[done : done + len(part)] = part
        done += len(part)
    return made


def _blocks(vectors: NDArray[Any]) -> Iterator[Floats]:
    rows = max(1, _BLOCK // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        yield np.asarray(vectors[start : start + rows], np.float64)


def make_encoder(
    method: str,
    docs: NDArray[Any],
    *,
    bits: int | None = None,
    seed: int = 0,
    metric: str = "cosine",
    rows: Ints | None = None,
) -> CodeEncoder:
    """An encoder for vectors like these; `bits` is for gaussian and itq, the others fix it.

    `rows` are the documents that itq may learn from, by default all.

    Under cosine every vector has a scale of its own. Under dot all documents are on one scale,
    that of their largest number, and every query on its own; under l2 the documents' scale is
    that of the queries, too, whose numbers may then lie beyond the codes' range and are not cut.
    """
    if method not in METHODS and method not in ON_REQUEST:
        known = ", ".join((*METHODS, *ON_REQUEST))
        raise UsageError(f"Unknown method {method!r}. Known: {known}.")
    if metric not in _METRICS:
        raise UsageError(f"Unknown metric {metric!r}. Known: {', '.join(_METRICS)}.")
    if method not in ("gaussian", "itq"):
        return _plain_encoder(method, docs, metric)
    dimensions, seed = docs.shape[1], check_seed(seed)
    length = checks.check_cutoff(bits, "bits")
    if method == "gaussian":
        sides = Hyperplanes(_row_scale, *_random_directions(dimensions, length, seed))
        return CodeEncoder(method, length, sides, sides)
    scale = unit_rows if metric == "cosine" else _one_scale(docs)
    with one_blas_thread():
        centre, directions = _learned_directions(docs, scale, length, seed, rows)
    sides = Hyperplanes(scale, centre, directions)
    if metric != "dot":
        return CodeEncoder(method, length, sides, sides)
    # (d - c) · q ranks as d · q does, so that queries have no centre, and their size no say.
    return CodeEncoder(
        method, length, sides, Hyperplanes(_row_scale, np.zeros_like(centre), directions)
    )


def _plain_encoder(method: str, docs: NDArray[Any], metric: str) -> CodeEncoder:
    """The methods whose length the vectors fix."""
    dimensions = docs.shape[1]
    if method == "sign":
        return CodeEncoder(method, dimensions, _is_positive, _is_positive)
    if method == "asymmetric":  # bits have one length, so that cosine ranks as the product does
        by = None if metric == "cosine" else "dot"
        return CodeEncoder(method, dimensions, _as_signs, _as_numbers, by)
    if method == "float16":
        return CodeEncoder(method, 16 * dimensions, *_float16_makers(docs, metric))
    width = int(method.removeprefix("int"))
    return CodeEncoder(method, width * dimensions, *_integer_makers(docs, metric, width))


def _is_positive(block: Floats) -> NDArray[np.bool_]:
    return np.asarray(block > 0)


def _row_scale(block: Floats) -> Floats:
    """Rows by powers of two, which round nothing, so that the largest number is about 1."""
    largest = np.maximum(block.max(axis=1, keepdims=True), -block.min(axis=1, keepdims=True))
    power = np.clip(np.frexp(largest)[1], -1000, 1000).astype(np.float64)
    scaled: Floats = block * np.exp2(-power)
    return scaled


def unit_rows(block: Floats) -> Floats:
    """Rows of length 1; a row of zeros stays one."""
    scaled = _row_scale(block)
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    scaled /= np.where(length > 0, length, 1.0)
    return scaled


def largest_number(docs: NDArray[Any]) -> float:
    """The largest number of the documents, of either sign."""
    largest = max((float(np.abs(block).max(initial=0.0)) for block in _blocks(docs)), default=0.0)
    if not largest:
        raise ValueRangeError("All documents are zero, so there is no scale for their codes.")
    return largest


def _one_scale(docs: NDArray[Any]) -> Callable[[Floats], Floats]:
    """All numbers by one factor: the largest of the documents becomes 1."""
    largest = largest_number(docs)

    @np.errstate(over="ignore")  # queries that are too large by far are refused by the search
    def scale(block: Floats) -> Floats:
        return block / largest

    return scale


def _largest_to_one(block: Floats) -> Floats:
    """Every row by a factor of its own: its largest number becomes 1; a row of zeros stays one."""
    largest = np.abs(block).max(axis=1, keepdims=True)
    scaled: Floats = block / np.where(largest > 0, largest, 1.0)
    return scaled


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """On which side of each direction, seen from the centre, a vector lies."""

    scale: Callable[[Floats], Floats]
    centre: Floats
    directions: Floats

    def __call__(self, block: Floats) -> NDArray[np.bool_]:
        """A bit for each direction."""
        return np.asarray((self.scale(block) - self.centre) @ self.directions > 0)


def _random_directions(dimensions: int, bits: int, seed: int) -> tuple[Floats, Floats]:
    """Directions drawn one after the other: a longer code begins with the shorter one's bits."""
    drawn = np.random.default_rng(seed).standard_normal((bits, dimensions))
    return np.zeros(dimensions), np.ascontiguousarray(drawn.T)


def _learned_directions(
    docs: NDArray[Any],
    scale: Callable[[Floats], Floats],
    bits: int,
    seed: int,
    rows: Ints | None,
) -> tuple[Floats, Floats]:
    """Principal directions, turned so that vectors lie near the corners of a cube.

    Gong and Lazebnik 2011: in turn, take the nearest corner of each vector, then the rotation that
    brings the vectors nearest to these corners (orthogonal Procrustes).
    """
    dimensions = docs.shape[1]
    if bits > dimensions:
        raise UsageError(
            f"itq makes at most as many bits as the vectors have dimensions, {dimensions}; "
            f"found bits = {bits}."
        )
    rng = np.random.default_rng(seed)
    sample = scale(_sample(docs, rng, rows))
    centre = sample.mean(axis=0)
    sample -= centre
    principal = _signed(np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :bits])
    projected = sample @ principal
    rotation = _signed(np.linalg.qr(rng.standard_normal((bits, bits)))[0])
    for _ in range(_ROUNDS):
        corners = np.where(projected @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(corners.T @ projected)
        rotation = right.T @ left.T
    return centre, principal @ rotation


def _signed(columns: Floats) -> Floats:
    """Columns whose largest number is positive: which sign one has is the library's whim."""
    largest = np.abs(columns).argmax(axis=0)
    signs = np.sign(columns[largest, np.arange(columns.shape[1])])
    return np.asarray(columns * signs, np.float64)


def _sample(docs: NDArray[Any], rng: np.random.Generator, rows: Ints | None) -> Floats:
    size = len(docs) if rows is None else len(rows)
    if rows is None and size <= _SAMPLE:
        return np.array(docs, np.float64)
    chosen = np.arange(size) if size <= _SAMPLE else rng.choice(size, _SAMPLE, replace=False)
    return np.array(docs[np.sort(chosen if rows is None else rows[chosen])][:], np.float64)


def draw_sample(docs: NDArray[Any], seed: int, rows: Ints | None) -> Floats:
    """The documents, or those of `rows`, that a code is learnt from: at most 50,000."""
    return _sample(docs, np.random.default_rng(seed), rows)


def sample_size(n_rows: int) -> int:
    """How many of so many documents a code is learnt from."""
    return min(n_rows, _SAMPLE)


def _as_signs(block: Floats) -> NDArray[np.int8]:
    return np.asarray(np.where(block > 0, 1, -1), np.int8)


def _as_numbers(block: Floats) -> Floats:
    return block


def _integer_makers(docs: NDArray[Any], metric: str, bits: int) -> tuple[Encode, Encode]:
    """Steps of 1/127 (int4: 1/7) of the largest number: of each vector, or of all documents."""
    top = 2 ** (bits - 1) - 1

    def each(block: Floats) -> NDArray[np.int8]:
        scaled = _row_scale(block)
        largest = np.abs(scaled).max(axis=1, keepdims=True)
        made = np.rint(top * scaled / np.where(largest > 0, largest, 1.0))
        return np.asarray(made, np.int8)

    if metric == "cosine":
        return each, each
    scale = _one_scale(docs)

    def steps(block: Floats) -> Floats:
        return np.asarray(np.rint(top * scale(block)))

    def cut(block: Floats) -> NDArray[np.int8]:
        return np.clip(steps(block), -top, top).astype(np.int8)

    return cut, each if metric == "dot" else steps


def _float16_makers(docs: NDArray[Any], metric: str) -> tuple[Encode, Encode]:
    """Eleven bits of each number; numbers far below the largest have fewer, or none."""

    def each(block: Floats) -> NDArray[np.float16]:
        scaled = _row_scale(block) if metric == "cosine" else _largest_to_one(block)
        return np.asarray(scaled * _TOP_FLOAT16, np.float16)

    if metric == "cosine":
        return each, each
    scale = _one_scale(docs)

    def together(block: Floats) -> NDArray[np.float16]:
        return np.asarray(np.clip(scale(block), -1, 1) * _TOP_FLOAT16, np.float16)

    def on_scale(block: Floats) -> Floats:
        """Rounded within the row, whose size may be beyond the range of float16."""
        scaled = scale(block)
        power = np.frexp(np.abs(scaled).max(axis=1, keepdims=True))[1] - 15
        rounded = np.ldexp(scaled, -power).astype(np.float16)
        return np.asarray(np.ldexp(rounded.astype(np.float64), power) * _TOP_FLOAT16)

    return together, each if metric == "dot" else on_scale
