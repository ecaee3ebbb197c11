"""The report in a real browser: offline, by keyboard, in the dark, on a phone, under attack."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from pathlib import Path

import pytest

from assay.core.text import printable
from assay.report import make_report
from assay.report import report as pages
from tests.hostile import HOSTILE
from tests.report.samples import (
    demo_report,
    demo_runs,
    hostile_report,
    large_report,
    rich_report,
)

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
        "rich": rich_report(),
    }
    return {name: report.save(folder / f"{name}.html") for name, report in reports.items()}


def rows_of(page, table: str) -> list[list[str]]:
    """The cells of the first table in a part of the page."""
    return page.locator(f"{table} tbody").first.evaluate(
        "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )


@pytest.mark.parametrize(
    "name",
    [
        "hostile",
        "one",
        "rich",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("demo", "large")),
    ],
)
def test_opens_offline_without_complaint_or_request(opened, files, picture, name):
    page = opened(files[name])
    assert page.complaints == []
    assert page.requests == [files[name].as_uri()]
    assert page.locator("svg.strip:visible").count() == len(rows_of(page, "#leaderboard"))
    assert page.locator("#difference-chart rect").count() > 0
    assert (
        page.locator("main > section:visible h2").count()
        == page.locator(".contents li:visible").count()
    )
    picture(page, f"report-{name}")


def test_one_run_lists_its_best_and_worst_queries(opened, files):
    page = opened(files["one"])
    caption = page.locator("#difference-table figcaption").inner_text()
    assert caption.startswith("The best and the worst queries")


def test_hostile_names_are_read_as_they_are_and_nothing_runs(opened, files):
    page = opened(files["hostile"])
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    shown = page.locator("main").inner_text()
    for text in HOSTILE:
        assert printable(text) in shown
    for row in rows_of(page, "#leaderboard [data-measure='0']"):
        assert row[1] in {printable(text) for text in HOSTILE}
    for number in range(3):  # charts and tables that the script makes
        page.select_option("#first", str(number + 3))
        note = page.locator("#difference-note")
        start = re.escape(printable(HOSTILE[number + 3]))
        expect(note).to_have_text(re.compile(f"^{start}"))
    page.locator("#difference-chart rect").first.click()
    expect(page.locator("#query-title")).to_contain_text("Query ")
    page.keyboard.press("Escape")
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


@pytest.mark.parametrize("name", [pytest.param("demo", marks=pytest.mark.slow), "hostile", "large"])
def test_fits_a_phone(opened, files, picture, name):
    page = opened(files[name], width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert (
        page.locator(".plot svg.area:visible").evaluate_all(
            "all => all.filter(one => one.getBoundingClientRect().right > 390).length"
        )
        == 0
    )
    # What decides is on the screen: the verdict, and of every system its rank, mean and letters.
    board = "#leaderboard [data-measure='0'] table"
    ends = page.locator(f"{board} tr:nth-child(1) > :is(th, td):visible").evaluate_all(
        "cells => cells.map(cell => cell.getBoundingClientRect().right)"
    )
    assert name == "hostile" or max(ends) <= 390
    picture(page, f"report-{name}-phone")


def test_dark_by_preference_and_by_switch(opened, files, picture):
    def brightness(page, what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    page = opened(files["demo"], color_scheme="dark")
    picture(page, "report-dark")
    assert brightness(page, "backgroundColor") < 60
    assert brightness(page, "color") > 180
    first, last = page.locator("#leaderboard svg.strip:visible circle").evaluate_all(
        "dots => [dots[0], dots.at(-1)].map(dot => getComputedStyle(dot).fill)"
    )
    assert first == "rgb(86, 180, 233)" != last  # the winner stands out
    winner = page.locator("#leaderboard td strong").first
    assert winner.evaluate("mean => getComputedStyle(mean).color") == "rgb(108, 192, 240)"
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


def test_paper_holds_all_columns_and_no_empty_heading(opened, files):
    page = opened(files["large"], width=718)
    closed = page.locator("details:not([open])").count()
    assert closed > 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.locator("#list-all").click()
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    tables = page.locator("table:visible")
    widest = "all => all.map(one => Math.round(one.getBoundingClientRect().right))"
    assert max(tables.evaluate_all(widest)) <= 718
    assert len(page.locator("#overview thead th:visible").all()) == 11
    bare = page.locator("main > section:visible").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().height < 60).map(one => one.id)"
    )
    assert bare == []
    assert page.locator("#difference-table tbody tr:visible").count() == 40
    sheets = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 2 <= sheets <= 8
    page.emulate_media(media="screen")
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
    page.locator("#leaderboard [data-measure='1'] th button").nth(2).focus()
    page.keyboard.press("Enter")
    first = page.locator("#leaderboard [data-measure='1'] tbody tr td.name").first
    assert first.inner_text() == "lexical"
    page.locator("#difference-table td.query button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.id") == "close"
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    page.locator("#pairs .pairs:visible td button").last.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#difference-note")).to_have_text(re.compile("^coarse − lexical on AP"))


def test_terms_open_by_keyboard_and_close_again(opened, files):
    page = opened(files["demo"])
    term = page.get_by_role("button", name="group", exact=True)
    text = page.locator(f"#{term.first.get_attribute('popovertarget')}")
    expect(text).to_be_hidden()
    page.locator("button.term:text-is('group')").focus()
    page.keyboard.press("Enter")
    expect(text).to_be_visible()
    assert "share a letter" in text.inner_text()
    page.keyboard.press("Escape")
    expect(text).to_be_hidden()
    assert page.complaints == []


def test_paper_keeps_tables_together(opened, files):
    page = opened(files["rich"])
    page.emulate_media(media="print")
    parts = page.locator("figure.table").evaluate_all(
        "all => all.map(one => [getComputedStyle(one).breakInside, !!one.querySelector('.long')])"
    )
    assert len(parts) > 5
    assert all((inside == "avoid") != long for inside, long in parts)


def test_choosing_a_measure_changes_every_part(opened, files):
    page = opened(files["rich"])
    page.select_option("#measure", "2")
    expect(page.locator("#difference-note")).to_contain_text("P@5")
    report = rich_report()
    said, numbers, _ = report.plain_verdict(report.measures[2])
    assert page.locator(".verdict:visible p").all_inner_texts() == [f"{said}."]
    assert page.locator(".verdict:visible small").first.inner_text() == numbers
    for part in ("leaderboard", "pairs", "costs", "curve", "groups"):
        title = "P" if part == "curve" else "P@5"
        assert page.locator(f"#{part} h3:visible").all_inner_texts() == [title]
    chosen = page.locator("#overview th.on").all_inner_texts()
    assert [text.strip(" ▼") for text in chosen] == ["P@5"]
    rows = rows_of(page, "#overview")
    means = [f"{one.mean.estimate:.4f}" for one in report.standings_on("P@5")]
    assert [row[3][:6] for row in rows[:-1]] == means
    assert rows[-1][0] == "chance"
    page.select_option("#measure", "3")
    expect(page.locator("#curve")).to_be_hidden()  # it has no cutoffs
    expect(page.locator(".contents a[href='#curve']")).to_be_hidden()
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
    assert float(shown[0][1]) == pytest.approx(found.rows[0].difference, abs=1.1e-4)
    assert float(shown[-1][1]) == pytest.approx(found.rows[-1].difference, abs=1.1e-4)
    pair = next(p for p in demo_report().comparison.pairs_on("nDCG@10") if p.b == "lexical")
    low, high = -pair.interval.high, -pair.interval.low
    numbers = f"{-pair.difference:+.4f} (95 % CI {low:+.4f} to {high:+.4f}, p "
    assert numbers.replace("-", "−") in note
    assert "), worse; better on" in note


def test_tables_sort_with_the_best_first(opened, files):
    page = opened(files["large"], width=1400)
    board = "#leaderboard [data-measure='0']"
    heads = page.locator(f"{board} th")
    assert heads.nth(2).get_attribute("aria-sort") == "descending"

    def column(number: int) -> list[float]:
        return [float(re.match(r"[\d.]+", row[number]).group()) for row in rows_of(page, board)]

    assert column(2) == sorted(column(2), reverse=True)
    heads.nth(2).locator("button").click()
    assert column(2) == sorted(column(2))
    heads.nth(0).locator("button").click()  # of ranks the smallest is the best
    assert column(0) == sorted(column(0))
    means = page.locator("#overview th button")
    means.nth(5).click()
    found = [float(row[5].rstrip("a")) for row in rows_of(page, "#overview")]
    assert found == sorted(found, reverse=True)
    means.nth(0).click()
    names = [row[0] for row in rows_of(page, "#overview")]
    assert names == page.evaluate("names => names.sort((a, b) => a.localeCompare(b))", names)


def test_ten_measures_use_the_width_and_decimals_align(opened, files):
    page = opened(files["large"], width=1400)
    inner = page.locator(".scroll:visible").evaluate_all(
        "all => all.filter(one => one.scrollWidth > one.clientWidth"
        " || one.scrollHeight > one.clientHeight).length"
    )
    assert inner == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
    places = page.locator("#overview tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(1).map(cell =>"
        " Math.round(cell.querySelector('i').getBoundingClientRect().left)))"
    )
    assert len({tuple(row) for row in places}) == 1
    head = page.locator("#overview th").first
    last = page.locator("#overview tbody tr").last
    last.evaluate("row => scrollTo(0, row.getBoundingClientRect().top + scrollY - 300)")
    top = page.locator("header").bounding_box()["height"]
    assert head.bounding_box()["y"] == pytest.approx(top, abs=2)  # it sticks below the title
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_selector("#overview .scroll:not(.fits)")
    page.locator("#overview .scroll").evaluate("box => { box.scrollLeft = 400; }")
    box, cell = page.locator("#overview .scroll"), page.locator("#overview tbody td").first
    assert cell.bounding_box()["x"] == pytest.approx(box.bounding_box()["x"], abs=3)


def test_pairs_are_a_matrix_and_a_click_compares_them(opened, files):
    page = opened(files["large"], width=1400)
    square = page.locator("#pairs .pairs:visible")
    assert square.locator("td button").count() == 190
    report = large_report(20, 10, 1000)
    first, second = (one.name for one in report.standings_on("nDCG@1")[2:5:2])
    assert square.locator("tbody td:first-child").nth(2).inner_text() == first
    square.locator("tbody tr").nth(2).locator("td").nth(5).locator("button").click()
    note = page.locator("#difference-note")
    expect(note).to_have_text(re.compile(f"^{first} − {second} on nDCG@1: "))
    pair = next(p for p in report.comparison.pairs_on("nDCG@1") if {p.a, p.b} == {first, second})
    difference = f"{pair.interval_of(first).estimate:+.4f}".replace("-", "−")
    assert f"{difference} (95 % CI " in note.inner_text()
    assert "), not significant; better on" in note.inner_text()
    assert square.locator("td.on").count() == 1
    # The address now leads to the pair, also from another measure.
    page.select_option("#measure", "3")
    expect(note).to_contain_text("on nDCG@4")
    again = opened(files["large"])
    again.goto(page.url)
    expect(again.locator("#difference-note")).to_have_text(note.inner_text())
    assert again.locator("#measure").input_value() == "3"
    assert page.complaints == []


def test_systems_and_queries_are_found(opened, files):
    page = opened(files["rich"], width=1400)
    page.fill("#systems", "SYSTEM-7")
    assert page.locator("#leaderboard tbody tr:visible").count() == 1
    assert page.locator("#overview tbody tr:visible").count() == 2  # and chance
    assert page.locator("#pairs .pairs:visible tr:visible").count() == 2
    assert page.locator("#pairs .pairs:visible th:visible").count() == 2
    assert page.locator("#curve g.system.out:visible").count() == 8
    expect(page).to_have_url(re.compile("systems=SYSTEM-7"))
    page.fill("#systems", "")
    assert page.locator("#leaderboard tbody tr:visible").count() == 9
    page.fill("#find", "q17 ABOUT")
    assert [row[:2] for row in rows_of(page, "#difference-table")] == [["q17", "what is q17 about"]]
    expect(page.locator("#difference-table figcaption")).to_contain_text("1 of 40 queries")
    page.fill("#find", "")
    page.click("#list-all")
    assert len(rows_of(page, "#difference-table")) == 40


def test_a_click_opens_the_query_with_what_was_found_and_missed(opened, files):
    page = opened(files["rich"], width=1400)
    report = rich_report()
    best, second = (one.name for one in report.standings_on("nDCG@10")[:2])
    rows = report.comparison.differences("nDCG@10", best, second).rows
    page.locator("#difference-chart rect").first.click()
    query = rows[0].query
    expect(page.locator("#query-title")).to_have_text(f"Query {query}")
    assert page.locator(".query-text").inner_text() == f"what is {query} about"
    run = next(run for run in report.runs if run.name == best)
    number = list(report.aligned.query_ids).index(query)
    here = slice(run.hits.offsets[number], run.hits.offsets[number + 1])
    ranks = sorted(run.hits.rank[here].tolist())
    shown = {row[0]: row[1:] for row in rows_of(page, "#query-body")}
    assert len(shown) == 9
    value = run.scores["nDCG@10"][number]
    assert shown[best] == [
        ", ".join(map(str, ranks)) or "none",
        f"{3 - len(ranks)} of 3",
        f"{value:.4f}",
    ]
    docs = page.locator(f"#query-body details.list:has(summary:text-is('{best}')) li")
    held = run.results[query]
    for item, doc in zip(docs.all(), (*held.results, *held.missed), strict=True):
        assert doc.doc in item.inner_text()
        assert doc.snippet in item.inner_text()
    assert docs.last.get_attribute("class") == "missing"
    expect(page).to_have_url(re.compile(f"#query={query}$"))
    page.click("#after")
    expect(page.locator("#query-title")).to_have_text(f"Query {rows[1].query}")
    expect(page).to_have_url(re.compile(f"#query={rows[1].query}$"))
    again = opened(files["rich"])
    again.goto(page.url)
    expect(again.locator("#query-title")).to_have_text(f"Query {rows[1].query}")
    page.click("#close")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("query="))  # the address changes a moment later
    page.locator("#difference-table td.query button").last.click()
    expect(page.locator("#query-title")).to_have_text(f"Query {rows[-1].query}")
    assert page.complaints == []


def test_tables_and_charts_are_whole_without_a_script(opened, files):
    page = opened(files["rich"], java_script_enabled=False)
    assert page.locator("svg.strip:visible").count() == 9 * 4
    assert page.locator("#curve .plot:visible").count() == 3
    assert page.locator("#costs .plot:visible").count() == 2 * 4
    assert page.locator(".verdict:visible p").count() == 4
    assert page.complaints == []


def test_what_the_page_leaves_out_is_said(opened, files, monkeypatch, tmp_path):
    page = opened(files["large"])
    page.locator("#difference-chart rect").first.click()
    said = page.locator("#query-body .note")
    expect(said).to_have_text("The runs do not hold what was found for their queries.")
    monkeypatch.setattr(pages, "ROOM", 0)
    monkeypatch.setattr(pages, "LEAST_ROOM", 6_000)
    monkeypatch.setattr(pages, "MOST_VALUES", 3 * 40 * 2)
    page = opened(rich_report(3).save(tmp_path / "tight.html"))
    page.click("#list-all")
    for query in page.locator("#difference-table td.query button").all():
        query.click()
        page.wait_for_selector("dialog[open]")
        if page.locator("#query-body .note").count():
            break
        page.keyboard.press("Escape")
    said = page.locator("#query-body .note")
    expect(said).to_have_text("There was no room in this page for what was found for this query.")
    page.keyboard.press("Escape")
    page.select_option("#measure", "2")
    expect(page.locator("#difference-note")).to_contain_text("does not contain per-query values")


def test_curves_are_named_at_their_ends_and_lift_under_the_pointer(opened, files):
    page = opened(files["rich"], width=1400)
    chart = page.locator("#curve .plot:visible")
    names = chart.locator("text.name")
    assert sorted(names.all_text_contents()) == sorted(rich_report().names)
    boxes = names.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.top, box.bottom])"
    )
    for above, below in pairwise(sorted(boxes)):
        assert below[0] >= above[1] - 3
    names.filter(has_text="system-3").hover()
    assert chart.locator("g.system:not(:hover)").count() == 8
    expect(chart.locator("g.system:not(:hover)").first).to_have_css("opacity", "0.15")
    expect(chart.locator("g.system:hover")).to_have_css("opacity", "1")
    costs = page.locator("#costs .plot:visible").first
    assert costs.locator("g.system").count() == 9
    assert costs.locator("g.system line").count() == 9  # intervals
    assert costs.locator("line.front").count() >= 2


def downloaded(page, button) -> list[list[str]]:
    with page.expect_download() as event:
        button.click()
    with open(event.value.path(), encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_csv_of_tables_holds_exact_values_and_no_formulas(opened, files):
    page = opened(files["demo"])
    rows = downloaded(page, page.locator("#leaderboard [data-do=csv]:visible").first)
    best = demo_report().standings_on("nDCG@10")[0]
    assert rows[1][:3] == [best.rank.text(), "dense", repr(best.mean.estimate)]
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
