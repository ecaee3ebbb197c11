"""Packed values are the values, to the four decimals that a page shows."""

from __future__ import annotations

import base64
import gzip

import numpy as np
import pytest

from assay.report import RunRecord, html, make_report
from assay.report.html import pack_values
from tests.report.samples import demo_report, large_report, made_up


def unpacked(packed: dict[str, str], n_runs: int) -> np.ndarray:
    """Runs × queries as the page's script reads them."""
    data = np.frombuffer(gzip.decompress(base64.b64decode(packed["data"])), np.uint8)
    if packed["kind"] == "floats":
        return data.view("<f4").astype(np.float64).reshape(n_runs, -1)
    low, high = data.reshape(2, -1).astype(np.int64)
    steps = low + 256 * high
    values = np.where(steps == 65_535, np.nan, steps / 10_000)
    return values.reshape(n_runs, -1)


def test_values_come_back_to_four_decimals():
    report = demo_report()
    packed = pack_values(report)
    assert packed["queries"] == [str(query) for query in report.aligned.query_ids]
    for number, measure in enumerate(packed["measures"]):
        found = unpacked(measure, 3)
        np.testing.assert_allclose(found, report.aligned.values[:, number], atol=5.1e-5, rtol=0)


@pytest.mark.parametrize("low", [-3.0, 0.0, 5.0])
def test_values_beyond_fractions_and_undefined_ones(low, monkeypatch):
    rng = np.random.default_rng(0)
    values = low + rng.random((1, 40)) * 4
    scores = made_up(values, [f"q{i:02}" for i in range(40)], ["AP"])
    aligned = make_report([RunRecord("x", scores)], resamples=100).aligned
    aligned.values[0, 0, 3] = np.nan
    found = unpacked(html._pack_array(aligned.values[:, 0]), 1)
    np.testing.assert_allclose(found[0], aligned.values[0, 0], atol=5.1e-5, rtol=1e-6)


def test_what_does_not_fit_is_left_out(monkeypatch):
    report = large_report(2, 3, 50)
    monkeypatch.setattr(html, "MOST_VALUES", 250)
    packed = pack_values(report)
    assert (len(packed["measures"]), len(packed["queries"])) == (2, 50)
    monkeypatch.setattr(html, "MOST_VALUES", 99)
    assert pack_values(report) == {"queries": [], "measures": []}
