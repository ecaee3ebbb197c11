"""Remarks by kind, each said once."""

from __future__ import annotations

from assay.report.sections import SharedRemark, group_remarks
from tests.report.samples import demo_report


def test_the_same_of_several_measures_is_said_once():
    lead = "{}: the lead of {} of a over b is below the minimum detectable difference of {}{}"
    remarks = [
        lead.format("nDCG@10", "0.0342", "0.0406", " (as for 1 more)"),
        lead.format("AP", "0.0200", "0.0500", ""),
        "a: 18 % of queries have a value that depends on ties (ties: order)",
        "b: 18 % of queries have a value that depends on ties (ties: order)",
        "all: 3 queries judged but not in the run, counted as 0: '7', '8'",
        "note: 2 documents are alike. They take each other's places; nobody queries them",
    ]
    found = group_remarks(remarks, ["all", "a", "b", "AP", "nDCG@10"])
    assert list(found) == ["Data and systems", "Ties", "Statistics", "Queries"]
    assert found["Statistics"] == [SharedRemark(remarks[0], (remarks[1],), "AP")]
    (ties,) = found["Ties"]
    assert ties.text.startswith("a and b: 18 % of queries")
    assert [one.text for one in found["Queries"]] == [remarks[4]]


def test_nothing_is_lost():
    report = demo_report()
    subjects = ["all", *report.names, *map(str, report.measures)]
    groups = group_remarks(report.remarks, subjects)
    told = [
        text for found in groups.values() for one in found for text in (one.text, *one.variants)
    ]
    assert len(told) <= len(report.remarks)
    for remark in report.remarks:
        assert any(text.endswith(remark.split(": ", 1)[-1]) for text in told), remark
    assert group_remarks([], subjects) == {}
