"""From vectors to smaller ones: bits by sign, random directions or learned rotation; int8; float16.

An encoder is made from the documents and then encodes documents and queries, a block of rows at a
time. The same vectors, method, bits and seed give the same codes. What cannot change a ranking by
the metric cannot change its codes: the size of a vector under cosine, that of a query or of all
documents under dot, a factor on everything under l2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.codes.settings import HELD_OUT, METHODS, METRICS, ON_REQUEST, SPECS
from assay.core import checks
from assay.core.ranking import Ranking
from assay.errors import UsageError, ValueRangeError, need
from assay.io.arrays import open_rows
from assay.search.engine import Codes
from assay.search.engine.inputs import matrix_of
from assay.search.engine.workers import one_blas_thread
from assay.stats.samples import check_seed

FLOAT: Final = "float"  # the vectors themselves, beside their codes
BINARY: Final = ("sign", "gaussian", "itq")  # compared by Hamming distance
LEARNT: Final = ("itq", "pq", "rabitq")  # from vectors: documents, or others
SEEDED: Final = ("gaussian", *LEARNT)  # these draw directions at random

BLOCK_SIZE: Final = 1 << 22  # numbers to encode at once
SAMPLE_SIZE: Final = 50_000  # documents that a code learns from, at most
ROUNDS: Final = 50
_TOP_FLOAT16: Final = 2.0**15  # where numbers of 1 are put, so that small ones are not lost

Encode = Callable[[Floats], NDArray[Any]]


@dataclass(frozen=True)
class CodeEncoder:
    """A way to shorten vectors; `bits` is the length of what it makes of a document.

    Under dot and l2 queries are encoded in their own way, `query_block`. `metric` is what
    compares the two, where it is not that of the vectors. `codebook_bytes` is the size of what
    was learnt, in float32, `n_learnt` the number of vectors it was learnt from.
    """

    method: str
    bits: int
    doc_block: Encode
    query_block: Encode
    metric: str | None = None
    codebook_bytes: int = 0
    n_learnt: int = 0
    quantiser: RaBitQ | None = None

    @property
    def is_binary(self) -> bool:
        """Whether it makes codes of bits, to be compared by Hamming distance."""
        return self.method in BINARY

    @property
    def bytes_per_vector(self) -> int:
        """Bytes per encoded vector."""
        return -(-self.bits // 8)

    def encode(self, vectors: NDArray[Any]) -> NDArray[Any] | Codes:
        """Encode documents: packed codes, or an array of int8 or float16."""
        return self._encode(vectors, self.doc_block)

    def encode_queries(self, vectors: NDArray[Any]) -> NDArray[Any] | Codes:
        """Return queries for such documents; under l2 they are as wide as their numbers need."""
        return vectors if self.query_block is _as_is else self._encode(vectors, self.query_block)

    def _encode(self, vectors: NDArray[Any], encode: Encode) -> NDArray[Any] | Codes:
        # One thread: how many there are would change the last bits of a product.
        with one_blas_thread():
            parts = (encode(block) for block in float_blocks(vectors))
            if not self.is_binary:
                return _stacked(parts, len(vectors))
            packed = (np.packbits(part, axis=1) for part in parts)
            return Codes(_stacked(packed, len(vectors)), self.bits)


def _stacked(parts: Iterator[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    """Return the parts below each other; each is let go of as soon as it is copied."""
    part = next(parts)
    whole = np.empty((n_rows, part.shape[1]), part.dtype)
    whole[: len(part)] = part
    done = len(part)
    for part in parts:
        whole[done : done + len(part)] = part
        done += len(part)
    return whole


def open_vectors(vectors: Any, what: str) -> NDArray[Any]:
    """Return vectors: an array, or rows of a .npy file that are read as they are used."""
    return cast("NDArray[Any]", matrix_of(open_rows(vectors), what))


def float_blocks(vectors: NDArray[Any]) -> Iterator[Floats]:
    """Yield some rows at a time."""
    rows = max(1, BLOCK_SIZE // max(1, vectors.shape[1]))
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
    """Return an encoder for vectors like these.

    Under cosine every vector has a scale of its own. Under dot all documents are on one scale,
    that of their largest number, and every query on its own; under l2 the documents' scale is
    that of the queries, too, whose numbers may then lie beyond the codes' range and are not cut.

    Args:
        method: Method, such as sign, itq, int8 or pq:16.
        docs: Vectors of the documents.
        bits: Length of the codes of gaussian and itq; the others fix it.
        seed: Seed of random directions.
        metric: Similarity of the vectors.
        rows: Documents that itq, pq and rabitq may learn from; by default all.

    Returns:
        The encoder of documents and queries.

    Raises:
        UsageError: There is no such method or metric, or it cannot make such codes.

    >>> make_encoder("sign", np.ones((3, 16))).bytes_per_vector
    2
    """
    check_method(method)
    checks.check_choice(metric, METRICS, "metric")
    docs, seed = open_vectors(docs, "docs"), check_seed(seed)
    if rows is not None:
        rows = checks.check_numbers(rows, len(docs), "rows")
    if (spec := parse_spec(method)) is not None:
        return _spec_encoder(spec, docs, rows, seed, metric)
    if method not in ("gaussian", "itq"):
        return _plain_encoder(method, docs, metric, docs.shape[1])
    dimensions = docs.shape[1]
    length = checks.check_cutoff(bits, "bits")
    if method == "gaussian":
        # A longer code begins with the bits of the shorter.
        drawn = np.random.default_rng(seed).standard_normal((length, dimensions))
        sides = Hyperplanes(_row_scale, np.zeros(dimensions), np.ascontiguousarray(drawn.T))
        return CodeEncoder(method, length, sides, sides)
    scale = _scale_of(docs, metric)[0]
    with one_blas_thread():
        sample = scale(_sample(docs, np.random.default_rng(seed), rows))
        size = 4 * dimensions * (1 + length), len(sample)
        centre, directions = _learned_directions(sample, length, seed)
    sides = of_queries = Hyperplanes(scale, centre, directions)
    if metric == "dot":
        # (d - c) · q ranks as d · q does, so that queries have no centre, and their size no say.
        of_queries = Hyperplanes(_row_scale, np.zeros_like(centre), directions)
    return CodeEncoder(method, length, sides, of_queries, None, *size)


def _plain_encoder(method: str, docs: NDArray[Any], metric: str, dimensions: int) -> CodeEncoder:
    """Return the methods whose length the vectors fix, of so many of their dimensions."""
    if method == "sign":
        return CodeEncoder(method, dimensions, _is_positive, _is_positive)
    if method == "asymmetric":  # bits have one length, so that cosine ranks as the product does
        by = None if metric == "cosine" else "dot"
        return CodeEncoder(
            method, dimensions, lambda b: np.where(b > 0, 1, -1).astype(np.int8), _as_is, by
        )
    # Under dot and l2 the largest number of the documents is the range of all codes.
    learnt = (0, 0) if metric == "cosine" else (4, len(docs))
    width = int(method.removeprefix("int").removeprefix("float"))
    scale = _scale_of(docs, metric, dimensions)[0]
    makers = (
        _float16_makers(scale, metric) if width == 16 else _integer_makers(scale, metric, width)
    )
    return CodeEncoder(method, width * dimensions, *makers, None, *learnt)


def _is_positive(block: Floats) -> NDArray[np.bool_]:
    return np.asarray(block > 0)


def _row_scale(block: Floats) -> Floats:
    """Return rows by powers of two, which round nothing, so that the largest number is about 1."""
    largest = np.maximum(block.max(axis=1, keepdims=True), -block.min(axis=1, keepdims=True))
    scaled: Floats = np.ldexp(block, -np.frexp(largest)[1])
    return scaled


def unit_rows(block: Floats) -> Floats:
    """Return rows of length 1; a row of zeros stays one."""
    scaled = _row_scale(block)
    length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    scaled /= np.where(length > 0, length, 1.0)
    return scaled


def _scale_of(
    docs: NDArray[Any], metric: str, dimensions: int | None = None
) -> tuple[Callable[[Floats], Floats], float]:
    """Return how vectors are scaled, and which number becomes 1.

    Under cosine vectors have length 1; else the largest number of the documents becomes 1, among
    so many of their dimensions.
    """
    if metric == "cosine":
        return unit_rows, 1.0
    sizes = (np.abs(block[:, :dimensions]).max(initial=0.0) for block in float_blocks(docs))
    largest = float(max(sizes, default=0.0))
    if not largest:
        raise ValueRangeError("All documents are zero vectors. Pass other vectors.")

    @np.errstate(over="ignore")  # queries that are too large by far are refused by the search
    def scale(block: Floats) -> Floats:
        return block / largest

    return scale, largest


@dataclass(frozen=True, eq=False)
class Hyperplanes:
    """On which side of each direction, seen from the centre, a vector lies."""

    scale: Callable[[Floats], Floats]
    centre: Floats
    directions: Floats

    def __call__(self, block: Floats) -> NDArray[np.bool_]:
        """Return a bit for each direction."""
        return np.asarray((self.scale(block) - self.centre) @ self.directions > 0)


def _learned_directions(sample: Floats, bits: int, seed: int) -> tuple[Floats, Floats]:
    """Return principal directions, turned so that vectors lie near the corners of a cube.

    Gong and Lazebnik 2011: in turn, take the nearest corner of each vector, then the rotation that
    brings the vectors nearest to these corners (orthogonal Procrustes).
    """
    dimensions = sample.shape[1]
    if bits > dimensions:
        raise UsageError(
            f"itq makes at most one bit per dimension, not {bits}. Use {dimensions} or fewer."
        )
    rng = np.random.default_rng(seed)
    centre = sample.mean(axis=0)
    sample = sample - centre
    principal = _signed(np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :bits])
    projected = sample @ principal
    rotation = _signed(np.linalg.qr(rng.standard_normal((bits, bits)))[0])
    for _ in range(ROUNDS):
        corners = np.where(projected @ rotation > 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(corners.T @ projected)
        rotation = right.T @ left.T
    return centre, principal @ rotation


def _signed(columns: Floats) -> Floats:
    """Return columns whose largest number is positive: which sign one has is the library's whim."""
    largest = np.abs(columns).argmax(axis=0)
    signs = np.sign(columns[largest, np.arange(columns.shape[1])])
    return np.asarray(columns * signs, np.float64)


def _sample(docs: NDArray[Any], rng: np.random.Generator, rows: Ints | None) -> Floats:
    size = len(docs) if rows is None else len(rows)
    if rows is None and size <= SAMPLE_SIZE:
        return np.array(docs, np.float64)
    numbers = np.arange(size) if rows is None else rows
    if size > SAMPLE_SIZE:
        numbers = numbers[rng.choice(size, SAMPLE_SIZE, replace=False)]
    return np.array(docs[np.sort(numbers)][:], np.float64)


def _as_is(block: Floats) -> Floats:
    return block


def _integer_makers(scale: Encode, metric: str, bits: int) -> tuple[Encode, Encode]:
    """Return functions that round to steps of 1/127 (int4: 1/7).

    The unit is the largest number of each vector, or of all documents.
    """
    top = 2 ** (bits - 1) - 1

    def each(block: Floats) -> NDArray[np.int8]:
        scaled = _row_scale(block)
        largest = np.abs(scaled).max(axis=1, keepdims=True)
        numbers = np.rint(top * scaled / np.where(largest > 0, largest, 1.0))
        return np.asarray(numbers, np.int8)

    if metric == "cosine":
        return each, each

    def steps(block: Floats) -> Floats:
        return np.asarray(np.rint(top * scale(block)))

    def cut(block: Floats) -> NDArray[np.int8]:
        return np.clip(steps(block), -top, top).astype(np.int8)

    return cut, each if metric == "dot" else steps


def _float16_makers(scale: Encode, metric: str) -> tuple[Encode, Encode]:
    """Return functions that keep eleven bits of each number.

    Numbers far below the largest have fewer, or none.
    """

    def each(block: Floats) -> NDArray[np.float16]:
        if metric == "cosine":
            scaled = _row_scale(block)
        else:  # the largest number of every row becomes 1; zeros stay
            largest = np.abs(block).max(axis=1, keepdims=True)
            scaled = block / np.where(largest > 0, largest, 1.0)
        return np.asarray(scaled * _TOP_FLOAT16, np.float16)

    if metric == "cosine":
        return each, each

    def together(block: Floats) -> NDArray[np.float16]:
        return np.asarray(np.clip(scale(block), -1, 1) * _TOP_FLOAT16, np.float16)

    def on_scale(block: Floats) -> Floats:
        """Round within the row, whose size may be beyond the range of float16."""
        scaled = scale(block)
        power = np.frexp(np.abs(scaled).max(axis=1, keepdims=True))[1] - 15
        rounded = np.ldexp(scaled, -power).astype(np.float16)
        return np.asarray(np.ldexp(rounded.astype(np.float64), power) * _TOP_FLOAT16)

    return together, each if metric == "dot" else on_scale


CENTROIDS: Final = 256  # of each part of a product quantiser: one byte
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
        """Family of codes that differ in size only."""
        return self.kind if self.then is None else f"{self.kind}+{self.then}"


def parse_spec(text: str) -> CodeSpec | None:
    """Return the method that a name with a colon stands for, or None."""
    match = _FORM.fullmatch(text)
    if match is None or (match[3] is not None and (match[1] != "mrl" or match[3] not in _THEN)):
        return None
    return CodeSpec(match[1], int(match[2]), match[3])


def check_method(name: Any) -> str:
    """Check the name of a method."""
    plain = (*METHODS, *ON_REQUEST)
    if not isinstance(name, str) or (name not in plain and parse_spec(name) is None):
        raise UsageError(f"Unknown method {name!r:.80}. Known: {', '.join((*plain, *SPECS))}.")
    return name


def _spec_encoder(
    spec: CodeSpec, docs: NDArray[Any], rows: Ints | None, seed: int, metric: str
) -> CodeEncoder:
    if spec.kind == "mrl":
        return _truncated(spec, docs, metric)
    if spec.kind == "rabitq":
        return rabitq_of(spec.number, docs, rows=rows, seed=seed, metric=metric).encoder()
    with one_blas_thread():
        scale = _scale_of(docs, metric)[0]
        sample = scale(_sample(docs, np.random.default_rng(seed), rows))
        return _product_quantiser(spec.number, sample, scale, seed, metric)


def _truncated(spec: CodeSpec, docs: NDArray[Any], metric: str) -> CodeEncoder:
    width = spec.number
    if width > docs.shape[1]:
        raise UsageError(f"mrl:{width} exceeds the {docs.shape[1]} dimensions. Use fewer.")
    if spec.then is None:
        dtype = docs.dtype

        def cut(block: Floats) -> NDArray[Any]:
            return block[:, :width].astype(dtype)

        return CodeEncoder("mrl", 8 * dtype.itemsize * width, cut, cut)
    encoder = _plain_encoder(spec.then, docs, metric, width)

    def cut_first(encode: Encode) -> Encode:
        return lambda block: encode(np.ascontiguousarray(block[:, :width]))

    of_docs, of_queries = encoder.doc_block, encoder.query_block
    shared = cut_first(of_docs)
    other = shared if of_docs is of_queries else cut_first(of_queries)
    return replace(encoder, doc_block=shared, query_block=other)


def _product_quantiser(
    n_bytes: int, sample: Floats, scale: Callable[[Floats], Floats], seed: int, metric: str
) -> CodeEncoder:
    """Return one of 256 centroids for each of `n_bytes` parts of a vector (Jégou et al. 2011)."""
    faiss: Any = need("faiss", "pq", "faiss")
    dimensions = sample.shape[1]
    if dimensions % n_bytes:
        raise UsageError(
            f"pq:{n_bytes}: {dimensions} dimensions do not divide evenly. Choose a divisor."
        )
    if len(sample) < CENTROIDS:
        few = f"pq:{n_bytes} needs {CENTROIDS} training vectors, found {len(sample)}"
        raise UsageError(f"{few}. Train on more vectors, or on all documents (train 1).")
    quantiser = faiss.ProductQuantizer(dimensions, n_bytes, 8)
    # Too few points are said in a remark, not by faiss.
    quantiser.cp.seed, quantiser.cp.min_points_per_centroid = 1 + seed % (2**31 - 1), 1
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # how many there are would change the last bits of centroids
    try:
        quantiser.train(np.ascontiguousarray(sample, np.float32))
    finally:
        faiss.omp_set_num_threads(before)

    def decoded(block: Floats) -> NDArray[np.float32]:
        codes = quantiser.compute_codes(np.ascontiguousarray(scale(block), np.float32))
        return np.asarray(quantiser.decode(codes), np.float32)

    far = metric == "l2"
    size = 4 * CENTROIDS * dimensions, len(sample)
    queries = scale if far else _as_is
    return CodeEncoder("pq", 8 * n_bytes, decoded, queries, None if far else "dot", *size)


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
    n_learnt: int = 0

    def decode(self, block: Floats) -> tuple[Floats, Floats, Floats]:
        """Return estimates, distances to the centre, and cosines to the estimates."""
        turned = (self.scale(block) - self.centre) @ self.rotation
        length = np.sqrt(np.einsum("ij,ij->i", turned, turned))
        steps = self._round(turned)
        size = np.sqrt(np.einsum("ij,ij->i", steps, steps))
        product = np.einsum("ij,ij->i", turned, steps)
        usable = product > 0
        factor = np.divide(length * length, product, out=np.zeros_like(length), where=usable)
        near = np.divide(product, length * size, out=np.ones_like(length), where=usable)
        return self.centre + (factor[:, None] * steps) @ self.rotation.T, length, near

    def _round(self, turned: Floats) -> Floats:
        """Round to the nearest direction of numbers ±½, ±1½ … of some step.

        With one bit these are the signs.
        """
        if self.bits == 1:
            return np.where(turned > 0, 0.5, -0.5)
        top = 2.0 ** (self.bits - 1) - 0.5
        largest = np.abs(turned).max(axis=1, keepdims=True)
        unit = turned / np.where(largest > 0, largest, 1.0)
        best, nearest = np.zeros_like(unit), np.full(len(unit), -1.0)
        for share in np.linspace(1 / 3, 1.2, _SCALES):  # how far beyond the top the largest may lie
            steps = np.clip(np.floor(unit * (top / share)) + 0.5, -top, top)
            near = np.einsum("ij,ij->i", unit, steps) / np.sqrt(np.einsum("ij,ij->i", steps, steps))
            better = near > nearest
            best[better], nearest[better] = steps[better], near[better]
        return best

    def encoder(self) -> CodeEncoder:
        """Return documents decoded, queries as they are; under l2 a column more holds |o − c|²."""
        dimensions, centre = len(self.centre), self.centre
        size = 4 * dimensions, self.n_learnt, self
        bits = self.bits * dimensions + 32  # a number beside the code
        if self.metric != "l2":
            return CodeEncoder("rabitq", bits, lambda b: self.decode(b)[0], _as_is, "dot", *size)

        # −|o − q|² is 2 ⟨o − c, q − c⟩ − |o − c|² and what q adds, written without c beside q.
        def far(block: Floats) -> Floats:
            estimates, length, _ = self.decode(block)
            lost = length * length + (2 * estimates - centre) @ centre
            return np.column_stack([2 * estimates, -lost])

        def query(block: Floats) -> Floats:
            return np.column_stack([self.scale(block), np.ones(len(block))])

        return CodeEncoder("rabitq", bits + 32, far, query, "dot", *size)

    def check_bound(self, docs: Floats, queries: Floats) -> tuple[float, float]:
        """Return the mean bound of the error, and the share of pairs within.

        It is that of ⟨o − c, q − c⟩.
        """
        estimates, length, near = self.decode(docs)
        directions = self.scale(queries) - self.centre
        spread = length * np.sqrt(np.maximum(1 - near * near, 0)) / near
        root = math.sqrt(max(len(self.centre) - 1, 1))
        bound = EPSILON / root * np.linalg.norm(directions, axis=1)[:, None] * spread
        error = np.abs(directions @ (estimates - self.scale(docs)).T)
        return float(bound.mean()) * self.unit * self.unit, float((error <= bound + 1e-12).mean())


def rabitq_of(
    bits: int, docs: NDArray[Any], *, rows: Ints | None, seed: int, metric: str
) -> RaBitQ:
    """Make RaBitQ around the mean of a sample, under a random rotation."""
    if bits > 8:
        raise UsageError(f"rabitq:{bits}: invalid bits. Use 1 to 8 per dimension.")
    scale, unit = _scale_of(docs, metric)
    with one_blas_thread():
        sample = _sample(docs, np.random.default_rng(seed), rows)
        centre = scale(sample).mean(axis=0)
        drawn = np.random.default_rng(seed).standard_normal((len(centre), len(centre)))
        rotation, upper = np.linalg.qr(drawn)
    turn = rotation * np.sign(np.diag(upper))
    return RaBitQ(bits, centre, turn, scale, unit, metric, len(sample))


@dataclass(frozen=True, eq=False)
class CodeTraining:
    """Vectors that codes are learnt from: given ones, or a share of the searched documents.

    With a share below 1 no document is encoded by what was learnt from it: the documents are
    dealt into parts, and those of a part are encoded by what was learnt from the others. `order`
    are the rows by which they are dealt, `rows` those that may be learnt from, by default all.
    Where nobody `typed` the share and it leaves too few vectors for pq, all are learnt from.
    """

    share: float = HELD_OUT
    vectors: Any = None
    order: Ints | None = None
    rows: Ints | None = None
    typed: bool = False

    def fit(self, method: str, docs: NDArray[Any], **how: Any) -> FittedCode:
        """Return the encoders of these documents; `how` are bits, seed and metric."""
        if self.vectors is not None:
            return FittedCode((make_encoder(method, self.vectors, **how),))
        spec = parse_spec(method)
        if self.share == 1 or (method if spec is None else spec.kind) not in LEARNT:
            return FittedCode((make_encoder(method, docs, rows=self.rows, **how),))
        parts, lessons = zip(*self.deal(len(docs), how.get("seed", 0)), strict=True)
        if not self.typed and spec and spec.kind == "pq" and min(map(len, lessons)) < CENTROIDS:
            return FittedCode((make_encoder(method, docs, rows=self.rows, **how),))
        return FittedCode(
            tuple(make_encoder(method, docs, rows=rows, **how) for rows in lessons), parts
        )

    def deal(self, n_docs: int, seed: int) -> Iterator[tuple[Ints, Ints]]:
        """Yield rows of the documents, and the rows that their encoder learns from."""
        n_parts = max(2, math.ceil(1 / (1 - self.share) - 1e-9))
        dealt = np.random.default_rng([seed, n_parts]).permutation(n_docs)
        rows = dealt if self.order is None else self.order[dealt]
        allowed = rows if self.rows is None else rows[np.isin(rows, self.rows)]
        for number in range(n_parts):
            part = np.sort(rows[number::n_parts])
            outside = allowed[~np.isin(allowed, part)]
            yield part, np.sort(outside[: max(1, round(self.share * n_docs))])


@dataclass(frozen=True, eq=False)
class FittedCode:
    """The encoders of a code, one for each part of the documents, or one for all.

    >>> code = CodeTraining().fit("rabitq:1", np.eye(8), seed=0)
    >>> len(code.encoders), code.encode(np.eye(8)).shape
    (2, (8, 8))
    """

    encoders: tuple[CodeEncoder, ...]
    parts: tuple[Ints, ...] = ()

    @property
    def first(self) -> CodeEncoder:
        """The encoder that stands for all in size and kind."""
        return self.encoders[0]

    def encode(self, docs: NDArray[Any]) -> NDArray[Any] | Codes:
        """Encode the documents that it was made for."""
        if len(self.encoders) == 1:
            return self.first.encode(docs)
        pairs = zip(self.encoders, self.parts, strict=True)
        blocks = [encoder.encode(docs[part]) for encoder, part in pairs]
        if self.first.is_binary:
            return FoldedCodes.of(cast("list[Codes]", blocks), self.parts, len(docs))
        arrays = cast("list[NDArray[Any]]", blocks)
        whole = np.empty((len(docs), arrays[0].shape[1]), arrays[0].dtype)
        for part, block in zip(self.parts, arrays, strict=True):
            whole[part] = block
        return whole

    def encode_queries(self, queries: NDArray[Any]) -> NDArray[Any] | Codes:
        """Encode queries for these documents."""
        if len(self.encoders) == 1 or not self.first.is_binary:
            return self.first.encode_queries(queries)
        coded = cast("list[Codes]", [encoder.encode_queries(queries) for encoder in self.encoders])
        return FoldedCodes.of(coded, [np.arange(len(queries))] * len(coded), len(queries))


@dataclass(frozen=True, eq=False)
class FoldedCodes(Codes):
    """Codes by several encoders side by side, whose distance tells that of each pair's own code.

    Each encoder has columns for its bits and for their opposites. A query has those of every
    encoder, a document those of its own, and zeros elsewhere, which differ from one in each two of
    the query's columns. So the distance is twice that of the codes, and a constant.
    """

    length: int = 0  # bits of one code
    n_parts: int = 1

    @classmethod
    def of(cls, codes: Sequence[Codes], rows: Sequence[Ints], n_rows: int) -> FoldedCodes:
        """Put the codes of some rows each into columns of their own."""
        bits, width = codes[0].bits, codes[0].packed.shape[1]
        used = np.packbits(np.ones(bits, bool))  # not the padding
        whole = np.zeros((n_rows, 2 * len(codes), width), np.uint8)
        for number, (part, code) in enumerate(zip(rows, codes, strict=True)):
            whole[part, 2 * number] = code.packed
            whole[part, 2 * number + 1] = code.packed ^ used
        packed = whole.reshape(n_rows, -1)
        return cls(packed, 8 * packed.shape[1], bits, len(codes))

    def unfold(self, ranking: Ranking) -> Ranking:
        """Return a ranking by these with the scores of the codes."""
        scores = (ranking.scores + self.length * (self.n_parts - 1)) / 2
        return replace(ranking, given_docs=ranking.docs, given_scores=scores, in_order=True)
