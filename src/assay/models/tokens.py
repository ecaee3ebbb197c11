"""Texts to token numbers by a tokenizer.json, cut at a maximum length, never padded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError, error_text, need


class Tokens(NamedTuple):
    """For each text its token numbers and their kinds, and whether it was too long."""

    ids: list[list[int]]
    kinds: list[list[int]]
    truncated: NDArray[np.bool_]


class Tokenizer:
    """A tokenizer of the package tokenizers."""

    def __init__(self, path: Path, max_length: int | None, *, purpose: str, extra: str) -> None:
        package = need("tokenizers", purpose, extra)
        try:
            self._tokenizer: Any = package.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises bare Exceptions
            raise FormatError(f"{path} is not a tokenizer: {error_text(error)}.") from None
        self._tokenizer.no_padding()
        if max_length is None:
            self._tokenizer.no_truncation()
        else:
            self._tokenizer.enable_truncation(max_length)

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> Tokens:
        """Tokens of each text or pair of texts, special ones among them."""
        encodings = self._tokenizer.encode_batch(list(texts))
        return Tokens(
            [encoding.ids for encoding in encodings],
            [encoding.type_ids for encoding in encodings],
            np.array([bool(encoding.overflowing) for encoding in encodings]),
        )


def by_length(ids: list[list[int]], most: int) -> list[list[int]]:
    """Row numbers in batches of like length, each of at most so many tokens once padded.

    The longest texts come first; a text that is longer alone is a batch of its own.

    >>> by_length([[1], [1, 1, 1], [1, 1], [1]], 4)
    [[1], [2, 0], [3]]
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(ids)), key=lambda row: -len(ids[row])):
        if not batches or len(ids[batches[-1][0]]) * (len(batches[-1]) + 1) > most:
            batches.append([])
        batches[-1].append(row)
    return batches
