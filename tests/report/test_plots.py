"""Values draw themselves in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import assay.store
from assay.errors import UsageError
from tests.report.samples import demo_report

ROOT = Path(__file__).resolve().parents[2]


def _rows(chart) -> list[dict]:
    """The longest of the data sets that a chart holds."""
    spec = chart.to_dict()
    parts = [spec, *spec.get("layer", [])]
    return max((part["data"]["values"] for part in parts if "data" in part), key=len)


def test_scores_show_their_means_with_intervals():
    scores = demo_report().runs[0].scores
    rows = _rows(scores.plot())
    assert [row["run"] for row in rows] == ["nDCG@10", "AP", "P@10"]
    assert all(row["low"] < row["mean"] < row["high"] for row in rows)


def test_comparisons_show_their_systems():
    comparison = demo_report().comparison
    assert [row["run"] for row in _rows(comparison.plot())] == ["dense", "coarse", "lexical"]
    assert _rows(comparison.plot("AP"))[0]["mean"] == comparison.standings_on("AP")[0].mean.estimate


def test_differences_show_their_queries():
    assert len(_rows(demo_report().comparison.differences("AP").plot())) == 50


def test_a_notebook_needs_no_network():
    """What a notebook is given is a drawing, which names no host to load from."""
    comparison = demo_report().comparison
    charts = [
        demo_report().runs[0].scores.plot(),
        comparison.plot(),
        comparison.differences("AP").plot(),
        comparison.plot("AP").properties(width=200),  # what altair makes of it is one, too
    ]
    for chart in charts:
        bundle = chart._repr_mimebundle_(include=None, exclude=None)
        assert list(bundle) == ["image/svg+xml"]
        drawing = bundle["image/svg+xml"]
        hosts = re.findall(r"(?:https?:)?//[\w.-]+", drawing)
        assert set(hosts) <= {"http://www.w3.org"}, hosts  # the name of the format
        assert "<script" not in drawing
        assert drawing.count("<path") >= 3


def test_the_tutorial_shows_what_it_shows(tmp_path: Path):
    """In a process of its own: a kernel brings its own threads and warnings."""
    code = (
        "import sys, nbformat\n"
        "from docs.tutorial import NOTEBOOK, execute, shown\n"
        "kept, found = shown(nbformat.read(NOTEBOOK, as_version=4)), shown(execute(sys.argv[1]))\n"
        "assert kept == found, f'python -m docs.tutorial\\n{kept}\\n{found}'\n"
        "print({kind for cell in kept for kind, _ in cell})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert all(kind in done.stdout for kind in ("text/html", "image/svg+xml", "stream"))
    assert (tmp_path / "report.html").stat().st_size > 50_000


def test_the_tutorial_needs_no_network():
    text = (ROOT / "docs" / "tutorial.ipynb").read_text("utf-8")
    assert not re.findall(r"https?://(?!www\.w3\.org/)", text)
    assert '"outputs": []' in text  # cells that show nothing
    assert text.count('"output_type"') >= 10


def test_stored_runs_show_themselves(tmp_path: Path):
    scores = demo_report().runs[0].scores
    with assay.store.open(tmp_path / "s.db") as store:
        evil = "<script>alert(1)</script>"
        run = store.save(scores, evil, dataset="demo")
        rows = _rows(run.plot())
        assert [(row["run"], row["mean"]) for row in rows] == list(run.means().items())
        assert all(row["low"] < row["mean"] < row["high"] for row in rows)
        store.save(demo_report().runs[1].scores, "other")
        runs = store.runs()
        means = [row["mean"] for row in _rows(runs.plot())]
        assert means == sorted((one.means()["nDCG@10"] for one in runs), reverse=True)
        assert len(_rows(store.runs(name="other").plot("map"))) == 1
        for page in (run._repr_html_(), runs._repr_html_()):
            assert "<script" not in page
            assert "alert(1)" in page
            assert "nDCG@10" in page
        begun = store.begin(assay.store.RunRecord(name="begun"))
        assert "running" in store.run(begun.id)._repr_html_()
        for chart in (
            store.run(begun.id).plot,
            store.runs().plot,
            store.runs(name="none").plot,
            lambda: runs.plot("P@77"),
        ):
            with pytest.raises(UsageError):
                chart()
