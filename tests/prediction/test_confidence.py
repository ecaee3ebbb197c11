"""Calibration and detection against scikit-learn, sums by hand and simulated models."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from assay.errors import AssayError, UsageError
from assay.prediction.confidence import Confidence, calibrate, evaluate_confidence


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def simulated(seed, n=4000, sharpness=1.0, classes=7):
    """Logits whose softmax, at sharpness 1, is how often each class is right."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, classes))
    chosen = (softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return sharpness * logits, np.minimum(chosen, classes - 1)


def ece_by_hand(shares, targets, bins):
    sure, right = shares.max(axis=1), shares.argmax(axis=1) == targets
    total = 0.0
    for i in range(bins):
        inside = (sure >= i / bins) & ((sure < (i + 1) / bins) | (i == bins - 1))
        if inside.any():
            total += inside.sum() * abs(right[inside].mean() - sure[inside].mean())
    return total / len(sure)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_proper_scores_and_ece_are_sums_by_hand(bins):
    logits, targets = simulated(1, 500, 1.7)
    shares = softmax(logits)
    found = evaluate_confidence(logits, targets, bins=bins).calibration
    assert found.ece == pytest.approx(ece_by_hand(shares, targets, bins), rel=1e-12)
    assert found.nll.estimate == pytest.approx(log_loss(targets, shares, labels=range(7)))
    truth = np.eye(7)[targets]
    assert found.brier.estimate == pytest.approx(((shares - truth) ** 2).sum(axis=1).mean())
    assert sum(one.samples for one in found.bins) == 500
    same = evaluate_confidence(shares, targets, bins=bins).calibration
    assert same.ece == pytest.approx(found.ece, rel=1e-9)


def test_a_calibrated_model_has_no_verdict_and_others_have_theirs():
    calm = evaluate_confidence(*simulated(2)).calibration
    assert calm.p > 0.05
    assert calm.ece == pytest.approx(calm.expected_ece, rel=0.6)
    assert calm.verdict.startswith("no significant miscalibration")
    loud = evaluate_confidence(*simulated(2, sharpness=2.5)).calibration
    assert loud.verdict.startswith("overconfident: ECE ")
    shy = evaluate_confidence(*simulated(2, sharpness=0.4)).calibration
    assert shy.verdict.startswith("underconfident")


def test_p_of_calibrated_models_is_uniform():
    found = [calibrate(Confidence.of(*simulated(seed, 150)), seed=seed).p for seed in range(40)]
    assert np.mean(np.array(found) < 0.5) == pytest.approx(0.5, abs=0.25)
    assert min(found) > 0.0009


@pytest.mark.parametrize("decimals", [1, 8])
def test_detection_is_that_of_scikit_learn_with_ties_too(decimals):
    logits, targets = simulated(3, 600)
    without = np.arange(600) % 4 == 0
    logits[without] *= 0.5
    logits = np.round(logits, decimals)
    targets = np.where(without, -1, targets)
    signals = Confidence.of(logits, targets)
    for one in evaluate_confidence(logits, targets).detection:
        values = getattr(signals, one.signal)
        assert one.auroc == pytest.approx(roc_auc_score(~without, values))
        assert one.aupr_out == pytest.approx(average_precision_score(without, -values))
        assert one.aupr_in == pytest.approx(average_precision_score(~without, values))
        assert one.auroc_low < one.auroc < one.auroc_high
        passing = [t for t in values[~without] if (values[~without] >= t).mean() >= 0.95]
        assert one.fpr95 == (values[without] >= max(passing)).mean()


def test_the_interval_of_auroc_holds_its_level():
    rng, held = np.random.default_rng(4), 0
    for _ in range(200):
        inside, outside = rng.normal(1, 1, 60), rng.normal(0, 1, 40)
        logits = np.column_stack([np.append(inside, outside), np.zeros(100)])
        targets = np.append(np.zeros(60, int), np.full(40, -1))
        low, high = (
            getattr(evaluate_energy(logits, targets), end) for end in ("auroc_low", "auroc_high")
        )
        held += low <= 0.7602 <= high  # of two normals a standard deviation apart
    assert 180 <= held <= 199


def evaluate_energy(logits, targets):
    from assay.prediction.confidence import detect_unanswerable

    return detect_unanswerable(Confidence.of(logits, targets))[-1]


def test_batches_are_the_whole_and_masked_classes_have_no_share():
    logits, targets = simulated(5, 90)
    logits[::3, 0] = -np.inf
    whole = Confidence.of(logits, targets)
    parts = [Confidence.of(logits[i : i + 40], targets[i : i + 40]) for i in (0, 40, 80)]
    merged = Confidence.merge(parts)
    assert merged.kind.name == whole.kind.name == "logits"
    for name in list(vars(whole))[:-1]:
        assert np.array_equal(getattr(whole, name), getattr(merged, name), equal_nan=True)
    assert evaluate_confidence(logits, np.where(targets == 0, 1, targets)).calibration.ece > 0


def test_what_is_shown():
    logits, targets = simulated(6, 200)
    targets[:30] = -1
    found = evaluate_confidence(logits, targets, name="net & co")
    calibration, detection = found.tables()
    assert [row[0].value for row in calibration.rows] == ["ECE", "Brier", "NLL", "Accuracy"]
    assert [row[0].value for row in detection.rows] == [
        *("top probability", "top score", "margin", "energy", "chance"),
    ]
    assert [cell.value for cell in detection.rows[-1][4:6]] == [1 - 30 / 200, 30 / 200]
    data = found.to_dict()
    assert data["without_target"] == 30
    assert data["calibration"]["ece"] == found.calibration.ece
    bars = [
        one for one in ElementTree.fromstring(found.picture()).iter() if one.tag.endswith("rect")
    ]
    assert len(bars) == 1 + len(found.calibration.bins)


@pytest.mark.parametrize(
    ("scores", "targets"),
    [
        ([[1.0, 2.0]], [2]),
        ([[np.nan, 1.0]], [0]),
        ([[np.inf, 1.0]], [0]),
        ([[-np.inf, -np.inf]], [0]),
        ([1.0, 2.0], [0]),
        ([[1.0, 2.0]], [0, 1]),
    ],
)
def test_bad_input_is_refused(scores, targets):
    with pytest.raises(AssayError):
        evaluate_confidence(scores, targets)


def test_nothing_to_be_sure_of():
    with pytest.raises(UsageError, match="at least one sample with a target"):
        evaluate_confidence([[1.0, 2.0]], [-1])
    assert evaluate_confidence([[1.0], [2.0]], [0, 0], kind="logits").calibration.ece == 0
