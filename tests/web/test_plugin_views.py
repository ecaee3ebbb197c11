"""Parts that a foreign package adds to the page of a run and to a report, by the public hooks."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pytest

from assay.errors import PluginError
from assay.plugins import PLUGINS
from tests.plugins import install
from tests.report.samples import demo_report
from tests.web.samples import Client

HEAD = """
from assay.plugins import Plugin
from assay.tables.table import Cell, Table

PLUGIN = Plugin(
    {name!r},
    hooks={{
        "report_sections": "{name}:report_sections",
        "dashboard_views": "{name}:dashboard_views",
    }},
)
"""
SOUND = """
def report_sections(records):
    rows = tuple((Cell(record.name), Cell(0.25, "fraction")) for record in records)
    yield "Energy <b>&", Table(("run <i>", "kWh"), rows)
    yield "Licence", "<script>alert(1)</script>\\nsecond line"


def dashboard_views(run):
    return [
        ("Energy <b>&", Table(("run <i>", "kWh"), ((Cell(run.name), Cell(1 / 3, "fraction")),))),
        ("Licence", "<script>alert(1)</script>"),
    ]
"""
RAISING = """
def report_sections(records):
    raise KeyError("kWh")


def dashboard_views(run):
    raise KeyError("kWh")
"""
OTHER_TYPE = """
def report_sections(records):
    return [("Energy", {"kWh": 3})]


dashboard_views = report_sections
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Install a package with the functions of the hooks; a name is used once in a process."""
    names = []

    def add(name: str, functions: str) -> None:
        names.append(name)
        code = {name: HEAD.format(name=name) + functions}
        entries = {PLUGINS: {name: f"{name}:PLUGIN"}}
        install(tmp_path, package=name.replace("_", "-"), entries=entries, modules=code)
        monkeypatch.syspath_prepend(tmp_path)

    yield add
    for name in names:
        sys.modules.pop(name, None)


def test_a_run_page_shows_the_views_of_plugins_escaped(client, plugin):
    assert client("/run/1.json").json["views"] == []
    plugin("energy_views", SOUND)
    page = client("/run/1").text
    assert f"<h2>{escape('Energy <b>&')}</h2>" in page
    assert "<script>alert(1)" not in page
    assert escape("<script>alert(1)</script>") in page
    assert '<figure class="table" id="view-1">' in page
    views = client("/run/1.json").json["views"]
    assert views == [
        {"title": "Energy <b>&", "text": "", "rows": [{"run <i>": "dense", "kWh": 1 / 3}]},
        {"title": "Licence", "text": "<script>alert(1)</script>"},
    ]
    table = list(csv.reader(io.StringIO(client("/run/1.csv?table=view-1").text)))
    assert table == [["run <i>", "kWh"], ["dense", repr(1 / 3)]]


def test_a_report_shows_the_sections_of_plugins_escaped(plugin, tmp_path):
    plugin("energy_sections", SOUND)
    report = demo_report()
    page = report.to_html()
    assert f'<a href="#plugin-1">{escape("Energy <b>&")}</a>' in page
    assert f'<h2 id="plugin-1-title">{escape("Energy <b>&")}</h2>' in page
    assert page.index('id="plugin-2"') < page.index('<section id="reproduce"')
    assert "<script>alert(1)" not in page
    assert f"<p>{escape('<script>alert(1)</script>')}</p><p>second line</p>" in page.replace(
        "\n", ""
    )
    text = report.save(tmp_path / "report.md").read_text("utf-8")
    assert "| dense | 0.2500 |" in text
    assert "Licence" in text
    assert "<script>" not in text


@pytest.mark.parametrize(
    ("name", "functions", "message"),
    [
        ("raising_views", RAISING, "raising_views.dashboard_views (dashboard_views) failed"),
        ("mapping_views", OTHER_TYPE, "returns dict for 'Energy', not a table or a text"),
    ],
)
def test_a_broken_plugin_is_named(
    demo: Path, plugin, name: str, functions: str, message: str
) -> None:
    plugin(name, functions)
    client = Client(demo)
    answer = client("/run/1")
    assert answer.status == 400
    assert message in answer.text.replace("&#x27;", "'").replace("&#39;", "'")
    assert client("/runs").status == 200
    with pytest.raises(PluginError, match=name):
        demo_report().to_html()
