"""{query: {document: number}}, kept by query id and descending number: what Qrels and Run share.

Documents with equal numbers stay in the order in which they came.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from assay.arrays import Floats
from assay.compat import pytrec_eval
from assay.errors import FormatError, need
from assay.io.lines import build_frame
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, read_lines, read_text
from assay.native.tie_order import rank_order

_KINDS = {"txt": "trec", "parq": "parquet"}


def get_file_kind(path: str, kind: str | None = None) -> str:
    """Return the kind of a file, by default by its ending."""
    ending = os.path.splitext(path)[1][1:]
    file_kind = kind or _KINDS.get(ending, ending)
    if file_kind not in ("json", "trec", "lz4", "gz", "parquet"):
        raise AssertionError(f"{path}: the kind must be json, trec, gz, parquet or lz4.")
    return file_kind


def sort_docs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Sort documents by descending number; equal ones stay as they came."""
    order = rank_order(np.array([number for _, number in items], np.float64))
    return dict(items[place] for place in order)


def _refuse_lz4(path: str) -> None:
    raise NotImplementedError(
        f"{path}: assay.compat.ranx neither reads nor writes lz4. Use .json, .trec or .parquet."
    )


class DocumentLists:
    """DocumentLists of documents with numbers, one for each query."""

    NUMBER: ClassVar[type[int] | type[float]] = float

    def __init__(
        self, lists: Mapping[str, Mapping[str, float]] | None = None, name: str | None = None
    ) -> None:
        self._lists: dict[str, dict[str, Any]] = {}
        self.name, self.sorted = name, False
        if lists is not None:
            self.add_multi(lists, *zip(*map(_split, lists.values()), strict=True))

    def keys(self) -> Any:
        """Return the ids of the queries."""
        return self._lists.keys()

    def add_score(self, q_id: str, doc_id: str, score: float) -> None:
        """Set the number of one document."""
        self._lists.setdefault(q_id, {})[doc_id] = self.NUMBER(score)
        self.sorted = False

    def add(self, q_id: str, doc_ids: Sequence[str], scores: Sequence[float]) -> None:
        """Set the documents of one query."""
        self.add_multi([q_id], [doc_ids], [scores])

    def add_multi(
        self,
        q_ids: Iterable[str],
        doc_ids: Iterable[Iterable[str]] = (),
        scores: Iterable[Iterable[float]] = (),
    ) -> None:
        """Set the documents of several queries."""
        for query, docs, numbers in zip(q_ids, doc_ids, scores, strict=True):
            self._lists[query] = dict(zip(docs, map(self.NUMBER, numbers), strict=True))
        self.sort()

    def sort(self) -> None:
        """Order queries by id, and the documents of each by descending number."""
        self._lists = {
            query: sort_docs(list(self._lists[query].items())) for query in sorted(self._lists)
        }
        self.sorted = True

    def in_order(self) -> dict[str, dict[str, Any]]:
        """Return the lists, sorted."""
        if not self.sorted:
            self.sort()
        return self._lists

    def get_query_ids(self) -> list[str]:
        """Return the ids of the queries."""
        return list(self._lists)

    def get_doc_ids_and_scores(self) -> list[dict[str, Any]]:
        """Return the documents and numbers of each query."""
        return list(self._lists.values())

    def to_typed_list(self) -> list[Floats]:
        """Return an array of (hash of id, number) for each query."""
        return [
            np.array([(hash(doc), number) for doc, number in docs.items()], float).reshape(-1, 2)
            for docs in self.in_order().values()
        ]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return a copy as plain dicts."""
        return {query: dict(docs) for query, docs in self._lists.items()}

    def to_dataframe(self) -> Any:
        """Return a pandas data frame with the columns q_id, doc_id and score."""
        rows = list(self._rows())
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        named = zip(("q_id", "doc_id", "score"), map(list, columns), strict=True)
        return build_frame(dict(named), "pandas")

    def _rows(self) -> Iterator[tuple[str, str, Any]]:
        for query, docs in self._lists.items():
            yield from ((query, doc, number) for doc, number in docs.items())

    def _trec_line(self, query: str, doc: str, rank: int, number: Any) -> str:
        raise NotImplementedError

    def save(self, path: str, kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        file_kind = get_file_kind(path, kind)
        lists = self.in_order()
        if file_kind == "parquet":
            self.to_dataframe().to_parquet(path, index=False)
            return
        if file_kind == "lz4":
            _refuse_lz4(path)
        if file_kind == "json":
            text = json.dumps(lists, indent=2, ensure_ascii=False)
        else:
            text = "".join(
                self._trec_line(query, doc, rank, number) + "\n"
                for query, docs in lists.items()
                for rank, (doc, number) in enumerate(docs.items(), 1)
            )
        with atomic_write(path) as file:
            file.write(gzip.compress(text.encode()) if file_kind == "gz" else text.encode())

    @classmethod
    def from_dict(cls, d: Mapping[str, Mapping[str, float]], name: str | None = None) -> Self:
        """Make lists of {query: {document: number}}."""
        return cls(d, name)

    @classmethod
    def from_file(cls, path: str, kind: str | None = None, name: str | None = None) -> Self:
        """Read a file of JSON or of TREC's layout, by its ending."""
        file_kind = get_file_kind(path, kind)
        if file_kind == "lz4":
            _refuse_lz4(path)
        if file_kind == "parquet":
            return cls.from_parquet(path, name=name)
        if file_kind == "json":
            return cls(parse_json(read_text(path), path), name)
        try:
            return cls._from_lines(read_lines(path), name)
        except FormatError as error:
            if str(path) in str(error):
                raise
            raise FormatError(f"{path}: {error}") from None

    @classmethod
    def _from_lines(cls, lines: Iterator[str], name: str | None) -> Self:
        parse = pytrec_eval.parse_qrel if cls.NUMBER is int else pytrec_eval.parse_run
        return cls(parse(lines), name)

    @classmethod
    def from_df(
        cls,
        df: Any,
        q_id_col: str = "q_id",
        doc_id_col: str = "doc_id",
        score_col: str = "score",
        name: str | None = None,
    ) -> Self:
        """Read a data frame whose columns of ids hold text."""
        lists: dict[str, dict[str, Any]] = {}
        columns = [df[column].to_list() for column in (q_id_col, doc_id_col, score_col)]
        for query, doc, number in zip(*columns, strict=True):
            if not isinstance(query, str) or not isinstance(doc, str):
                raise AssertionError(f"Ids must be text, found {query!r} and {doc!r}.")
            lists.setdefault(query, {})[doc] = number
        return cls(lists, name)

    @classmethod
    def from_parquet(
        cls,
        path: str,
        q_id_col: str = "q_id",
        doc_id_col: str = "doc_id",
        score_col: str = "score",
        pd_kwargs: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Read a Parquet file with pandas."""
        frame = need("pandas", "a run of Parquet", "pandas").read_parquet(path, **(pd_kwargs or {}))
        return cls.from_df(frame, q_id_col, doc_id_col, score_col, name)

    @property
    def size(self) -> int:
        """The number of queries."""
        return len(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    def __getitem__(self, q_id: str) -> dict[str, Any]:
        return dict(self._lists[q_id])

    def __repr__(self) -> str:
        return repr(self._lists)


def _split(docs: Mapping[str, float]) -> tuple[list[str], list[float]]:
    return list(docs), list(docs.values())
