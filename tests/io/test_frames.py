"""Data frames of three packages in, and out again."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

import assay
from assay.core.conventions import preset
from assay.errors import (
    IdError,
    InputError,
    MissingPackageError,
    UsageError,
    ValueRangeError,
    install_command,
)
from assay.io.formats import as_judgments, as_ranking
from assay.io.lines import build_frame, lines_of_frame

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RULES = preset("trec_eval")
BACKENDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
COLUMNS = {"query_id": ["q2", "q1", "q2"], "doc_id": ["b", "é", "a"], "score": [0.5, -1.0, 0.5]}


@pytest.fixture(params=sorted(BACKENDS))
def backend(request):
    return request.param


@pytest.fixture
def frame(backend):
    return BACKENDS[backend]


def rows(ranking):
    return {query: ranking.row(query) for query in ranking.query_ids}


EXPECTED = {"q2": [("b", 0.5), ("a", 0.5)], "q1": [("é", -1.0)]}


def test_a_run(frame):
    assert rows(as_ranking(frame(COLUMNS), RULES)) == EXPECTED


def test_integer_ids_stay_integers(frame):
    ids = {
        "query_id": np.array([2**53 + 1, 2**53], np.int64),
        "doc_id": np.array([3, 250], np.uint8),
    }
    ranking = as_ranking(frame({**ids, "score": np.array([1, 2], np.int8)}), RULES)
    assert rows(ranking) == {2**53 + 1: [(3, 1.0)], 2**53: [(250, 2.0)]}


def test_judgments(frame):
    qrels = as_judgments(frame({"qid": ["q", "q"], "docno": ["a", "b"], "label": [True, False]}))
    assert qrels.grades.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "error", "found"),
    [
        ({"score": [0.5, None, 0.5]}, ValueRangeError, "row 1: column 'score' is missing"),
        ({"doc_id": ["a", None, "b"]}, ValueRangeError, "row 1: column 'doc_id' is missing"),
        ({"doc_id": ["a", "b c", "b"]}, IdError, "row 1: the doc id is 'b c'"),
        ({"score": ["a", "b", "c"]}, ValueRangeError, "column 'score' holds String"),
        ({"score": [1.0, np.inf, 2.0]}, ValueRangeError, "row 1: the score of doc"),
        ({"score": [1, 2**60, 2]}, ValueRangeError, "row 1: the score 1152921504606846976"),
        ({"query_id": [1.0, 2.0, 3.0]}, IdError, "column 'query_id' holds Float64"),
        ({"query_id": [True, False, True]}, IdError, "column 'query_id' holds Boolean"),
    ],
)
def test_faults(frame, changes, error, found):
    with pytest.raises(error, match=found):
        as_ranking(frame({**COLUMNS, **changes}), RULES)


def test_nan_is_refused(backend, frame):
    with pytest.raises(ValueRangeError, match="row 1: "):
        as_ranking(frame({**COLUMNS, "score": np.array([1.0, np.nan, 2.0])}), RULES)


def test_no_rows_and_no_known_columns(frame):
    with pytest.raises(InputError, match="no rows"):
        as_ranking(frame({"query": [], "doc": [], "score": []}), RULES)
    with pytest.raises(InputError, match="cannot tell which column"):
        as_ranking(frame({"x": [1]}), RULES)


def test_columns_of_other_types():
    table = pa.table(
        {
            "query": pa.array(["q"] * 2, pa.large_string()),
            "doc": pa.chunked_array([["a"], ["b"]]).dictionary_encode(),
            "score": [Decimal("1.5"), Decimal("2")],
        }
    )
    assert rows(as_ranking(table, RULES)) == {"q": [("b", 2.0), ("a", 1.5)]}
    categories = pl.DataFrame(COLUMNS).with_columns(pl.col("doc_id").cast(pl.Categorical))
    assert rows(as_ranking(categories, RULES)) == EXPECTED
    assert rows(as_ranking(categories.lazy(), RULES)) == EXPECTED
    pandas = pd.DataFrame(COLUMNS, index=[5, 5, 5]).astype({"doc_id": "category"})
    assert rows(as_ranking(pandas, RULES)) == EXPECTED
    assert rows(as_ranking(pd.DataFrame(COLUMNS).astype(object), RULES)) == EXPECTED


def test_mixed_ids_in_a_column_of_objects():
    mixed = pd.DataFrame(
        {"query": ["q", "q"], "doc": pd.Series([1, "1"], dtype=object), "score": [1.0, 2.0]}
    )
    with pytest.raises(IdError, match="mix text and integers"):
        as_ranking(mixed, RULES)


def test_numbers_of_128_bits():
    wide = pl.Series([1, 2**100], dtype=pl.Int128)
    columns = {"query": ["q", "q"], "doc": ["a", "b"], "score": [1.0, 2.0]}
    with pytest.raises(ValueRangeError, match=r"row 1: the score .* beyond"):
        as_ranking(pl.DataFrame({**columns, "score": wide}), RULES)
    with pytest.raises(IdError, match="exceeds 64 bits"):
        as_ranking(pl.DataFrame({**columns, "doc": wide}), RULES)


def test_one_column_twice():
    twice = pd.DataFrame([["q", "a", 1.0, 2.0]], columns=["query", "doc", "score", "score"])
    with pytest.raises(InputError, match="'score' 2 times"):
        as_ranking(twice, RULES)


def test_something_with_columns_that_is_no_frame():
    class Odd:
        columns = ("a",)

    with pytest.raises(UsageError, match="Cannot read a table from Odd"):
        as_ranking(Odd(), RULES)


def test_scores_become_a_frame(backend):
    scores = assay.evaluate(
        {"q": {"a": 1.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": 0}}, "RR"
    )
    frame = scores.with_groups(kind={"q": "x", "r": "y"}).to_frame(backend)
    assert type(frame).__module__.startswith(backend)
    assert (
        frame["query"].to_pylist() if backend == "pyarrow" else list(frame["query"]) == ["q", "r"]
    )
    values = frame["RR"].to_pylist() if backend == "pyarrow" else list(frame["RR"])
    assert values[0] == 1.0
    assert np.isnan(values[1]) if backend == "pandas" else values[1] is None


def test_unknown_and_missing_backends(monkeypatch):
    with pytest.raises(UsageError, match="Known: pandas, polars, pyarrow"):
        build_frame({"a": [1]}, "excel")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("polars"))):
        build_frame({"a": [1]}, "polars")


def test_no_frame_package_is_imported_without_need():
    code = (
        "import sys, assay; assay.evaluate({'q': {'a': 1.0}}, {'q': {'a': 1}}, 'RR');"
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'narwhals') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("storage", ["object", "string[python]", "string[pyarrow]"])
def test_text_of_frames_is_numbered_alike_wherever_it_is_kept(storage):
    docs = ["é", "b", "é", "a-long-id-beyond-sixteen-bytes"]
    frame = pd.DataFrame({"query": list("ppqq"), "doc": docs, "score": [1.0, 2.0, 3.0, 4.0]})
    kept = frame.astype({"query": storage, "doc": storage})
    parts = pa.concat_tables([pa.table(dict(frame[:1])), pa.table(dict(frame[1:]))]).slice(1)
    for table, first in ((kept, 0), (parts, 1)):
        lines = lines_of_frame(table, "run")
        assert [lines.doc_ids[code] for code in lines.docs.tolist()] == docs[first:]
        assert [lines.query_ids[code] for code in lines.queries.tolist()] == list("ppqq")[first:]


@pytest.mark.parametrize("odd", ["", "a b", None])
@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_an_odd_id_of_a_frame_is_named_with_its_row(make, odd):
    table = make({"query": ["p", "q"], "doc": ["a", odd], "score": [1.0, 2.0]})
    with pytest.raises((IdError, ValueRangeError), match="row 1"):
        lines_of_frame(table, "run")
