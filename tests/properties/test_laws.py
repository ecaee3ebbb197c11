"""Laws that hold for every registered measure, whatever the data.

The registry says which laws a measure claims; a law without a test, or a measure without a law,
fails here. Parameters are drawn at random from what each measure takes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from assay import Conventions, Measure, Scores, evaluate, judge, parse, preset
from assay.io.formats import as_judgments, as_ranking
from assay.measures import REGISTRY
from assay.measures.registry import LAWS, Definition, Param, load_measures
from assay.scoring.chance import ceiling
from tests.examples import examples
from tests.measures.generic import OF_HITS

TIES = ("order", "expected", "best", "worst", "midrank-up")
GRADES = (-1, 0, 0.5, 1, 2, 3)
load_measures()
# All measures, or those named in the environment, as a test of a single new measure does.
EVERY = sorted(os.environ.get("ASSAY_TEST_MEASURES", "").split() or OF_HITS)


def law_test(function: Any) -> Any:
    """The same examples in every run; each of them is for all measures at once."""
    quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    return examples(25, derandomize=True, suppress_health_check=quiet)(function)


# Random measures


def param_values(key: str, param: Param) -> st.SearchStrategy[Any]:
    if param.kind == "flag":
        return st.booleans()
    if param.kind == "choice":
        return st.sampled_from(param.choices)
    if param.kind == "levels":
        levels = st.floats(0, 1) | st.sampled_from([0, 1, 0.1, 0.5])
        return st.lists(levels, min_size=1, max_size=4).map(tuple)
    if param.kind == "gains":
        grades = st.sampled_from(GRADES)
        gains = st.sampled_from([0, 1, 2.5, 7])
        return st.dictionaries(grades, gains, min_size=1, max_size=3).map(
            lambda d: tuple(d.items())
        )
    low = 3 if key == "gmax" else max(param.low, -2)  # no grade above gmax
    return st.integers(math.ceil(low), int(min(param.high, 4))) | st.floats(low, min(param.high, 4))


@st.composite
def measures(draw: st.DrawFn, name: str, plain: bool = False, cut: bool | None = None) -> Measure:
    """A measure with random parameters; `cut` says whether it must or must not have a cutoff."""
    definition = REGISTRY[name]
    keys = [] if plain else draw(st.lists(st.sampled_from(sorted(definition.params) or [""])))
    params = {key: draw(param_values(key, definition.params[key])) for key in set(keys) - {""}}
    return definition.build(params, draw(cutoffs(definition, cut)))


def one_of_each(names: list[str] = EVERY, **kinds: Any) -> st.SearchStrategy[tuple[Measure, ...]]:
    """One random measure of each name."""
    return st.tuples(*(measures(name, **kinds) for name in names))


def cutoffs(definition: Definition, cut: bool | None) -> st.SearchStrategy[Any]:
    ranks = st.integers(1, 12) | st.just(1000)
    if definition.cutoff == "level":
        return st.sampled_from([0, 0.1, 0.35, 0.5, 1]) | st.floats(0, 1)
    if definition.cutoff == "required" or (definition.cutoff == "optional" and cut):
        return ranks
    return st.none() if definition.cutoff != "optional" or cut is False else st.none() | ranks


# Random data


@dataclass(frozen=True)
class Case:
    """Queries with retrieved documents and judgments, as dictionaries."""

    run: dict[str, dict[str, float]]
    qrels: dict[str, dict[str, float]]

    def scores(self, wanted: Sequence[Measure], rules: Conventions) -> Scores:
        return evaluate(self.run, self.qrels, wanted, conventions=rules)

    def values(self, wanted: Sequence[Measure], rules: Conventions) -> np.ndarray:
        """Measures × queries."""
        return self.scores(wanted, rules).values


@st.composite
def cases(draw: st.DrawFn, ties: bool = True, queries: int = 3, least: int = 0) -> Case:
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, float]] = {}
    few = st.integers(-2, 2).map(float)
    for q in range(draw(st.integers(1, queries))):
        docs = draw(st.permutations([f"d{i}" for i in range(draw(st.integers(least, 8)))]))
        scores = [draw(few) if ties else float(-place) for place in range(len(docs))]
        run[f"q{q}"] = dict(zip(docs, scores, strict=True))
        judged = {doc: draw(st.none() | st.sampled_from(GRADES)) for doc in docs}
        judged |= {f"u{i}": draw(st.sampled_from(GRADES)) for i in range(draw(st.integers(0, 3)))}
        qrels[f"q{q}"] = {doc: grade for doc, grade in judged.items() if grade is not None}
    return Case(run, qrels)


def conventions() -> st.SearchStrategy[Conventions]:
    return st.sampled_from(
        [
            preset("trec_eval").replace(ties=ties, ap=ap, recall=recall, gain=gain)
            for ties in TIES
            for ap, recall, gain in (("R", "R", "linear"), ("min", "min", "exp"))
        ]
    )


ORDER = preset("trec_eval")


def differing(left: np.ndarray, right: np.ndarray, wanted: Sequence[Measure]) -> list[Measure]:
    """The measures whose values differ in any bit."""
    return [m for m, a, b in zip(wanted, left, right, strict=True) if a.tobytes() != b.tobytes()]


# Laws of every measure


def test_every_law_has_a_test_and_every_measure_a_law():
    assert set(LAW_TESTS) == LAWS
    for name in EVERY:
        assert REGISTRY[name].laws, name
        assert REGISTRY[name].laws <= LAWS


@law_test
@given(one_of_each())
def test_names_read_back(wanted):
    for measure in wanted:
        again = parse(str(measure))
        assert again == measure
        assert hash(again) == hash(measure)
        assert str(again) == str(measure)


@law_test
@given(st.data(), one_of_each(), conventions())
def test_renaming_ids_changes_nothing(data, wanted, rules):
    # Under ties="order" the ids decide between equal scores: that is the rule.
    case = data.draw(cases(ties=rules.ties != "order"))
    new = {
        f"{kind}{i}": f"x{data.draw(st.integers(0, 99))}-{kind}{i}"
        for kind in "du"
        for i in range(8)
    }
    backwards = {f"q{q}": f"ünï-{9 - q}" for q in range(3)}
    renamed = Case(
        {backwards[q]: {new[d]: s for d, s in row.items()} for q, row in case.run.items()},
        {backwards[q]: {new[d]: g for d, g in row.items()} for q, row in case.qrels.items()},
    )
    np.testing.assert_allclose(
        renamed.values(wanted, rules)[:, ::-1], case.values(wanted, rules), rtol=0, atol=1e-13
    )


@law_test
@given(cases(), one_of_each(), conventions(), st.integers(-5, 5))
def test_an_increasing_transform_of_scores_changes_nothing(case, wanted, rules, shift):
    moved = {q: {d: math.exp(s) + shift for d, s in row.items()} for q, row in case.run.items()}
    left, right = Case(moved, case.qrels).values(wanted, rules), case.values(wanted, rules)
    assert not differing(left, right, wanted)


@law_test
@given(cases(), one_of_each(), conventions())
def test_the_range_holds(case, wanted, rules):
    for measure, values in zip(wanted, case.values(wanted, rules), strict=True):
        defined = values[~np.isnan(values)]
        high = measure.definition.high
        assert (defined >= 0).all(), measure
        assert high is None or (defined <= high).all(), measure


@law_test
@given(cases(), one_of_each())
def test_every_tie_rule_is_between_worst_and_best(case, wanted):
    by_rule = {ties: case.values(wanted, ORDER.replace(ties=ties)) for ties in TIES}
    for ties, values in by_rule.items():
        for measure, low, value, high in zip(
            wanted, by_rule["worst"], values, by_rule["best"], strict=True
        ):
            inside = (low - 1e-13 <= value) & (value <= high + 1e-13) | np.isnan(value)
            assert inside.all(), (measure, ties)


@law_test
@given(cases(), one_of_each(), st.none() | st.integers(1, 4))
def test_what_another_order_of_tied_documents_changes_is_marked(case, wanted, depth):
    down, up = (
        ORDER.replace(depth=depth, tiebreak=f"id-{way}") for way in ("descending", "ascending")
    )
    left, right = case.scores(wanted, down), case.scores(wanted, up)
    for one in (left, right):
        unmarked = ~one.tied & (np.nan_to_num(left.values) != np.nan_to_num(right.values))
        assert not [str(m) for m, row in zip(wanted, unmarked, strict=True) if row.any()]


@law_test
@given(cases(), one_of_each(), conventions())
def test_doubling_all_queries_leaves_means_as_they_are(case, wanted, rules):
    double = Case(
        {q + copy: row for q, row in case.run.items() for copy in "ab"},
        {q + copy: row for q, row in case.qrels.items() for copy in "ab"},
    )
    one, two = case.scores(wanted, rules), double.scores(wanted, rules)
    for empty in ("skip", "zero"):
        means, doubled = one.mean(empty=empty), two.mean(empty=empty)
        for measure in wanted:
            left, right = means[str(measure)], doubled[str(measure)]
            times = 2 if measure.definition.aggregate == "sum" else 1
            assert left * times == right or (math.isnan(left) and math.isnan(right)), measure


@law_test
@given(st.data(), cases(queries=6), one_of_each(), conventions())
def test_splitting_and_merging_gives_the_whole(data, case, wanted, rules):
    names = sorted(case.qrels)
    part_of = {q: data.draw(st.integers(0, 2)) for q in names}
    first = {part: q for q, part in reversed(part_of.items())}  # a part must hold some of the run
    missing = {q for q in names if first[part_of[q]] != q and data.draw(st.booleans())}
    case = Case({q: row for q, row in case.run.items() if q not in missing}, case.qrels)
    parts = []
    for part in data.draw(st.permutations(sorted(first))):
        mine = [q for q in names if part_of[q] == part]
        some = Case(
            {q: case.run[q] for q in mine if q not in missing}, {q: case.qrels[q] for q in mine}
        )
        parts.append(some.scores(wanted, rules))
    assert_equal_scores(Scores.merge(*parts), case.scores(wanted, rules))


def assert_equal_scores(left: Scores, right: Scores) -> None:
    assert list(left.query_ids) == list(right.query_ids)
    assert not differing(left.values, right.values, left.measures)
    assert not differing(left.tied, right.tied, left.measures)
    assert left.missing.tolist() == right.missing.tolist()
    # Remarks are about the input of a part: a part may be constant where the whole is not.
    assert repr(replace(left, remarks=())) == repr(replace(right, remarks=()))


# Laws that some measures claim


def gain_in(measure: Measure) -> Callable[[float | None], float]:
    """The gain of a grade for the measure; an unjudged document has none."""
    params, kind = dict(measure.params), measure.definition.gain
    gains, rel = dict(params.get("gains", ())), params.get("rel", 1)

    def gain(grade: float | None) -> float:
        if grade is None:
            return 0.0
        if kind in ("graded", "stop") or params.get("graded"):
            plain = max(grade, 0.0)
            return gains.get(grade, 2**plain - 1 if params.get("gain") == "exp" else plain)
        if grade >= max(rel, 0):
            return 1.0
        return -1.0 if kind == "preference" and grade >= 0 else 0.0

    return gain


def law_monotone(names: list[str], data: st.DataObject) -> None:
    """Swap every document with the one above it, if that has no more gain."""
    case = data.draw(cases(ties=False, queries=1, least=2))
    for measure in data.draw(one_of_each(names)):
        if dict(measure.params).get("over") == "hits":
            continue  # more hits may lower it; the last test shows how
        gain, judged, order = gain_in(measure), case.qrels["q0"], list(case.run["q0"])
        swaps = {"before": order}
        for at, (upper, lower) in enumerate(pairwise(order)):
            if max(gain(judged.get(upper)), 1e-9) <= gain(judged.get(lower)):
                swaps[f"after{at}"] = [*order[:at], lower, upper, *order[at + 2 :]]
        run = {q: {d: float(-i) for i, d in enumerate(docs)} for q, docs in swaps.items()}
        values = Case(run, dict.fromkeys(run, judged)).values([measure], ORDER)[0]
        *after, before = values  # "after…" sorts first
        assert not (np.array(after) < before - 1e-15).any(), measure


def law_local(names: list[str], data: st.DataObject) -> None:
    """Replace whatever stands below k by documents that nobody judged."""
    case = data.draw(cases(ties=False))
    new = {f"new{i}": -1000.0 - i for i in range(data.draw(st.integers(0, 3)))}
    for measure in data.draw(one_of_each(names, cut=True)):
        if dict(measure.params).get("ideal") == "retrieved":
            continue  # that ideal looks at the whole list
        k = measure.cutoff
        run = {
            q: {d: s for d, s in row.items() if -s < k} | (new if len(row) >= k else {})
            for q, row in case.run.items()
        }
        left, right = Case(run, case.qrels).values([measure], ORDER), case.values([measure], ORDER)
        assert not differing(left, right, [measure])


def law_perfect(names: list[str], data: st.DataObject) -> None:
    """The whole collection, best first: it reaches the ceiling, and nothing goes beyond."""
    case = data.draw(cases(ties=False, queries=1, least=1))
    judged = case.qrels["q0"]
    docs = sorted({*judged, *case.run["q0"], "never-seen"})
    for measure in data.draw(one_of_each(names)):
        gain = gain_in(measure)
        best = sorted(docs, key=lambda doc: -gain(judged.get(doc)))
        orders = {"q0": best, "q1": docs, "q2": docs[::-1]}
        run = {q: {d: float(-i) for i, d in enumerate(order)} for q, order in orders.items()}
        whole = Case(run, dict.fromkeys(run, judged))
        hits = judge(as_ranking(run, ORDER), as_judgments(whole.qrels), conventions=ORDER)
        top = ceiling(hits, measure, conventions=ORDER, n_docs=len(docs)).values[0]
        values = whole.values([measure], ORDER)[0]
        np.testing.assert_allclose(values[0], top[0], rtol=0, atol=1e-13, err_msg=str(measure))
        assert not (values > top + 1e-13).any(), measure


def law_holes(names: list[str], data: st.DataObject) -> None:
    """Judge one retrieved document more, if any is left."""
    case = data.draw(cases())
    wanted = data.draw(one_of_each(names))
    before = case.values(wanted, ORDER)
    for query, row in case.run.items():
        judged = case.qrels[query]
        left = [doc for doc in row if judged.get(doc, -1) < 0]
        if left:
            grade = data.draw(st.sampled_from([0, 1, 3]))
            more = case.qrels | {query: judged | {left[0]: grade}}
            after = Case(case.run, more).values(wanted, ORDER)
            assert (after <= before + 1e-15).all()


def law_order_free(names: list[str], data: st.DataObject) -> None:
    case, wanted = data.draw(cases()), data.draw(one_of_each(names, cut=False))
    shuffled = {
        q: dict(zip(row, data.draw(st.permutations(list(row.values()))), strict=True))
        for q, row in case.run.items()
    }
    left, right = Case(shuffled, case.qrels).values(wanted, ORDER), case.values(wanted, ORDER)
    assert not differing(left, right, wanted)


def law_size_only(names: list[str], data: st.DataObject) -> None:
    """Retrieve as many other documents."""
    case, wanted = data.draw(cases()), data.draw(one_of_each(names, cut=False))
    others = {q: {f"other-{d}": s for d, s in row.items()} for q, row in case.run.items()}
    left = evaluate(others, case.qrels, wanted, conventions=ORDER, allow_mismatch=True).values
    assert not differing(left, case.values(wanted, ORDER), wanted)


def equals_reference(names: list[str], data: st.DataObject, reference: str) -> None:
    """With one relevant document in each query, retrieved or not."""
    case = data.draw(cases(least=1))
    qrels = {
        query: {**dict.fromkeys(row, 0.0), data.draw(st.sampled_from([*row, "unseen"])): 1.0}
        for query, row in case.run.items()
    }
    rules = ORDER.replace(ties=data.draw(st.sampled_from(TIES)))
    for measure in data.draw(one_of_each(names, plain=True)):
        other = REGISTRY[reference].build({}, measure.cutoff)
        values, wanted = (Case(case.run, qrels).values([m], rules) for m in (measure, other))
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-15, err_msg=str(measure))


LAW_TESTS = {
    "monotone": law_monotone,
    "local": law_local,
    "perfect": law_perfect,
    "holes": law_holes,
    "order-free": law_order_free,
    "size-only": law_size_only,
    "single-RR": partial(equals_reference, reference="RR"),
    "single-Success": partial(equals_reference, reference="Success"),
}


@pytest.mark.parametrize("law", sorted(LAW_TESTS))
@law_test
@given(st.data())
def test_the_laws_that_measures_claim(law, data):
    if names := [name for name in EVERY if law in REGISTRY[name].laws]:
        LAW_TESTS[law](names, data)


def test_ap_over_hits_is_not_monotone():
    """A hit that moves up to rank 9 lowers the value: (1 + 2/9) / 2 is less than 1."""
    docs = [f"d{i}" for i in range(10)]
    qrels = {"q": {"d0": 1, "d9": 1}}
    below, inside = (
        evaluate({"q": {d: -float(i) for i, d in enumerate(order)}}, qrels, "AP(over=hits)@9")
        for order in (docs, [*docs[:8], "d9", "d8"])
    )
    assert inside.values[0, 0] < below.values[0, 0]
