"""Packed values are the values, to the four decimals that a page shows."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pytest

from assay.report import RunRecord, make_report
from assay.report import report as pages
from assay.report.report import pack_queries, pack_values
from tests.report.samples import demo_report, large_report, made_up, rich_report


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
    found = pack_values(report)
    assert found["queries"] == [str(query) for query in report.aligned.query_ids]
    for number, measure in enumerate(found["measures"]):
        np.testing.assert_allclose(
            unpacked(measure, 3), report.aligned.values[:, number], atol=5.1e-5, rtol=0
        )


@pytest.mark.parametrize("low", [-3.0, 0.0, 5.0])
def test_values_beyond_fractions_and_undefined_ones(low, monkeypatch):
    rng = np.random.default_rng(0)
    values = low + rng.random((1, 40)) * 4
    scores = made_up(values, [f"q{i:02}" for i in range(40)], ["AP"])
    aligned = make_report([RunRecord("x", scores)], resamples=100).aligned
    aligned.values[0, 0, 3] = np.nan
    found = unpacked(pages.pack_array(aligned.values[:, 0]), 1)
    np.testing.assert_allclose(found[0], aligned.values[0, 0], atol=5.1e-5, rtol=1e-6)


def test_what_does_not_fit_is_left_out(monkeypatch):
    report = large_report(2, 3, 50)
    monkeypatch.setattr(pages, "MOST_VALUES", 250)
    found = pack_values(report)
    assert (len(found["measures"]), len(found["queries"])) == (2, 50)
    monkeypatch.setattr(pages, "MOST_VALUES", 99)
    assert pack_values(report) == {"queries": [], "measures": []}


def details_of(report, room: int) -> tuple[list[str], dict]:
    found = pack_queries(report, room)
    texts, details = (
        json.loads(gzip.decompress(base64.b64decode(found[key]))) if found[key] else {}
        for key in ("texts", "details")
    )
    assert sum(len(found[key]) for key in ("texts", "details")) <= room
    assert len(details.get("queries", {})) == found["detailed"]
    return texts, details


def test_details_of_queries_are_those_of_the_records():
    report = rich_report(3, 12)
    texts, details = details_of(report, 100_000)
    assert texts == [f"what is {query} about" for query in report.aligned.query_ids]
    assert len(details["queries"]) == 12
    for number, query in enumerate(map(str, report.aligned.query_ids)):
        for run, (ranks, n, total, found, missed) in zip(
            report.runs, details["queries"][str(number)], strict=True
        ):
            hits, shown = run.hits, run.results[query]
            here = slice(hits.offsets[number], hits.offsets[number + 1])
            assert ranks == sorted(hits.rank[here][hits.grade[here] >= 1].tolist())
            assert (n, total) == (len(ranks), 3)
            for docs, packed_docs in ((shown.results, found), (shown.missed, missed)):
                assert [
                    (doc.doc, doc.snippet, doc.grade, int(doc.score is not None)) for doc in docs
                ] == [(*details["docs"][at], grade, known) for at, grade, known in packed_docs]


def test_where_room_is_short_the_queries_with_the_largest_differences_stay():
    report = rich_report(3, 40)
    _, whole = details_of(report, 100_000)
    _, some = details_of(report, 4_000)
    values = report.aligned.values[:, 0]
    spread = np.ptp(np.nan_to_num(values), axis=0)
    kept = [int(number) for number in some["queries"]]
    assert 0 < len(kept) < len(whole["queries"]) == 40
    assert min(spread[kept]) >= max(np.delete(spread, kept)) - 1e-12
    assert details_of(report, 10) == ({}, {})
