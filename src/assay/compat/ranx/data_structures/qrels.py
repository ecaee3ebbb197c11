"""Qrels: judgments, as ranx keeps them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from assay.compat.ranx.data_structures.lists import DocumentLists, get_file_kind
from assay.errors import need

__all__ = ["Qrels", "get_file_kind"]


class Qrels(DocumentLists):
    """Grades of documents, whole numbers."""

    NUMBER: ClassVar = int

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """{query: {document: grade}}."""
        return self._lists

    def set_relevance_level(self, rel_lvl: int = 1) -> None:
        """Lower all grades so that this one becomes 1."""
        for docs in self._lists.values():
            docs.update({doc: grade - (rel_lvl - 1) for doc, grade in docs.items()})

    def save(self, path: str = "qrels.json", kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        super().save(path, kind)

    def _trec_line(self, query: str, doc: str, rank: int, number: Any) -> str:
        return f"{query} 0 {doc} {number}"

    @classmethod
    def from_ir_datasets(cls, dataset_id: str) -> Self:
        """Return the judgments of a collection of the package ir_datasets."""
        package = need("ir_datasets", f"The collection {dataset_id!r}", "ir")
        return cls(package.load(dataset_id).qrels_dict(), dataset_id)
