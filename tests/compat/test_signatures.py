"""The functions of the documents take their arguments in the documents' order, by their names."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest

from assay.compat import binary_codes, keypoints, label_retrieval, model_bench, next_location
from assay.errors import UsageError

NEEDED = Parameter.empty
CUTS = (10, 50, 100)
# function: what the document passes by position, with its defaults
DOCUMENTED: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (
        label_retrieval.compute_label_recall_at_k,
        {
            "sensor_embeddings": None,
            "text_embeddings": None,
            "labels": None,
            "k_values": CUTS,
            "directions": None,
            "normalize": True,
            "verbose": False,
        },
    ),
    (
        label_retrieval.compute_prototype_retrieval_metrics,
        {
            "prototype_embeddings": NEEDED,
            "prototype_labels": NEEDED,
            "sensor_embeddings": None,
            "text_embeddings": None,
            "target_labels": None,
            "k_values": CUTS,
            "directions": None,
            "normalize": True,
            "verbose": False,
        },
    ),
    (
        label_retrieval.load_text_prototypes_from_metadata,
        {"metadata_path": NEEDED, "dataset_name": NEEDED, "style": "sourish"},
    ),
    (
        label_retrieval.encode_text_prototypes,
        {"label_to_text": NEEDED, "text_encoder": NEEDED, "device": None, "normalize": True},
    ),
    (
        label_retrieval.create_text_encoder_from_checkpoint,
        {"checkpoint": NEEDED, "device": None},
    ),
    (label_retrieval.get_optimal_device, {}),
    (label_retrieval.print_results_summary, {"results": NEEDED}),
    (label_retrieval.save_results, {"results": NEEDED, "output_path": NEEDED}),
    (
        next_location.calculate_correct_total_prediction,
        {"logits": NEEDED, "true_y": NEEDED},
    ),
    (next_location.top_k_accuracy, {"logits": NEEDED, "targets": NEEDED, "k": NEEDED}),
    (next_location.get_mrr, {"prediction": NEEDED, "targets": NEEDED}),
    (next_location.get_ndcg, {"prediction": NEEDED, "targets": NEEDED, "k": 10}),
    (
        binary_codes.cosine_similarity_matrix,
        {"embeddings": NEEDED, "assume_normalized": False},
    ),
    (binary_codes.hamming_distance_matrix, {"codes_01": NEEDED}),
    (binary_codes.topk_neighbor_indices, {"similarity_matrix": NEEDED, "k": NEEDED}),
    (
        binary_codes.neighbor_overlap_at_k,
        {"cosine_sim": NEEDED, "hamming_sim": NEEDED, "k": NEEDED},
    ),
    (
        binary_codes.compute_topk_indices,
        {"sim_or_dist": NEEDED, "k": NEEDED, "largest": True},
    ),
    (
        binary_codes.recall_at_k,
        {"retrieved_indices": NEEDED, "relevant_sets": NEEDED, "k": NEEDED},
    ),
    (
        binary_codes.ndcg_at_k,
        {"retrieved_indices": NEEDED, "relevance_scores": NEEDED, "k": NEEDED},
    ),
    (
        binary_codes.build_relevance_from_dataset,
        {"query_dataset": NEEDED, "corpus_dataset": NEEDED},
    ),
    (
        keypoints.compute_query_ap,
        {"query": NEEDED, "homography": NEEDED, "targets": NEEDED, "distances": NEEDED},
    ),
    (
        keypoints.ExperimentMetrics.add_image_result,
        {
            "self": NEEDED,
            "scene": NEEDED,
            "precision": NEEDED,
            "matches": NEEDED,
            "keypoints": NEEDED,
        },
    ),
    (keypoints.ExperimentMetrics.add_query_ap, {"self": NEEDED, "scene": NEEDED, "result": NEEDED}),
    (keypoints.ExperimentMetrics.merge, {"self": NEEDED, "other": NEEDED}),
    (
        model_bench.get_top_k_indices,
        {"query_emb": NEEDED, "doc_embeddings": NEEDED, "k": 10},
    ),
    (model_bench.recall_at_k, {"retrieved_ids": NEEDED, "relevant_ids": NEEDED, "k": NEEDED}),
    (
        model_bench.evaluate_model,
        {"model": NEEDED, "queries": NEEDED, "documents": NEEDED, "eval_set": NEEDED, "k": 10},
    ),
]


@pytest.mark.parametrize(
    ("function", "documented"), DOCUMENTED, ids=lambda one: getattr(one, "__name__", "")
)
def test_arguments_stand_in_the_order_of_the_document(
    function: Callable[..., Any], documented: dict[str, Any]
) -> None:
    """What we added comes after them, and by name only."""
    found = signature(function).parameters
    placed = {
        name: one.default
        for name, one in found.items()
        if one.kind is Parameter.POSITIONAL_OR_KEYWORD
    }
    assert list(placed.items()) == list(documented.items())


def test_labels_may_be_left_out_by_no_one() -> None:
    rows = np.eye(3)
    with pytest.raises(UsageError, match="labels is missing"):
        label_retrieval.compute_label_recall_at_k(rows, rows)
    with pytest.raises(UsageError, match="target_labels is missing"):
        label_retrieval.compute_prototype_retrieval_metrics(rows, ["a", "b", "c"], rows)


def test_label_recall_by_position() -> None:
    rng = np.random.default_rng(0)
    sensor, text, labels = rng.normal(size=(9, 4)), rng.normal(size=(9, 4)), [*"abcabcabc"]
    named = label_retrieval.compute_label_recall_at_k(
        sensor_embeddings=sensor, text_embeddings=text, labels=labels, k_values=[2], normalize=False
    )
    placed = label_retrieval.compute_label_recall_at_k(sensor, text, labels, [2], None, False)
    assert {key: dict(one) for key, one in placed.items()} == {k: dict(v) for k, v in named.items()}


def test_prototypes_by_position() -> None:
    rng = np.random.default_rng(1)
    sensor, text, labels = rng.normal(size=(8, 3)), rng.normal(size=(8, 3)), [*"abababab"]
    described = {"a": "aaa", "b": ["b", "bb"]}
    vectors, names = label_retrieval.encode_text_prototypes(
        described, lambda texts: [[len(one), 1, 2] for one in texts], "cpu", False
    )
    named = label_retrieval.compute_prototype_retrieval_metrics(
        prototype_embeddings=vectors,
        prototype_labels=names,
        sensor_embeddings=sensor,
        text_embeddings=text,
        target_labels=labels,
        k_values=[3],
        directions=["prototype2text"],
        normalize=False,
    )
    placed = label_retrieval.compute_prototype_retrieval_metrics(
        vectors, names, sensor, text, labels, [3], ["prototype2text"], False, False
    )
    assert {key: dict(one) for key, one in placed.items()} == {k: dict(v) for k, v in named.items()}


def test_sums_of_a_batch_follow_the_definition() -> None:
    """Against a stable sort of each row, with many equal logits; −1 has no true class."""
    rng = np.random.default_rng(1)
    logits = rng.integers(0, 4, (60, 12)).astype(np.float32)
    targets = rng.integers(-1, 12, 60)
    orders = np.argsort(-logits, axis=1, kind="stable")
    ranks = [
        1 + order.tolist().index(true)
        for order, true in zip(orders, targets, strict=True)
        if true >= 0
    ]
    for k in (1, 3, 10, 12, 10**9):
        assert next_location.top_k_accuracy(logits, targets, k) == sum(r <= k for r in ranks)
        expected = sum(1 / np.log2(r + 1) for r in ranks if r <= k)
        assert next_location.get_ndcg(logits, targets, k) == pytest.approx(expected, rel=1e-14)
    assert next_location.get_mrr(logits, targets) == pytest.approx(sum(1 / r for r in ranks))
    sums, _, _ = next_location.calculate_correct_total_prediction(logits, targets)
    assert sums[4] == next_location.get_mrr(logits, targets)
    assert sums[5] == next_location.get_ndcg(logits, targets)
    assert sums[0] == next_location.top_k_accuracy(logits, targets, 1)


def test_no_query_is_0_as_in_the_document() -> None:
    def model(texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    assert model_bench.evaluate_model(model, ["a"], ["b"], []) == 0.0
    assert model_bench.evaluate_model(model, [], [], []) == 0.0
    assert model_bench.evaluate_model(model, ["a"], ["b"], [(0, set())]) == 0.0
    assert np.isnan(model_bench.evaluate_model(model, ["a"], ["b"], [], empty="skip"))
