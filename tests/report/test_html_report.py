"""The page as text: its size, its policy, and what it is made of. tests/browser opens it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from assay.report import make_report
from tests.report.samples import (
    demo_report,
    demo_runs,
    hostile_report,
    large_report,
    rich_report,
)


class Outline(HTMLParser):
    """Tags and the text inside them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def data_of(page: str) -> dict:
    text = re.search(r'id="assay-data">(.*?)</script>', page, re.S).group(1)
    return json.loads(text)


def test_twenty_runs_ten_measures_a_thousand_queries_fit():
    page = large_report(20, 10, 1000).to_html()
    assert len(page.encode()) <= 1_000_000
    assert len(data_of(page)["values"]["measures"]) == 10


@pytest.mark.slow
def test_with_documents_of_every_query_they_fit_as_well():
    report = rich_report(20, 1000)
    page = report.to_html()
    assert len(page.encode()) <= 1_000_000
    assert data_of(page)["details"]["detailed"] >= 100


def test_the_verdict_comes_first_and_everything_is_there():
    page = demo_report(command="assay report x").to_html()
    places = [
        page.index(f'<section id="{name}"')
        for name in (
            "verdict",
            "leaderboard",
            "pairs",
            "overview",
            "curve",
            "groups",
            "ranks",
            "differences",
            "disclosures",
            "reproduce",
        )
    ]
    assert places == sorted(places)
    assert "<p>dense is better than both others on nDCG@10.</p>" in page
    assert "depends on ties" in page
    assert "preset:trec_eval|" in page
    assert "<pre>assay report x</pre>" in page


def test_one_run_without_hits_has_no_empty_sections():
    run = demo_runs(["Rprec"])[0]
    page = make_report([type(run)(run.name, run.scores)], resamples=100).to_html()
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections == [
        "verdict",
        "leaderboard",
        "groups",
        "differences",
        "disclosures",
        "reproduce",
    ]
    assert "<select" not in page


@pytest.mark.parametrize("make", [demo_report, hostile_report])
def test_only_our_script_may_run(make):
    page = make().to_html()
    outline = Outline(page)
    scripts = [attrs for tag, attrs in outline.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "assay-data"}, {}]
    policy = next(a["content"] for t, a in outline.tags if t == "meta" and "http-equiv" in a)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    own = re.search(r"<script>(.*?)</script>", page, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert "unsafe" not in policy
    assert not any(name.startswith("on") for _, attrs in outline.tags for name in attrs)


def test_nothing_points_outside():
    outline = Outline(demo_report().to_html())
    links = [a[k] for _, a in outline.tags for k in ("href", "src", "action") if k in a]
    assert all(link.startswith("#") for link in links)
