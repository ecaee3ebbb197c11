from assay.native.signatures import (
    Bytes,
    Codes,
    Floats,
    Longs,
    RowFault,
    TextFault,
)

class TrecParser:
    def __init__(self, kind: str) -> None: ...
    def feed(self, chunk: bytes, /) -> bool: ...
    def finish(self) -> bool: ...
    def take_columns(self) -> tuple[Bytes, Longs, Bytes, Longs, Codes, Codes, Floats]: ...
    @property
    def fault(self) -> TextFault | None: ...
    @property
    def tag(self) -> bytes: ...
    @property
    def rank_disagreements(self) -> int: ...
    @property
    def rank_unreadable(self) -> int: ...
    @property
    def overlong(self) -> int: ...

def sort_rows(
    queries: Codes,
    docs: Codes,
    scores: Floats,
    n_queries: int,
    doc_blob: Bytes,
    doc_offsets: Longs,
    ties: int,
    float32: bool,
) -> tuple[Longs, Codes, Floats, RowFault | None]: ...
def order_rows(offsets: Longs, scores: Floats, tiebreak: Longs | None) -> Longs: ...
def find_judged(
    offsets: Longs,
    docs: Codes,
    scores: Floats,
    judged_offsets: Longs,
    judged_docs: Codes,
    judged_grades: Floats,
    n_docs: int,
) -> tuple[Longs, Longs, Longs, Longs, Floats]: ...
def count_judged(
    offsets: Longs,
    docs: Codes,
    scores: Floats,
    judged_offsets: Longs,
    judged_docs: Codes,
    judged_grades: Floats,
    n_docs: int,
) -> tuple[Longs, Longs, Longs, Longs, Floats]: ...
def first_repeat(offsets: Longs, docs: Codes) -> int: ...
def flip_sums(
    values: Longs, key: int, first: int, resamples: int, threads: int = 0
) -> Longs: ...
def bootstrap_sums(
    values: Longs,
    columns: int,
    offsets: Longs,
    key: int,
    first: int,
    resamples: int,
    threads: int = 0,
) -> Longs: ...
def shuffled_ranges(
    values: Longs, systems: int, key: int, first: int, resamples: int, threads: int = 0
) -> Longs: ...
def first_duplicate(blob: Bytes, offsets: Longs) -> tuple[int, int] | None: ...
def match_ids(blob: Bytes, offsets: Longs, other_blob: Bytes, other_offsets: Longs) -> Longs: ...
def order_ids(blob: Bytes, offsets: Longs, descending: bool) -> Longs: ...
def take_ids(blob: Bytes, offsets: Longs, places: Longs) -> tuple[Bytes, Longs]: ...
