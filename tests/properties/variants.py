"""The inputs of `tests/golden/inputs.py` written in other ways, each in a folder of its own.

Written without Assay wherever another package knows the format, so that a reader is not checked
against its own writer.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assay import read_run, write_run
from tests.zst import zst_compress

__all__ = ["MARK", "write_variants"]

RUNS: Final = ("dense", "lexical", "coarse")
MARK: Final = "zz-"  # in front of ids: other names in the same order
Row = tuple[str, str, float]


def write_variants(folder: Path) -> None:
    """Write all of them."""
    for name in RUNS:
        _write_triples(folder, name, _read(folder / f"{name}.run", (0, 2, 4)), "score")
        (folder / "npz").mkdir(exist_ok=True)
        in_order = read_run(folder / f"{name}.run", conventions="document_002")
        write_run(in_order, folder / "npz" / f"{name}.npz")
    _write_triples(folder, "qrels", _read(folder / "qrels.txt", (0, 2, 3)), "relevance")
    _pack(folder, [f"{name}.run" for name in RUNS] + ["qrels.txt"])
    _other_lines(folder)
    _other_scores(folder)
    _other_names(folder)
    _vectors(folder)
    _tasks(folder)
    _samples(folder)
    _predictions(folder)
    _texts(folder)
    _patches(folder)


# Runs and judgments


def _read(path: Path, columns: tuple[int, int, int]) -> list[Row]:
    lines = (line.split() for line in path.read_text().splitlines())
    query, doc, value = columns
    return [(cells[query], cells[doc], float(cells[value])) for cells in lines]


def _write_triples(folder: Path, name: str, rows: list[Row], value: str) -> None:
    """The rows as tables, dictionaries and columns."""
    head = ("query_id", "doc_id", value)
    for ending, mark in (("csv", ","), ("tsv", "\t")):
        lines = (mark.join((query, doc, repr(number))) for query, doc, number in rows)
        _write(folder / ending / f"{name}.{ending}", "\n".join([mark.join(head), *lines]) + "\n")
    dicts = [dict(zip(head, row, strict=True)) for row in rows]
    _write(folder / "jsonl" / f"{name}.jsonl", "".join(json.dumps(one) + "\n" for one in dicts))
    nested: dict[str, dict[str, float]] = {}
    for query, doc, number in rows:
        nested.setdefault(query, {})[doc] = number
    _write(folder / "json" / f"{name}.json", json.dumps(nested))
    columns = dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))
    _write_parquet(folder / "parquet" / f"{name}.parquet", columns)
    columns["query_id"] = [int(query) for query in columns["query_id"]]
    _write_parquet(folder / "integers" / f"{name}.parquet", columns)


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)


def _pack(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        content = (folder / name).read_bytes()
        _write(folder / "gz" / f"{name}.gz", gzip.compress(content, mtime=0))
        _write(folder / "zst" / f"{name}.zst", zst_compress(content))


def _other_lines(folder: Path) -> None:
    """The lines of files in another order, those with a head below it."""
    files = [*(f"{name}.run" for name in RUNS), "qrels.txt", "groups.tsv", "rank.qrels"]
    files += ["codes.qrels", "lists.tsv", "users.csv", "kinds.csv"]
    files += ["made/corpus.jsonl", "made/queries.jsonl", "made/qrels/test.tsv"]
    for number, name in enumerate(files):
        lines = (folder / name).read_text().splitlines(keepends=True)
        head = 1 if name.endswith((".tsv", ".csv")) else 0
        order = head + np.random.default_rng(number).permutation(len(lines) - head)
        _write(folder / "mixed" / name, "".join(lines[:head] + [lines[row] for row in order]))


def _other_scores(folder: Path) -> None:
    """Runs whose scores are eight times as high, which rounds nothing."""
    for name in RUNS:
        lines = [line.split() for line in (folder / f"{name}.run").read_text().splitlines()]
        again = [" ".join([*row[:4], repr(8 * float(row[4])), row[5]]) + "\n" for row in lines]
        _write(folder / "times8" / f"{name}.run", "".join(again))


ENDS = ("run", "txt", "tsv")


def _other_names(folder: Path) -> None:
    """Runs and judgments whose ids have other names."""
    queries = sorted({query for query, _, _ in _read(folder / "qrels.txt", (0, 2, 3))} | {"999"})
    docs = sorted({doc for name in RUNS for _, doc, _ in _read(folder / f"{name}.run", (0, 2, 4))})
    names = [*queries, *(doc for doc in docs if doc not in queries), "d99"]
    backwards = {name: f"u{len(names) - row:03}" for row, name in enumerate(names)}
    for kind, of in (("renamed", MARK.__add__), ("unordered", backwards.__getitem__)):
        for name in (*RUNS, "partial", "qrels", "groups"):
            path = next(filter(Path.is_file, (folder / f"{name}.{end}" for end in ENDS)))
            lines = path.read_text().splitlines()
            again = [_renamed_line(line, of, name) for line in lines]
            _write(folder / kind / path.name, "".join(f"{line}\n" for line in again))


def _renamed_line(line: str, of: Callable[[str], str], name: str) -> str:
    if name == "groups":
        query, rest = line.split("\t", 1)
        return line if query == "query" else f"{of(query)}\t{rest}"
    query, zero, doc, rest = line.split(" ", 3)
    return f"{of(query)} {zero} {of(doc)} {rest}"


# Vectors


def _vectors(folder: Path) -> None:
    """The vectors of a search: other types, layouts, orders, scales and shards."""
    for side in "qd":
        rows = np.load(folder / f"{side}.npy")
        ids = (folder / f"{side}.ids").read_text().split()
        order = np.random.default_rng(7).permutation(len(rows))
        made = {
            "wide": rows.astype(np.float64),
            "half": rows.astype(np.float16),
            "fortran": np.asfortranarray(rows),
            "big": rows.astype(">f4"),
            "mixed": rows[order],
            "times8": rows * np.float32(8),
            "times10": rows * np.float32(10),
        }
        for kind, array in made.items():
            _save(folder / kind / f"{side}.npy", array)
        _write(folder / "mixed" / f"{side}.ids", "".join(f"{ids[row]}\n" for row in order))
        _write(folder / "renamed" / f"{side}.ids", "".join(f"{MARK}{one}\n" for one in ids))
        np.savez(folder / "npz" / f"{side}.npz", embeddings=rows, ids=np.array(ids))
    _shards(folder)
    judged = (folder / "rank.qrels").read_text().split("\n")[:-1]
    ids = (folder / "d.ids").read_text().split()
    cells = [line.split() for line in judged]
    named = [f"{q} 0 {ids[int(doc)]} {grade}" for q, _, doc, grade in cells]
    _write(folder / "named.qrels", "".join(f"{line}\n" for line in named))
    _write(folder / "mixed" / "named.qrels", "".join(f"{line}\n" for line in named[::-1]))
    again = [f"{MARK}{line.replace(' 0 ', f' 0 {MARK}')}\n" for line in named]
    _write(folder / "renamed" / "named.qrels", "".join(again))


def _shards(folder: Path) -> None:
    """The documents with their ids in files of three formats, and of unequal sizes."""
    rows = np.load(folder / "d.npy")
    ids = np.array((folder / "d.ids").read_text().split())
    for number, part in enumerate(np.split(np.arange(len(rows)), [1, 20, 23])):
        some, names = rows[part], ids[part]
        np.savez(folder / f"p-{number}.npz", embeddings=some, ids=names)
        columns = {"id": names.tolist(), "embedding": some.tolist()}
        _write_parquet(folder / f"p-{number}.parquet", columns)
        _write(folder / f"p-{number}.safetensors", _safetensors(some))


def _safetensors(rows: Any) -> bytes:
    """One array, as the format's own description says."""
    entry = {"dtype": "F32", "shape": rows.shape, "data_offsets": [0, rows.nbytes]}
    head = json.dumps({"embeddings": entry}).encode()
    return len(head).to_bytes(8, "little") + head + rows.tobytes()


def _save(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def _samples(folder: Path) -> None:
    """Labelled samples of two modalities, and the documents and queries of codes."""
    labels = np.load(folder / "labels.npy")
    order = np.random.default_rng(8).permutation(len(labels))
    ids = np.array([f"s{row:02}" for row in range(len(labels))])
    for name in ("sensor", "text"):
        rows = np.load(folder / f"{name}.npy")
        np.savez(folder / "npz" / f"{name}.npz", embeddings=rows, sample_ids=ids)
        np.savez(folder / "mixed" / f"{name}.npz", embeddings=rows[order], sample_ids=ids[order])
        named = np.char.add(MARK, ids)
        np.savez(folder / "renamed" / f"{name}.npz", embeddings=rows, sample_ids=named)
        _save(folder / "wide" / f"{name}.npy", rows.astype(np.float64))
        _save(folder / "fortran" / f"{name}.npy", np.asfortranarray(rows))
        _save(folder / "times8" / f"{name}.npy", rows * np.float32(8))
    np.savez(folder / "npz" / "labels.npz", labels=labels, sample_ids=ids)
    np.savez(folder / "mixed" / "labels.npz", labels=labels[order], sample_ids=ids[order])
    np.savez(folder / "renamed" / "labels.npz", labels=labels, sample_ids=np.char.add(MARK, ids))
    _write(folder / "json" / "labels.json", json.dumps(labels.tolist()))
    _save(folder / "renamed" / "labels.npy", np.char.add(MARK, labels))
    for side in ("docs", "queries"):
        rows = np.load(folder / f"codes-{side}.npy")
        names = np.array((folder / f"codes-{side}.ids").read_text().split())
        order = np.random.default_rng(9).permutation(len(rows))
        _save(folder / "mixed" / f"codes-{side}.npy", rows[order])
        _write(folder / "mixed" / f"codes-{side}.ids", "".join(f"{i}\n" for i in names[order]))
        _write(folder / "renamed" / f"codes-{side}.ids", "".join(f"{MARK}{i}\n" for i in names))
        _save(folder / "fortran" / f"codes-{side}.npy", np.asfortranarray(rows))
        _save(folder / "times8" / f"codes-{side}.npy", rows * 8)
    judged = (folder / "codes.qrels").read_text().replace(" 0 d", f" 0 {MARK}d")
    _write(folder / "renamed" / "codes.qrels", re.sub("(?m)^", MARK, judged.rstrip()) + "\n")


# Values of systems on tasks


def _tasks(folder: Path) -> None:
    """A table with a row for each system, task and query; all, and one part for each task."""
    rng = np.random.default_rng(18)
    head = ("system", "task", "query", "value")
    rows = [
        (system, task, str(query), round(float(rng.random() + lead), 3))
        for task in ("facts", "finance", "news")
        for system, lead in (("new", 0.3), ("old", 0.0), ("other", 0.1))
        for query in range(1, 13)
    ]
    of_task = [[row for row in rows if row[1] == task] for task in ("facts", "finance", "news")]
    for number, some in enumerate(of_task):
        _write(folder / f"part-{number}.csv", _delimited([head, *some], ","))
    _write(folder / "values.csv", _delimited([head, *rows], ","))
    _write(folder / "tsv" / "values.tsv", _delimited([head, *rows], "\t"))
    turned = sorted(rows, key=lambda row: (row[0], row[3]))  # systems stay as they were named
    _write(folder / "mixed" / "values.csv", _delimited([head, *turned], ","))
    named = [(system, task, f"{MARK}{query}", value) for system, task, query, value in rows]
    _write(folder / "renamed" / "values.csv", _delimited([head, *named], ","))
    dicts = [dict(zip(head, row, strict=True)) for row in rows]
    _write(folder / "jsonl" / "values.jsonl", "".join(json.dumps(one) + "\n" for one in dicts))
    _write(folder / "json" / "values.json", json.dumps(dicts))
    columns: dict[str, Any] = dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))
    _write_parquet(folder / "parquet" / "values.parquet", columns)
    columns["query"] = [int(query) for query in columns["query"]]
    _write_parquet(folder / "integers" / "values.parquet", columns)
    _pack(folder, ["values.csv"])


def _delimited(rows: Iterable[Iterable[Any]], mark: str) -> str:
    return "".join(mark.join(map(str, row)) + "\n" for row in rows)


# Predictions


def _predictions(folder: Path) -> None:
    scores, targets = np.load(folder / "a.npy"), np.load(folder / "targets.npy")
    np.savez(folder / "npz" / "a.npz", logits=scores, targets=targets)
    _save(folder / "wide" / "a.npy", scores.astype(np.float64))
    _save(folder / "fortran" / "a.npy", np.asfortranarray(scores))
    _save(folder / "times8" / "a.npy", scores * np.float32(8))
    columns = {"scores": scores.tolist(), "target": targets.tolist()}
    _write_parquet(folder / "parquet" / "a.parquet", columns)
    _write_parquet(folder / "groups" / "a.parquet", columns, row_group_size=7)
    ids = np.array([f"s{row:02}" for row in range(len(targets))])
    order = np.random.default_rng(10).permutation(len(targets))
    for kind, rows, names in (
        ("named", slice(None), ids),
        ("mixed", order, ids[order]),
        ("renamed", slice(None), np.char.add(MARK, ids)),
    ):
        (folder / kind).mkdir(exist_ok=True)
        arrays = {"logits": scores[rows], "targets": targets[rows], "query_ids": names}
        np.savez(folder / kind / "a.npz", **arrays)
    _lists(folder)


def _lists(folder: Path) -> None:
    head, *lines = (folder / "lists.tsv").read_text().splitlines()
    names, rows = head.split("\t"), [line.split("\t") for line in lines]
    dicts = [dict(zip(names, row, strict=True)) for row in rows]
    _write(folder / "jsonl" / "lists.jsonl", "".join(json.dumps(one) + "\n" for one in dicts))
    _write(folder / "csv" / "lists.csv", "".join(",".join(row) + "\n" for row in [names, *rows]))
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    for name in ("one", "two"):
        columns[name] = [row.split() for row in columns[name]]
    _write_parquet(folder / "parquet" / "lists.parquet", columns)
    text = "".join(f"{MARK}{line}\n" for line in lines)
    _write(folder / "renamed" / "lists.tsv", f"{head}\n{text}")
    _write(folder / "gz" / "lists.tsv.gz", gzip.compress((folder / "lists.tsv").read_bytes()))


# Texts


def _texts(folder: Path) -> None:
    """The collection `made` with its three parts in other formats, and with other names."""
    docs, queries = (
        [json.loads(line) for line in (folder / "made" / name).read_text().splitlines()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    judged = (folder / "made" / "qrels" / "test.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in judged]
    for ending, mark in (("csv", ","), ("tsv", "\t")):
        for name, found in (("corpus", docs), ("queries", queries)):
            heads = list(found[0])
            lines = [heads, *([one[key] for key in heads] for one in found)]
            text = "".join(mark.join(line) + "\n" for line in lines)
            _write(folder / ending / f"{name}.{ending}", text)
        table = [["query-id", "corpus-id", "score"], *rows]
        _write(folder / ending / f"made.{ending}", "".join(mark.join(r) + "\n" for r in table))
    for name, found in (("corpus", docs), ("queries", queries)):
        text = "".join(json.dumps(one) + "\n" for one in found)
        _write(folder / "json" / f"{name}.json", json.dumps(found))
        _write(folder / "gz" / f"{name}.jsonl.gz", gzip.compress(text.encode()))
        _write(folder / "zst" / f"{name}.jsonl.zst", zst_compress(text.encode()))
        named = [{**one, "_id": f"{MARK}{one['_id']}"} for one in found]
        text = "".join(json.dumps(one) + "\n" for one in named)
        _write(folder / "renamed" / "made" / f"{name}.jsonl", text)
    _write(folder / "made.qrels", "".join(f"{q} 0 {d} {g}\n" for q, d, g in rows))
    lines = [f"{MARK}{query}\t{MARK}{doc}\t{grade}\n" for query, doc, grade in rows]
    head = "query-id\tcorpus-id\tscore\n"
    _write(folder / "renamed" / "made" / "qrels" / "test.tsv", head + "".join(lines))
    for side, found in (("docs", docs), ("queries", queries)):
        vectors = np.random.default_rng(len(side)).standard_normal((len(found), 6))
        for kind, factor in (("ready", 1), ("times8", 8)):
            _save(folder / kind / f"made-{side}.npy", factor * vectors.astype(np.float32))
    whole = [folder / f"texts-{number}.jsonl" for number in range(3)]
    lines = b"".join(path.read_bytes() for path in whole).splitlines(keepends=True)
    _write(folder / "whole" / "texts.jsonl", b"".join(lines))
    _write(folder / "mixed" / "texts.jsonl", b"".join(lines[::-1]))
    for number, path in enumerate(whole):
        _write(folder / f"packed-{number}.jsonl.gz", gzip.compress(path.read_bytes(), mtime=0))


# Pictures


WHOLE: Final = """
descriptors = ["ORB", "SIFT"]
[dataset]
path = "scenes"
[keypoints]
detector = "orb"
border = 20
strongest = 50
[evaluation]
tau = [3, 1]
resamples = 300
retrieval = true
verification = {scenes = 2}
image_retrieval = {keypoints = 30}
"""


def _patches(folder: Path) -> None:
    """Rows of numbers as arrays in place of CSV, and on another scale."""
    for path in (folder / "floats").glob("*/*.csv"):
        rows = np.loadtxt(path, delimiter=",")
        inside = Path("floats") / path.parent.name / f"{path.stem}.npy"
        _save(folder / "npy" / inside, rows)
        _save(folder / "times8" / inside, 8 * rows)
    _write(folder / "whole.toml", WHOLE)
