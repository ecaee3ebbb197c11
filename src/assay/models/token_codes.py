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
    count_all = len(rows)
    squares = np.clip(1 - rows @ rows.T, 0, 2) ** 2
    np.fill_diagonal(squares, np.inf)
    sizes, alive = np.ones(count_all), np.ones(count_all, bool)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < count_all - 1:
        if not chain:
            chain.append(int(np.argmax(alive)))
        last = chain[-1]
        near = int(np.argmin(squares[last]))
        if len(chain) == 1 or squares[last, near] < squares[last, chain[-2]]:
            chain.append(near)
            continue
        near = chain[-2]
        height, both = squares[last, near], sizes[last] + sizes[near]
        merges.append((float(height), last, near))
        parts = (sizes[last] + sizes) * squares[last] + (sizes[near] + sizes) * squares[near]
        merged = np.where(alive, (parts - sizes * height) / (both + sizes), np.inf)
        merged[near] = np.inf
        squares[near] = squares[:, near] = merged
        squares[last] = squares[:, last] = np.inf
        sizes[near], alive[last] = both, False
        del chain[-2:]
    clusters = np.arange(count_all)
    merges.sort(key=itemgetter(0))  # of equals, parts before wholes
    for _, last, near in merges[: count_all - count]:
        clusters[clusters == clusters[last]] = clusters[near]
    labels: Ints = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    return labels
