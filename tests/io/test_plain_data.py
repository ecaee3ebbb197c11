"""Plain dictionaries and tuples take a shorter way than other mappings; the answer is the same."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import evaluate
from assay.core import object_join
from assay.core.conventions import preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.object_join import judge_objects
from assay.errors import AssayError
from assay.io.formats import as_judgments, as_ranking
from assay.native import load
from tests.examples import examples

DOCS = st.sampled_from(["a", "b", "c", "d", "é", "aa", "a1", "Z", "q1", "01", "1"])
QUERIES = st.sampled_from(["q1", "q2", "q3", "Q1", "01"])
SCORES = st.sampled_from([0.0, -0.0, 1.0, 2, 0.5, 0.1, 0.1 + 1e-12, np.float32(0.1), np.int64(2)])
GRADES = st.sampled_from([0, 1, 2, -1, 0.5, True, np.int64(1)])
RUNS = st.dictionaries(QUERIES, st.dictionaries(DOCS, SCORES, max_size=9), max_size=5)
QRELS = st.dictionaries(QUERIES, st.dictionaries(DOCS, GRADES, max_size=6), max_size=5)
RULES = st.builds(
    lambda **choices: preset("trec_eval").replace(**choices),
    tiebreak=st.sampled_from(["id-descending", "id-ascending", "index"]),
    ties=st.sampled_from(["order", "expected", "best"]),
    scores=st.sampled_from(["float64", "float32"]),
    self_match=st.sampled_from(["keep", "exclude"]),
    missing=st.sampled_from(["zero", "skip", "error"]),
    depth=st.sampled_from([None, 1, 3]),
)


def load_or_skip(engine):
    try:
        return load(engine)
    except ImportError:
        pytest.skip("assay.native._kernels is not built")


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
        hits = judge_objects(run, qrels, rules, allow_mismatch=allow) or judge(
            as_ranking(run, rules), as_judgments(qrels), conventions=rules, allow_mismatch=allow
        )
        scores = evaluate(
            run, qrels, ["P@2", "RR", "nDCG"], conventions=rules, allow_mismatch=allow
        )
    except AssayError as error:
        return type(error), str(error)
    # `cover` is a function for chance, which asks `judge` alone.
    names = [field.name for field in fields(hits) if field.name != "cover"]
    parts = {name: plain(getattr(hits, name)) for name in names}
    values = np.nan_to_num(scores.values, nan=-1).tolist(), scores.tied.tolist()
    return parts, values, scores.signature, scores.remarks


@examples(300)
@given(run=RUNS, qrels=QRELS, rules=RULES, allow=st.booleans())
def test_plain_dictionaries_give_what_other_mappings_give(run, qrels, rules, allow):
    assert outcome(run, qrels, rules, allow) == outcome(general(run), general(qrels), rules, allow)


def test_a_list_of_all_that_a_run_names_is_not_short_in_dictionaries_either():
    run, qrels = {"q1": {"b": 0.0}}, {"q1": {"a": 1, "b": 0}}
    for data in ((run, qrels), (general(run), general(qrels))):
        assert evaluate(*data, "P@2").remarks == ()
    run, qrels = run | {"q2": {"c": 1.0}}, qrels | {"q2": {"d": 1}}  # c is not in the list of q1
    for data in ((run, qrels), (general(run), general(qrels))):
        (remark,) = evaluate(*data, "P@2").remarks
        assert remark.startswith("P@2: the longest list has 1 document")


ODD = st.sampled_from([float("nan"), float("inf"), True, None, "1", 2**60, np.uint16(3), 1e39, 1.5])
ODD_DOCS = DOCS | st.sampled_from(["", "a b", "\0", "x\ud800", 7, 2**70, None, True])
ODD_RUNS = st.dictionaries(
    QUERIES | st.sampled_from(["q\n", 5]),
    st.dictionaries(ODD_DOCS, SCORES | ODD, max_size=3),
    max_size=3,
)


@examples(300)
@given(odd=ODD_RUNS, rules=RULES, swap=st.booleans())
def test_what_is_odd_is_said_in_the_same_words(odd, rules, swap):
    fine = {"q1": {"a": 1, "b": 2}}
    run, qrels = (fine, odd) if swap else (odd, fine)
    assert outcome(run, qrels, rules) == outcome(general(run), general(qrels), rules)


@examples(200)
@given(lines=st.lists(st.tuples(QUERIES | st.just(3), ODD_DOCS, SCORES | ODD), max_size=12))
def test_tuples_give_what_lists_and_named_tuples_give(lines):
    rules, qrels = preset("trec_eval"), {"q1": {"a": 1}}
    found = outcome(lines, qrels, rules)
    assert found == outcome([Line(*line) for line in lines], qrels, rules)
    if lines and not isinstance(found[0], type):  # an error shows the line as it was written
        assert found == outcome([list(line) for line in lines], qrels, rules)


JUDGED = st.lists(st.tuples(QUERIES | st.just(3), ODD_DOCS, GRADES | ODD), max_size=9)


@examples(300)
@given(
    lines=st.lists(st.tuples(QUERIES, ODD_DOCS, SCORES | ODD), max_size=12),
    judged=JUDGED,
    rules=RULES,
    allow=st.booleans(),
    pairs=st.booleans(),
)
def test_tuples_on_both_sides_give_what_named_tuples_give(lines, judged, rules, allow, pairs):
    found = outcome(lines, [line[:2] if pairs else line for line in judged], rules, allow)
    named = [Line(*line) for line in lines], [Line(*line[:2], line[2]) for line in judged]
    if pairs:
        named = named[0], [list(line[:2]) for line in judged]
    other = outcome(*named, rules, allow)
    assert found == other or (isinstance(found[0], type) and found[0] == other[0])


def as_tuples(data: dict[Any, dict[Any, Any]]) -> list[tuple[Any, Any, Any]]:
    return [(query, doc, value) for query, row in data.items() for doc, value in row.items()]


@examples(300)
@given(run=RUNS, qrels=QRELS, rules=RULES, allow=st.booleans())
def test_tuples_give_what_dictionaries_give(run, qrels, rules, allow):
    run, qrels = ({query: row for query, row in data.items() if row} for data in (run, qrels))
    found = outcome(as_tuples(run), as_tuples(qrels), rules, allow)
    other = outcome(run, qrels, rules, allow)
    assert found == other or not (run and qrels)


def test_tuples_that_are_plain_are_not_numbered():
    run, qrels = map(as_tuples, larger(0.0))
    rules = preset("trec_eval")
    assert judge_objects(run, qrels, rules, allow_mismatch=False) is not None
    split = [*run[1:], run[0]]  # a query that is there in two places
    repeated = [*run, (*run[-1][:2], 0.5)]
    for odd in (split, repeated):
        assert judge_objects(odd, qrels, rules, allow_mismatch=False) is None
        assert judge_objects(run, odd, rules, allow_mismatch=False) is None
    assert outcome(split, qrels, rules)[:2] == outcome(run, qrels, rules)[:2]


@pytest.mark.parametrize("ids", [["1", "10", "2"], [1, 10, 2]])
def test_whole_numbers_are_ids_too(ids):
    run, qrels = {ids[0]: dict.fromkeys(ids, 1.0)}, {ids[0]: {ids[2]: 1}}
    rules = preset("trec_eval")
    assert outcome(run, qrels, rules) == outcome(general(run), general(qrels), rules)


@cache
def larger(foreign: float) -> tuple[dict, dict]:
    """Some judged documents are not in the run, and of these some do not look like its ids."""
    rng = np.random.default_rng(7)
    run, qrels = {}, {}
    for query in map("q{}".format, range(25)):
        docs = rng.choice(3000, 40, replace=False)
        run[query] = {f"d{doc}": float(rng.integers(12)) for doc in docs}
        other = rng.random(12) < foreign
        judged = np.where(other, rng.integers(5000, 9000, 12), docs[:12])
        names = [f"D-{doc}" if odd else f"d{doc}" for doc, odd in zip(judged, other, strict=True)]
        qrels[query] = {name: int(rng.integers(3)) for name in names}
    return run, qrels


@cache
def other_way(foreign: float, rules: Any, allow: bool) -> Any:
    return outcome(*map(general, larger(foreign)), rules, allow)


@pytest.mark.parametrize("tiebreak", ["id-descending", "id-ascending", "index"])
@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("foreign", [0.0, 0.5, 0.85, 0.95, 1.0])
def test_larger_dictionaries_of_both_engines(monkeypatch, engine, tiebreak, foreign):
    monkeypatch.setattr(object_join, "kernels", lambda: load_or_skip(engine))
    rules = preset("trec_eval").replace(tiebreak=tiebreak)
    for allow in (False, True):
        found = outcome(*larger(foreign), rules, allow)
        assert found == other_way(foreign, rules, allow)
        assert outcome(*map(as_tuples, larger(foreign)), rules, allow) == found
    for given_as in (dict, as_tuples):
        taken = judge_objects(*map(given_as, larger(foreign)), rules, allow_mismatch=False)
        assert (taken is None) == (foreign >= 0.5)


def test_remarks_on_scores_are_the_same():
    rules = preset("trec_eval")
    graded = {f"q{i}": {f"d{i}{j}": (i + j) % 3 for j in range(4)} for i in range(5)}
    constant = {query: dict.fromkeys(row, 1.0) for query, row in graded.items()}
    scores = {query: {doc: 0.1 * len(query + doc) for doc in row} for query, row in graded.items()}
    fractions = {f"q{i}": {f"d{i}{j}": 0.31 * i + 0.07 * j for j in range(4)} for i in range(5)}
    for run, qrels in ((graded, graded), (constant, graded), (scores, fractions)):
        found = outcome(run, qrels, rules)
        assert found[0]["remarks"]
        assert found == outcome(general(run), general(qrels), rules)
