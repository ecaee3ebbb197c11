"""From vectors to smaller ones: bits by sign, random directions or learned rotation; int8; float16.

An encoder is made from the documents and then encodes documents and queries alike, a block of rows
at a time. The same vectors, method, bits and seed give the same codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core import checks
from assay.errors import UsageError, ValueRangeError
from assay.search.engine import Codes
from assay.search.engine.blas_scan import one_blas_thread

__all__ = ["FLOAT", "METHODS", "CodeEncoder", "make_encoder"]


FLOAT: Final = "float"  # the vectors themselves, beside their codes
METHODS: Final[dict[str, str]] = {
    "sign": "one bit per dimension: is it above 0?",
    "gaussian": "one bit per random direction: which side of it?",
    "itq": "one bit per principal direction, rotated to fit the bits (iterative quantisation)",
    "int8": "one byte per dimension",
    "float16": "two bytes per dimension",
}

_BLOCK: Final = 1 << 22  # numbers to encode at once
_SAMPLE: Final = 50_000  # documents that itq learns from
_ROUNDS: Final = 50
_LARGEST_FLOAT16: Final = 65504.0


@dataclass(frozen=True)
class CodeEncoder:
    """A way to shorten vectors; `bits` is the length of what it makes of one."""

    method: str
    bits: int
    scale: Callable[[Floats], Floats]
    encode_block: Callable[[Floats], NDArray[Any]]

    @property
    def is_binary(self) -> bool:
        """Whether it makes codes of bits, to be compared by Hamming distance."""
        return self.method in ("sign", "gaussian", "itq")

    @property
    def bytes_per_vector(self) -> int:
        """How many bytes one encoded vector takes."""
        return -(-self.bits // 8)

    def encode(self, vectors: NDArray[Any]) -> NDArray[Any] | Codes:
        """The vectors, shortened: packed codes, or an array of int8 or float16."""
        # One thread: how many there are would change the last bits of a product.
        with one_blas_thread():
            made = [self._encode_rows(block) for block in _blocks(vectors)]
        whole = np.concatenate(made)
        return Codes(whole, self.bits) if self.is_binary else whole

    def _encode_rows(self, block: Floats) -> NDArray[Any]:
        made = self.encode_block(self.scale(block))
        return np.packbits(made, axis=1) if self.is_binary else made


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
    by_angle: bool = True,
) -> CodeEncoder:
    """An encoder for vectors like these; `bits` is for gaussian and itq, the others fix it.

    With `by_angle` only directions count, as under cosine: every vector has a scale of its own.
    Otherwise all are on one scale, that of the largest number of the documents.
    """
    if method not in METHODS:
        raise UsageError(f"Unknown method {method!r}. Known: {', '.join(METHODS)}.")
    dimensions = docs.shape[1]
    if method == "sign":
        return CodeEncoder(method, dimensions, lambda block: block, lambda block: block > 0)
    scale = _row_scale if by_angle else _one_scale(docs)
    if method == "int8":
        return CodeEncoder(method, 8 * dimensions, scale, _to_int8(by_angle))
    if method == "float16":
        return CodeEncoder(method, 16 * dimensions, scale, _to_float16)
    length = checks.check_cutoff(bits, "bits")
    if method == "gaussian":
        return CodeEncoder(
            method, length, scale, Hyperplanes(*_random_directions(dimensions, length, seed))
        )
    scale = unit_rows if by_angle else scale
    with one_blas_thread():
        return CodeEncoder(
            method, length, scale, Hyperplanes(*_learned_directions(docs, scale, length, seed))
        )


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


def _one_scale(docs: NDArray[Any]) -> Callable[[Floats], Floats]:
    """All numbers by one factor: the largest of the documents becomes 1."""
    largest = max((float(np.abs(block).max(initial=0.0)) for block in _blocks(docs)), default=0.0)
    if not largest:
        raise ValueRangeError("All documents are zero, so there is no scale for their codes.")
    return lambda block: block / largest


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """On which side of each direction, seen from the centre, a vector lies."""

    centre: Floats
    directions: Floats

    def __call__(self, block: Floats) -> NDArray[np.bool_]:
        """A bit for each direction."""
        return np.asarray((block - self.centre) @ self.directions > 0)


def _random_directions(dimensions: int, bits: int, seed: int) -> tuple[Floats, Floats]:
    """Directions drawn one after the other: a longer code begins with the shorter one's bits."""
    drawn = np.random.default_rng(seed).standard_normal((bits, dimensions))
    return np.zeros(dimensions), np.ascontiguousarray(drawn.T)


def _learned_directions(
    docs: NDArray[Any], scale: Callable[[Floats], Floats], bits: int, seed: int
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
    sample = scale(_sample(docs, rng))
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


def _sample(docs: NDArray[Any], rng: np.random.Generator) -> Floats:
    if len(docs) <= _SAMPLE:
        return np.array(docs, np.float64)
    return np.array(docs[np.sort(rng.choice(len(docs), _SAMPLE, replace=False))], np.float64)


def _to_int8(by_angle: bool) -> Callable[[Floats], NDArray[np.int8]]:
    """The largest number is 127: of each vector by angle, else of all documents.

    Queries with larger numbers than all documents are cut.
    """

    def encode(block: Floats) -> NDArray[np.int8]:
        largest = np.abs(block).max(axis=1, keepdims=True) if by_angle else np.ones((1, 1))
        steps = 127 * block / np.where(largest > 0, largest, 1.0)
        return np.clip(np.rint(steps), -127, 127).astype(np.int8)

    return encode


def _to_float16(block: Floats) -> NDArray[np.float16]:
    return np.clip(block, -_LARGEST_FLOAT16, _LARGEST_FLOAT16).astype(np.float16)
