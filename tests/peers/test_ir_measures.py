"""ir_measures and Assay, through the providers of ir_measures that work without anything else.

It takes each measure from the first provider that has it, and they order ties differently:
- pytrec_eval (most measures) and gdeval (nDCG with exponential gain, ERR): id descending;
- its own Judged, and the MS MARCO script (RR with a cutoff): id ascending.
Other differences, by design: its SetF passes beta to trec_eval, which takes it for beta squared;
its Judged counts a negative grade as judged; gdeval prints five digits and wants numbered queries.
"""

from __future__ import annotations

import math
import random
import shutil

import numpy as np
import pytest

from assay import Conventions, evaluate, parse, preset
from assay.compat import ir_measures as compat
from tests.peers.their_names import parse_theirs

ir_measures = pytest.importorskip("ir_measures")

DESCENDING = (
    *("P@5", "P(rel=2)@3", "RR", "RR(rel=2)", "Rprec", "Rprec(rel=2)", "AP", "AP@5"),
    *("AP(rel=2)@4", "nDCG", "nDCG@5", "R@5", "R(rel=2)@5", "Bpref", "Bpref(rel=2)", "NumRet"),
    *("NumRel", "SetP", "SetP(rel=2)", "SetR", "SetF", "Success@3", "Success(rel=2)@5"),
    *("IPrec@0.2", "IPrec@0.55", "IPrec@1.0"),
)
ASCENDING = ("RR@3", "RR(rel=2)@10", "Judged@3", "Judged@10", "Judged")
GDEVAL = ("nDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')@20", "ERR@5", "ERR@20")


def data(grades: list[int], ties: bool) -> tuple[dict, dict]:
    rng = random.Random(4)
    run, qrels = {}, {}
    for q in range(1, 81):
        docs, judged = (rng.sample(range(15), rng.randint(1, 15)) for _ in range(2))
        run[str(q)] = {
            f"d-{d}": rng.choice([0.0, 1.0, 2.0]) if ties else rng.random() for d in docs
        }
        qrels[str(q)] = {f"d-{d}": rng.choice(grades) for d in judged}
    return run, qrels


def theirs(name: str, run: dict, qrels: dict) -> dict[str, float]:
    measure = parse_theirs(ir_measures, name)
    return {found.query_id: found.value for found in ir_measures.iter_calc([measure], qrels, run)}


def compare(
    name: str, run: dict, qrels: dict, rules: Conventions, *, own: str = "", within: float = 1e-12
) -> None:
    """Their value of every query, 0 where undefined, against ours; `own` is our name for it."""
    measure = own or str(parse_theirs(ir_measures, name))
    scores = evaluate(run, qrels, measure, conventions=rules)
    wanted = theirs(name, run, qrels)
    assert set(wanted) == set(scores.query_ids)
    found = np.nan_to_num(scores[measure])
    np.testing.assert_allclose(found, [wanted[q] for q in scores.query_ids], rtol=0, atol=within)


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("name", DESCENDING)
def test_measures_from_pytrec_eval(name, ties):
    compare(name, *data([0, 0, 1, 2, 3, 4, -1], ties), preset("pytrec_eval"))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("name", ASCENDING)
def test_measures_that_order_ties_by_id_ascending(name, ties):
    compare(name, *data([0, 0, 1, 2, 3, 4], ties), preset("sentence_transformers"))


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a perl script")
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("name", GDEVAL)
def test_measures_from_gdeval(name, ties):
    compare(name, *data([0, 0, 1, 2, 3, 4], ties), preset("trec_eval"), within=5.1e-6)


def test_the_beta_of_set_f_is_squared_there():
    run, qrels = data([0, 1, 2], ties=False)
    compare(
        "SetF(beta=0.5)",
        run,
        qrels,
        preset("pytrec_eval"),
        own=f"SetF(beta={math.sqrt(0.5)})",
        within=1e-9,
    )


def test_a_negative_grade_is_judged_there_and_to_be_ignored_here():
    run, qrels = {"1": {"a": 2.0, "b": 1.0}}, {"1": {"a": -1, "b": 1}}
    assert theirs("Judged@1", run, qrels) == {"1": 1.0}
    assert evaluate(run, qrels, "Judged@1").mean()["Judged@1"] == 0.0


def test_their_names_are_ours():
    for name in (*DESCENDING, *ASCENDING, *GDEVAL):
        assert parse(str(parse_theirs(ir_measures, name)))


@pytest.mark.parametrize("name", ["RBP(rel=1)", "RBP(rel=2,p=0.95)"])
def test_rbp_is_that_of_cwl_eval(name):
    pytest.importorskip("cwl")
    run, qrels = data([0, 0, 1, 2, 3, 4], ties=True)
    measure = compat.parse_measure(name)
    found = {one.query_id: one.value for one in compat.iter_calc([measure], qrels, run)}
    assert found == pytest.approx(theirs(name, run, qrels), abs=1e-12)
