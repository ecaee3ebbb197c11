"""Run files scored against judgments: the records of `assay eval`, `compare` and `report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.core.conventions import Conventions, as_conventions
from assay.core.hits import cover_by, judge
from assay.core.ids import Ids
from assay.core.on_demand import OnDemand
from assay.errors import MismatchError
from assay.io.fingerprints import fingerprints
from assay.io.formats import as_judgments, as_ranking, read_questions
from assay.io.streams import as_typed, split_array
from assay.io.streams import unique_names as unique_names  # noqa: PLC0414
from assay.measures import parse_many
from assay.runs.record import RunRecord
from assay.scoring.chance import ceiling, chance
from assay.scoring.evaluate import score

if TYPE_CHECKING:
    from assay.io.columns import read_groups
else:
    read_groups = OnDemand("assay.io.columns").read_groups


_DIGITS: Final = 16


def score_run_files(
    paths: Sequence[str],
    qrels: str,
    measures: Any = "default",
    *,
    names: Sequence[str] | None = None,
    conventions: str | Conventions = "trec_eval",
    n_docs: int | None = None,
    keep_hits: bool = False,
    checksums: bool = False,
    allow_mismatch: bool = False,
    queries: str | None = None,
) -> list[RunRecord]:
    """Read run files and score them against one file of judgments, as `assay.evaluate` does.

    With `n_docs`, the size of the collection, also chance and ceiling. `keep_hits` keeps where
    relevant documents landed, for the curves of a report, and `checksums` says in `provenance`
    which files were read. A file whose ids do not fit is refused unless `allow_mismatch`. `queries`
    is a file with the texts of the queries, where files name them so.
    """
    rules, questions = as_conventions(conventions), read_questions(queries)
    judgments = as_judgments(qrels, questions)
    parsed = parse_many(measures)
    truth = f"{qrels} {_checksum(qrels)}".strip() if checksums else ""
    records, judged, documents = [], [], []
    for path, name in zip(paths, names or unique_names(paths), strict=True):
        ranking = as_ranking(path, rules, questions)
        try:
            hits = judge(ranking, judgments, conventions=rules, allow_mismatch=allow_mismatch)
        except MismatchError as error:
            raise MismatchError(f"{path}: {error}") from None
        scores = score(hits, parsed, conventions=rules).but_settings(n_docs=n_docs)
        provenance = {"file": as_typed(path), "tag": ranking.name or ""}
        if checksums:
            provenance[f"SHA-256, first {_DIGITS} digits"] = _checksum(path)
            provenance["judgments"] = truth
        records.append(
            RunRecord(
                name,
                scores,
                task="retrieval",
                files=(path, qrels, *filter(None, [queries])),
                hits=hits if keep_hits else None,
                provenance=provenance,
            )
        )
        judged.append(hits)
        documents.append(ranking.doc_ids)
    if n_docs is None:
        return records
    sized: dict[str, Any] = {"conventions": rules, "n_docs": n_docs}
    every = _merge_names(documents)
    if every is not None:
        judged = [h if h.n_docs.any() else cover_by(h, judgments, every) for h in judged]
    return [
        record.replace(chance=chance(hits, parsed, **sized), ceiling=ceiling(hits, parsed, **sized))
        for record, hits in zip(records, judged, strict=True)
    ]


def _merge_names(parts: list[Ids]) -> Ids | None:
    """Return the documents that any of several runs names; None where some are only numbered."""
    if any(ids.numbered for ids in parts):
        return None
    names = parts[0]
    for ids in parts[1:]:
        names = Ids.concat([names, ids.take(np.flatnonzero(ids.match(names) < 0))])
    return names


def _checksum(path: str) -> str:
    """Return the first digits of SHA-256; empty for pipes, which are read once."""
    if not Path(split_array(path)[0]).is_file():
        return ""
    return str(fingerprints([path])[path]["sha256"])[:_DIGITS]


def group_records(
    records: Sequence[RunRecord], by: str, *, without: str | None = None
) -> tuple[list[RunRecord], str]:
    """Return records with the groups of a file (`FILE` or `FILE:COLUMN`), and the column.

    Queries that the file does not name are refused, or get the group `without`; a column that is
    there already keeps its name and groups.
    """
    queries = records[0].scored().query_ids
    column, groups = read_groups(by, queries)
    if without is not None:
        groups = dict.fromkeys(queries, without) | groups
    while column in records[0].scored().groups:
        column += " (2)"
    labels = {column: groups}
    return [run.replace(scores=run.scored().with_groups(**labels)) for run in records], column
