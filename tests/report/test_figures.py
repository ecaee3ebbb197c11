"""Charts as files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from assay.core.text import printable
from assay.errors import MissingPackageError, StorageError, UsageError, install_command
from assay.report import make_report
from assay.report.charts import render_chart, report_charts
from assay.runs import RunRecord
from tests.report.samples import demo_report, demo_runs, hostile_report

SLOW = pytest.mark.slow
STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


def test_every_chart_in_every_format(tmp_path: Path):
    runs = [RunRecord(run.name, run.scores) for run in demo_runs(["nDCG@10"])]
    files = make_report(runs, resamples=100).figures(tmp_path / "new" / "folder")
    assert len(files) == 3 * 3  # leaderboard, groups, differences
    for path in files:
        assert path.read_bytes().startswith(STARTS[path.suffix[1:]])
    assert {path.stem for path in files} == {
        "leaderboard-nDCG-10",
        "groups-1-nDCG-10",
        "differences-nDCG-10",
    }


@pytest.mark.parametrize("make", [demo_report, hostile_report])
def test_every_chart_is_one_by_its_schema(make):
    drawn = list(report_charts(make()))
    assert len({one.kind for one in drawn}) >= 4
    for one in drawn:
        assert one.spec() == one.chart.to_dict(validate=True)


def test_all_charts_of_the_demo_are_drawn(tmp_path: Path):
    names = {path.stem for path in demo_report().figures(tmp_path, formats=["svg"])}
    assert names == {
        *(
            f"{kind}-{m}"
            for kind in ("leaderboard", "curve", "groups-1")
            for m in ("nDCG-10", "AP", "P-10")
        ),
        "ranks",
        "differences-nDCG-10",
    }
    text = (tmp_path / "leaderboard-AP.svg").read_text()
    assert "dense" in text
    assert "chance" in text


def test_hostile_names_stay_text_in_svg(tmp_path: Path):
    from xml.etree import ElementTree

    for path in hostile_report().figures(tmp_path, formats=["svg"]):
        tree = ElementTree.fromstring(path.read_bytes())
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert not tags & {"script", "img", "foreignObject", "a"}


@pytest.mark.parametrize(
    "name",
    [
        "toString",
        "a.b[0]",
        " ",
        *(pytest.param(n, marks=SLOW) for n in ("valueOf", "null", "1", "")),
    ],
)
def test_names_that_mean_something_to_a_program_are_names(tmp_path: Path, name):
    dense, lexical, _ = demo_runs(["nDCG@10"])
    kinds = dict.fromkeys(dense.scores.query_ids, name or "x")
    runs = [
        RunRecord(name or "x", dense.scores.with_groups(kind=kinds), hits=dense.hits),
        RunRecord("other", lexical.scores.with_groups(kind=kinds), hits=lexical.hits),
    ]
    files = make_report(runs, resamples=100).figures(tmp_path, formats=["svg"])
    assert len(files) == 5
    for path in files:
        if not path.stem.startswith("differences"):
            assert printable(name) in path.read_text()


def test_measures_of_one_spelling_do_not_overwrite_each_other(tmp_path: Path):
    runs = demo_runs(["AP(rel=2)", "AP@10", "AP(rel=1)@10"])
    report = make_report([RunRecord("x", runs[0].scores)], resamples=100)
    files = report.figures(tmp_path, formats=["svg"])
    assert len({path.name.lower() for path in files}) == len(files)


def test_unknown_formats_and_files_in_the_way_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="gif"):
        demo_report().figures(tmp_path, formats=["gif"])
    with pytest.raises(UsageError, match="gif"):
        render_chart({}, "gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot write"):
        demo_report().figures(tmp_path / "file", formats=["svg"])


@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_a_missing_package_is_named_with_its_command(module, monkeypatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, module, None)
    report = demo_report()
    assert "</html>" in report.to_html()  # the page needs neither
    with pytest.raises(MissingPackageError, match=re.escape(install_command("report"))):
        report.figures(tmp_path, formats=["svg"])


def test_charts_hold_names_as_data_only():
    """No name is part of an expression, a field or a format."""
    for one in report_charts(hostile_report()):
        spec = one.spec()
        for text in _strings({k: v for k, v in spec.items() if k != "description"}):
            if "pwned" in text or "7*7" in text:
                assert text in _allowed(spec)


def _strings(value) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in _strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in _strings(one)]
    return [value] if isinstance(value, str) else []


def _allowed(spec) -> set[str]:
    """Strings in data, scale domains, legend values and titles."""
    found: set[str] = set()

    def walk(value, key=""):
        if isinstance(value, dict):
            for name, one in value.items():
                walk(one, name)
        elif isinstance(value, list):
            for one in value:
                walk(one, key)
        elif isinstance(value, str) and (key in ("domain", "values", "title") or in_data(value)):
            found.add(value)

    data = set(_strings([part.get("data", {}) for part in [spec, *spec.get("layer", [])]]))

    def in_data(text: str) -> bool:
        return text in data

    walk(spec)
    return found
