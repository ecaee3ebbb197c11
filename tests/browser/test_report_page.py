"""The report in a real browser: offline, by keyboard, in the dark, on a phone, under attack."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from assay.core.text import printable
from assay.report import make_report
from tests.hostile import HOSTILE
from tests.report.samples import demo_report, demo_runs, hostile_report, large_report

# It asks the page again and again without evaluating a string, which its policy would refuse.
expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    reports = {
        "demo": demo_report(command="assay report"),
        "hostile": hostile_report(),
        "large": large_report(20, 10, 1000),
        "one": make_report(demo_runs()[:1], resamples=200),
    }
    return {name: report.save(folder / f"{name}.html") for name, report in reports.items()}


def rows_of(page, table: str) -> list[list[str]]:
    """The cells of the first table in a part of the page."""
    return page.locator(f"{table} tbody").first.evaluate(
        "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )


@pytest.mark.parametrize("name", ["demo", "hostile", "large", "one"])
def test_opens_offline_without_complaint_or_request(opened, files, picture, name):
    page = opened(files[name])
    assert page.complaints == []
    assert page.requests == [files[name].as_uri()]
    visible = page.locator(".chart:visible").count()
    assert page.locator(".chart:visible svg.marks").count() == visible > 0
    assert page.locator(".failed").count() == 0
    picture(page, f"report-{name}")


def test_hostile_names_are_read_as_they_are_and_nothing_runs(opened, files):
    page = opened(files["hostile"])
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    shown = page.locator("main").inner_text()
    for text in HOSTILE:
        assert printable(text) in shown
    for row in rows_of(page, "#leaderboard"):
        assert row[0] in {printable(text) for text in HOSTILE}
    for number in range(3):  # charts and tables that the script makes
        page.select_option("#first", str(number + 3))
        note = page.locator("#difference-note")
        start = re.escape(printable(HOSTILE[number + 3]))
        expect(note).to_have_text(re.compile(f"^{start}"))
    page.locator("#leaderboard svg.marks path").first.hover(force=True)
    assert page.evaluate("window.pwned") is None
    assert page.complaints == []


def test_a_script_that_got_in_would_not_run(opened, files):
    page = opened(files["demo"])
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
        " document.body.append(s); document.body.insertAdjacentHTML('beforeend',"
        " '<img src=x onerror=\"window.pwned = 1\">'); }"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in text for text in page.complaints)


@pytest.mark.parametrize("name", ["demo", "hostile", "large"])
def test_fits_a_phone(opened, files, picture, name):
    page = opened(files[name], width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    wide = page.evaluate(
        "[...document.querySelectorAll('.chart svg')].filter(s => s.clientWidth > 400).length"
    )
    assert wide == 0
    picture(page, f"report-{name}-phone")


def test_dark_by_preference_and_by_switch(opened, files, picture):
    def brightness(page, what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    page = opened(files["demo"], color_scheme="dark")
    picture(page, "report-dark")
    assert brightness(page, "backgroundColor") < 60
    assert brightness(page, "color") > 180
    label = page.locator("#leaderboard svg text").first
    assert label.evaluate("text => getComputedStyle(text).fill") == page.evaluate(
        "getComputedStyle(document.body).color"
    )
    page.click("#theme")
    assert brightness(page, "backgroundColor") > 200
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page, "backgroundColor") > 200
    page = opened(files["demo"], color_scheme="light")
    assert brightness(page, "backgroundColor") > 200
    page.click("#theme")
    assert brightness(page, "backgroundColor") < 60
    page.emulate_media(media="print")
    assert brightness(page, "backgroundColor") > 200


def test_folds_open_for_the_print(opened, files):
    page = opened(files["demo"])
    closed = page.locator("details:not([open])").count()
    assert closed > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == closed


def test_everything_by_keyboard(opened, files):
    page = opened(files["demo"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "measure"
    page.keyboard.press("ArrowDown")
    assert page.locator("#leaderboard h3:visible").inner_text() == "AP"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#leaderboard [data-measure='1'] th button").nth(1).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    first = page.locator("#leaderboard [data-measure='1'] tbody tr td").first
    assert first.inner_text() == "lexical"


def test_choosing_a_measure_changes_every_part(opened, files):
    page = opened(files["demo"])
    page.select_option("#measure", "2")
    for part in ("leaderboard", "curve", "groups"):
        assert page.locator(f"#{part} h3:visible").all_inner_texts() == ["P@10"]
        page.wait_for_selector(f"#{part} [data-measure='2'] svg.marks")
    expect(page.locator("#difference-note")).to_contain_text("P@10")
    assert page.complaints == []


def test_differences_are_those_of_the_library(opened, files):
    page = opened(files["demo"])
    page.select_option("#first", label="lexical")
    page.select_option("#second", label="dense")
    expect(page.locator("#difference-note")).to_have_text(re.compile("^lexical − dense"))
    found = demo_report().comparison.differences("nDCG@10", "lexical", "dense")
    note = page.locator("#difference-note").inner_text()
    assert f"better on {len(found.wins(50))}" in note
    assert f"worse on {len(found.losses(50))} of 50" in note
    shown = rows_of(page, "#difference-table")
    assert shown[0][0] == found.rows[0].query
    assert float(shown[0][3]) == pytest.approx(found.rows[0].difference, abs=1.1e-4)
    assert float(shown[-1][3]) == pytest.approx(found.rows[-1].difference, abs=1.1e-4)


def test_tables_sort_by_number(opened, files):
    page = opened(files["large"])
    button = page.locator("#leaderboard [data-measure='0'] th button").nth(1)
    for turn in (True, False):
        button.click()
        means = [float(row[1]) for row in rows_of(page, "#leaderboard [data-measure='0']")]
        assert len(means) == 20
        assert means == sorted(means, reverse=turn)


def downloaded(page, button) -> list[list[str]]:
    with page.expect_download() as event:
        button.click()
    with open(event.value.path(), encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_csv_of_tables_holds_exact_values_and_no_formulas(opened, files):
    page = opened(files["demo"])
    rows = downloaded(page, page.locator("#leaderboard [data-do=csv]:visible").first)
    best = demo_report().standings_on("nDCG@10")[0]
    assert rows[1][:2] == ["dense", repr(best.mean.estimate)]
    page = opened(files["hostile"])
    for button in (
        page.locator("#leaderboard [data-do=csv]:visible").first,
        page.locator("#difference-table [data-do=csv]"),
        page.locator("#all-values"),
    ):
        rows = downloaded(page, button)
        assert len({len(row) for row in rows}) == 1
        cells = [cell for row in rows for cell in row]
        formulas = [cell for cell in cells if re.match(r"[=+\-@\t\r]", cell)]
        assert all(re.fullmatch(r"-\d+(\.\d+)?(e-\d+)?", cell) for cell in formulas)


def test_all_values_can_be_downloaded(opened, files):
    page = opened(files["demo"])
    rows = downloaded(page, page.locator("#all-values"))
    assert rows[0] == ["query", "run", "nDCG@10", "AP", "P@10"]
    report = demo_report()
    found = {(query, run): list(map(float, values)) for query, run, *values in rows[1:]}
    for r, run in enumerate(report.names):
        for q, query in enumerate(report.aligned.query_ids):
            assert found[query, run] == pytest.approx(report.aligned.values[r, :, q], abs=5.1e-5)


def test_a_table_can_be_copied(opened, files):
    page = opened(files["demo"], permissions=["clipboard-read", "clipboard-write"])
    page.locator("#overview [data-do=copy]").click()
    expect(page.locator("#overview [data-do=copy]")).to_have_text("Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.splitlines()[0] == "run\tnDCG@10\tAP\tP@10"
