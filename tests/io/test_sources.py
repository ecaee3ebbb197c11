"""The same run and the same judgments from every kind of source."""

from __future__ import annotations

import gzip
import json
from collections import namedtuple

import numpy as np
import pandas
import pytest

import assay
from assay.core.conventions import preset
from assay.errors import FormatError, InputError, MismatchError, UsageError, ValueRangeError
from assay.io.formats import as_judgments, as_ranking, read_qrels, read_run
from assay.io.streams import find_format
from assay.io.writers import write_run
from tests.zst import zst_compress

RULES = preset("trec_eval")
RUN = {"q2": {"b": 0.5, "a": 0.5, "c": 2.0}, "q1": {"a": -1.25, "é": 1e-300}}
QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2, "a": -1}}
TRIPLES = [(q, d, s) for q, row in RUN.items() for d, s in row.items()]


def rows(ranking):
    return {query: ranking.row(query) for query in ranking.query_ids}


def grades(qrels):
    ends = qrels.offsets
    return {
        query: {
            qrels.doc_ids[int(d)]: g
            for d, g in zip(qrels.docs[a:b], qrels.grades[a:b].tolist(), strict=True)
        }
        for query, a, b in zip(qrels.query_ids, ends[:-1], ends[1:], strict=True)
    }


EXPECTED = rows(as_ranking(RUN, RULES))


def test_ties_of_a_dict_are_broken_by_the_conventions():
    assert EXPECTED["q2"] == [("c", 2.0), ("b", 0.5), ("a", 0.5)]
    ascending = as_ranking(RUN, preset("sentence_transformers"))
    assert [doc for doc, _ in ascending.row("q2")] == ["c", "a", "b"]
    by_index = as_ranking({"q": {"b": 1.0, "c": 1.0, "a": 1.0}}, preset("ranx"))
    assert [doc for doc, _ in by_index.row("q")] == ["b", "c", "a"]


@pytest.mark.parametrize(
    "source",
    [
        TRIPLES,
        tuple(TRIPLES),
        iter(TRIPLES),
        [list(t) for t in TRIPLES],
        [namedtuple("ScoredDoc", "query_id doc_id score")(*t) for t in TRIPLES],
        [{"qid": q, "docno": d, "score": s, "query": "some text"} for q, d, s in TRIPLES],
        as_ranking(RUN, RULES),
    ],
    ids=["list", "tuple", "iterator", "lists", "namedtuples", "dicts", "Ranking"],
)
def test_runs_from_plain_data(source):
    assert rows(as_ranking(source, RULES)) == EXPECTED


def test_a_list_of_docs_is_a_ranking_without_ties():
    ranking = as_ranking({"q": ["z", "a", "m"], "r": np.array(["x"])}, RULES)
    assert rows(ranking) == {"q": [("z", 0.0), ("a", -1.0), ("m", -2.0)], "r": [("x", 0.0)]}


def test_judgments_from_plain_data():
    expected = {q: {d: float(g) for d, g in row.items()} for q, row in QRELS.items()}
    assert grades(as_judgments(QRELS)) == expected
    triples = [(q, d, g) for q, row in QRELS.items() for d, g in row.items()]
    assert grades(as_judgments(triples)) == expected
    four = namedtuple("Qrel", "query_id doc_id relevance iteration")
    assert grades(as_judgments([four(*t, "0") for t in triples])) == expected


@pytest.mark.parametrize(
    "source", [{"q": ["a", "b"]}, {"q": {"a", "b"}}, {"q": ("a", "b")}, [("q", "a"), ("q", "b")]]
)
def test_bare_docs_in_qrels_have_grade_1(source):
    assert grades(as_judgments(source)) == {"q": {"a": 1.0, "b": 1.0}}


def test_booleans_are_grades_but_not_scores():
    assert grades(as_judgments({"q": {"a": True, "b": False}})) == {"q": {"a": 1.0, "b": 0.0}}
    with pytest.raises(ValueRangeError, match="query 'q': the score True is of type bool"):
        as_ranking({"q": {"a": True}}, RULES)


def test_a_query_without_docs_stays_a_query():
    ranking = as_ranking({"q": {"a": 1.0}, "empty": {}}, RULES)
    assert ranking.lengths.tolist() == [1, 0]
    assert len(as_judgments({"q": [], "r": ["a"]})) == 2


@pytest.mark.parametrize("source", [{}, []])
def test_nothing_is_no_run(source):
    with pytest.raises(InputError, match="holds no"):
        as_ranking(source, RULES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"q": {"a", "b"}}, "a set has no order"),
        ({"q": "abc"}, "type str"),
        ({"q": {"a": 1.0}, "r": ["b"]}, "query 'r'"),
        (np.zeros((2, 2)), "Ranking.from_scores"),
        (7, "Cannot read a run from int"),
        (b"run.txt", "Cannot read a run from bytes"),
    ],
)
def test_what_is_not_a_run_is_refused(source, found):
    with pytest.raises(UsageError, match=found):
        as_ranking(source, RULES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ([("q", "a", 1.0), ("q", "b")], "row 1: expected 3 elements"),
        ([("q", "a", 1.0), "qbc"], "row 1: .* found 'qbc'"),
        ([("q", "a")], "expected 3 elements"),
        (
            [("q", "Q0", "a", 1, 2.5, "tag")],
            r"expected 3 elements \(query, doc, score\), found 6: \('q', 'Q0', .*A line of TREC "
            r"has that many \(query, Q0, doc, rank, score, tag\).*row\[2\], row\[4\]\)",
        ),
        (
            [{"q": "q", "doc": "a", "score": 1}, {"q": "q", "doc": "b"}],
            "row 1: column 'score' is missing",
        ),
        ([{"q": "q", "text": "a"}], "cannot tell which column"),
        ([("q", "a", "0.5")], "row 0: the score '0.5' is of type str"),
        ([("q", "a", None)], "row 0: the score is missing"),
        ([("q", "a", float("inf"))], "row 0: the score of doc 'a' for query 'q' is inf"),
        ([("q", "a", 2**53 + 1)], "row 0: the score 9007199254740993 is a whole number beyond"),
        ([("q", "a", 10**400)], "beyond 2"),
        ([("q", "a b", 1.0)], "row 0: the doc id is 'a b'"),
        ([("q", None, 1.0)], "row 0: the doc id is missing"),
        ([("q", 1.0, 1.0)], "row 0: the doc id is not an id: 1.0 of type float"),
    ],
)
def test_errors_in_tuples_name_the_place(source, found):
    with pytest.raises(InputError, match=found):
        as_ranking(source, RULES)


def test_judgments_of_four_columns_are_called_those_of_trec():
    words = r"found 4: .*\(query, iteration, doc, grade\).*row\[0\], row\[2\], row\[3\]"
    with pytest.raises(FormatError, match=words):
        as_judgments([("q", "0", "a", 1)])
    with pytest.raises(FormatError, match=r"row 1: expected 2 elements \(query, doc\), found 3"):
        as_judgments([("q", "a"), ("q", "b", 1)])


def test_integer_ids_stay_integers():
    ranking = as_ranking({1: {10: 0.5, 9: 0.5}}, RULES)
    assert ranking.query_ids.kind == ranking.doc_ids.kind == "integer"
    assert [doc for doc, _ in ranking.row(1)] == [9, 10]  # as "9" and "10" in a file
    assert assay.evaluate({1: {"a": 1.0}}, {"1": {"a": 1}}, "RR")["RR"].tolist() == [1.0]


@pytest.mark.parametrize("name", ["run.parquet", "run.jsonl", "run.json"])
def test_integers_in_a_file_are_the_text_of_another(tmp_path, name):
    rows = [{"query": 1, "doc": doc, "score": 1.0} for doc in (1, 10, 2)]
    path = tmp_path / name
    if name == "run.parquet":
        pytest.importorskip("pyarrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(json.dumps(rows) if name == "run.json" else lines)
    (tmp_path / "qrels.txt").write_text("1 0 10 1\n")
    assert assay.evaluate(path, tmp_path / "qrels.txt", "RR")["RR"].tolist() == [0.5]


@pytest.mark.parametrize("pack", [lambda b: b, gzip.compress, zst_compress])
@pytest.mark.parametrize("name", ["run.txt", "run.csv", "run.tsv", "run.json", "run.jsonl"])
def test_text_formats_plain_and_packed(tmp_path, name, pack):
    suffix = {b"\x1f\x8b": ".gz", b"\x28\xb5": ".zst"}.get(pack(b"x")[:2], "")
    text = {
        "run.txt": "".join(f"{q} Q0 {d} 1 {s!r} tag\n" for q, d, s in TRIPLES),
        "run.csv": "Query-ID,doc_id,Score\r\n"
        + "".join(f"{q},{d},{s!r}\r\n" for q, d, s in TRIPLES),
        "run.tsv": "\ufeffqid\tpid\tsim\n\n" + "".join(f"{q}\t{d}\t{s!r}\n" for q, d, s in TRIPLES),
        "run.json": json.dumps(RUN),
        "run.jsonl": "\n".join(
            json.dumps({"query": q, "doc": d, "score": s}) for q, d, s in TRIPLES
        ),
    }[name]
    path = tmp_path / (name + suffix)
    path.write_bytes(pack(text.encode()))
    assert rows(read_run(path)) == EXPECTED


def test_the_content_tells_the_format_where_the_name_does_not(tmp_path):
    ranking = as_ranking(RUN, RULES)
    for name in ("parquet", "npz", "trec"):
        path = tmp_path / f"noname-{name}"
        write_run(ranking, path, format=name)
        assert find_format(path) == name
        assert rows(read_run(path)) == EXPECTED


def test_the_format_can_be_forced(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("q Q0 a 1 0.5 tag\n")
    assert rows(read_run(path, format="trec")) == {"q": [("a", 0.5)]}
    with pytest.raises(UsageError, match="Known: trec, csv"):
        read_run(path, format="excel")


def test_beir_qrels(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n007\t42\t1\n007\t0042\t0\n")
    assert grades(read_qrels(path)) == {"007": {"42": 1.0, "0042": 0.0}}


def test_real_files_agree_whatever_they_are_read_from(data_dir, tmp_path):
    pl = pytest.importorskip("polars")
    folder = data_dir("scifact")
    qrels = read_qrels(folder / "qrels.trec")
    assert (len(qrels), len(qrels.docs)) == (300, 339)
    lines = [line.split() for line in (folder / "qrels.trec").read_text().splitlines()]
    frame = pl.DataFrame(
        {
            "query_id": [c[0] for c in lines],
            "doc_id": [c[2] for c in lines],
            "relevance": [int(c[3]) for c in lines],
        }
    )
    assert grades(as_judgments(frame)) == grades(qrels)


@pytest.mark.parametrize("path", [None, 5, b"x", {"q": {"a": 1}}])
@pytest.mark.parametrize("read", [read_run, read_qrels])
def test_what_is_no_path_is_named(read, path):
    with pytest.raises(UsageError, match="Expected the path of a file"):
        read(path)


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.json", "x.jsonl"])
def test_errors_in_data_name_the_file(tmp_path, name):
    texts = {
        "x.txt": "q 0 a 1\nq 0 a 2\n",
        "x.csv": "query,doc,grade\nq,a,1\nq,a,2\n",
        "x.json": '[["q", "a", 1], ["q", "a", 2]]',
        "x.jsonl": '["q", "a", 1]\n["q", "a", 2]\n',
    }
    path = tmp_path / name
    path.write_text(texts[name])
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(f"{path}: query 'q', document 'a' is judged twice")


def test_errors_in_arrays_name_the_file(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, docs=np.array([[0, 0]]), scores=np.array([[2.0, 1.0]]))
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("measure", [None, 5])
def test_explain_wants_a_measure(measure):
    with pytest.raises(UsageError, match="A measure is a text"):
        assay.explain(RUN, QRELS, query="q1", measure=measure)


DIVERSITY = [("q", "1", "a", 1), ("q", "2", "a", 1), ("q", "1", "b", 0)]


def _diversity_sources(tmp_path, rows):
    names = ["query", "subtopic", "doc", "relevance"]
    (tmp_path / "d.qrels").write_text(
        "# a comment\n\n" + "".join(f"{q} {i} {d} {g}\n" for q, i, d, g in rows)
    )
    for ending, sign in (("csv", ","), ("tsv", "\t")):
        lines = [sign.join(map(str, row)) for row in [names, *rows]]
        (tmp_path / f"named.{ending}").write_text("\n".join(lines))
        (tmp_path / f"bare.{ending}").write_text("\n".join(lines[1:]))
    records = [dict(zip(names, row, strict=True)) for row in rows]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, records)))
    frame = pandas.DataFrame(records)
    frame.to_parquet(tmp_path / "d.parquet")
    files = ["d.qrels", "named.csv", "named.tsv", "bare.csv", "bare.tsv", "d.jsonl", "d.parquet"]
    return [*(tmp_path / file for file in files), records, frame]


@pytest.mark.parametrize("grade", [1, 2])
def test_a_document_judged_for_two_subtopics_is_refused(tmp_path, grade):
    rows = [*DIVERSITY[:1], ("q", "2", "a", grade), *DIVERSITY[2:]]
    for source in _diversity_sources(tmp_path, rows):
        with pytest.raises(MismatchError, match=r"(?i)document 'a' of query 'q' .* '1' and '2'"):
            as_judgments(source)


def test_a_second_column_that_tells_nothing_apart_is_plain(tmp_path):
    for rows in ([("q", "1", "a", 1), ("q", "2", "b", 1)], [("q", "7", "a", 1)] * 2):
        for source in _diversity_sources(tmp_path, rows):
            assert as_judgments(source).repeated == len(rows) - len({row[2] for row in rows})


def test_a_zstd_file_may_begin_with_a_frame_to_skip(tmp_path):
    """As pzstd writes it before each frame."""
    text = "".join(f"{q} Q0 {d} 1 {s!r} tag\n" for q, d, s in TRIPLES)
    for number in (0x50, 0x5F):
        skipped = bytes([number, 0x2A, 0x4D, 0x18, 4, 0, 0, 0]) + b"size"
        path = tmp_path / "run.txt.zst"
        path.write_bytes(skipped + zst_compress(text.encode()))
        assert rows(read_run(path)) == EXPECTED
