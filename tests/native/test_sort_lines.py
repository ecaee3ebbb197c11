"""Run lines into rows by ids: text, integers, and the errors that name them."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core import ranking
from assay.core.ids import Ids
from assay.core.ranking import sort_lines
from assay.errors import IdError, ValueRangeError


@pytest.fixture(autouse=True)
def use_engine(engine, monkeypatch):
    monkeypatch.setattr(ranking, "kernels", lambda: engine)


def sort(docs, scores, doc_ids, **options):
    codes = np.array(docs, np.int32)
    queries = np.zeros(len(docs), np.int32)
    values = np.array(scores, np.float64)
    ids = Ids.of(doc_ids)
    return sort_lines(queries, codes, values, query_ids=Ids.of(["q7"]), doc_ids=ids, **options)


@pytest.mark.parametrize("ids", [["10", "9", "-1"], [10, 9, -1]], ids=["text", "integer"])
def test_ties_follow_the_ids(ids):
    for ties, reverse in (("id-ascending", False), ("id-descending", True)):
        found = sort([0, 1, 2], [1, 1, 1], ids, tiebreak=ties).docs
        assert [ids[doc] for doc in found] == sorted(ids, key=str, reverse=reverse)
    assert sort([2, 0, 1], [1, 1, 1], ids, tiebreak="index").docs.tolist() == [2, 0, 1]


def test_rows_are_read_only():
    for column in sort([0], [1], ["a"]):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_a_doc_twice_is_named():
    with pytest.raises(IdError, match="doc 'b' of query 'q7' is in the run more than once"):
        sort([0, 1, 1], [3, 2, 1], ["a", "b"])


def test_a_score_beyond_float32_is_named():
    with pytest.raises(ValueRangeError, match=r"score of doc 'a' of query 'q7' is beyond"):
        sort([0], [1e39], ["a"], float32=True)


@pytest.mark.parametrize("scores", [[3, 2, 2, 1], [3, 2, 1, 2], [1, 1, 2, 2]])
@pytest.mark.parametrize("owned", [False, True])
def test_arrays_are_kept_only_where_nobody_changes_them(scores, owned):
    docs, values = np.array([0, 2, 1, 3], np.int32), np.array(scores, np.float64)
    ids = {"query_ids": Ids.of(["q"]), "doc_ids": Ids.of(list("abcd"))}
    found = sort_lines(np.zeros(4, np.int32), docs, values, **ids, owned=owned)
    kept = np.shares_memory(found.docs, docs) or np.shares_memory(found.scores, values)
    assert owned or not kept
    before = found.docs.tolist(), found.scores.tolist()
    by_rule = sorted(zip(scores, "acbd", [0, 2, 1, 3], strict=True), reverse=True)
    assert before == ([doc for *_, doc in by_rule], [score for score, *_ in by_rule])
    if not owned:
        docs[:], values[:] = 0, 0
        assert (found.docs.tolist(), found.scores.tolist()) == before


def test_a_run_in_order_is_not_copied(both):
    docs, values = np.arange(3, dtype=np.int32), np.array([3.0, 2.0, 1.0])
    lines = np.zeros(3, np.int32), docs, values
    ids = np.frombuffer(b"abc", np.uint8), np.arange(4)
    _, found, scores, fault = both[0].sort_rows(*lines, 1, *ids, -1, False)
    assert (found is docs, scores is values, fault) == (True, True, None)
    assert both[0].sort_rows(*lines, 1, *ids, -1, True)[1] is not docs
