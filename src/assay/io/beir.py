"""BEIR's layout of a collection: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import StorageError, UsageError
from assay.io.atomic import atomic_write
from assay.order import rows_of

if TYPE_CHECKING:
    from assay.io.collections import Collection

__all__ = ["Layout", "find_layout", "write_collection"]

_PACKED = ("", ".gz", ".zst")


class Layout(NamedTuple):
    """Where the three parts of a collection are."""

    corpus: Path
    queries: Path
    qrels: Path


def find_layout(folder: str | os.PathLike[str], split: str) -> Layout:
    """The files of a collection in a folder; `split` names the judgments."""
    home = Path(folder)
    if not home.is_dir():
        raise UsageError(
            f"{home} is no folder in BEIR's layout. Give queries and judgments as well "
            "(on the command line --queries and --qrels)."
        )
    names = [f"qrels/{split}.tsv", f"qrels/{split}.trec", "qrels.tsv", "qrels.trec", "qrels.txt",
             "qrels.json"]  # fmt: skip
    return Layout(
        _first(home, ["corpus.jsonl"], "documents"),
        _first(home, ["queries.jsonl", "queries.tsv", "queries.csv"], "queries"),
        _first(home, names, f"judgments of the split {split!r}"),
    )


def _first(home: Path, names: list[str], what: str) -> Path:
    for name in names:
        for packed in _PACKED:
            if (home / f"{name}{packed}").is_file():
                return home / f"{name}{packed}"
    known = sorted(path.stem for path in (home / "qrels").glob("*.tsv"))
    hint = f" Splits that are there: {', '.join(known)}." if known and "split" in what else ""
    raise StorageError(f"{home} holds no {what}: looked for {', '.join(names)}.{hint}")


def write_collection(
    collection: Collection, folder: str | os.PathLike[str], *, split: str = "test"
) -> Layout:
    """Write a collection in BEIR's layout; each file whole or not at all."""
    home = Path(folder)
    try:
        (home / "qrels").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{home} cannot be made: {error.strerror or error}.") from error
    layout = Layout(home / "corpus.jsonl", home / "queries.jsonl", home / "qrels" / f"{split}.tsv")
    documents = zip(collection.doc_ids, collection.doc_texts, strict=True)
    _write(layout.corpus, (_record(id, title="", text=text) for id, text in documents))
    queries = zip(collection.query_ids, collection.query_texts, strict=True)
    _write(layout.queries, (_record(id, text=text) for id, text in queries))
    _write(layout.qrels, _judgments(collection))
    return layout


def _record(id: str | int, **fields: str) -> str:
    return json.dumps({"_id": str(id), **fields}, ensure_ascii=False)


def _judgments(collection: Collection) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    qrels = collection.qrels
    queries, docs = qrels.query_ids.to_list(), qrels.doc_ids.to_list()
    rows = rows_of(qrels.offsets).tolist()
    for row, doc, grade in zip(rows, qrels.docs.tolist(), qrels.grades.tolist(), strict=True):
        yield f"{queries[row]}\t{docs[doc]}\t{int(grade) if grade.is_integer() else grade!r}"


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_write(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
