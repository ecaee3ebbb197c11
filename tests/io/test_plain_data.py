"""Plain dictionaries and tuples take a shorter way than other mappings; the answer is the same."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import evaluate
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.errors import AssayError
from assay.io.formats import as_judgments, as_ranking

DOCS = st.sampled_from(["a", "b", "c", "d", "é", "aa", "a1", "Z", "q1", "01", "1"])
QUERIES = st.sampled_from(["q1", "q2", "q3", "Q1", "01"])
SCORES = st.sampled_from([0.0, -0.0, 1.0, 2, 0.5, 0.1, 0.1 + 1e-12, np.float32(0.1), np.int64(2)])
GRADES = st.sampled_from([0, 1, 2, -1, 0.5, True, np.int64(1)])
RUNS = st.dictionaries(QUERIES, st.dictionaries(DOCS, SCORES, max_size=9), max_size=5)
QRELS = st.dictionaries(QUERIES, st.dictionaries(DOCS, GRADES, max_size=6), max_size=5)
RULES = st.builds(
    lambda **choices: preset("trec_eval").but(**choices),
    tiebreak=st.sampled_from(["id-descending", "id-ascending", "index"]),
    ties=st.sampled_from(["order", "expected", "best"]),
    scores=st.sampled_from(["float64", "float32"]),
    self_match=st.sampled_from(["keep", "exclude"]),
    missing=st.sampled_from(["zero", "skip", "error"]),
    depth=st.sampled_from([None, 1, 3]),
)
Line = namedtuple("Line", "query doc score")


def general(data: dict[Any, dict[Any, Any]]) -> dict[Any, Any]:
    """The same data in rows that are no plain dictionaries."""
    return {query: OrderedDict(row) for query, row in data.items()}


def plain(value: Any) -> Any:
    if isinstance(value, Ids):
        return value.kind, value.to_list()
    return (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value


def outcome(run: Any, qrels: Any, rules: Any, allow: bool = True) -> Any:
    """All that hits and scores say, or the error."""
    try:
        hits = judge(
            as_ranking(run, rules), as_judgments(qrels), conventions=rules, allow_mismatch=allow
        )
        scores = evaluate(
            run, qrels, ["P@2", "RR", "nDCG"], conventions=rules, allow_mismatch=allow
        )
    except AssayError as error:
        return type(error), str(error)
    parts = {field.name: plain(getattr(hits, field.name)) for field in fields(hits)}
    values = np.nan_to_num(scores.values, nan=-1).tolist(), scores.tied.tolist()
    return parts, values, scores.signature, scores.remarks


@settings(max_examples=300)
@given(run=RUNS, qrels=QRELS, rules=RULES, allow=st.booleans())
def test_plain_dictionaries_give_what_other_mappings_give(run, qrels, rules, allow):
    assert outcome(run, qrels, rules, allow) == outcome(general(run), general(qrels), rules, allow)


ODD = st.sampled_from([float("nan"), float("inf"), True, None, "1", 2**60, np.uint16(3), 1e39, 1.5])
ODD_DOCS = DOCS | st.sampled_from(["", "a b", "\0", "x\ud800", 7, 2**70, None, True])
ODD_RUNS = st.dictionaries(
    QUERIES | st.sampled_from(["q\n", 5]),
    st.dictionaries(ODD_DOCS, SCORES | ODD, max_size=3),
    max_size=3,
)


@settings(max_examples=300)
@given(odd=ODD_RUNS, rules=RULES, swap=st.booleans())
def test_what_is_odd_is_said_in_the_same_words(odd, rules, swap):
    fine = {"q1": {"a": 1, "b": 2}}
    run, qrels = (fine, odd) if swap else (odd, fine)
    assert outcome(run, qrels, rules) == outcome(general(run), general(qrels), rules)


@settings(max_examples=200)
@given(lines=st.lists(st.tuples(QUERIES | st.just(3), ODD_DOCS, SCORES | ODD), max_size=12))
def test_tuples_give_what_lists_and_named_tuples_give(lines):
    rules, qrels = preset("trec_eval"), {"q1": {"a": 1}}
    found = outcome(lines, qrels, rules)
    assert found == outcome([Line(*line) for line in lines], qrels, rules)
    if lines and not isinstance(found[0], type):  # an error shows the line as it was written
        assert found == outcome([list(line) for line in lines], qrels, rules)


@pytest.mark.parametrize("ids", [["1", "10", "2"], [1, 10, 2]])
def test_whole_numbers_are_ids_too(ids):
    run, qrels = {ids[0]: dict.fromkeys(ids, 1.0)}, {ids[0]: {ids[2]: 1}}
    rules = preset("trec_eval")
    assert outcome(run, qrels, rules) == outcome(general(run), general(qrels), rules)
