"""axe-core finds nothing wrong with a report: three widths, light, dark and on paper."""

from __future__ import annotations

import pytest

from tests.report.samples import rich_report

# All that another theme or paper changes.
COLOURS = ("color-contrast", "link-in-text-block")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return rich_report().save(tmp_path_factory.mktemp("report") / "report.html")


@pytest.mark.parametrize(
    "width",
    [1400, pytest.param(390, marks=pytest.mark.slow), pytest.param(1024, marks=pytest.mark.slow)],
)
def test_axe_finds_nothing_wrong(opened, report, axe, picture, width):
    page = opened(report, width=width)
    page.locator("details").evaluate_all("folds => folds.forEach(fold => { fold.open = true; })")
    wrong = {}
    for look in ("light", "dark", "print"):
        page.emulate_media(
            media="print" if look == "print" else "screen",
            color_scheme="light" if look == "print" else look,
        )
        wrong[look] = axe(page, *COLOURS if look != "light" else ())
        picture(page, f"report-{width}-{look}")
    page.emulate_media(media="screen", color_scheme="dark")
    page.locator("#difference-table td.query button").first.click()
    page.wait_for_selector("dialog[open] .list")
    wrong["query"] = axe(page)
    assert wrong == {"light": [], "dark": [], "print": [], "query": []}
