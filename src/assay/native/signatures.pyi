"""Signatures that the compiled kernels and their numpy twins share.

Ids travel as one blob of UTF-8 bytes (uint8) and n + 1 offsets (int64). Ragged rows travel as
n + 1 offsets (int64) and flat arrays. Arguments are trusted to have the stated types; sizes and
codes are checked, with ValueError, because a wrong one must never reach memory.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy.typing as npt

from assay.arrays import Array, Bytes, Floats, Floats32, Ints, Ints32, Words32

TextFault = tuple[int, str, bytes, int]  # line from 1, kind, offending text, columns found (or 0)
Numbered = tuple[Bytes, Ints, Ints, Ints32, Floats]  # doc blob, offsets, row offsets, docs, values
Hits = tuple[Ints, Ints, Ints, Ints, Floats]  # offsets, rank, rank_lo, rank_hi, grade
# Judgments, hits, their scores, judged docs that are in the run, only those are, constant scores.
JoinedRows = tuple[Numbered, Hits, Floats, Bytes, bool, bool]
RowFault = tuple[str, int, int]  # "duplicate" or "float32", query code, doc code

class Parser(Protocol):
    """A reader of TREC text in chunks; the result does not depend on the cuts."""

    def feed(self, chunk: bytes | tuple[int, int, int], /) -> bool:
        """Read on, in bytes or in a file from start to stop; return False after the first fault.

        A file takes its descriptor, and parts of it follow one another without bytes between them.
        """

    def finish(self) -> bool:
        """Read the last line if it has no line end; return False after a fault."""

    def take_columns(self) -> tuple[Bytes, Ints, Bytes, Ints, Ints32, Ints32, Floats]:
        """Hand over (query blob, offsets, doc blob, offsets, queries, docs, values), once."""

    @property
    def fault(self) -> TextFault | None:
        """The first fault of the file."""

    @property
    def tag(self) -> bytes:
        """The tag of the last line."""

    @property
    def rank_disagreements(self) -> int:
        """How many adjacent lines of a query have rank and score in contradiction."""

    @property
    def rank_unreadable(self) -> int:
        """How many lines have a rank that is no number."""

    @property
    def overlong(self) -> int:
        """How many lines of a run have text after the tag, which is passed over."""

class QueryHandle(Protocol):
    """Queries as the search kernels see them."""

class DocHandle(Protocol):
    """Documents as the search kernels see them."""

class RawQueryHandle(QueryHandle, Protocol):
    """Queries of usual sizes, measured and prepared by the kernels."""

    def needs_rescaling(self) -> bool:
        """Tell whether some are zero, not finite or of other sizes, which makes all useless."""

    def sizes(self) -> tuple[int, int]:
        """Return the exponents of the smallest and the largest norm."""

class RawHandle(DocHandle, Protocol):
    """Documents as they are stored, which a scan measures."""

    def needs_rescaling(self) -> bool:
        """Tell whether a scan met a row that must be measured before."""

class CoarseHandle(Protocol):
    """Documents with their 8-bit rows, as the search kernels see them."""

class BlockScan(Protocol):
    """A search of documents start … stop − 1 of a block."""

    def __call__(
        self,
        metric: int,
        queries: QueryHandle,
        docs: DocHandle | CoarseHandle,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        start: int,
        stop: int,
        stop_flag: Ints32,
        done: Ints,
        /,
    ) -> None:
        """Take over the best of them."""

class TargetCounter(Protocol):
    """A count of documents start … stop − 1 of a block against each query's target."""

    def __call__(
        self,
        metric: int,
        queries: QueryHandle,
        docs: DocHandle | CoarseHandle,
        targets: Ints,
        target_scores: Floats,
        start: int,
        stop: int,
        above: Ints,
        tied: Ints,
        before: Ints,
        stop_flag: Ints32,
        done: Ints,
        /,
    ) -> None:
        """Add to the counts; a target of −1 is none."""

class JudgedSearch(Protocol):
    """A search for the judged docs of queries in their rows."""

    def __call__(
        self,
        offsets: Ints,
        docs: Ints32,
        scores: Floats,
        rows: Ints,
        judged_offsets: Ints,
        judged_docs: Ints32,
        judged_grades: Floats,
        n_docs: int,
        /,
    ) -> Hits:
        """Return the hits; `rows` has each judged query's row, the one after the last is empty."""

class BestK(Protocol):
    """The best documents of each query of a block, kept over many blocks of documents."""

    scan: BlockScan  # by the fused product
    scan_coarse: BlockScan  # by products of 8-bit numbers first: the same result

    def decide(
        self,
        metric: int,
        queries: QueryHandle,
        docs: DocHandle,
        offsets: Ints,
        candidates: Words32,
        /,
    ) -> None:
        """Take over candidates, numbers within the block, by their canonical scores."""

    def seed(self, least: Floats, /) -> None:
        """Ignore documents that score below a query's number, if that is finite."""

    def absorb(self, other: BestK, /) -> None:
        """Take over what was found in other documents."""

    def floors(self, queries: QueryHandle, docs: DocHandle, /) -> Floats32:
        """Return for each query a product score below which no document matters."""

    def result(self, most: int, /) -> tuple[Ints, Ints32, Floats, Bytes]:
        """Return offsets, documents and scores in rank order, and where the cut splits a tie."""

class SparseHandle(Protocol):
    """Inverted lists of sparse documents."""

    def search(
        self,
        offsets: Ints,
        terms: Ints32,
        weights: Floats,
        k: int,
        keep_ties: bool,
        floors: Floats,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        stop: Ints32,
        done: Ints,
    ) -> tuple[Ints, Ints32, Floats, Bytes]:
        """Return counts, documents, scores, and whether the cut divides a tie."""

    def count_targets(
        self,
        offsets: Ints,
        terms: Ints32,
        weights: Floats,
        targets: Ints,
        scores: Floats,
        above: Ints,
        tied: Ints,
        before: Ints,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        stop: Ints32,
        done: Ints,
    ) -> None:
        """Add to the counts the documents above each target, tied, and tied with a lower number."""

    def score(self, offsets: Ints, terms: Ints32, weights: Floats, docs: Ints) -> Floats:
        """Return the score of one document for each query; 0 where its number is −1."""

class Kernels(Protocol):
    """A module of kernels."""

    def TrecParser(self, kind: str, expected: int = 0) -> Parser:  # noqa: N802 - it is a class there
        """Start to parse a "run" or "qrels" file of about `expected` bytes, if that is known."""

    def SparseIndex32(  # noqa: N802
        self, offsets: Ints, terms: Ints32, weights: Floats32, n_terms: int
    ) -> SparseHandle:
        """Make inverted lists of documents with float32 weights."""

    def SparseIndex64(  # noqa: N802
        self, offsets: Ints, terms: Ints32, weights: Floats, n_terms: int
    ) -> SparseHandle:
        """Make inverted lists of documents with float64 weights."""

    def find_tokens(
        self,
        queries: Floats32,
        query_offsets: Ints,
        signs: Floats32,
        codes: Bytes,
        step: Floats32,
        offsets: Ints,
        start: int,
        stop: int,
        scores: Floats32,
        by_norm: Floats,
        by_residual: Floats,
        stop_flag: Ints32,
        done: Ints,
        /,
    ) -> None:
        """Add MaxSim by 8-bit tokens to scores, queries × documents start … stop − 1.

        A score is off by at most by_norm · (largest norm of the document's tokens) + by_residual ·
        (largest residual), both as `coarsen` gives them without an axis.
        """

    def score_tokens(
        self,
        queries: Floats32,
        query_offsets: Ints,
        docs: Floats32,
        doc_offsets: Ints,
        pairs: Ints,
        candidates: Ints,
        scores: Floats,
        stop_flag: Ints32,
        /,
    ) -> None:
        """Score candidates[pairs[q]] … with query q by MaxSim, canonically."""

    def sort_rows(
        self,
        queries: Ints32,
        docs: Ints32,
        scores: Floats,
        n_queries: int,
        doc_blob: Bytes,
        doc_offsets: Ints,
        ties: int,
        float32: bool,
    ) -> tuple[Ints, Ints32, Floats, RowFault | None]:
        """Group lines by query and sort each row by score descending, then by doc id.

        `ties` is 1 for ids ascending, -1 for descending, 0 for the order of appearance.
        Arrays that are in order may be returned themselves; with a fault they mean nothing. Of
        several faults the first row's is reported, and a duplicate before a score beyond float32.
        """

    def order_rows(self, offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
        """Return the permutation that sorts each row by score descending, tiebreak ascending."""

    find_judged: JudgedSearch  # in sorted rows
    count_judged: JudgedSearch  # in rows of any order; equal scores are ordered by doc code

    def count_grades(self, offsets: Ints, grades: Floats) -> tuple[Ints, Floats, Ints]:
        """Count each row's judgments by grade, highest first: (offsets, grade, count)."""

    def first_repeat(self, offsets: Ints, docs: Ints32) -> int:
        """Find the first place at which a doc stands in its row a second time, or -1."""

    def number_rows(
        self, rows: list[Any], number_types: tuple[type, ...], truths: bool
    ) -> Numbered | None:
        """Give the keys of {doc: value} dictionaries numbers by first appearance.

        Returns doc blob and offsets, row offsets, doc numbers and values; None unless all rows
        are plain dictionaries with clean text ids and finite numbers: float, int below 2^53,
        one of `number_types` below 2^53, and bool where `truths`.
        """

    def join_rows(
        self,
        rows: list[Any],
        judged: list[Any],
        judged_row: Ints,
        number_types: tuple[type, ...],
        ties: int,
        float32: bool,
    ) -> JoinedRows | None:
        """Find the docs of {doc: grade} dictionaries in {doc: score} dictionaries.

        `judged_row` is the place in `judged` that belongs to each of `rows`, or -1; `ties` and
        `float32` are those of `sort_rows`. Returns None as `number_rows` does, and where a score
        is beyond float32.
        """

    def join_tuples(
        self,
        rows: list[Any],
        judged: list[Any],
        width: int,
        number_types: tuple[type, ...],
        ties: int,
        float32: bool,
    ) -> tuple[tuple[Bytes, Ints], tuple[Bytes, Ints], Ints, JoinedRows] | None:
        """Find the docs of (query, doc, grade) tuples in (query, doc, score) tuples.

        `width` is that of the judgments, 2 if they have no grades. Returns the ids of both sides'
        queries, how many tuples each query has, and what `join_rows` does; None as there, and
        unless the tuples of each query stand together and no document is there twice.
        """

    def number_texts(self, texts: list[Any]) -> tuple[Bytes, Ints, Ints32] | None:
        """Give texts numbers by first appearance: blob, offsets, numbers; None if unclean."""

    def number_tuples(
        self, rows: list[Any], width: int, number_types: tuple[type, ...], truths: bool
    ) -> tuple[Bytes, Ints, Bytes, Ints, Ints32, Ints32, Floats] | None:
        """Give (query, doc, value) tuples numbers; (query, doc) pairs have the value 1.

        Returns what a parser's `take_columns` does; None as in `number_rows`.
        """

    def first_duplicate(self, blob: Bytes, offsets: Ints) -> tuple[int, int] | None:
        """Find the first id that appears a second time: both places."""

    def number_ids(self, blob: Bytes, offsets: Ints) -> tuple[Bytes, Ints, Ints32] | None:
        """Give ids numbers by first appearance, as `number_texts` does."""

    def match_ids(self, blob: Bytes, offsets: Ints, other_blob: Bytes, other_offsets: Ints) -> Ints:
        """Find each id's first place among the others, or -1."""

    def order_ids(self, blob: Bytes, offsets: Ints, descending: bool) -> Ints:
        """Return the permutation that sorts ids by bytes; equal ids keep their order."""

    def take_ids(self, blob: Bytes, offsets: Ints, places: Ints) -> tuple[Bytes, Ints]:
        """Copy the ids at some places."""

    def flip_sums(
        self, values: Ints, key: int, first: int, resamples: int, threads: int = 0
    ) -> Ints:
        """Sum the values with random signs, for resamples first … first + resamples − 1.

        Resample r reads ⌈n / 64⌉ words of the stream `key` from its own place on; a set bit is a
        minus. `threads` = 0 lets the kernel choose; it never changes a result.
        """

    def bootstrap_sums(
        self,
        values: Ints,
        columns: int,
        offsets: Ints,
        key: int,
        first: int,
        resamples: int,
        threads: int = 0,
    ) -> Ints:
        """Sum units × columns over units drawn with replacement: resamples × columns, flat.

        Stratum h holds the units offsets[h] … offsets[h + 1] and gets as many draws. Draw d takes
        half a word, the low half first, and the unit ⌊half · size / 2^32⌋ of its stratum.
        """

    def shuffled_ranges(
        self, values: Ints, systems: int, key: int, first: int, resamples: int, threads: int = 0
    ) -> Ints:
        """Shuffle each row of queries × systems; return largest less smallest sum of a system."""

    def count_pairs(self, offsets: Ints, a: Ints, b: Ints) -> tuple[Ints, Ints]:
        """Count each row's pairs of elements that tie in a and in b, and those in opposite order.

        The elements of a row have ranks from 1 to the length of the row; tied ones have the same.
        """

    def widen(self, rows: Array, stored: int, wide: Floats32, threads: int, /) -> None:
        """Widen elements of a narrower type, given by their bits, row after row."""

    def watch_map(self, address: int, n_bytes: int, lost: Ints32, /) -> int:
        """Let reads of a file's map survive lost pages: zeros, and `lost` becomes 1.

        The number is for `unwatch_map`; −1 where such reads would end the process.
        """

    def unwatch_map(self, number: int, /) -> None:
        """End the watch of a file's map."""

    def fused_rows(self) -> int:
        """Return how many queries the fused product takes at a time; 0 where there is none."""

    def QueryBlock(  # noqa: N802 - it is a class there
        self,
        exact: Array,
        exponents: Ints32,
        norm_hi: Floats,
        norm_lo: Floats,
        rows: Floats32,
        weight: Floats,
        shift: Floats,
        /,
    ) -> QueryHandle:
        """Hold queries; a canonical score s is unit · weight · (s + shift) as a product score."""

    def DocBlock(  # noqa: N802 - it is a class there
        self,
        exact: Array,
        exponents: Ints32,
        norm_hi: Floats,
        norm_lo: Floats,
        rows: Floats32,
        scale: Floats32,
        bias: Floats32,
        bound: Floats32,
        unit: float,
        first: int,
        /,
    ) -> DocHandle:
        """Hold documents; bias + scale · (query · row) is off by at most bound."""

    def RawQueries(self, rows: Floats32, metric: int, /) -> RawQueryHandle:  # noqa: N802
        """Measure queries and prepare them for the product."""

    def RawBlock(  # noqa: N802
        self,
        rows: Array,
        stored: int,
        metric: int,
        factor: float,
        rounding: float,
        bias_unit: float,
        first: int,
        /,
    ) -> RawHandle:
        """Hold raw documents; bound: factor · (norm + |bias|) + rounding, bias: −unit · norm²."""

    def coarse_rows(self) -> int:
        """Return how many queries the 8-bit product takes at a time; 0 where there is none."""

    def coarsen(
        self, rows: Floats32, axis: Floats32, signs: Floats32, threads: int, /
    ) -> tuple[Bytes, Floats32, Floats32, Floats32, Floats32]:
        """Round rows to 8 bits: codes in panels of 32, steps, residuals, norms, leans.

        What lies along `axis`, of length 1 or 0, is taken off: lean · axis. The rest is rotated, of
        which `signs`, ±1 for each column, are a part, and rounded. No residual and no norm of the
        rest is less than the true one.
        """

    def coarsen_raw(
        self, docs: RawHandle, axis: Floats32, signs: Floats32, threads: int, /
    ) -> tuple[Bytes, Floats32, Floats32, Floats32, Floats32]:
        """Round documents as they are stored, and measure them on the way."""

    def coarsen_wide(self, rows: Floats32, /) -> tuple[Bytes, Floats32, Floats32, Floats32]:
        """Round rows to 16 bits, not rotated: codes in panels, steps, residuals, norms.

        Searches make these for themselves, some documents at a time.
        """

    def CoarseBlock(  # noqa: N802 - it is a class there
        self,
        docs: DocHandle,
        codes: Bytes,
        step: Floats32,
        residual: Floats32,
        norm: Floats32,
        lean: Floats32,
        axis: Floats32,
        signs: Floats32,
        /,
    ) -> CoarseHandle:
        """Hold documents with the result of `coarsen`."""

    def TopK(self, n_queries: int, k: int, keep_ties: bool, /) -> BestK:  # noqa: N802
        """Start with no document for any query."""

    def square_norms(
        self, rows: Array, exponents: Ints32, threads: int, /
    ) -> tuple[Floats, Floats]:
        """Return x·x of every row times 2^-exponent, as pairs (hi, lo)."""

    def pair_scores(
        self,
        metric: int,
        queries: QueryHandle,
        docs: DocHandle,
        offsets: Ints,
        candidates: Words32,
        /,
    ) -> Floats:
        """Score query q with candidates[offsets[q]] … of the block, canonically."""

    count_targets: TargetCounter  # by the fused product
    count_coarse_targets: TargetCounter  # by products of 8-bit numbers first: the same counts

    def decide_targets(
        self,
        metric: int,
        queries: QueryHandle,
        docs: DocHandle,
        targets: Ints,
        target_scores: Floats,
        offsets: Ints,
        candidates: Words32,
        above: Ints,
        tied: Ints,
        before: Ints,
        weight: int,
        /,
    ) -> None:
        """Add `weight` for each candidate on its side of the target."""

    def find_nearest_codes(
        self,
        queries: Bytes,
        docs: Bytes,
        bits: int,
        k: int,
        keep_ties: bool,
        first_doc: int,
        excluded_offsets: Ints,
        excluded_docs: Ints,
        stop: Ints32,
        done: Ints,
    ) -> tuple[Ints, Ints32, Ints32, Bytes]:
        """Find the k nearest documents by Hamming distance: (counts, docs, distances, tie_split).

        Queries and docs are packed rows of ⌈bits / 8⌉ bytes whose padding is zero. Documents are
        numbered from `first_doc` on; those of excluded_docs[excluded_offsets[q] …], which ascend,
        are not found by query q. Rows are by distance, then by number. `keep_ties` keeps all
        documents at the k-th distance; otherwise `tie_split` is 1 where more of them exist than
        were kept. The search ends early, with rows that mean nothing, when stop[0] is not 0, and
        adds the pairs it has compared to done[0].
        """

    def count_code_distances(
        self, queries: Bytes, docs: Bytes, bits: int, counts: Ints, stop: Ints32, done: Ints
    ) -> None:
        """Add to counts[q, d] the documents at Hamming distance d of query q."""

    def count_score_ranks(
        self,
        scores: npt.NDArray[Any],
        targets: Ints,
        above: Ints,
        tied: Ints,
        before: Ints,
        best: Ints | None,
    ) -> tuple[int, int]:
        """Count where the target of each row of float32 or float64 scores stands.

        Fills for each row how many columns score above the target, how many others tie with it and
        how many of these stand before it (all -1 where the target is -1), and in `best`, if given,
        the first column with the highest score. Returns row and column of the first cell that is no
        score, or -1, -1: NaN and +Inf anywhere, -Inf only at the target. With one the counts mean
        nothing.
        """
