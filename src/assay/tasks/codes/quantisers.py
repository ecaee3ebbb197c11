"""Codes with a number in their name: Matryoshka truncation, product quantisation, RaBitQ.

A document of `pq` and `rabitq` is what its code says of it, decoded; the query stays a float vector
(asymmetric distance). Bytes are those of the code, the time of a search is not that of an index.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.errors import UsageError, need
from assay.search.engine.blas_scan import one_blas_thread
from assay.tasks.codes.encoders import (
    CodeEncoder,
    draw_sample,
    largest_number,
    make_encoder,
    unit_rows,
)

__all__ = ["FITTED", "SPECS", "CodeSpec", "RaBitQ", "parse_spec", "rabitq_of", "spec_encoder"]

SPECS: Final[dict[str, str]] = {
    "mrl:D": "the first D dimensions (Matryoshka)",
    "mrl:D+METHOD": "of those, sign, asymmetric, int4, int8 or float16",
    "pq:M": "product quantisation, M bytes (needs the extra faiss)",
    "rabitq:B": "RaBitQ, B bits per dimension, 1 to 8",
}
FITTED: Final = ("pq", "rabitq")  # these learn from the documents
EPSILON: Final = 1.9  # of the bound of RaBitQ
_THEN: Final = ("sign", "asymmetric", "int4", "int8", "float16")
_SCALES: Final = 48  # tried for each vector of more than one bit per dimension
_FORM: Final = re.compile(r"(mrl|pq|rabitq):([1-9]\d*)(?:\+(\w+))?")


@dataclass(frozen=True)
class CodeSpec:
    """A method with its number: `mrl:64+sign` is (mrl, 64, sign)."""

    kind: str
    number: int
    then: str | None = None

    @property
    def family(self) -> str:
        """What codes of different numbers have in common."""
        return self.kind if self.then is None else f"{self.kind}+{self.then}"


def parse_spec(text: str) -> CodeSpec | None:
    """The method that a name with a colon stands for, or None."""
    found = _FORM.fullmatch(text)
    if found is None or (found[3] is not None and (found[1] != "mrl" or found[3] not in _THEN)):
        return None
    return CodeSpec(found[1], int(found[2]), found[3])


def spec_encoder(
    spec: CodeSpec, docs: NDArray[Any], *, rows: Ints | None, seed: int, metric: str
) -> CodeEncoder:
    """An encoder; `rows` are the documents that it may learn from, by default all."""
    if spec.kind == "mrl":
        return _truncated(spec, docs, metric)
    if spec.kind == "rabitq":
        return rabitq_of(spec.number, docs, rows=rows, seed=seed, metric=metric).encoder()
    with one_blas_thread():
        scale = _scale_of(docs, metric)[0]
        sample = scale(draw_sample(docs, seed, rows))
        return _product_quantiser(spec.number, sample, scale, seed, metric)


@dataclass(frozen=True, eq=False)
class _FirstColumns:
    """Rows cut to their first numbers as they are read."""

    rows: NDArray[Any]
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.width

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return np.asarray(self.rows[rows])[:, : self.width]


def _truncated(spec: CodeSpec, docs: NDArray[Any], metric: str) -> CodeEncoder:
    width = spec.number
    if width > docs.shape[1]:
        raise UsageError(f"mrl:{width} needs {width} dimensions; the vectors have {docs.shape[1]}.")
    if spec.then is None:
        dtype = docs.dtype

        def cut(block: Floats) -> NDArray[Any]:
            return block[:, :width].astype(dtype)

        return CodeEncoder("mrl", 8 * dtype.itemsize * width, cut, cut)
    first: Any = _FirstColumns(docs, width)
    made = make_encoder(spec.then, first, metric=metric)
    of_docs, of_queries = made.doc_block, made.query_block
    shared = _after_cut(of_docs, width)
    other = shared if of_docs is of_queries else _after_cut(of_queries, width)
    return replace(made, doc_block=shared, query_block=other)


def _after_cut(
    encode: Callable[[Floats], NDArray[Any]], width: int
) -> Callable[[Floats], NDArray[Any]]:
    return lambda block: encode(np.ascontiguousarray(block[:, :width]))


def _as_is(block: Floats) -> Floats:
    return block


def _scale_of(docs: NDArray[Any], metric: str) -> tuple[Callable[[Floats], Floats], float]:
    """Unit vectors under cosine; else the largest number of the documents becomes 1."""
    if metric == "cosine":
        return unit_rows, 1.0
    largest = largest_number(docs)
    return lambda block: block / largest, largest


def _product_quantiser(
    n_bytes: int, sample: Floats, scale: Callable[[Floats], Floats], seed: int, metric: str
) -> CodeEncoder:
    """One of 256 centroids for each of `n_bytes` parts of a vector (Jégou et al. 2011)."""
    faiss: Any = need("faiss", "pq", "faiss")
    dimensions = sample.shape[1]
    if dimensions % n_bytes:
        raise UsageError(f"pq:{n_bytes}: {dimensions} dimensions cannot be cut into equal parts.")
    if len(sample) < 256:
        raise UsageError(f"pq:{n_bytes} learns 256 centroids; there are {len(sample)} documents.")
    made = faiss.ProductQuantizer(dimensions, n_bytes, 8)
    made.cp.seed, made.cp.min_points_per_centroid = 1 + seed % (2**31 - 1), 1
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # how many there are would change the last bits of centroids
    try:
        made.train(np.ascontiguousarray(sample, np.float32))
    finally:
        faiss.omp_set_num_threads(before)

    def decoded(block: Floats) -> NDArray[np.float32]:
        codes = made.compute_codes(np.ascontiguousarray(scale(block), np.float32))
        return np.asarray(made.decode(codes), np.float32)

    if metric == "l2":
        return CodeEncoder("pq", 8 * n_bytes, decoded, scale)
    return CodeEncoder("pq", 8 * n_bytes, decoded, _as_is, metric="dot")


@dataclass(frozen=True, eq=False)
class RaBitQ:
    """Vectors from a centre, turned at random, each number one of 2^bits steps (Gao et al. 2024).

    `scale` puts vectors on the scale of the codes, where `unit` becomes 1.

    `decode` gives c + |o − c| x / ⟨o, x⟩, where x is the rounded direction of o − c: its product
    with a query is the estimate of the paper, whose error has a bound for each document.
    """

    bits: int
    centre: Floats
    rotation: Floats
    scale: Callable[[Floats], Floats]
    unit: float
    metric: str

    def decode(self, block: Floats) -> tuple[Floats, Floats, Floats]:
        """Estimates of the vectors, their distance to the centre, and cosine to their estimate."""
        turned = (self.scale(block) - self.centre) @ self.rotation
        length = np.sqrt(np.einsum("ij,ij->i", turned, turned))
        steps = self._round(turned)
        size = np.sqrt(np.einsum("ij,ij->i", steps, steps))
        product = np.einsum("ij,ij->i", turned, steps)
        known = product > 0
        factor = np.divide(length * length, product, out=np.zeros_like(length), where=known)
        near = np.divide(product, length * size, out=np.ones_like(length), where=known)
        return self.centre + (factor[:, None] * steps) @ self.rotation.T, length, near

    def _round(self, turned: Floats) -> Floats:
        """The nearest direction whose numbers are ±½, ±1½ … of some step; one bit: the signs."""
        if self.bits == 1:
            return np.where(turned > 0, 0.5, -0.5)
        top = 2.0 ** (self.bits - 1) - 0.5
        largest = np.abs(turned).max(axis=1, keepdims=True)
        unit = turned / np.where(largest > 0, largest, 1.0)
        best, found = np.zeros_like(unit), np.full(len(unit), -1.0)
        for share in np.linspace(1 / 3, 1.2, _SCALES):  # how far beyond the top the largest may lie
            steps = np.clip(np.floor(unit * (top / share)) + 0.5, -top, top)
            near = np.einsum("ij,ij->i", unit, steps) / np.sqrt(np.einsum("ij,ij->i", steps, steps))
            better = near > found
            best[better], found[better] = steps[better], near[better]
        return best

    def encoder(self) -> CodeEncoder:
        """Documents decoded, queries as they are; under l2 a column more holds |o − c|²."""
        dimensions = len(self.centre)
        if self.metric != "l2":
            bits = self.bits * dimensions + 32  # a number beside the code
            return CodeEncoder("rabitq", bits, lambda b: self.decode(b)[0], _as_is, metric="dot")

        def far(
            block: Floats,
        ) -> Floats:  # −|o − q|² is 2 ⟨o − c, q − c⟩ − |o − c|² and what q adds
            made, length, _ = self.decode(block)
            return np.column_stack([2 * (made - self.centre), -length * length])

        def query(block: Floats) -> Floats:
            return np.column_stack([self.scale(block) - self.centre, np.ones(len(block))])

        return CodeEncoder("rabitq", self.bits * dimensions + 64, far, query, metric="dot")

    def check_bound(self, docs: Floats, queries: Floats) -> tuple[float, float]:
        """The mean bound of the error of ⟨o − c, q − c⟩, and the share of pairs that keep it."""
        made, length, near = self.decode(docs)
        asked = self.scale(queries) - self.centre
        spread = length * np.sqrt(np.maximum(1 - near * near, 0)) / near
        root = math.sqrt(max(len(self.centre) - 1, 1))
        bound = EPSILON / root * np.linalg.norm(asked, axis=1)[:, None] * spread
        error = np.abs(asked @ (made - self.scale(docs)).T)
        return float(bound.mean()) * self.unit * self.unit, float((error <= bound + 1e-12).mean())


def rabitq_of(
    bits: int, docs: NDArray[Any], *, rows: Ints | None, seed: int, metric: str
) -> RaBitQ:
    """RaBitQ around the mean of a sample of the documents, under a random rotation."""
    if bits > 8:
        raise UsageError(f"rabitq:{bits}: RaBitQ has 1 to 8 bits per dimension.")
    scale, unit = _scale_of(docs, metric)
    with one_blas_thread():
        centre = scale(draw_sample(docs, seed, rows)).mean(axis=0)
        drawn = np.random.default_rng(seed).standard_normal((len(centre), len(centre)))
        rotation, upper = np.linalg.qr(drawn)
    return RaBitQ(bits, centre, rotation * np.sign(np.diag(upper)), scale, unit, metric)
