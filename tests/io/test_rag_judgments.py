"""Judgments as people write them for RAG: questions, lists in a cell, no grades."""

from __future__ import annotations

import json

import pytest

import assay
from assay.errors import FormatError, IdError, InputError, MismatchError, UsageError
from assay.io.collections import load_collection
from assay.io.formats import as_judgments, read_qrels, read_run

QUERIES = {"q1": "What is an assay?", "q2": "How are ties broken?", "q3": "Why?"}
EXPECTED = {"q1": {"d1": 1.0, "d2": 1.0}, "q2": {"d3": 1.0}}


def pairs(qrels):
    ends = qrels.offsets.tolist()
    return {
        str(query): {
            qrels.doc_ids[int(qrels.docs[i])]: float(qrels.grades[i])
            for i in range(ends[row], ends[row + 1])
        }
        for row, query in enumerate(qrels.query_ids)
    }


@pytest.fixture
def queries(tmp_path):
    path = tmp_path / "queries.jsonl"
    lines = (json.dumps({"_id": id, "text": text}) for id, text in QUERIES.items())
    path.write_text("\n".join(lines))
    return path


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


DOCS = {"q1": ["d1", "d2"], "q2": ["d3"]}
ONE, TWO = QUERIES["q1"], QUERIES["q2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("j.csv", f"question,relevant_doc\n{ONE},d1;d2\n{TWO},d3\n"),
        ("j.csv", f"question,relevant_doc\n{ONE},d1 ; d2;\n{TWO},d3\n"),
        ("j.csv", f"question,relevant_doc\n{ONE},d1\n{TWO},d3\n{ONE},d2\n"),
        ("j.csv", f"Question,Relevant Docs,answer\n{ONE},\"['d1', 'd2']\",x\n{TWO},['d3'],y\n"),
        ("j.tsv", f"user_input\treference_context_ids\n{ONE}\t[\"d1\", \"d2\"]\n{TWO}\td3\n"),
        ("j.csv", "query_id,gold_chunk_ids\nq1,d1;d2\nq2,d3\n"),
        ("j.csv", f'question;relevant_doc\r\n"{ONE}";"d1;d2"\r\n{TWO};d3\r\n'),
        ("j.csv", '\ufeffqid;"Doc, ID";relevant_doc;note\nq1;;d1;"a, b"\nq1;;d2;\nq2;;d3;,\n'),
        ("j.csv", f"query_id,question,doc_id\nq1,{ONE},d1;d2\nq2,{TWO},d3\n"),
        ("j.csv", f"question,doc,relevant\n{ONE},d1,1\n{ONE},d2,1\n{TWO},d3,1\n"),
        ("j.json", json.dumps([[ONE, ["d1", "d2"]], [TWO, ["d3"]]])),
        ("j.json", json.dumps({ONE: ["d1", "d2"], "q2": ["d3"]})),
        ("j.json", json.dumps({"queries": {}, "relevant_docs": DOCS})),
        ("j.jsonl", f'{{"question": "{ONE}", "expected_docs": ["d1", "d2"]}}\n'
                    f'{{"question": "{TWO}", "expected_docs": ["d3"]}}\n'),
        ("j.jsonl", f'{{"question": "{ONE}", "positives": "d1;d2"}}\n'
                    f'{{"question": "{TWO}", "positives": "d3"}}\n'),
        ("j.csv", f"User Query,Relevant Doc(s)\n{ONE},d1;d2\n{TWO},d3\n"),
        ("j.csv", f"search_query,ground_truth_docs\n{ONE},d1;d2\n{TWO},d3\n"),
        ("j.csv", f"questions,source\n{ONE},d1;d2\n{TWO},d3\n"),
        ("j.csv", f"question,relevant_file\n{ONE},\"d1\nd2\"\n{TWO},d3\n"),
        ("j.csv", f"question\trelevant_doc\n{ONE}\td1;d2\n{TWO}\td3\n"),
        ("j.csv", f"question,relevant_docs\n{ONE},\"['d1' 'd2']\"\n{TWO},['d3']\n"),
        ("j.csv", f"question,relevant_docs\n{ONE},\"['d1'\n 'd2']\"\n{TWO},['d3']\n"),
        ("j.csv", f"question,doc,is_relevant\n{ONE},d1,True\n{ONE},d2,TRUE\n{TWO},d3,true\n"),
        ("j.csv", f"question,doc,Grade (0-3)\n{ONE},d1,1\n{ONE},d2,1\n{TWO},d3,1\n"),
    ],
)  # fmt: skip
def test_every_usual_shape_gives_the_same_judgments(tmp_path, queries, name, text):
    assert pairs(read_qrels(write(tmp_path, name, text), queries=queries)) == EXPECTED


def test_semicolons_between_columns_are_those_of_the_first_line(tmp_path):
    """As Excel writes CSV where a comma is the decimal sign; such numbers are refused."""
    path = write(tmp_path, "j.csv", "qid;doc;grade\nq1;d1;1,5\n")
    with pytest.raises(FormatError, match=r"line 2: the grade '1,5' is not a finite number"):
        read_qrels(path)
    path = write(tmp_path, "run.csv", "qid;doc;score\nq1;a;2\nq1;b;1.5\n")
    assert list(read_run(path).doc_ids) == ["a", "b"]
    path = write(tmp_path, "j.csv", "qid,doc\nq1,d1;d2\n")
    assert pairs(read_qrels(path)) == {"q1": {"d1": 1.0, "d2": 1.0}}


def test_carriage_returns_alone_are_named_in_words_for_users(tmp_path):
    path = tmp_path / "j.csv"
    path.write_bytes(b"qid,doc\rq1,d1\r")
    with pytest.raises(FormatError, match=r"line 1: new-line .* field\. Check the quotes"):
        read_qrels(path)


def test_parquet_and_frames_with_lists(tmp_path, queries):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"question": [ONE, TWO], "relevant_docs": [["d1", "d2"], ["d3"]]})
    pq.write_table(table, tmp_path / "j.parquet")
    assert pairs(read_qrels(tmp_path / "j.parquet", queries=queries)) == EXPECTED
    frame = pa.table({"query_id": ["q1", "q2"], "relevant_docs": [["d1", "d2"], ["d3"]]})
    assert pairs(as_judgments(frame)) == EXPECTED
    assert pairs(as_judgments(frame.to_pandas())) == EXPECTED


def test_grades_are_read_where_there_are_any(tmp_path, queries):
    text = f"question,relevant_doc,grade\n{ONE},d1,2\n{ONE},d2;d4,0.5\n{TWO},d3,0\n"
    qrels = read_qrels(write(tmp_path, "j.csv", text), queries=queries)
    assert pairs(qrels) == {"q1": {"d1": 2.0, "d2": 0.5, "d4": 0.5}, "q2": {"d3": 0.0}}


def test_a_question_without_a_relevant_document_stays_a_query(tmp_path, queries):
    path = write(tmp_path, "j.csv", f"question,relevant_docs\n{ONE},d1;d2\n{TWO},d3\nWhy?,\n")
    assert pairs(read_qrels(path, queries=queries)) == {**EXPECTED, "q3": {}}


def test_a_remark_says_how_columns_were_read(tmp_path, queries):
    path = write(tmp_path, "j.csv", f"question,relevant_doc,source\n{ONE},d1;d2,x\n{TWO},d3,y\n")
    run = {"q1": ["d1"], "q2": ["d3"]}
    scores = assay.evaluate(run, path, "RR", queries=queries)
    assert scores.mean()["RR"] == 1.0
    assert scores.remarks[0] == (
        f"judgments read from 'question' (joined with texts in {queries}) and 'relevant_doc' (1 of "
        "its cells with another number than one), no grades: each counts 1; not read: 'source'"
    )
    note = assay.check(run, path, queries=queries)["columns"]
    assert note.severity == "note"
    assert note.message == scores.remarks[0]


def test_plain_judgments_have_no_remark(tmp_path):
    text = "query_id,doc_id,relevance\nq1,d1;d2,1\n"
    qrels = read_qrels(write(tmp_path, "j.csv", text))
    assert qrels.remarks == ()
    assert pairs(qrels) == {"q1": {"d1;d2": 1.0}}  # an id may hold ';' where grades stand beside


def test_words_of_truth_are_grades(tmp_path):
    path = write(tmp_path, "j.csv", "qid,doc,relevant\nq1,d1,True\nq1,d2,FALSE\nq1,d3,2\n")
    assert pairs(read_qrels(path)) == {"q1": {"d1": 1.0, "d2": 0.0, "d3": 2.0}}


def test_ids_that_may_be_lists_are_said(tmp_path):
    text = "qid;relevant_doc\nq1;d1,d2\nq2;d3|d4\nq3;d5\n"
    qrels = read_qrels(write(tmp_path, "j.csv", text))
    assert pairs(qrels) == {"q1": {"d1,d2": 1.0}, "q2": {"d3|d4": 1.0}, "q3": {"d5": 1.0}}
    assert qrels.remarks[1] == (
        "2 cells of 'relevant_doc' count as one document each although they hold ',' or '|' "
        "(first: 'd1,d2'): separate documents by ';'"
    )
    plain = write(tmp_path, "k.csv", "qid,relevant_doc\nq1,d1;d2\n")
    assert len(read_qrels(plain).remarks) == 1
    graded = write(tmp_path, "l.csv", 'qid,doc,grade\nq1,"a,b",1\n')
    assert read_qrels(graded).remarks == ()


def test_runs_may_name_questions_too(tmp_path, queries):
    run = read_run(
        write(tmp_path, "r.csv", f"question,doc,score\n{ONE},d1,2\n{TWO},d3,1\n"), queries=queries
    )
    assert run.query_ids.to_list() == ["q1", "q2"]
    scores = assay.evaluate({ONE: ["d1"], TWO: ["x"]}, {ONE: ["d1"], TWO: ["d3"]}, queries=queries)
    assert scores.mean()["RR"] == 0.5


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (f"question,relevant_doc\n{ONE.upper()},d1\n", MismatchError, "differ in upper and lower"),
        ("question,relevant_doc\nHow are ties broken,d1\n", MismatchError, "How are ties broken?"),
        ("question,relevant_doc\nHow are they broke?,d1\n", MismatchError, "Did you mean 'How are"),
        ("question,relevant_doc,relevence\nq1,d1,0\n", FormatError, "'relevence' may hold grades"),
        (
            "question,relevant_doc,first grade\nq1,d1,0\n",
            FormatError,
            "'first grade' may hold grades",
        ),
        ('question,relevant_doc\nq1,"a, b"\n', IdError, "Separate documents by ';'"),
        ("question,relevant_doc\nq1,my cats.txt\n", IdError, "spaces of file names as %20"),
        ("question,doc,rank\nq1,d1,1\n", FormatError, "'rank' belongs to a run"),
        ("question,doc,similarity\nq1,d1,1\n", FormatError, "'similarity' belongs to a run"),
        ("question,relevant_doc,grade\nq1,d1,yes\n", FormatError, "the grade 'yes' is not"),
        ("question,relevant_doc,grade\nq1,d1;d2,2;1\n", FormatError, "the grade '2;1' is not"),
        (
            "question,relevant_doc,grade\nq1,d1;d2;d3,1\nq2,d1;d2,1e999\n",
            InputError,
            "line 3: the grade of doc 'd1' for query 'q2' is inf",
        ),
        ("question,answer\nq1,d1\n", FormatError, "which column holds the doc"),
        ("question,relevant_doc\nq1,[d1\n", FormatError, "line 2"),
        ("question,relevant_doc\nq1,a b;c\n", IdError, "line 2: the doc id is 'a b'"),
    ],
)
def test_nothing_is_guessed(tmp_path, queries, text, error, message):
    with pytest.raises(error) as caught:
        read_qrels(write(tmp_path, "j.csv", text), queries=queries)
    assert message in str(caught.value)


def test_texts_without_their_ids_say_what_to_give(tmp_path):
    path = write(tmp_path, "j.csv", f"question,relevant_doc\n{ONE},d1\n")
    with pytest.raises(IdError, match=r"line 2.*looks like text.*--queries"):
        read_qrels(path)


def test_a_text_of_two_queries_is_refused(tmp_path):
    twice = write(
        tmp_path, "q.jsonl", '{"_id": "a", "text": "Why so?"}\n{"_id": "b", "text": "Why so?"}'
    )
    path = write(tmp_path, "j.csv", "question,relevant_doc\nWhy so?,d1\n")
    with pytest.raises(MismatchError, match="is the text of the queries 'a', 'b'"):
        read_qrels(path, queries=twice)
    named = write(tmp_path, "k.csv", "question,relevant_doc\na,d1\n")
    assert pairs(read_qrels(named, queries=twice)) == {"a": {"d1": 1.0}}


def test_a_struct_instead_of_a_document_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for column in ("question", "doc", "grade", "extra"):
        table = {"question": ["q1"], "doc": ["d"], "grade": [1], column: [{"a": "x", "b": 2}]}
        pq.write_table(pa.table(table), tmp_path / "s.parquet")
        if column == "extra":
            assert pairs(read_qrels(tmp_path / "s.parquet")) == {"q1": {"d": 1.0}}
            continue
        with pytest.raises(InputError, match=f"s.parquet.*column '{column}' holds"):
            read_qrels(tmp_path / "s.parquet")


@pytest.fixture
def corpus(tmp_path):
    lines = (json.dumps({"_id": id, "text": f"text of {id}"}) for id in ("d1", "d2", "d3"))
    return write(tmp_path, "corpus.jsonl", "\n".join(lines))


def test_a_collection_takes_them_with_and_without_queries(tmp_path, queries, corpus):
    path = write(tmp_path, "j.csv", f"question,relevant_doc\n{ONE},d1;d2\n{TWO},d3\n")
    assert pairs(load_collection(corpus, queries, path).qrels) == EXPECTED
    alone = load_collection(corpus, qrels=path)
    assert dict(zip(alone.query_ids, alone.query_texts, strict=True)) == {"0": ONE, "1": TWO}
    named = write(tmp_path, "k.csv", f"query_id,question,doc_id\nq1,{ONE},d1\nq2,{TWO},d3\n")
    both = load_collection(corpus, qrels=named)
    assert dict(zip(both.query_ids, both.query_texts, strict=True)) == {"q1": ONE, "q2": TWO}


def test_ids_are_not_taken_for_texts(tmp_path, corpus):
    path = write(tmp_path, "j.csv", "query_id,doc_id,relevance\nq1,d1,1\n")
    with pytest.raises(UsageError, match="needs queries"):
        load_collection(corpus, qrels=path)
