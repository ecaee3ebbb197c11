"""The page as text: its size, its policy, and what it is made of. tests/browser opens it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from assay.report import make_report
from assay.report.charts import drawing_script
from tests.report.samples import demo_report, demo_runs, hostile_report, large_report


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
    data = json.loads(text)
    data["charts"] = json.loads(gzip.decompress(base64.b64decode(data["charts"])))
    return data


def test_twenty_runs_ten_measures_a_thousand_queries_fit():
    page = large_report(20, 10, 1000).to_html()
    assert len(page.encode()) < 1_500_000
    assert len(data_of(page)["values"]["measures"]) == 10


def test_the_verdict_comes_first_and_everything_is_there():
    page = demo_report(command="assay report x").to_html()
    places = [
        page.index(f'<section id="{name}"')
        for name in (
            "verdict",
            "leaderboard",
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
    assert "dense is better than both others" in page
    assert "depends on ties" in page
    assert "preset:trec_eval|" in page
    assert "<pre>assay report x</pre>" in page


def test_one_run_without_hits_has_no_empty_sections():
    run = demo_runs(["Rprec"])[0]
    page = make_report([type(run)(run.name, run.scores)], resamples=100).to_html()
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections == ["verdict", "leaderboard", "groups", "disclosures", "reproduce"]
    assert data_of(page)["values"] is None


def test_charts_and_places_belong_together():
    page = demo_report().to_html()
    places = re.findall(r'data-chart="([^"]+)"', page)
    assert sorted(places) == sorted(data_of(page)["charts"])


@pytest.mark.parametrize("make", [demo_report, hostile_report])
def test_only_our_two_scripts_may_run(make):
    page = make().to_html()
    outline = Outline(page)
    scripts = [attrs for tag, attrs in outline.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "assay-data"}, {}]
    policy = next(a["content"] for t, a in outline.tags if t == "meta" and "http-equiv" in a)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    own = re.search(r"<script>(.*?)</script>", page, re.S).group(1)
    hashes = [
        base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        for code in (own, drawing_script())
    ]
    assert rules["script-src"] == " ".join(f"'sha256-{one}'" for one in hashes)
    assert "unsafe" not in policy
    assert not any(name.startswith("on") for _, attrs in outline.tags for name in attrs)


def test_nothing_points_outside():
    outline = Outline(demo_report().to_html())
    links = [a[k] for _, a in outline.tags for k in ("href", "src", "action") if k in a]
    assert links == ["#verdict"]


def test_charts_hold_names_as_data_only():
    """No name is part of an expression, a field or a format."""
    for spec in data_of(hostile_report().to_html())["charts"].values():
        spec.pop("datasets", None)
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
