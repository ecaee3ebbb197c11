"""Chunks: documents cut into pieces by a stated rule, so that long texts can be searched.

    characters:1000:200   windows of 1000 characters, each sharing 200 with the one before
    tokens:128:16         windows of words and punctuation marks, as a regular expression finds them
    sentences:5:1         windows of sentences

Every character of a document that is not white space lies in some chunk of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ids import Ids
from assay.core.numbers import parse_whole
from assay.errors import UsageError

UNITS: Final = ("characters", "sentences", "tokens")
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
# A sentence ends with a mark and white space, or with an empty line; the rest is one, too.
_SENTENCE: Final = re.compile(r".+?(?:[.!?…。！？]+[\"'”’)\]]*(?=\s)|\n\s*\n|\Z)", re.S)


@dataclass(frozen=True)
class ChunkRule:
    """How documents are cut: windows of `size` units, each sharing `overlap` with the last.

    >>> ChunkRule.parse("sentences:5:1")
    ChunkRule(unit='sentences', size=5, overlap=1)
    >>> str(ChunkRule("tokens", 128))
    'tokens:128:0'
    """

    unit: str
    size: int
    overlap: int = 0

    def __post_init__(self) -> None:
        """Refuse a rule that would not move on."""
        if self.unit not in UNITS:
            raise UsageError(f"Chunks are cut by {', '.join(UNITS)}, not by {self.unit!r}.")
        checks.check_cutoff(self.size, "The size of chunks")
        if self.overlap:
            checks.check_cutoff(self.overlap, "The overlap of chunks")
        if self.overlap >= self.size:
            raise UsageError(
                f"Chunks of {self.size} {self.unit} cannot share {self.overlap}: "
                "the overlap must be smaller than the size."
            )

    @classmethod
    def parse(cls, text: str) -> ChunkRule:
        """From UNIT:SIZE or UNIT:SIZE:OVERLAP."""
        unit, _, sizes = text.partition(":")
        numbers = sizes.split(":")
        sizes_parsed = [number for number in map(parse_whole, numbers) if number is not None]
        if (
            not 1 <= len(sizes_parsed) <= 2
            or len(sizes_parsed) < len(numbers)
            or min(sizes_parsed) < 0
        ):
            raise UsageError(
                f"A rule for chunks is written UNIT:SIZE[:OVERLAP], such as sentences:5:1, with "
                f"UNIT one of {', '.join(UNITS)}; found {text[:80]!r}."
            )
        return cls(unit, *sizes_parsed)

    def __str__(self) -> str:
        """As it is written, and as it enters fingerprints."""
        return f"{self.unit}:{self.size}:{self.overlap}"


@dataclass(frozen=True, eq=False)
class Chunks:
    """Pieces of documents in order: chunk i is `texts[i]`, of document number `doc[i]`.

    Its id is the document's with `#1`, `#2`, … behind it.
    """

    ids: Ids
    texts: tuple[str, ...]
    doc: NDArray[np.int64]


def chunk_text(text: str, rule: ChunkRule) -> list[str]:
    """Return the chunks of one text; none where there is nothing but white space.

    >>> chunk_text("One. Two! Three? Four.", ChunkRule("sentences", 2, 1))
    ['One. Two!', 'Two! Three?', 'Three? Four.']
    """
    spans = _units(text, rule.unit)
    starts = range(0, max(len(spans) - rule.overlap, 1), rule.size - rule.overlap)
    windows = [spans[start : start + rule.size] for start in starts]
    pieces = [text[window[0][0] : window[-1][1]].strip() for window in windows if window]
    return [piece for piece in pieces if piece]


def _units(text: str, unit: str) -> list[tuple[int, int]]:
    """Return where each unit begins and ends."""
    if unit == "characters":
        return [(i, i + 1) for i in range(len(text))]
    pattern = _TOKEN if unit == "tokens" else _SENTENCE
    return [match.span() for match in pattern.finditer(text) if match.group().strip()]


def chunk_docs(ids: Ids, texts: Sequence[str], rule: ChunkRule) -> Chunks:
    """Return all documents cut by one rule; one without text has no chunk."""
    pieces = [chunk_text(text, rule) for text in texts]
    doc = np.repeat(np.arange(len(pieces)), [len(some) for some in pieces])
    names = [
        f"{id}#{number}"
        for id, some in zip(ids, pieces, strict=True)
        for number in range(1, len(some) + 1)
    ]
    chunk_ids = Ids.of(names, "chunk")
    checks.check_unique(chunk_ids, "chunk")
    return Chunks(chunk_ids, tuple(piece for some in pieces for piece in some), doc)
