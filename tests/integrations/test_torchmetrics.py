"""The metric of torchmetrics: the numbers of `evaluate`, over batches and over processes."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from assay import Scores, compare, evaluate
from assay.errors import IdError, MissingPackageError, ShapeError, UsageError
from assay.integrations import RetrievalMetric

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")

N_QUERIES, N_DOCS = 24, 7
MEASURES = ["nDCG@5", "AP", "RR"]


def batch(seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    preds = rng.random((N_QUERIES, N_DOCS)).astype(np.float32)
    target = rng.integers(0, 3, (N_QUERIES, N_DOCS))
    target[0] = 0
    return preds, target, np.repeat(np.arange(N_QUERIES), N_DOCS).reshape(N_QUERIES, N_DOCS)


def expected(measures: Any = tuple(MEASURES)) -> Scores:
    preds, target, indexes = batch()
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number, (query, score, grade) in enumerate(
        zip(indexes.ravel(), preds.ravel(), target.ravel(), strict=True)
    ):
        run.setdefault(str(query), {})[f"{number:04}"] = float(score)
        qrels.setdefault(str(query), {})[f"{number:04}"] = int(grade)
    return evaluate(run, qrels, list(measures))


def updated(metric: Any, rows: slice = slice(None), *, step: int = 5, flat: bool = True) -> Any:
    preds, target, indexes = (torch.from_numpy(one[rows]) for one in batch())
    for start in range(0, len(preds), step):
        part = slice(start, start + step)
        if flat:
            metric.update(preds[part].ravel(), target[part].ravel(), indexes[part].ravel())
        else:
            metric.update(preds[part], target[part])
    return metric


@pytest.mark.parametrize("flat", [True, False])
def test_batches_give_the_means_of_evaluate(flat):
    found = updated(RetrievalMetric(MEASURES), flat=flat).compute()
    assert {name: value.item() for name, value in found.items()} == dict(expected().mean())


def test_one_measure_is_one_number():
    found = updated(RetrievalMetric("AP")).compute()
    assert found.item() == expected(["AP"]).mean()["AP"]


def test_forward_is_of_the_batch_and_compute_of_all():
    metric = RetrievalMetric("RR")
    preds, target, indexes = map(torch.from_numpy, batch())
    ones = [metric(preds[i : i + 4], target[i : i + 4], indexes[i : i + 4]) for i in (0, 4, 8)]
    alone = RetrievalMetric("RR")
    alone.update(preds[4:8], target[4:8], indexes[4:8])
    assert ones[1] == alone.compute()
    assert len(metric.scores().query_ids) == 12


def test_the_conventions_of_torchmetrics_are_a_preset():
    from torchmetrics.retrieval import RetrievalNormalizedDCG

    preds, target, indexes = map(torch.from_numpy, batch())
    theirs = RetrievalNormalizedDCG(top_k=5)
    theirs.update(preds.ravel(), target.ravel(), indexes.ravel())
    ours = updated(RetrievalMetric("nDCG@5", conventions="torchmetrics"))
    assert ours.compute().item() == pytest.approx(theirs.compute().item(), abs=1e-6)


def test_scores_are_compared_and_reported():
    scores = updated(RetrievalMetric(MEASURES)).scores()
    assert scores.values.shape == (3, N_QUERIES)
    assert "identical" in compare(scores, scores, names=["a", "b"], measures="AP").verdict


def test_a_repeated_query_counts_once_and_a_changed_one_is_refused():
    metric = updated(RetrievalMetric("AP"))
    updated(metric, slice(0, 3))
    assert metric.compute().item() == expected(["AP"]).mean()["AP"]
    metric.update(torch.tensor([0.1, 0.9]), torch.tensor([1, 0]), torch.tensor([0, 0]))
    with pytest.raises(IdError, match="Query 0 came twice"):
        metric.compute()


def test_candidates_to_ignore_are_left_out():
    metric = RetrievalMetric("RR", ignore_index=-100)
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[-100, 1, 0]]))
    metric.update(torch.tensor([[0.9]]), torch.tensor([[-100]]))
    assert metric.compute().item() == 1.0


def test_reset_merge_and_pickle():
    first, second = (
        updated(RetrievalMetric("AP"), rows) for rows in (slice(0, 10), slice(10, N_QUERIES))
    )
    first.merge_state(second)
    assert first.compute().item() == expected(["AP"]).mean()["AP"]
    assert pickle.loads(pickle.dumps(first)).compute() == first.compute()
    first.reset()
    with pytest.raises(UsageError, match="No data"):
        first.compute()


def test_half_precision_of_a_model_changes_no_state():
    metric = updated(RetrievalMetric("AP"))
    metric.set_dtype(torch.float16)
    assert metric.compute().item() == expected(["AP"]).mean()["AP"]


def test_a_collection_holds_it():
    found = torchmetrics.MetricCollection({"a": RetrievalMetric("AP"), "r": RetrievalMetric("RR")})
    preds, target, indexes = map(torch.from_numpy, batch())
    found.update(preds, target, indexes)
    assert found.compute()["r"].item() == expected(["RR"]).mean()["RR"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (([0.1, 0.2], [1, 0], None), ShapeError, "queries × candidates"),
        (([[0.1, 0.2]], [[1, 0, 0]], None), ShapeError, "one shape"),
        (([0.1, 0.2], [1, 0], [-1, 0]), UsageError, "from 0"),
        (([0.1, 0.2], [1, 0], [0.5, 0.5]), UsageError, "whole numbers"),
        (([float("nan"), 0.2], [1, 0], [0, 0]), ValueError, "nan at row 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(given, error, message):
    tensors = [None if one is None else torch.tensor(one) for one in given]
    with pytest.raises(error, match=message):
        RetrievalMetric("AP").update(*tensors)


def _process(rank: int, folder: str, results: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=3)
    rows = [slice(0, 15), slice(14, N_QUERIES), slice(0, 0)][rank]  # query 14 twice, one has none
    metric = updated(RetrievalMetric(MEASURES), rows)
    found = {name: value.item() for name, value in metric.compute().items()}
    results.put((rank, found, len(metric.query_ids)))
    dist.destroy_process_group()


@pytest.mark.slow
def test_processes_agree_with_one(tmp_path):
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=_process, args=(rank, str(tmp_path), results)) for rank in range(3)
    ]
    for one in processes:
        one.start()
    found = [results.get(timeout=120) for _ in processes]
    for one in processes:
        one.join(60)
        assert one.exitcode == 0
    for _, means, _ in found:
        assert means == dict(expected().mean())


def test_without_torchmetrics_it_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    with pytest.raises(MissingPackageError, match=r"\[torchmetrics\]"):
        RetrievalMetric("AP")
