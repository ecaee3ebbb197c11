"""Run: what a system retrieved, as ranx keeps it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, NoReturn, Self

from assay.compat.ranx.data_structures.lists import DocumentLists, get_file_kind
from assay.compat.ranx.data_structures.qrels import Qrels

__all__ = ["Run", "get_file_kind"]


class Run(DocumentLists):
    """Scores of documents, and the values that `evaluate` found."""

    def __init__(
        self, run: Mapping[str, Mapping[str, float]] | None = None, name: str | None = None
    ) -> None:
        super().__init__(run, name)
        self.metadata: dict[str, Any] = {}
        self.scores: dict[str, dict[str, Any]] = defaultdict(dict)
        self.mean_scores: dict[str, Any] = {}
        self.std_scores: dict[str, Any] = {}

    @property
    def run(self) -> dict[str, dict[str, float]]:
        """{query: {document: score}}."""
        return self._lists

    def make_comparable(self, qrels: Qrels) -> Run:
        """Give the run exactly the judged queries, empty where it lacks one."""
        self._lists = {query: self._lists.get(query, {}) for query in qrels.get_query_ids()}
        self.sort()
        return self

    def save(self, path: str = "run.json", kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        super().save(path, kind)

    def _trec_line(self, query: str, doc: str, rank: int, number: Any) -> str:
        return f"{query} Q0 {doc} {rank} {number} {self.name}"

    @classmethod
    def _from_lines(cls, lines: Iterator[str], name: str | None) -> Self:
        first = next(lines, "")
        tag = first.split()[-1] if first.strip() else None
        return super()._from_lines(chain([first] if first else [], lines), name or tag)

    @classmethod
    def from_ranxhub(cls, id: str) -> NoReturn:
        """Refuse: there is no such function here."""
        raise NotImplementedError(
            f"{id}: assay.compat.ranx fetches nothing from ranxhub. Download the run, then read "
            "it with Run.from_file."
        )
