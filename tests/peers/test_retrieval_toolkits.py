"""sentence-transformers, BEIR and MTEB: their own evaluation code, fed with finished runs."""

from __future__ import annotations

import copy
import random

import pytest

from assay import evaluate, preset

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

KS = [1, 3, 5, 10]


def data(ties: bool, *, grades: tuple[int, ...] = (0, 1, 2, 3)) -> tuple[dict, dict]:
    """Runs in which the query's own id is retrieved now and then, as in BEIR's Quora."""
    rng = random.Random(11)
    run, qrels = {}, {}
    for q in range(60):
        docs, judged = (rng.sample(range(70), rng.randint(1, 15)) for _ in range(2))
        if q % 3 == 0:
            docs.append(q)
        judged = [d for d in judged if d != q]
        run[f"{q}"] = {f"{d}": float(rng.choice([1, 2, 3])) if ties else rng.random() for d in docs}
        qrels[f"{q}"] = {f"{d}": rng.choice(grades) for d in judged or [99]}
    return run, qrels


# sentence-transformers 6.2.0


def sentence_transformers_metrics(run: dict, qrels: dict) -> dict:
    module = pytest.importorskip("sentence_transformers.evaluation")
    relevant = {q: {d for d, grade in row.items() if grade > 0} for q, row in qrels.items()}
    corpus = {doc: "" for row in run.values() for doc in row}
    evaluator = module.InformationRetrievalEvaluator(
        dict.fromkeys(qrels, ""),
        corpus,
        relevant,
        accuracy_at_k=KS,
        precision_recall_at_k=KS,
        mrr_at_k=KS,
        ndcg_at_k=KS,
        map_at_k=KS,
    )
    rows = [
        [{"corpus_id": doc, "score": score} for doc, score in run[query].items()]
        for query in evaluator.queries_ids
    ]
    return evaluator.compute_metrics(rows)


@pytest.mark.parametrize("ties", [True, False])
def test_sentence_transformers(ties):
    run, qrels = data(ties, grades=(0, 1))
    wanted = sentence_transformers_metrics(run, qrels)
    names = {
        "accuracy@k": "Success",
        "precision@k": "P",
        "recall@k": "R",
        "ndcg@k": "nDCG",
        "mrr@k": "RR",
        "map@k": "AP",
    }
    for theirs, name in names.items():
        for k in KS:
            mean = evaluate(run, qrels, f"{name}@{k}", conventions="sentence_transformers").mean()
            assert mean[f"{name}@{k}"] == pytest.approx(wanted[theirs][k], abs=1e-12), (name, k)


# BEIR 2.2.0


def beir_evaluator():
    return pytest.importorskip("beir.retrieval.evaluation").EvaluateRetrieval


@pytest.mark.parametrize("ties", [True, False])
def test_beir(ties):
    run, qrels = data(ties)
    qrels["missing"] = {"1": 1}
    tables = beir_evaluator().evaluate(qrels, copy.deepcopy(run), KS)
    for table, (theirs, name) in zip(
        tables, [("NDCG", "nDCG"), ("MAP", "AP"), ("Recall", "R"), ("P", "P")], strict=True
    ):
        for k in KS:
            mean = evaluate(run, qrels, f"{name}@{k}", conventions="beir").mean()
            assert mean[f"{name}@{k}"] == pytest.approx(table[f"{theirs}@{k}"], abs=5.1e-6)


def test_the_mrr_of_beir_takes_insertion_order_and_all_judged_queries():
    """Its own metrics keep the order of the dict among ties, and the query's own id."""
    run, qrels = data(ties=True, grades=(1,))
    qrels["missing"] = {"1": 1}
    wanted = beir_evaluator().evaluate_custom(qrels, copy.deepcopy(run), KS, metric="mrr")
    rules = preset("beir").replace(
        tiebreak="index", missing="zero", self_match="keep", scores="float64"
    )
    for k in KS:
        mean = evaluate(run, qrels, f"RR@{k}", conventions=rules).mean()
        assert mean[f"RR@{k}"] == pytest.approx(wanted[f"MRR@{k}"], abs=5.1e-6)


def test_beir_keeps_a_judgment_of_the_query_itself():
    """It drops the query's own id from the run only, so that such a judgment lowers recall."""
    run, qrels = {"a": {"a": 2.0, "b": 1.0}}, {"a": {"a": 1, "b": 1}}
    recall = beir_evaluator().evaluate(qrels, copy.deepcopy(run), [5])[2]
    assert recall == {"Recall@5": 0.5}
    assert evaluate(run, qrels, "R@5", conventions="beir").mean()["R@5"] == 1.0


# MTEB 2.26.24


@pytest.mark.parametrize("ties", [True, False])
def test_mteb(ties):
    module = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    run, qrels = data(ties, grades=(1, 1, 2))
    found = module.calculate_retrieval_scores(run, qrels, KS)
    tables = {
        "nDCG": (found.ndcg, "NDCG"),
        "AP": (found.map, "MAP"),
        "R": (found.recall, "Recall"),
        "P": (found.precision, "P"),
        "RR": (found.mrr, "MRR"),
    }
    for name, (table, theirs) in tables.items():
        for k in KS:
            mean = evaluate(run, qrels, f"{name}@{k}", conventions="mteb").mean()
            assert mean[f"{name}@{k}"] == pytest.approx(table[f"{theirs}@{k}"], abs=1.1e-5)
