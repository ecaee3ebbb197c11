"""Files for the commands that the documentation prints: a pool, labels of people and of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.io.streams import atomic_write
from assay.judging.labels import Label, LabelSet, read_labels, write_labels
from assay.judging.plugin import read_asset
from assay.judging.pool import make_pool


def write_files(folder: Path, rng: Any) -> None:
    """Write a pool of two runs, its labels by a person and a model, texts and a judge."""
    runs = {name: str(folder / f"{name}.run") for name in ("dense", "lexical")}
    pool = make_pool(runs, 150, measure="DCG@10", aim="means")
    pool.write(folder / "pool.tsv")
    judged = read_labels(folder / "qrels.txt").labels
    grades = {(label.query, label.doc): int(label.grade or 0) for label in judged}
    about: dict[str, Any] = {"pool": pool.digest}
    drawn = [pool.names[place] for place in pool.order.tolist()]
    people = [Label(q, d, grades.get((q, d), 0), "ada", **about) for q, d in drawn]
    shift = rng.integers(-1, 2, len(pool)).tolist()
    models = [
        Label(q, d, min(3, max(0, grades.get((q, d), 0) + step)), "demo", "machine", **about)
        for (q, d), step in zip(pool.names, shift, strict=True)
    ]
    labels = {"pool.labels.jsonl": people, "machine.labels.jsonl": models}
    for name, acts in labels.items():
        write_labels(LabelSet(tuple(acts)), folder / name, format="log")
    write_labels(LabelSet(tuple(people[:20])), folder / "judged.txt", format="trec")
    queries = [{"_id": str(id), "text": f"topic {str(id)[1:]}"} for id in pool.query_ids]
    docs = [{"_id": str(id), "text": f"A note on topic {str(id)[-2:]}."} for id in pool.doc_ids]
    lines = [f"red fox {number % 7},{1 + number % 3}\n" for number in range(40)]
    contents = {
        "topics.jsonl": "".join(f"{json.dumps(record)}\n" for record in queries),
        "notes.jsonl": "".join(f"{json.dumps(record)}\n" for record in docs),
        "searches.csv": "".join(["query,count\n", *lines]),
        "demo_judge.py": read_asset("demo_judge.txt"),
    }
    for name, text in contents.items():
        with atomic_write(folder / name) as file:
            file.write(text.encode())
