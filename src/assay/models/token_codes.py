"""Codes of token vectors: fewer bytes for each token, or fewer tokens.

What is searched is what a code stands for, in float32, by exact MaxSim.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np

from assay.arrays import Array, Floats, Floats32, Ints, offsets_of
from assay.errors import UsageError
from assay.search.engine import TokenVectors

_PLAIN: Final = ("float16", "int8", "binary", "asymmetric")
_ALIASES: Final = {"sign": "binary"}
FORMS: Final = (*_PLAIN, "pool:N", "pool:N+CODE")
MOST_STORED: Final = 4096  # rows whose distances are stored, which takes 0.13 GB
_AT_ONCE: Final = 64  # rows whose distances are computed together


def is_pooled(code: str) -> bool:
    """Tell whether a code pools tokens.

    >>> is_pooled("pool:2+int8"), is_pooled("int8")
    (True, False)
    """
    return code.startswith("pool:")


def parse_code(code: str) -> tuple[int, str]:
    """Read a code of token vectors: how many tokens become one, and the code of what is left.

    >>> parse_code("pool:2+int8"), parse_code("binary"), parse_code("pool:3")
    ((2, 'int8'), (1, 'binary'), (3, ''))
    """
    factor, then = 1, code
    if is_pooled(code):
        number, plus, then = code.removeprefix("pool:").partition("+")
        factor = int(number) if number.isascii() and number.isdigit() and len(number) < 5 else 0
        factor = 0 if plus and not then else factor
    then = _ALIASES.get(then, then)
    if factor < 1 + is_pooled(code) or then not in (*_PLAIN, *([""] if is_pooled(code) else [])):
        raise UsageError(
            f"Token vectors have no code {code!r:.40}. Known: {', '.join(FORMS)}, N from 2 to 9999."
        )
    return factor, then


def encode_tokens(code: str, docs: TokenVectors) -> tuple[TokenVectors, int]:
    """Return what a code makes of documents, and the bytes that the codes take.

    Args:
        code: "float16", "int8" (each token by its largest number), "binary" or "asymmetric" (the
            signs; the latter leaves queries as they are), "pool:N" or "pool:N+CODE".
        docs: Token vectors of the documents.

    Returns:
        The vectors that the codes stand for, and the size of the codes with their offsets.

    Example:
        >>> docs = TokenVectors([[3.0, 4.0], [4.0, 3.0], [-1.0, 0.0]], [0, 3])
        >>> encode_tokens("binary", docs)[0].values.tolist()
        [[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]
    """
    factor, then = parse_code(code)
    docs = docs if factor == 1 else pool_tokens(docs, factor)
    n_tokens, width = docs.values.shape
    values = np.asarray(docs.values, np.float32)
    size = 4 * width
    if then == "float16":
        if not (np.abs(values) < 65520).all():
            raise UsageError("Some tokens exceed 65504, the largest float16. Use int8.")
        values, size = values.astype(np.float16).astype(np.float32), 2 * width
    elif then == "int8":
        step = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
        numbers = np.rint(values / np.where(step > 0, step, 1)).astype(np.int8)
        values, size = numbers * step, width + 4
    elif then:
        values, size = signs_of(values), -(-width // 8)
    return replace(docs, values=values), n_tokens * size + docs.offsets.nbytes


def encode_queries(code: str, queries: TokenVectors) -> TokenVectors:
    """Return queries for such documents: their signs for "binary", otherwise as they are."""
    if parse_code(code)[1] != "binary":
        return queries
    return replace(queries, values=signs_of(np.asarray(queries.values)))


def signs_of(values: Array) -> Floats32:
    """Return 1 for what is positive, otherwise −1."""
    return np.where(values > 0, np.float32(1), np.float32(-1))


def pool_tokens(docs: TokenVectors, factor: int) -> TokenVectors:
    """Pool the tokens of each document: n // factor means of clusters, scaled to length 1.

    Clusters are Ward's on the distance 1 − cosine. The first token (usually [CLS]) stays apart.

    Example:
        >>> docs = TokenVectors([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0], [1.0, 0.0]], [0, 4])
        >>> pool_tokens(docs, 2).values.tolist()
        [[1.0, 0.0], [0.4472135901451111, 0.8944271802902222]]
    """
    parts: list[Floats32] = []
    for first, last in pairwise(docs.offsets.tolist()):
        rows = np.asarray(docs.values[first:last], np.float64)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
        count = max(1, (len(rows) - 1) // factor)
        if len(rows) - 1 > count:
            labels = cluster_rows(rows[1:], count)
            means = np.zeros((labels.max() + 1, rows.shape[1]))
            np.add.at(means, labels, rows[1:])
            means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-30)
            rows = np.concatenate([rows[:1], means])
        parts.append(rows.astype(np.float32))
    return TokenVectors(np.concatenate(parts), offsets_of([len(part) for part in parts]))


def cluster_rows(rows: Floats, count: int) -> Ints:
    """Return the cluster of each row of length 1, of at most `count`, numbered from 0.

    Ward's method by chains of nearest neighbours (Murtagh 1983): merges come in any order, and are
    sorted by their height.
    """
    clusters = _StoredDistances(rows) if len(rows) <= MOST_STORED else _Distances(rows)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < len(rows) - 1:
        if not chain:
            chain.append(int(np.argmax(clusters.sizes > 0)))
        last = chain[-1]
        squares = clusters.squares(last)
        near = int(np.argmin(squares))
        if len(chain) == 1 or squares[near] < squares[chain[-2]] - clusters.noise:
            chain.append(near)
            continue
        near = chain[-2]
        merges.append((float(squares[near]), last, near))
        clusters.merge(last, near)
        del chain[-2:]
    labels = np.arange(len(rows))
    merges.sort(key=itemgetter(0))  # of equals, parts before wholes
    for _, last, near in merges[: len(rows) - count]:
        labels[labels == labels[last]] = labels[near]
    numbers: Ints = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return numbers


class _Distances:
    """Compute Ward's squared distances when asked, in memory linear in the number of rows.

    They are 2ab / (a + b) of the mean square between a and b rows, less half of the means within.
    """

    noise = 1e-12  # by which distances of one pair may differ

    def __init__(self, rows: Floats) -> None:
        self.rows, self.columns = rows, np.ascontiguousarray(rows.T)
        self.sizes, self.within = np.ones(len(rows)), np.zeros(len(rows))
        self.labels: Ints = np.arange(len(rows))
        self.sums: Floats = self.within

    def squares(self, cluster: int) -> Floats:
        """Return the distances of a cluster from each, infinite where there is none."""
        inside = np.flatnonzero(self.labels == cluster)
        by_row = np.zeros(len(self.rows))
        for start in range(0, len(inside), _AT_ONCE):
            by_row += _square_all(self.rows[inside[start : start + _AT_ONCE]] @ self.columns).sum(0)
        self.sums = np.asarray(np.bincount(self.labels, by_row, len(self.rows)), np.float64)
        size, sizes = self.sizes[cluster], np.maximum(self.sizes, 1)
        apart = 2 * self.sums - self.within[cluster] * sizes / size - self.within * size / sizes
        apart[self.sizes == 0] = apart[cluster] = np.inf
        return np.asarray(apart / (size + sizes), np.float64)

    def merge(self, last: int, near: int) -> None:
        """Put the rows of the cluster that was last looked at into another."""
        self.within[near] += self.within[last] + 2 * self.sums[near]
        self.labels[self.labels == last] = near
        self.sizes[near] += self.sizes[last]
        self.sizes[last] = 0


class _StoredDistances:
    """Store the squared distances of all pairs."""

    noise = 0.0

    def __init__(self, rows: Floats) -> None:
        self.sizes: Floats = np.ones(len(rows))
        self.table: Floats = _square_all(rows @ rows.T)
        np.fill_diagonal(self.table, np.inf)

    def squares(self, cluster: int) -> Floats:
        """Return the distances of a cluster from each, infinite where there is none."""
        return np.asarray(self.table[cluster])

    def merge(self, last: int, near: int) -> None:
        """Put the rows of one cluster into another."""
        sizes, table, height = self.sizes, self.table, self.table[last, near]
        both = sizes[last] + sizes[near]
        parts = (sizes[last] + sizes) * table[last] + (sizes[near] + sizes) * table[near]
        merged = np.where(sizes > 0, (parts - sizes * height) / (both + sizes), np.inf)
        merged[[last, near]] = np.inf
        table[near] = table[:, near] = merged
        table[last] = table[:, last] = np.inf
        sizes[near], sizes[last] = both, 0


def _square_all(cosines: Floats) -> Floats:
    """Replace cosines by their squared distances from 1."""
    np.subtract(1, cosines, out=cosines)
    np.clip(cosines, 0, 2, out=cosines)
    cosines *= cosines
    return cosines
