"""CSV, TSV, JSON, JSONL and parquet: what is read, and what is refused with its line."""

from __future__ import annotations

import pytest

from assay.errors import FormatError, IdError, InputError, ValueRangeError
from assay.io.formats import read_qrels, read_run
from assay.io.lines import find_columns


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(ranking):
    return {query: ranking.row(query) for query in ranking.query_ids}


@pytest.mark.parametrize(
    ("names", "kind", "expected"),
    [
        (["query", "doc", "score"], "run", ("query", "doc", "score")),
        (["qid", "docno", "rank", "score", "query"], "run", ("qid", "docno", "score")),
        (["Query ID", "Doc.ID", "Similarity"], "run", ("Query ID", "Doc.ID", "Similarity")),
        (["topic", "pid", "rank"], "run", ("topic", "pid", "rank")),
        (["qid", "docno", "label", "iteration"], "qrels", ("qid", "docno", "label")),
        (["query-id", "corpus-id", "score"], "qrels", ("query-id", "corpus-id", "score")),
        (
            ["query_id", "doc_id", "relevance", "score"],
            "qrels",
            ("query_id", "doc_id", "relevance"),
        ),
    ],
)
def test_columns_are_known_by_name(names, kind, expected):
    assert find_columns(names, kind, "x")[:3] == expected


def test_two_columns_of_one_meaning_are_refused():
    with pytest.raises(FormatError, match="'query_id' and 'query-id' mean the same"):
        find_columns(["query_id", "query-id", "doc", "score"], "run", "x")


def test_ids_of_csv_are_text_and_keep_their_zeros(tmp_path):
    run = read_run(write(tmp_path, "run.csv", "query,doc,score\n007,01,1\n7,1e2,2\n7,NaN,1\n"))
    assert rows(run) == {"007": [("01", 1.0)], "7": [("1e2", 2.0), ("NaN", 1.0)]}


def test_quotes_and_spaces_after_commas(tmp_path):
    text = 'query, doc, score\n"q,1", "a""b", 0.5\n'
    assert rows(read_run(write(tmp_path, "run.csv", text))) == {"q,1": [('a"b', 0.5)]}


def test_ranks_stand_in_for_scores(tmp_path):
    text = "qid\tpid\trank\n1\t7\t2\n1\t8\t1\n"
    assert rows(read_run(write(tmp_path, "run.tsv", text))) == {"1": [("8", -1.0), ("7", -2.0)]}


def test_trec_columns_need_no_header(tmp_path):
    qrels = read_qrels(write(tmp_path, "qrels.dev.tsv", "1\t0\t7\t1\n2\t0\t8\t1\n"))
    assert qrels.query_ids.to_list() == ["1", "2"]
    assert qrels.doc_ids.to_list() == ["7", "8"]
    assert rows(read_run(write(tmp_path, "r.csv", "q,Q0,d,1,0.5,t\n"))) == {"q": [("d", 0.5)]}


@pytest.mark.parametrize(
    ("name", "text", "error", "found"),
    [
        ("r.csv", "q1,d1,0.5\n", FormatError, "first line: cannot tell which column"),
        ("r.csv", "query,doc,score\n", FormatError, "a header but no rows"),
        ("r.csv", "\n\n", FormatError, "only blank"),
        ("r.csv", "query,doc,score\nq,d\n", FormatError, "line 2: expected 3 columns, found 2"),
        ("r.csv", "query,doc,score\n\nq,d,1,2\n", FormatError, "line 3: expected 3 columns"),
        ("r.csv", "query,doc,score\nq,d,x\n", FormatError, "line 2: the score 'x'"),
        ("r.csv", "query,doc,score\nq,d,nan\n", FormatError, "line 2: the score 'nan' is not a f"),
        ("r.csv", "query,doc,score\nq,d,-inf\n", FormatError, "not a finite number"),
        ("r.csv", "query,doc,score\nq,d,1_0\n", FormatError, "line 2: the score '1_0'"),
        ("r.csv", "query,doc,score\nq,d,١\n", FormatError, "line 2: the score"),
        ("r.csv", "query,doc,score\nq,d,\n", FormatError, "line 2: the score ''"),
        ("r.csv", "query,doc,score\nq,d,1e999\n", ValueRangeError, "is inf, not finite"),
        ("r.csv", "query,doc,score\nq,,1\n", IdError, "line 2: the doc id is '': an id can"),
        ("r.csv", 'query,doc,score\nq,"a b",1\n', IdError, "line 2: the doc id is 'a b'"),
        ("r.csv", 'query,doc,score\nq,"a\nb",1\nq,"c d",1\n', IdError, "line 3: the doc id is 'a"),
        ("r.csv", 'query,doc,score\nq,"a"b,1\n', FormatError, "line 2: "),
        ("r.csv", 'query,doc,score\nq,"a,1\n', FormatError, "line 2: "),
        ("r.csv", "query,doc,score\rq,a,1\r", FormatError, "line"),
        ("r.csv", b"query,doc,score\nq,\xff,1\n", FormatError, "line 2: the text is not UTF-8"),
        ("r.csv", b"query,doc,score\nq,a\0b,1\n", InputError, "line 2"),
        ("r.csv", "query,doc,score\nq," + "x" * (1 << 21), FormatError, "longer than 1 MiB"),
        ("r.csv", "query,doc,score\nq," + "x" * 200_000 + ",1\n", FormatError, "field larger"),
        ("r.csv", "query,doc,score\nq,a,1\nq,a,1\n", IdError, "more than once"),
        ("r.jsonl", '{"query": "q"', FormatError, "line 1, column 14: not JSON"),
        ("r.jsonl", '{"query": "q", "doc": "d", "score": 1}\n{"query": 1}', InputError, "line 2"),
        ("r.jsonl", '["q", "d", 1]\n\n["q", 7, 1]\n', IdError, "mix text and integers"),
        ("r.jsonl", '["q", "d", 1]\n7\n', FormatError, "line 2: .* found 7"),
        ("r.jsonl", "\n \n", InputError, "holds no lines"),
        ("r.json", "3", FormatError, "expected a JSON object or array"),
        ("r.json", "[]", InputError, "holds no lines"),
        ("r.json", '{"q": {"d": "high"}}', ValueRangeError, "query 'q': the score 'high'"),
        ("r.json", '{"q": {"d": 1e999}}', FormatError, "1e999 exceeds"),
        ("r.json", '{"q": {"d": ' + "9" * 5000 + "}}", FormatError, "digits"),
        ("r.json", '{"q": {"\\ud800": 1}}', IdError, "lone surrogate"),
        ("r.json", "\ufeff\ufeff{}", FormatError, "not JSON"),
    ],
)
def test_errors_name_the_line(tmp_path, name, text, error, found):
    with pytest.raises(error, match=found) as caught:
        read_run(write(tmp_path, name, text))
    if error is FormatError:
        assert str(tmp_path / name) in str(caught.value)


def test_batches_do_not_show(tmp_path, monkeypatch):
    monkeypatch.setattr("assay.io.columns.BATCH", 2)
    body = "".join(f"q{i % 3},d{i % 5},{i}\n" for i in range(15))
    run = read_run(write(tmp_path, "run.csv", "query,doc,score\n" + body))
    assert run.query_ids.to_list() == ["q0", "q1", "q2"]
    assert run.row("q1")[0] == ("d3", 13.0)
    with pytest.raises(IdError, match="line 17: the query id is 'x y'"):
        read_run(write(tmp_path, "bad.csv", "query,doc,score\n" + body + "x y,d,1\n"))


def test_lines_do_not_depend_on_chunks(tmp_path, monkeypatch):
    text = "query,doc,score\r\n" + "".join(f"q,dé\u2028{i},{i}\r\n" for i in range(50))
    path = write(tmp_path, "run.csv", text)
    expected = rows(read_run(path))
    for size in (1, 2, 3, 7):
        monkeypatch.setattr("assay.io.streams.open_chunks", chunked(size))
        assert rows(read_run(path)) == expected


def chunked(size):
    def chunks(path):
        data = path.read_bytes()
        return (data[i : i + size] for i in range(0, len(data), size))

    return chunks


def test_json_ids_keep_their_kind(tmp_path):
    run = read_run(write(tmp_path, "r.jsonl", '{"qid": 7, "did": 8, "score": 1}'))
    assert run.query_ids.to_list() == [7]
    assert read_run(write(tmp_path, "r.json", '{"7": {"8": 1}}')).query_ids.to_list() == ["7"]


def test_parquet_with_odd_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "r.parquet"
    table = pa.table(
        {
            "extra": [1, 2],
            "qid": pa.array([7, 7], pa.int32()),
            "docno": pa.array(["a", "b"]).dictionary_encode(),
            "score": pa.array([1.5, 2.5], pa.float32()),
        }
    )
    pq.write_table(table, path)
    assert rows(read_run(path)) == {7: [("b", 2.5), ("a", 1.5)]}
    pq.write_table(table.rename_columns(["a", "b", "c", "d"]), path)
    with pytest.raises(FormatError, match=r"r.parquet: cannot tell which column"):
        read_run(path)
    pq.write_table(table.set_column(3, "score", pa.array([1.0, None])), path)
    with pytest.raises(ValueRangeError, match=r"r.parquet, row 1: column 'score' is missing"):
        read_run(path)
