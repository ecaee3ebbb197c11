"""Collections from every layout, with every id checked."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.core.judgments import Judgments
from assay.errors import (
    FormatError,
    IdError,
    InputError,
    MismatchError,
    StorageError,
    UsageError,
    ValueRangeError,
)
from assay.io.collections import Collection, load_collection, write_collection
from assay.io.texts import ChunkRule

DOCS = {"d1": "Wings lift.", "d2": "Engines push.", "d3": ""}
QUERIES = {"q1": "what lifts?", "q2": "what pushes?"}
QRELS = "q1 0 d1 2\nq2 0 d2 1\nq2 0 d1 0\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def json_lines(rows: dict[str, str]) -> str:
    return "".join(json.dumps({"_id": key, "text": text}) + "\n" for key, text in rows.items())


def table(rows: dict[str, str], delimiter: str, header: bool) -> str:
    lines = [delimiter.join(["id", "text"])] if header else []
    return "\n".join([*lines, *(delimiter.join(row) for row in rows.items())]) + "\n"


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    return (
        written(tmp_path, "docs.jsonl", json_lines(DOCS)),
        written(tmp_path, "queries.jsonl", json_lines(QUERIES)),
        written(tmp_path, "qrels.txt", QRELS),
    )


def test_json_lines(parts: tuple[Path, Path, Path]) -> None:
    found = load_collection(*parts, name="small")
    assert found.doc_ids.to_list() == list(DOCS)
    assert list(found.doc_texts) == list(DOCS.values())
    assert found.query_ids.to_list() == list(QUERIES)
    assert len(found.qrels.docs) == 3
    assert found.empty_docs.to_list() == ["d3"]
    assert found.name == "small"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", table(DOCS, ",", True)),
        ("a.csv", table(DOCS, ",", False)),
        ("a.tsv", table(DOCS, "\t", True)),
        ("a.tsv", table(DOCS, "\t", False)),
        ("a.json", json.dumps(DOCS)),
        ("a.json", json.dumps([{"id": key, "text": text} for key, text in DOCS.items()])),
    ],
    ids=["csv", "csv bare", "tsv", "tsv bare", "json object", "json records"],
)
def test_every_layout_is_the_same_collection(
    parts: tuple[Path, Path, Path], tmp_path: Path, name: str, text: str
) -> None:
    other = load_collection(written(tmp_path, name, text), *parts[1:])
    assert other.fingerprint == load_collection(*parts).fingerprint


def test_packed(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    packed = tmp_path / "more.jsonl.gz"
    packed.write_bytes(gzip.compress(parts[0].read_bytes()))
    assert load_collection(packed, *parts[1:]).fingerprint == load_collection(*parts).fingerprint


def test_fingerprint_ignores_order_and_sees_everything_else(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    first = load_collection(*parts).fingerprint
    turned = written(tmp_path, "t.jsonl", json_lines(dict(reversed(DOCS.items()))))
    judged = written(tmp_path, "t.qrels", "\n".join(reversed(QRELS.splitlines())) + "\n")
    assert load_collection(turned, parts[1], judged).fingerprint == first
    other = written(tmp_path, "o.jsonl", json_lines({**DOCS, "d2": "Engines pull."}))
    assert load_collection(other, *parts[1:]).fingerprint != first
    regraded = written(tmp_path, "g.qrels", QRELS.replace("d1 2", "d1 1"))
    assert load_collection(*parts[:2], regraded).fingerprint != first


def test_title_comes_first(tmp_path: Path, parts: tuple[Path, Path, Path]) -> None:
    row = {"_id": "d1", "title": "Flight", "text": "Wings lift."}
    corpus = written(tmp_path, "titled.jsonl", json.dumps(row) + "\n")
    qrels = written(tmp_path, "one.txt", "q1 0 d1 1\n")
    assert load_collection(corpus, parts[1], qrels).doc_texts == ("Flight Wings lift.",)


def test_folder_of_files(tmp_path: Path, parts: tuple[Path, Path, Path]) -> None:
    home = tmp_path / "notes"
    written(home, "d1.txt", "Wings lift.")
    written(home, "deep/first steps.md", "# Engines\n\nThey push.")
    written(home, "empty.md", "")
    written(home, "picture.png", "no text")
    written(home, ".hidden.md", "hidden")
    qrels = written(tmp_path, "f.txt", "q1 0 d1.txt 1\n")
    with pytest.warns(UserWarning, match=r"1 file of .*notes left out \(1 \.png\)"):
        found = load_collection(home, parts[1], qrels)
    assert found.doc_ids.to_list() == ["d1.txt", "deep/first%20steps.md", "empty.md"]
    assert found.empty_docs.to_list() == ["empty.md"]


def test_beir_layout_there_and_back(tmp_path: Path, parts: tuple[Path, Path, Path]) -> None:
    found = load_collection(*parts)
    write_collection(found, tmp_path / "out")
    head = (tmp_path / "out" / "qrels" / "test.tsv").read_text().splitlines()[0]
    assert head == "query-id\tcorpus-id\tscore"
    again = load_collection(tmp_path / "out")
    assert again.fingerprint == found.fingerprint
    assert again.name == "out"
    with pytest.raises(StorageError, match=r"split 'dev'.*Splits: test"):
        load_collection(tmp_path / "out", split="dev")


@pytest.mark.parametrize(
    "entries",
    [
        [["q1", ["d1"]], ["q2", ["d2", "d1"]]],
        [["what lifts?", ["d1"]], ["what pushes?", ["d2", "d1"]]],
        [{"query": "q1", "relevant": ["d1"]}, {"query": "q2", "relevant": ["d2", "d1"]}],
        [
            {"question": "what lifts?", "ids": ["d1"]},
            {"question": "what pushes?", "ids": ["d2", "d1"]},
        ],
    ],
    ids=["ids", "texts", "records", "records with texts"],
)
def test_lists_of_query_and_ids(
    parts: tuple[Path, Path, Path], tmp_path: Path, entries: list[object]
) -> None:
    qrels = written(tmp_path, "eval.json", json.dumps(entries))
    found = load_collection(*parts[:2], qrels)
    assert found.qrels.query_ids.to_list() == ["q1", "q2"]
    assert found.qrels.grades.tolist() == [1.0, 1.0, 1.0]
    lines = written(tmp_path, "eval.jsonl", "".join(json.dumps(one) + "\n" for one in entries))
    assert load_collection(*parts[:2], lines).fingerprint == found.fingerprint


def test_a_list_with_the_texts_of_queries_needs_no_queries(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    qrels = written(tmp_path, "eval.json", json.dumps([["what lifts?", ["d1"]]]))
    found = load_collection(parts[0], qrels=qrels)
    assert list(found.query_texts) == ["what lifts?"]


def test_numbers_are_ids_too(tmp_path: Path) -> None:
    corpus = written(tmp_path, "n.json", json.dumps(["zero", "one"]))
    qrels = written(tmp_path, "e.json", json.dumps([["which is one?", [1]]]))
    found = load_collection(corpus, qrels=qrels)
    assert found.doc_ids.to_list() == ["0", "1"]
    assert not len(found.absent_docs)


def test_chunks_as_documents(tmp_path: Path, parts: tuple[Path, Path, Path]) -> None:
    corpus = written(tmp_path, "c.jsonl", json_lines({"d1": "One. Two. Three."}))
    qrels = written(tmp_path, "c.txt", "q1 0 d1#2 1\n")
    found = load_collection(corpus, parts[1], qrels, chunks=ChunkRule("sentences", 1))
    assert found.doc_ids.to_list() == ["d1#1", "d1#2", "d1#3"]
    assert found.text_of("d1#2") == "Two."


def test_what_is_absent_is_named(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    qrels = written(tmp_path, "more.txt", QRELS + "q1 0 d9 1\nq7 0 d1 1\n")
    queries = written(tmp_path, "more.jsonl", json_lines({**QUERIES, "q3": "unjudged"}))
    found = load_collection(parts[0], queries, qrels)
    assert found.absent_docs.to_list() == ["d9"]
    assert found.absent_queries.to_list() == ["q7"]
    assert found.unjudged_queries.to_list() == ["q3"]


def test_strangers_are_refused_with_what_is_near(
    parts: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    qrels = written(tmp_path, "far.txt", "q1 0 D1 1\nq1 0 D2 1\n")
    with pytest.raises(MismatchError, match=r"None of the 2 judged documents.*upper and lower"):
        load_collection(*parts[:2], qrels)
    with pytest.raises(MismatchError, match="None of the 1 judged queries"):
        load_collection(*parts[:2], written(tmp_path, "far2.txt", "x 0 d1 1\n"))


@pytest.mark.parametrize(
    ("name", "text", "error", "words"),
    [
        ("a.jsonl", json_lines({"a": "x"}) * 2, IdError, "line 2.*'a' appears twice"),
        ("a.jsonl", '{"_id": 1, "text": "x"}\n{"_id": "1", "text": "y"}\n', IdError, "mix"),
        ("a.jsonl", '{"_id": "a b", "text": "x"}\n', IdError, "line 1"),
        ("a.jsonl", '{"_id": "a"}\n', FormatError, "which column holds the text"),
        ("a.jsonl", '{"_id": "a", "text": 3}\n', FormatError, "line 1.*'a' is int"),
        (
            "a.jsonl",
            '{"_id": "a", "text": "x"}\n{"_id": "b"}\n',
            ValueRangeError,
            "line 2.*'text' is missing",
        ),
        ("a.jsonl", '{"_id": "a", "text": "\\ud800"}\n', FormatError, "half a character"),
        ("a.jsonl", '{"_id": "a", "text": "x"\n', FormatError, "line 1.*not JSON"),
        ("a.jsonl", "[1]\n", FormatError, "expected an object"),
        ("a.jsonl", "\n\n", FormatError, "holds no doc"),
        ("a.csv", "id,text\na,x,y\n", FormatError, "line 2: expected 2 columns, found 3"),
        ("a.csv", "id,text\n", FormatError, "a header but no rows"),
        ("a.csv", "a,b,c\n", FormatError, "which column holds the text"),
        ("a.csv", 'id,text\na,"x\n', FormatError, "line 2"),
        ("a.json", "3", FormatError, "object or array"),
        ("a.txt", "x", UsageError, "folder of .txt"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else None,
)
def test_errors_name_the_place(
    parts: tuple[Path, Path, Path],
    tmp_path: Path,
    name: str,
    text: str,
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=f"(?s){words}"):
        load_collection(written(tmp_path, name, text), *parts[1:])


def test_missing_parts_are_named(parts: tuple[Path, Path, Path]) -> None:
    with pytest.raises(UsageError, match="needs judgments"):
        load_collection(*parts[:2])
    with pytest.raises(UsageError, match="needs queries"):
        load_collection(parts[0], qrels=parts[2])
    with pytest.raises(UsageError, match="not a folder in BEIR"):
        load_collection(parts[0])


def test_parts_of_different_length_are_refused() -> None:
    qrels = Judgments.from_targets(["a"], query_ids=["q"], doc_ids=["a"])
    with pytest.raises(MismatchError, match="doc_texts has 2"):
        Collection(["a"], ["x", "y"], ["q"], ["z"], qrels)


def test_quotes_in_tsv_are_text(tmp_path: Path, parts: tuple[Path, Path, Path]) -> None:
    queries = written(tmp_path, "q.tsv", 'q1\t"half open\nq2\tsay "hi"\n')
    found = load_collection(parts[0], queries, parts[2])
    assert list(found.query_texts) == ['"half open', 'say "hi"']


def table(path: Path, **columns: list[object]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    path.parent.mkdir(parents=True, exist_ok=True)
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path)
    return path


def of_hub(home: Path, judgments: str = "data/test-00000-of-00001.parquet") -> Path:
    """The collection of this file as data sets of the hub have it, documents in two parts."""
    ids, texts = list(DOCS), list(DOCS.values())
    for number, rows in enumerate((slice(0, 2), slice(2, 3))):
        columns = {"_id": ids[rows], "title": [""] * len(ids[rows]), "text": texts[rows]}
        table(home / f"corpus/corpus-0000{number}-of-00002.parquet", **columns)
    queries = {"_id": list(QUERIES), "text": list(QUERIES.values())}
    table(home / "queries/queries-00000-of-00001.parquet", **queries)
    pairs = {"query-id": ["q1", "q2", "q2"], "corpus-id": ["d1", "d2", "d1"], "score": [2, 1, 0]}
    table(home / judgments, **pairs)
    written(home, "README.md", "# A data set")
    return home


@pytest.mark.parametrize(
    "judgments",
    ["data/test-00000-of-00001.parquet", "qrels/test-00000-of-00001.parquet", "qrels/test.parquet"],
)
def test_a_folder_of_the_hub(tmp_path: Path, judgments: str) -> None:
    found = load_collection(of_hub(tmp_path / "mine", judgments))
    files = (
        written(tmp_path, "c.jsonl", json_lines(DOCS)),
        written(tmp_path, "q.jsonl", json_lines(QUERIES)),
    )
    plain = load_collection(*files, written(tmp_path, "qrels.txt", QRELS))
    assert found.fingerprint == plain.fingerprint
    assert found.name == "mine"


def test_judgments_of_the_hub_in_many_parts_are_refused(tmp_path: Path) -> None:
    home = of_hub(tmp_path, "data/test-00000-of-00002.parquet")
    of_hub(home, "data/test-00001-of-00002.parquet")
    with pytest.raises(UsageError, match="in 2 parquet files"):
        load_collection(home)
    with pytest.raises(StorageError, match="no judgments of the split 'dev'"):
        load_collection(home, split="dev")


def test_parquet_texts_with_titles_and_without_ids(tmp_path: Path) -> None:
    docs = table(tmp_path / "c.parquet", title=["Wings", None], text=["lift.", "Engines push."])
    queries = table(tmp_path / "q.parquet", qid=[7], question=["what lifts?"])
    found = load_collection(docs, queries, written(tmp_path, "qrels.txt", "7 0 0 1\n"))
    assert list(found.doc_texts) == ["Wings lift.", "Engines push."]
    assert (found.doc_ids.to_list(), found.query_ids.to_list()) == (["0", "1"], ["7"])


def test_parquet_texts_that_are_none_are_named(tmp_path: Path) -> None:
    queries = table(tmp_path / "q.parquet", qid=["a"], question=["x"])
    qrels = written(tmp_path, "qrels.txt", "a 0 d1 1\n")
    for columns, message in (
        ({"_id": ["d1"], "text": [None]}, "row 0: column 'text' is missing"),
        ({"_id": ["d1", "d1"], "text": ["a", "b"]}, "appears twice"),
        ({"_id": ["d1"], "words": ["a"]}, "cannot tell which column holds the text"),
    ):
        with pytest.raises(InputError, match=message):
            load_collection(table(tmp_path / "c.parquet", **columns), queries, qrels)


def test_a_folder_with_texts_and_a_parquet_file_is_one_of_texts(tmp_path: Path) -> None:
    written(tmp_path, "notes/a.md", "Wings lift.")
    table(tmp_path / "notes/scratch.parquet", x=[1])
    queries = written(tmp_path, "q.jsonl", json_lines(QUERIES))
    qrels = written(tmp_path, "r.txt", "q1 0 a.md 1\n")
    with pytest.warns(UserWarning, match=r"1 file of .*notes left out \(1 \.parquet\)"):
        found = load_collection(tmp_path / "notes", queries, qrels)
    assert found.doc_ids.to_list() == ["a.md"]


class FakeData:
    """A data set as ir_datasets has them."""

    def __init__(self, judged: bool = True) -> None:
        self.judged = judged

    def has_docs(self) -> bool:
        return True

    has_queries = has_docs

    def has_qrels(self) -> bool:
        return self.judged

    def docs_iter(self) -> list[SimpleNamespace]:
        first = SimpleNamespace(doc_id="d1", default_text=lambda: DOCS["d1"])
        return [first, *(SimpleNamespace(doc_id=id, text=DOCS[id]) for id in ("d2", "d3"))]

    def queries_iter(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(query_id=id, text=text) for id, text in QUERIES.items()]

    def qrels_iter(self) -> list[SimpleNamespace]:
        rows = [line.split() for line in QRELS.splitlines()]
        return [SimpleNamespace(query_id=q, doc_id=d, relevance=int(g)) for q, _, d, g in rows]


@pytest.fixture
def ir_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"beir/made/test": FakeData(), "beir/made": FakeData(judged=False)}
    module = SimpleNamespace(load=known.__getitem__)
    monkeypatch.setitem(sys.modules, "ir_datasets", module)


@pytest.mark.usefixtures("ir_datasets")
def test_a_collection_of_ir_datasets(tmp_path: Path) -> None:
    found = load_collection("ir:beir/made/test")
    docs = written(tmp_path, "c.jsonl", json_lines(DOCS))
    queries = written(tmp_path, "q.jsonl", json_lines(QUERIES))
    plain = load_collection(docs, queries, written(tmp_path, "qrels.txt", QRELS))
    assert found.fingerprint == plain.fingerprint
    assert found.name == "ir:beir/made/test"


@pytest.mark.usefixtures("ir_datasets")
def test_collections_that_ir_datasets_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no collection 'beir/other'"):
        load_collection("ir:beir/other")
    with pytest.raises(UsageError, match="has no judgments"):
        load_collection("ir:beir/made")
    with pytest.raises(UsageError, match="already has queries"):
        load_collection("ir:beir/made/test", written(tmp_path, "q.jsonl", json_lines(QUERIES)))


def test_the_package_ir_datasets_itself(tmp_path: Path) -> None:
    package = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.datasets.beir import BeirTitleDoc
    from ir_datasets.formats import BaseDocs, TrecQrels, TsvQueries
    from ir_datasets.util import LocalDownload

    class Docs(BaseDocs):  # type: ignore[misc]
        def docs_iter(self) -> Any:
            return (BeirTitleDoc(id, text, "") for id, text in DOCS.items())

    lines = "".join(f"{id}\t{text}\n" for id, text in QUERIES.items())
    queries = TsvQueries(LocalDownload(written(tmp_path, "q.tsv", lines)), lang="en")
    judged = TrecQrels(LocalDownload(written(tmp_path, "q.txt", QRELS)), {1: "relevant"})
    package.registry.register("assay-test", Dataset(Docs(), queries))
    package.registry.register("assay-test/test", Dataset(Docs(), queries, judged))
    plain = load_collection(
        written(tmp_path, "c.jsonl", json_lines(DOCS)),
        written(tmp_path, "q.jsonl", json_lines(QUERIES)),
        written(tmp_path, "qrels.txt", QRELS),
    )
    assert load_collection("ir:assay-test/test").fingerprint == plain.fingerprint
    with pytest.raises(UsageError, match="has no judgments"):
        load_collection("ir:assay-test")
    with pytest.raises(UsageError, match="has no collection 'assay-none'"):
        load_collection("ir:assay-none")
