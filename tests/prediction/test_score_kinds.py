"""What scores are, decided once for all rows: against ECE by definition, for any block size."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.prediction import confidence, evaluate_confidence, files
from assay.prediction.confidence import Confidence
from tests.schemas import check_printed

CLASSES = 12


def simulated(n=5000, classes=CLASSES, seed=0):
    """Logits whose softmax says how often each class is right."""
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.standard_normal((n, classes))
    drawn = (softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return logits, np.minimum(drawn, classes - 1)


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def to_bfloat16(values):
    """Numbers of eight significant bits, rounded to even, held in float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def ece_by_definition(probabilities, targets, bins=15):
    """Guo et al. 2017, a sample at a time, of rows that are divided by their sum."""
    gaps = [[] for _ in range(bins)]
    for row, target in zip(np.asarray(probabilities, np.float64).tolist(), targets, strict=True):
        top = max(row) / sum(row)
        gaps[min(int(top * bins), bins - 1)].append(float(row.index(max(row)) == target) - top)
    return sum(abs(sum(gap)) for gap in gaps) / len(targets)


FORMATS = {
    "float64": lambda x: x,
    "float32": np.float32,
    "float16": np.float16,
    "widened float16": lambda x: np.asarray(x, np.float16).astype(np.float32),
    "bfloat16": to_bfloat16,
}


@pytest.mark.parametrize("classes", [2, CLASSES, 3000])
@pytest.mark.parametrize("name", FORMATS)
def test_a_softmax_in_any_precision_is_probabilities(name, classes):
    logits, targets = simulated(5000 if classes < 100 else 300, classes)
    shares = FORMATS[name](softmax(logits))
    found = evaluate_confidence(shares, targets)
    assert found.kind.name == "probabilities"
    assert found.calibration.ece == pytest.approx(ece_by_definition(shares, targets), abs=1e-12)
    exact = ece_by_definition(softmax(logits), targets)
    assert found.calibration.ece == pytest.approx(exact, abs=0.01)
    lesser = evaluate_confidence(FORMATS[name](logits), targets)
    assert lesser.kind.name == "logits"
    assert lesser.calibration.ece == pytest.approx(exact, abs=0.01)


def test_a_softmax_that_was_computed_in_float16_is_probabilities():
    logits, targets = simulated()
    half = logits.astype(np.float16)
    exponentials = np.exp(half - half.max(axis=1, keepdims=True))
    shares = exponentials / exponentials.sum(axis=1, keepdims=True, dtype=np.float16)
    assert shares.dtype == np.float16
    found = evaluate_confidence(shares, targets)
    assert found.kind.name == "probabilities"
    assert found.calibration.ece == pytest.approx(ece_by_definition(shares, targets), abs=1e-12)


@pytest.mark.parametrize("factor", [0.9, 0.9995, 1.0002, 1.5, 30.0])
@pytest.mark.parametrize("sure", [False, True])
def test_one_odd_row_is_an_error_with_the_row_and_a_remark_when_stated(factor, sure):
    logits, targets = simulated()
    shares = softmax(logits)
    shares[4321] = np.eye(CLASSES)[0] if sure else np.full(CLASSES, 1 / CLASSES)
    shares[4321] *= factor
    with pytest.raises(UsageError, match=r"4,999 of 5,000 rows sum to 1, but row 4321 .*--scores"):
        evaluate_confidence(shares, targets)
    found = evaluate_confidence(shares, targets, kind="probabilities")
    assert found.calibration.ece == pytest.approx(ece_by_definition(shares, targets), abs=1e-12)
    remark = next(found.remarks)
    assert remark.startswith("1 of 5,000 rows of probabilities do not sum to 1")


@pytest.mark.parametrize("rows", [1, 7, 4096, 100_000])
def test_the_size_of_blocks_changes_nothing(rows, monkeypatch):
    logits, targets = simulated(4500)
    logits[4100:4200] = softmax(logits[4100:4200])  # a block that looks like probabilities
    targets[::9] = -1
    whole = evaluate_confidence(logits, targets).to_dict()
    monkeypatch.setattr(confidence, "BLOCK_ROWS", rows)
    assert evaluate_confidence(logits, targets).to_dict() == whole
    monkeypatch.setattr(confidence, "BLOCK_ROWS", 100)
    assert evaluate_confidence(logits, targets).to_dict() == whole
    assert whole["scores"]["kind"] == "logits"


def unclear_inputs():
    rng = np.random.default_rng(1)
    below = softmax(rng.standard_normal((400, CLASSES)))
    below[3, 0] = -1e-9
    a, b = rng.standard_normal((400, 64)), rng.standard_normal((CLASSES, 64))
    cosines = (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T
    return {
        "cosines": cosines,
        "cosines above 0": np.abs(cosines),
        "logits within 0 and 1": rng.random((400, CLASSES)),
        "sigmoids": 1 / (1 + np.exp(-3 * rng.standard_normal((400, CLASSES)))),
        "rounded": softmax(rng.standard_normal((400, CLASSES))).round(2),
        "a list cut off": np.where(
            (shares := softmax(rng.standard_normal((400, CLASSES)))) > 0.05, shares, 0
        ),
        "a value below 0": below,
        "masked probabilities": np.where(np.arange(CLASSES) == 3, -np.inf, 1 / (CLASSES - 1))[
            None
        ].repeat(400, axis=0),
    }


@pytest.mark.parametrize("name", unclear_inputs())
def test_what_is_neither_is_refused_unless_it_is_stated(name):
    scores, targets = unclear_inputs()[name], np.arange(400) % CLASSES
    with pytest.raises(UsageError, match="Cannot tell whether the scores of this"):
        evaluate_confidence(scores, targets)
    found = evaluate_confidence(scores, targets, kind="logits")
    expected = ece_by_definition(softmax(scores), targets)
    assert found.calibration.ece == pytest.approx(expected, abs=1e-12)
    assert found.to_dict()["scores"] == {"kind": "logits", "stated": True, "reason": "stated"}


def test_probabilities_have_no_energy_and_similarities_no_calibration():
    logits, targets = simulated(600)
    targets[::4] = -1
    shares = evaluate_confidence(softmax(logits), targets)
    assert [one.signal for one in shares.detection] == ["probability", "margin"]
    assert list(shares.absent) == ["energy"]
    assert any(remark.startswith("no energy: ") for remark in shares.remarks)
    logs = evaluate_confidence(np.log(softmax(logits)), targets)
    assert logs.kind.name == "logits"
    assert [one.signal for one in logs.detection] == ["probability", "margin"]
    whole = evaluate_confidence(logits, targets)
    assert [one.signal for one in whole.detection] == ["probability", "score", "margin", "energy"]
    assert whole.detection[:2] == evaluate_confidence(logits, targets, kind="logits").detection[:2]
    cosines = np.tanh(logits)
    alike = evaluate_confidence(cosines, targets, kind="similarities")
    assert alike.calibration is None
    assert alike.to_dict()["calibration"] is None
    assert set(alike.absent) == {"calibration", "energy"}
    assert [one.signal for one in alike.detection] == ["score", "margin"]
    inside, outside = targets >= 0, targets < 0
    top = cosines.max(axis=1)
    pairs = top[inside][:, None] - top[outside][None, :]
    share = (pairs > 0).mean() + 0.5 * (pairs == 0).mean()
    assert alike.detection[0].auroc == pytest.approx(share)
    with pytest.raises(UsageError, match="reliability"):
        alike.picture()


@pytest.mark.parametrize(
    ("scores", "words"),
    [([[0.5, 0.5], [1.5, -0.5]], "row 1 has a value below 0"), ([[0.0, 0.0]], "row 0 sums to 0")],
)
def test_probabilities_that_cannot_be(scores, words):
    with pytest.raises(ValueRangeError, match=words):
        evaluate_confidence(scores, [0] * len(scores), kind="probabilities")


def test_a_true_class_without_probability_makes_the_loss_infinite():
    logits, targets = simulated(60)
    logits[0, targets[0]] = -30
    shares = softmax(logits).astype(np.float16)
    found = evaluate_confidence(shares, targets)
    assert found.calibration.nll.estimate == np.inf
    assert found.to_dict()["calibration"]["nll"] is None
    assert "1 of 60 samples give their true class probability 0" in next(found.remarks)
    assert found.calibration.ece == pytest.approx(ece_by_definition(shares, targets), abs=1e-12)


def test_logits_that_look_like_probabilities_are_remarked():
    logits, targets = simulated(50)
    (remark,) = evaluate_confidence(softmax(logits), targets, kind="logits").remarks
    assert "probabilities, but was read as logits as requested" in remark


def test_unknown_kinds_and_mixed_batches_are_refused():
    logits, targets = simulated(50)
    with pytest.raises(UsageError, match="found 'odds'"):
        evaluate_confidence(logits, targets, kind="odds")
    parts = [Confidence.of(logits, targets), Confidence.of(softmax(logits), targets)]
    with pytest.raises(MismatchError, match="scores: logits and some as probabilities"):
        Confidence.merge(parts)


# The command


def test_the_decision_is_printed_and_in_the_signature(assay, tmp_path):
    logits, targets = simulated(300)
    targets[:30] = -1
    np.savez(tmp_path / "half.npz", scores=softmax(logits).astype(np.float16), targets=targets)
    given = ["predict", tmp_path / "half.npz", "--confidence"]
    answer = assay(*given, "--json")
    check_printed(answer.out)
    data = json.loads(answer.out)
    assert data["confidence"]["half"]["scores"]["kind"] == "probabilities"
    assert "|score_kind:probabilities|" in data["signature"]
    assert any("no energy" in remark for remark in data["remarks"])
    text = assay(*given).out
    assert "half: scores read as probabilities (every row sums to 1 within 0.0039)" in text
    answer = assay(*given, "--scores", "similarities", "--json")
    check_printed(answer.out)
    stated = json.loads(answer.out)
    assert stated["confidence"]["half"]["calibration"] is None
    assert "|score_kind:similarities|" in stated["signature"]
    assert "score_kind:" not in json.loads(assay(*given[:2], "--json").out)["signature"]


def test_batches_of_parquet_are_decided_together(assay, tmp_path, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    logits, targets = simulated(1000)
    shares = softmax(logits).astype(np.float32)
    shares[700] *= np.float32(1.0002)
    table = arrow.table({"scores": list(shares), "target": targets})
    parquet.write_table(table, tmp_path / "net.parquet")
    monkeypatch.setattr(files, "BATCH_ROWS", 64)
    given = ["predict", tmp_path / "net.parquet", "--confidence", "--json"]
    answer = assay(*given)
    assert answer.code != 0
    assert "999 of 1,000 rows sum to 1, but row 700 to 1.0002" in answer.err
    assert "net.parquet" in answer.err
    data = json.loads(assay(*given, "--scores", "probabilities").out)
    expected = ece_by_definition(shares, targets)
    assert data["confidence"]["net"]["calibration"]["ece"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scores", "logits"], "--scores requires --confidence"),
        (["--scores", "similarities", "--reliability", "r.svg"], "needs probabilities or logits"),
    ],
)
def test_a_statement_without_effect_is_refused(assay, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    logits, targets = simulated(30)
    np.savez("net.npz", scores=logits, targets=targets)
    answer = assay("predict", "net.npz", *options)
    assert answer.code != 0
    assert words in answer.err
