"""Files for the commands that the documentation prints: a pool, labels of people and of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from assay.io.formats import read_qrels
from assay.io.streams import atomic_write
from assay.judging.labels import Label, LabelSet, write_labels
from assay.judging.pool import LabelPool, make_pool

_JUDGE: Final = '''"""A judge of your own: a function from the prompt to a grade."""


def judge(prompt):
    query, _, document = prompt.partition("Document:")
    words = set(query.rpartition("Query:")[2].lower().split())
    return min(3, len(words & set(document.lower().split())))


def write(prompt):
    return "what is known about " + prompt.rpartition("Document:")[2].strip().lower()
'''


def write_files(folder: Path, rng: Any) -> None:
    """Write a pool of two runs, its labels by a person and a model, texts and a judge."""
    runs = {name: str(folder / f"{name}.run") for name in ("dense", "lexical")}
    pool = make_pool(runs, 150, measure="DCG@10", aim="means")
    pool.write(folder / "pool.tsv")
    grades = _read_grades(folder / "qrels.txt")
    drawn = [pool.names[place] for place in pool.order.tolist()]
    who: dict[str, Any] = {"by": "ada", "pool": pool.digest}
    people = [Label(query, doc, grades.get((query, doc), 0), **who) for query, doc in drawn]
    write_labels(LabelSet(tuple(people)), folder / "pool.labels.jsonl", format="log")
    shift = rng.integers(-1, 2, len(pool)).tolist()
    about: dict[str, Any] = {"by": "demo", "kind": "machine", "pool": pool.digest}
    models = [
        Label(*pair, min(3, max(0, grades.get(pair, 0) + step)), **about)
        for pair, step in zip(pool.names, shift, strict=True)
    ]
    write_labels(LabelSet(tuple(models)), folder / "machine.labels.jsonl", format="log")
    plain = LabelSet(tuple(people[:20]))
    write_labels(plain, folder / "judged.txt", format="trec")
    _write_texts(folder, pool)


def _read_grades(path: Path) -> dict[tuple[str, str], int]:
    qrels: Any = read_qrels(path)
    docs = qrels.doc_ids.to_list()
    return {
        (str(query), str(docs[qrels.docs[at]])): max(int(qrels.grades[at]), 0)
        for row, query in enumerate(qrels.query_ids)
        for at in range(qrels.offsets[row], qrels.offsets[row + 1])
    }


def _write_texts(folder: Path, pool: LabelPool) -> None:
    queries = [{"_id": str(id), "text": f"topic {str(id)[1:]}"} for id in pool.query_ids]
    docs = [{"_id": str(id), "text": f"A note on topic {str(id)[-2:]}."} for id in pool.doc_ids]
    for name, records in (("topics.jsonl", queries), ("notes.jsonl", docs)):
        with atomic_write(folder / name) as file:
            file.write("".join(f"{json.dumps(record)}\n" for record in records).encode())
    lines = [f"red fox {number % 7},{1 + number % 3}\n" for number in range(40)]
    with atomic_write(folder / "searches.csv") as file:
        file.write("".join(["query,count\n", *lines]).encode())
    with atomic_write(folder / "demo_judge.py") as file:
        file.write(_JUDGE.encode())
