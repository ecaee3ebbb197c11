"""Predictions from logits and from lists, against sklearn's formulas written out and a sort."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from assay.core.conventions import preset
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.prediction import (
    Accumulator,
    evaluate_candidates,
    evaluate_predictions,
)
from assay.prediction.compat import (
    calculate_correct_total_prediction,
    get_performance_dict,
    legacy_json,
)

RNG = np.random.default_rng(3)
LOGITS = RNG.integers(-30, 30, (200, 40)).astype(np.float32)
TARGETS = RNG.integers(0, 40, 200)
RANKS = (np.argsort(-LOGITS, axis=1, kind="stable") == TARGETS[:, None]).argmax(axis=1) + 1


def test_measures_are_those_of_the_sorted_ranks():
    mean = evaluate_predictions(LOGITS, TARGETS).mean()
    for k in (1, 3, 5, 10):
        assert mean[f"Acc@{k}"] == pytest.approx((k >= RANKS).mean(), abs=1e-15)
    assert mean["MRR"] == pytest.approx((1 / RANKS).mean(), abs=1e-15)
    gains = np.where(RANKS <= 10, 1 / np.log2(RANKS + 1), 0)
    assert mean["nDCG@10"] == pytest.approx(gains.mean(), abs=1e-15)


def test_top_1_measures_by_hand():
    top1 = LOGITS.argmax(axis=1)
    result = evaluate_predictions(LOGITS, TARGETS)
    f1, support = [], []
    for label in np.union1d(top1, TARGETS):
        right = ((top1 == label) & (label == TARGETS)).sum()
        f1.append(2 * right / ((top1 == label).sum() + (label == TARGETS).sum()))
        support.append((label == TARGETS).sum())
    found = result.class_means()
    assert found["F1(avg=macro)"] == pytest.approx(np.mean(f1))
    assert found["F1(avg=weighted)"] == pytest.approx(np.average(f1, weights=support))
    assert found["F1(avg=micro)"] == found["Accuracy"] == (top1 == TARGETS).mean()
    assert [row["support"] for row in result.by_class()] == support


def test_weighted_f1_agrees_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    result = evaluate_predictions(LOGITS, TARGETS)
    for avg in ("weighted", "macro", "micro"):
        theirs = metrics.f1_score(TARGETS, LOGITS.argmax(axis=1), average=avg, zero_division=0)
        assert result.confusion.f1(avg) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("cuts", [[200], [1] * 200, [7, 64, 129], [0, 150, 50]])
def test_batches_give_the_same_bytes_as_one_go(cuts):
    whole = evaluate_predictions(LOGITS, TARGETS)
    batches, start = Accumulator(), 0
    for size in cuts:
        if size:
            batches.add(LOGITS[start : start + size], TARGETS[start : start + size])
        start += size
    found = batches.result()
    assert found.scores.values.tobytes() == whole.scores.values.tobytes()
    assert json.dumps(found.to_dict(per_class=True)) == json.dumps(whole.to_dict(per_class=True))


def test_merged_accumulators_are_one():
    parts = []
    for rows in (slice(0, 90), slice(90, 200)):
        part = Accumulator()
        part.add(LOGITS[rows], TARGETS[rows])
        parts.append(part)
    merged = parts[0].merge(parts[1]).result()
    assert (
        merged.scores.values.tobytes()
        == evaluate_predictions(LOGITS, TARGETS).scores.values.tobytes()
    )
    assert parts[0].result().n_samples == 90  # the parts stay as they were


def test_batches_that_do_not_belong_together():
    batches = Accumulator()
    with pytest.raises(UsageError, match=r"Call add\(\) first"):
        batches.result()
    batches.add(LOGITS, TARGETS)
    with pytest.raises(MismatchError, match="This batch has 30 classes, earlier ones 40"):
        batches.add(LOGITS[:, :30], np.minimum(TARGETS, 29))
    with pytest.raises(MismatchError, match="Pass them for all batches or none"):
        batches.add(LOGITS, TARGETS, query_ids=[f"s{n}" for n in range(200)])
    assert batches.result().n_samples == 200  # what was refused changed nothing


def test_samples_without_a_target_are_counted_and_left_out():
    targets = TARGETS.copy()
    targets[::4] = -1
    result = evaluate_predictions(LOGITS, targets)
    kept = evaluate_predictions(LOGITS[targets >= 0], targets[targets >= 0])
    assert result.n_without_target == 50
    assert dict(result.mean()) == dict(kept.mean())
    assert result.class_means() == kept.class_means()
    assert sum(one.samples for one in result.rank_histogram()) == 150


def test_a_constant_model_is_worth_what_chance_is_under_expected_ties():
    from assay.core.conventions import preset

    rules = preset("next_location").replace(ties="expected")
    result = evaluate_predictions(np.zeros((9, 1187)), np.arange(9), conventions=rules)
    uniform = result.uniform()
    assert uniform["RR"] == pytest.approx(sum(1 / n for n in range(1, 1188)) / 1187, rel=1e-12)
    assert (uniform["Success@1"], uniform["Accuracy"]) == pytest.approx((1 / 1187,) * 2)
    assert uniform["nDCG@10"] == pytest.approx(0.003828, abs=5e-7)
    for name, value in result.mean().items():
        assert value == pytest.approx(uniform[name], rel=1e-9)
    assert result.scores.tied.any(axis=0).all()


def test_groups_have_micro_and_macro_means():
    users = ["a"] * 150 + ["b"] * 50
    result = evaluate_predictions(LOGITS, TARGETS, groups={"user": users})
    means = [(RANKS[:150] == 1).mean(), (RANKS[150:] == 1).mean()]
    assert result.mean(by="user")["Acc@1"] == pytest.approx(np.mean(means))
    assert result.mean(by="user").average == "macro"
    assert result.to_dict()["by"]["user"]["groups"]["b"]["Success@1"] == pytest.approx(means[1])


def test_ids_and_names():
    ids, names = [f"s{n:03}" for n in range(200)], [f"place {n}" for n in range(40)]
    result = evaluate_predictions(LOGITS, TARGETS, query_ids=ids, class_names=names)
    assert result.scores.query_ids[7] == "s007"
    assert {row["class"] for row in result.by_class()} <= set(names)
    counts = dict(zip(*np.unique(TARGETS, return_counts=True), strict=True))
    assert all(row["support"] == counts.get(int(row["class"][6:]), 0) for row in result.by_class())
    with pytest.raises(MismatchError, match="class_names has 39"):
        evaluate_predictions(LOGITS, TARGETS, class_names=names[:39])
    with pytest.raises(MismatchError, match="twice"):
        evaluate_predictions(LOGITS, TARGETS, class_names=["x"] * 40)


def test_the_rank_histogram_covers_every_rank():
    bins = evaluate_predictions(LOGITS, TARGETS).rank_histogram()
    assert [one.label for one in bins][:7] == ["1", "2", "3", "4", "5", "6–10", "11–20"]
    for one in bins:
        assert one.samples == ((one.first <= RANKS) & (one.last >= RANKS)).sum()
    assert sum(one.samples for one in bins) == 200
    assert [b.label for b in evaluate_predictions([[1.0, 0.0]], [0]).rank_histogram()] == ["1"]


class Tensor:
    """Behaves as much like a torch tensor as is asked of it."""

    def __init__(self, values, dtype="torch.float32"):
        self.values, self.dtype = values, dtype

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values)

    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


@pytest.mark.parametrize("kind", [np.asarray, Tensor, lambda x: Tensor(x, "torch.bfloat16")])
def test_the_documents_function(kind):
    sums, true, top1 = calculate_correct_total_prediction(kind(LOGITS), kind(TARGETS))
    counts = [(k >= RANKS).sum() for k in (1, 3, 5, 10)]
    assert sums[:4].tolist() == counts
    assert sums[4] == pytest.approx((1 / RANKS).sum(), abs=1e-12)
    assert sums[5] == pytest.approx((1 / np.log2(RANKS[RANKS <= 10] + 1)).sum(), abs=1e-12)
    assert sums[6] == 200
    assert true.tolist() == TARGETS.tolist()
    assert top1.tolist() == LOGITS.argmax(axis=1).tolist()


def test_the_documents_function_with_torch_itself():
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS, requires_grad=True)
    sums, _, top1 = calculate_correct_total_prediction(logits, torch.tensor(TARGETS))
    assert sums.tolist() == calculate_correct_total_prediction(LOGITS, TARGETS)[0].tolist()
    assert top1.tolist() == LOGITS.argmax(axis=1).tolist()


def test_sums_of_batches_lead_to_the_documents_percentages():
    parts = [
        calculate_correct_total_prediction(LOGITS[s], TARGETS[s])[0]
        for s in (slice(0, 50), slice(50, 200))
    ]
    names = ("correct@1", "correct@3", "correct@5", "correct@10", "rr", "ndcg", "total")
    sums = dict(zip(names, np.sum(parts, axis=0).tolist(), strict=True))
    result = evaluate_predictions(LOGITS, TARGETS)
    perf = get_performance_dict({**sums, "f1": result.confusion.f1("weighted")})
    expected = legacy_json(result)
    assert list(expected) == ["acc@1", "acc@3", "acc@5", "acc@10", "mrr", "ndcg", "f1"]
    assert {key: perf[key] for key in expected} == pytest.approx(expected)
    assert perf["correct@1"] == sums["correct@1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"total": 0}, "total is 0"),
        ({"f1": 21.2}, "Pass a fraction from 0 to 1"),
        ({"correct@1": 7}, "correct@1 is 7 of 2"),
        ({"rr": math.nan}, "rr must be a finite number"),
        ({"ndcg": "x"}, "ndcg must be a finite number"),
    ],
)
def test_sums_that_make_no_sense(change, words):
    sums = {
        "correct@1": 1,
        "correct@3": 2,
        "correct@5": 2,
        "correct@10": 2,
        "rr": 1.5,
        "ndcg": 1.6,
        "total": 2,
    }
    with pytest.raises(ValueRangeError, match=words):
        get_performance_dict({**sums, **change})
    with pytest.raises(MismatchError, match="return_dict lacks 'rr'"):
        get_performance_dict({key: value for key, value in sums.items() if key != "rr"})


@pytest.mark.parametrize("ties", ["order", "expected", "best", "worst"])
def test_a_true_class_that_was_ruled_out_is_a_miss_and_no_missing_target(ties):
    rng = np.random.default_rng(2)
    logits = rng.integers(0, 3, (300, 8)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.5] = -np.inf
    targets = rng.integers(-1, 8, 300)
    lowest = np.where(np.isinf(logits), -1, logits)  # any number below all others will do
    rules = preset("next_location").replace(ties=ties)
    found = evaluate_predictions(logits, targets, conventions=rules)
    plain = evaluate_predictions(lowest, targets, conventions=rules)
    assert found.scores.values.tobytes() == plain.scores.values.tobytes()
    assert found.class_means() == plain.class_means()
    masked = int(np.isinf(logits[np.arange(300), targets])[targets >= 0].sum())
    assert (found.masked, plain.masked) == (masked, 0)
    assert any(f"{masked} of 300 samples have -inf" in remark for remark in found.remarks)
    halves = [Accumulator(), Accumulator()]
    for half, rows in zip(halves, (slice(0, 99), slice(99, 300)), strict=True):
        half.add(logits[rows], targets[rows])
    assert halves[0].merge(halves[1]).result().masked == masked


def test_the_old_sums_count_a_class_that_was_ruled_out():
    sums, true, top1 = calculate_correct_total_prediction([[0.0, -np.inf], [1.0, 0.0]], [1, 0])
    assert (sums.tolist()[0], sums[-1], true.tolist(), top1.tolist()) == (1, 2, [1, 0], [0, 0])


def test_true_classes_that_no_list_names_are_counted():
    result = evaluate_candidates([["a", "b"], ["b"], [], ["a"]], ["b", "oos", "a", None])
    assert (result.unlisted, result.empty) == (1, 1)
    remarks = list(result.remarks)
    assert "1 of 4 samples have a true class that no list names (counted as 0)" in remarks
    assert "1 of 4 samples have an empty list (counted as 0)" in remarks
    assert result.to_dict()["unlisted_targets"] == 1


def test_lists_of_candidates():
    lists = [["b", "a", "a", "c"], ["c"], [], ["a", "b"]]
    result = evaluate_candidates(lists, ["c", "a", "b", None], n_classes=5)
    assert result.rank.tolist() == [4, 0, 0, 0]
    assert (result.repeated, result.depth, result.n_without_target) == (1, 4, 1)
    assert list(result.mean()) == ["Success@1", "Success@3", "RR@4", "nDCG@4"]
    assert result.mean()["RR@4"] == pytest.approx(1 / 12)
    assert result.confusion.classes.tolist() == ["a", "b", "c"]  # no list is no class
    assert result.confusion.recall("macro") == 0
    assert result.uniform()["Success@1"] == pytest.approx(1 / 5)


def test_lists_as_an_array_of_numbers():
    array = np.array([[3, 7, -1], [900, 5, 3]])
    result = evaluate_candidates(array, [7, 3])
    assert result.rank.tolist() == [2, 3]
    assert result.uniform() is None


def test_the_full_order_as_lists_is_the_same_as_scores():
    order = np.argsort(-LOGITS, axis=1, kind="stable")
    lists = evaluate_candidates(order, TARGETS, measures=["RR@40", "nDCG@10", "Acc@3"])
    scores = evaluate_predictions(LOGITS, TARGETS, measures=["RR", "nDCG@10", "Acc@3"])
    assert lists.scores.values.tobytes() == scores.scores.values.tobytes()
    assert lists.class_means() == scores.class_means()


@pytest.mark.parametrize(
    ("lists", "targets", "error", "words"),
    [
        ([["1"], ["2"]], [1, 2], MismatchError, "'3' and 3 are never equal"),
        ([[1], [2]], [1], MismatchError, "candidates has 2, targets has 1"),
        ([], [], ShapeError, "no samples"),
        ([[], []], [1, 2], ShapeError, "lists are empty"),
        ([[1], [2]], [None, -1], ValueRangeError, "No sample has a target"),
        (["ab", "cd"], ["a", "b"], ShapeError, "candidates, row 0: 'ab' is not a list"),
        ([1, 2], [1, 2], ShapeError, "candidates, row 0: 1 is not a list"),
        ([[1.5]], [1], ValueRangeError, "1.5"),
    ],
)
def test_lists_that_make_no_sense(lists, targets, error, words):
    with pytest.raises(error, match=words):
        evaluate_candidates(lists, targets)


def test_a_vocabulary_smaller_than_what_is_named():
    with pytest.raises(ValueRangeError, match=r"n_classes is 2\. At least 3 classes occur"):
        evaluate_candidates([[1, 2]], [3], n_classes=2)


@pytest.mark.parametrize("measure", ["RR", "nDCG", "Success@20", "AP"])
def test_no_measure_looks_beyond_the_end_of_lists(measure):
    with pytest.raises(UsageError, match="exceeds the 2 candidates per list"):
        evaluate_candidates([[1, 2]], [2], measures=measure)


def test_the_old_json_needs_its_measures():
    with pytest.raises(ValueError, match="nDCG@10"):
        legacy_json(evaluate_predictions(LOGITS, TARGETS, measures=["RR"]))


def test_intervals_hold_the_mean():
    result = evaluate_predictions(LOGITS, TARGETS)
    for name, found in result.intervals().items():
        assert found.low <= result.mean()[name] <= found.high
        assert found.method == ("wilson" if name.startswith("Success") else "score")


def test_no_targets_at_all():
    result = evaluate_predictions(LOGITS, np.full(200, -1))
    assert math.isnan(result.mean()["RR"])
    assert result.rank_histogram() == []
    assert result.n_without_target == 200
    assert json.loads(json.dumps(result.to_dict()))["measures"]["RR"]["mean"] is None


def test_results_are_in_the_order_of_ids():
    ids = [f"s{n:03}" for n in range(200)]
    shuffled = RNG.permutation(200)
    plain = evaluate_predictions(LOGITS, TARGETS, query_ids=ids)
    mixed = evaluate_predictions(
        LOGITS[shuffled], TARGETS[shuffled], query_ids=[ids[n] for n in shuffled]
    )
    assert mixed.scores.values.tobytes() == plain.scores.values.tobytes()
    assert mixed.targets.tolist() == plain.targets.tolist() == TARGETS.tolist()
