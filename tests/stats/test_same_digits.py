"""Numbers have the same digits whatever instructions numpy finds on the processor."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import assay

# Of images: what OpenCV computes beside them differs between processors, too. Of demos: files.
_SOURCE = Path(assay.__file__).parent
_FREE = {
    *("arrays.py", "vision/opencv_features.py", "vision/ranks.py", "vision/keypoints.py"),
    *("prediction/demo.py", "codes/demo.py"),
}
_VARYING = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "cbrt"),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh"),
}

_PROGRAM = """
import json
import numpy as np
import assay
from assay.prediction import evaluate_confidence
from assay.stats import interval

rng = np.random.default_rng(5)
qrels = {f"q{q}": {f"d{d}": int(rng.integers(0, 4)) for d in range(40)} for q in range(30)}
runs = {
    name: {q: {f"d{d}": float(rng.integers(0, 12)) for d in range(60)} for q in qrels}
    for name in "abc"
}
del runs["c"]["q0"], runs["b"]["q1"]
measures = "RBP RBP(graded=true)@10 nDCG@10 nDCG(gain=exp)@5 ERR@10 GMAP AP DCG@7 infAP".split()
out = {}
for ties in ("order", "expected", "best", "worst"):
    scores = assay.evaluate(runs["a"], qrels, measures, ties=ties)
    out[ties] = {name: scores[name].tolist() for name in measures}
comparison = assay.compare(runs, qrels, "RBP", missing="skip", resamples=200)
out["comparison"] = {key: value for key, value in comparison.to_dict().items() if key != "made_by"}
values = rng.random(40) ** 2
methods = ("score", "bca", "percentile", "studentised")
spans = [interval(values, method=m, resamples=200, bounds=(0, 1)) for m in methods]
out["intervals"] = [span.to_dict() for span in spans]
result = evaluate_confidence(rng.normal(size=(50, 7)) * 3, rng.integers(0, 7, 50), kind="logits")
out["confidence"] = {key: value for key, value in result.to_dict().items() if key != "made_by"}
features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
print(json.dumps({"features": features, "out": out}))
"""


def _run(disabled: str = "") -> dict:
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": disabled}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_digits_do_not_depend_on_the_instructions_of_the_processor() -> None:
    whole = _run()
    if not whole["features"]:
        pytest.skip("numpy knows no further instructions of this processor")
    assert _run(" ".join(whole["features"]))["out"] == whole["out"]


def test_only_portable_functions_compute_numbers() -> None:
    found = []
    for path in sorted(_SOURCE.rglob("*.py")):
        name = path.relative_to(_SOURCE).as_posix()
        if name not in _FREE:
            found += [
                f"{name}:{node.lineno} np.{node.attr}"
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Attribute)
                and node.attr in _VARYING
                and isinstance(node.value, ast.Name)
                and node.value.id == "np"
            ]
    assert found == [], "take these from assay.arrays: numpy's differ between processors"
