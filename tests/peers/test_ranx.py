"""ranx 0.3.21 and Assay under the preset that reproduces it.

Agreement holds on rows without ties and, for `Run` objects, on tied rows of up to 15 documents.
The last tests pin down where it has no defined behaviour that a preset could reproduce.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from assay import evaluate, parse, preset
from assay.compat import ranx as compat
from assay.errors import MismatchError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ranx = pytest.importorskip("ranx")

# Their name, ours.
SHARED = {
    "map": "AP",
    "map@5": "AP@5",
    "map@5-l2": "AP(rel=2)@5",
    "mrr": "RR",
    "mrr@3": "RR@3",
    "ndcg": "nDCG",
    "ndcg@5": "nDCG@5",
    "ndcg_burges@5": "nDCG(gain=exp)@5",
    "precision@5": "P@5",
    "precision@100": "P@100",
    "recall@5": "R@5",
    "hit_rate@3": "Success@3",
    "hits@4": "num_rel_ret@4",
    "r-precision": "Rprec",
    "f1": "SetF",
}


def data(ties: bool) -> tuple[dict, dict]:
    rng = random.Random(8)
    run, qrels = {}, {}
    for q in range(60):
        docs, judged = (rng.sample(range(15), rng.randint(1, 15)) for _ in range(2))
        levels = rng.sample(range(-9, 9), 15)
        run[f"q{q:02d}"] = {
            f"d{d}": float(rng.randint(0, 2) if ties else levels[i]) for i, d in enumerate(docs)
        }
        qrels[f"q{q:02d}"] = {f"d{d}": rng.choice([0, 0, 1, 2, 3]) for d in judged}
    return run, qrels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_shared_measures(name, ties):
    run, qrels = data(ties)
    own = SHARED[name]
    wanted = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), name, return_mean=False)
    found = evaluate(run, qrels, own, conventions="ranx")[own]
    np.testing.assert_allclose(np.nan_to_num(found), wanted, rtol=0, atol=1e-12)


def test_empty_queries_count_zero():
    run, qrels = {"q": {"a": 1.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": 0}}
    assert ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "mrr") == 0.5
    assert evaluate(run, qrels, "RR", conventions="ranx").mean()["RR"] == 0.5


def test_missing_queries_are_an_error():
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": 1}}
    with pytest.raises(AssertionError, match="do not match"):
        ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "mrr")
    with pytest.raises(MismatchError):
        evaluate(run, qrels, "RR", conventions="ranx")


def rank_in_tied_row(length: int, wanted: int, *, plain: bool) -> int:
    run, qrels = {"q": {f"d{i}": 1.0 for i in range(length)}}, {"q": {f"d{wanted}": 1}}
    if not plain:
        run, qrels = ranx.Run(run), ranx.Qrels(qrels)
    return round(1 / ranx.evaluate(qrels, run, "mrr"))


def test_ties_in_long_rows_and_in_plain_dicts_have_another_order():
    assert [rank_in_tied_row(15, i, plain=False) for i in range(15)] == list(range(1, 16))
    assert [rank_in_tied_row(15, i, plain=True) for i in range(15)] == list(range(15, 0, -1))
    assert [rank_in_tied_row(20, i, plain=False) for i in range(20)] != list(range(1, 21))


def test_rbp_is_graded_without_a_limit_there():
    run, qrels = {"q": {"a": 1.0}}, {"q": {"a": 3}}
    assert ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "rbp.8") == pytest.approx(0.6)
    name = "RBP(graded=true,p=0.8)"
    assert evaluate(run, qrels, name, conventions=preset("ranx")).mean()[name] == pytest.approx(0.2)
    assert parse(name).definition.high == 1.0


# assay.compat.ranx

VALUES = (
    *("hits", "hits@3", "hit_rate", "hit_rate@3", "precision", "precision@5", "recall", "recall@5"),
    *("f1", "f1@4", "r-precision", "mrr", "mrr@3", "map", "map@5", "map@5-l2", "mrr-l3", "dcg@4"),
    *("dcg", "dcg_burges@4", "ndcg", "ndcg@5", "ndcg@5-l2", "ndcg-l3", "ndcg_burges@5", "hits-l2"),
    *("ndcg_burges-l2", "rbp.8", "rbp.95", "rbp.50-l2", "precision@5-l2", "f1@3-l2"),
)
FUSIONS = {
    **{name: {} for name in ("sum", "min", "max", "med", "anz", "mnz", "isr", "log_isr")},
    **{name: {"weights": [0.2, 0.8]} for name in ("wsum", "wmnz", "mixed", "w_bordafuse")},
    "bordafuse": {},
    "gmnz": {"gamma": 0.3},
    "logn_isr": {"sigma": 0.2},
    "rbc": {"phi": 0.8},
    "rrf": {"k": 30},
}


@pytest.mark.parametrize("ties", [False, True])
def test_values_of_the_compatible_functions(ties):
    run, qrels = data(ties)
    for query in qrels:
        qrels[query]["d0"] = -1
    given = [(one.Qrels(qrels), one.Run(run)) for one in (ranx, compat)]
    for theirs, mine in (given, [(qrels, run)] * 2):
        wanted = ranx.evaluate(*theirs, list(VALUES), return_mean=False)
        found = compat.evaluate(*mine, list(VALUES), return_mean=False)
        for name in VALUES:
            np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", ["bpref", "bpref-l2"])
def test_bpref_where_there_is_something_on_both_sides(name):
    run, qrels = data(ties=True)
    qrels = {query: {**docs, "d1": 3, "d2": 0} for query, docs in qrels.items()}
    wanted = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), name, return_mean=False)
    found = compat.evaluate(compat.Qrels(qrels), compat.Run(run), name, return_mean=False)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm", [None, "min-max", "min-max-inverted", "sum", "zmuv", "rank"])
@pytest.mark.parametrize("method", FUSIONS)
def test_compatible_fusions(method, norm):
    runs = [data(ties)[0] for ties in (False, True)]
    wanted = ranx.fuse([ranx.Run(run) for run in runs], norm, method, dict(FUSIONS[method]))
    found = compat.fuse([compat.Run(run) for run in runs], norm, method, dict(FUSIONS[method]))
    assert found.name == wanted.name
    for query in runs[0]:
        assert found[query] == pytest.approx(dict(wanted[query]), rel=1e-12, abs=1e-12)


def test_a_compatible_report():
    (run, qrels), (other, _) = data(ties=False), data(ties=True)
    metrics = ["map@10", "ndcg@5-l2"]
    made = [
        one.compare(
            one.Qrels(qrels), [one.Run(run, name="a"), one.Run(other, name="b")], metrics, max_p=0.5
        )
        for one in (ranx, compat)
    ]
    assert str(made[0]).split() == str(made[1]).split()
    wanted, found = (one.to_dict() for one in made)
    assert found["a"]["win_tie_loss"] == wanted["a"]["win_tie_loss"]
    for metric in metrics:
        p = found["a"]["comparisons"]["b"][metric]
        assert p == pytest.approx(wanted["a"]["comparisons"]["b"][metric], rel=1e-10)
