"""The dashboard in a real browser: navigation, filters, comparison, attack, dark, phone, live."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import assay.store
from assay.core.text import printable
from assay.store import RunRecord
from tests.browser.conftest import settled, shown
from tests.comparison.made_scores import made_scores
from tests.hostile import HOSTILE
from tests.web.samples import hostile_store, save_demo

QUERIES = {"demo": "q07", "hostile": quote(f"{HOSTILE[0]}0")}


def _started(place: Path, *options: str) -> tuple[str, subprocess.Popen]:
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "--store", str(place), "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ASSAY_TOKEN": ""},
    )
    return process.stdout.readline().strip().rstrip("/"), process


@pytest.fixture(scope="module")
def sites(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The addresses of two dashboards: one with demo runs, one with hostile ones."""
    folder = tmp_path_factory.mktemp("stores")
    with assay.store.open(folder / "demo.db") as store:
        save_demo(store)
    hostile_store(folder / "hostile.db")
    found, processes = {"folder": str(folder)}, []
    for name in ("demo", "hostile"):
        found[name], process = _started(folder / f"{name}.db")
        processes.append(process)
    yield found
    for process in processes:
        process.kill()
        process.communicate()


def rows_of(page, table: str) -> list[list[str]]:
    return page.locator(f"#{table} tbody").evaluate(
        "body => [...body.rows].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )


def test_from_the_list_to_a_comparison_to_a_query_and_back(visited, sites, picture):
    page = visited(sites["demo"])
    assert page.url == f"{sites['demo']}/"
    assert [row[0] for row in rows_of(page, "datasets")] == ["demo", "cranfield"]
    assert "1 recovered regression since" in page.locator(".verdict").inner_text()
    picture(page, "dashboard-home")
    page.click("nav >> text=Runs")
    page.wait_for_selector("#runs")
    picture(page, "dashboard-runs")
    assert page.locator("#compare-chosen").is_disabled()
    page.get_by_label("Compare run 1: dense").check()
    page.get_by_label("Compare run 2: lexical").check()
    page.click("text=Compare 2 runs")
    page.wait_for_selector("#systems")
    said = "dense is better than lexical on nDCG@10."
    assert said in page.locator(".verdict").inner_text()
    picture(page, "dashboard-compare")
    page.select_option("select[name=measure]", "AP")
    page.wait_for_url("**measure=AP**")
    page.wait_for_selector("#systems")
    assert "on AP" in page.locator(".verdict").inner_text()
    page.locator("#queries td.name a").first.click()
    page.wait_for_selector(".lists")
    assert page.locator(".list").count() == 2
    assert page.locator(".badge.only").count() > 0
    assert page.locator("li.relevant .judged").count() > 0
    picture(page, "dashboard-query")
    page.click("text=the comparison")
    page.wait_for_selector("#systems")
    assert "measure=AP" in page.url
    page.click("nav >> text=Leaderboard")
    page.wait_for_selector("#leaderboard")
    settled(page)
    page.select_option("select[name=dataset]", "demo")
    page.wait_for_url("**dataset=demo**")
    page.wait_for_selector("th:has-text('group')")
    ranked = [row[1:3] for row in rows_of(page, "leaderboard")]
    assert ranked == [["1", "dense"], ["2", "coarse"], ["3", "lexical"]]
    picture(page, "dashboard-leaderboard")
    page.click("#leaderboard >> text=dense")
    page.wait_for_selector("#numbers")
    picture(page, "dashboard-run")
    assert page.complaints == []
    assert all(url.startswith(sites["demo"]) for url in page.requests)


def test_filters_and_sorting(visited, sites):
    page = visited(f"{sites['demo']}/runs")
    page.select_option("select[name=dataset]", "cranfield")
    page.select_option("select[name=measure]", "AP")
    page.click("button:text-is('Show')")
    page.wait_for_url("**dataset=cranfield&measure=AP")
    assert len(rows_of(page, "runs")) == 6
    for turn, order in ((True, "descending"), (False, "ascending")):
        page.click("#runs th a:has-text('AP')")
        page.wait_for_selector(f"#runs th[aria-sort={order}] a:has-text('AP')")
        heads = page.locator("#runs th").all_inner_texts()
        column = next(i for i, text in enumerate(heads) if text.startswith("AP"))
        values = [float(row[column]) for row in rows_of(page, "runs")]
        assert values == sorted(values, reverse=turn)
    page.fill("input[name=named_like]", "nothing")
    page.click("button:text-is('Show')")
    page.wait_for_selector("text=No run matches these filters")


def test_a_view_is_an_address_that_this_browser_can_name(visited, sites, picture):
    page = visited(f"{sites['demo']}/runs")
    page.click("summary:has-text('Columns')")
    page.get_by_label("task", exact=True).uncheck()
    page.get_by_label("took").check()
    page.click("button:text-is('Show')")
    page.wait_for_url("**column=seconds**")
    heads = page.locator("#runs th").all_inner_texts()
    assert "took" in heads
    assert "task" not in heads
    page.click("#runs th a:has-text('took')")
    page.wait_for_selector("#runs th[aria-sort=descending] a:has-text('took')")
    assert "column=seconds" in page.url
    view = page.url
    page.fill("input[name=view]", "<b>slowest</b>")
    page.click("text=Save view")
    shown(page, f"{sites['demo']}/runs?group=dataset")
    assert [row[:2] for row in rows_of(page, "groups")] == [["demo", "5"], ["cranfield", "6"]]
    picture(page, "dashboard-groups")
    page.click(".views a:has-text('<b>slowest</b>')")
    page.wait_for_url(view)
    page.click("[aria-label='Forget the view <b>slowest</b>']")
    page.wait_for_selector(".views a:has-text('slowest')", state="detached")
    page.get_by_label("Compare run 1: dense").check()
    page.get_by_label("Compare run 2: lexical").check()
    page.click("text=Diff settings")
    page.wait_for_selector("#settings")
    assert ["model", "run", "lexical-v1", "dense-v1"] in rows_of(page, "settings")
    picture(page, "dashboard-diff")
    page.click("text=compare their numbers")
    page.wait_for_selector("#systems")
    page.fill("input[name=q]", "q1")
    page.click("button:text-is('Search')")
    page.wait_for_selector("text=10 found")
    assert page.locator("#queries tbody tr").count() == 10
    page.locator(".bars a").first.hover()
    page.locator(".bars a").first.click()
    page.wait_for_selector("h1:has-text('Query q')")
    assert page.locator("a[rel=next]").count() == 1
    assert page.complaints == []


def test_tags_and_notes_are_edited_where_the_server_allows_it(visited, tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "one", tags=["old"], notes="first")
    address, process = _started(tmp_path / "s.db", "--allow-edit")
    try:
        page = visited(address)
        root = page.url.rstrip("/")
        shown(page, f"{root}/run/1")
        page.click("text=Edit tags and notes")
        page.get_by_label("old").check()
        page.fill("input[name=add]", "new, <i>loud</i>")
        page.fill("textarea", "first\nsecond <b>line</b>")
        page.click("text=Save")
        page.wait_for_selector("li:has-text('<i>loud</i>')")
        with assay.store.open(tmp_path / "s.db") as store:
            run = store.run(1)
            assert (run.tags, run.notes) == (("<i>loud</i>", "new"), "first\nsecond <b>line</b>")
            assert store.damages() == []
        # The same form, with the right secret, on a page of another port: cookies are sent along.
        secret = page.locator("[name=secret]").get_attribute("value")
        form = (
            f'<form method="post" action="{root}/run/1/edit">'
            f'<input name="secret" value="{secret}"><button>Win</button></form>'
        )
        foreign = {"body": form, "content_type": "text/html"}
        page.route("http://127.0.0.1:9/**", lambda route: route.fulfill(**foreign))
        page.goto("http://127.0.0.1:9/evil")
        page.click("text=Win")
        page.wait_for_selector("text=edited from pages of this dashboard only")
        with assay.store.open(tmp_path / "s.db") as store:
            assert store.run(1).notes == "first\nsecond <b>line</b>"
    finally:
        process.kill()
        process.communicate()


def test_trends_mark_regressions_by_shape_and_word(visited, sites, picture):
    page = visited(f"{sites['demo']}/trends?dataset=cranfield")
    assert "Regression in run 7" in page.locator(".verdict").inner_text()
    assert page.locator(".trend a.worse path").count() == 1
    assert page.locator(".trend a").count() == 6
    assert "▼" in page.evaluate(
        "getComputedStyle(document.querySelector('td.change.worse'), '::before').content"
    )
    picture(page, "dashboard-trends")
    page.locator(".trend a.worse").click()
    page.wait_for_url("**/run/7?**")


def test_hostile_names_are_read_as_they_are_and_nothing_runs(visited, sites, picture):
    site = sites["hostile"]
    page = visited(f"{site}/runs")
    picture(page, "dashboard-hostile-runs")
    words = " ".join(page.locator("main").inner_text().split())
    for text in HOSTILE:
        assert " ".join(printable(text).split()) in words
    for path in (
        "run/1",
        "run/4",
        "leaderboard",
        "compare?run=1&run=2&run=3",
        "trends",
        f"query?run=1&run=5&query={QUERIES['hostile']}",
        "run/%3Cimg%20src=x%20onerror=alert(1)%3E",
        f"runs?dataset={quote(HOSTILE[4])}",
    ):
        shown(page, f"{site}/{path}")
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.scripts.length") == 2
        assert page.evaluate("document.querySelectorAll('main img').length") == 0
    picture(page, "dashboard-hostile")
    assert [text for text in page.complaints if "404" not in text] == []
    assert all(url.startswith(site) for url in page.requests)


def test_a_script_that_got_in_would_not_run_and_nothing_gets_out(visited, sites):
    page = visited(f"{sites['demo']}/runs")
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
        " document.body.append(s); document.body.insertAdjacentHTML('beforeend',"
        " '<img src=x onerror=\"window.pwned = 1\">'); }"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in text for text in page.complaints)
    outside = page.evaluate("fetch('https://example.org/').then(() => 'sent', error => 'refused')")
    assert outside == "refused"


@pytest.mark.parametrize("site", ["demo", "hostile"])
def test_fits_a_phone(visited, sites, picture, site):
    page = visited(f"{sites[site]}/runs", width=400)
    for path in (
        "",
        "runs",
        "runs?group=name",
        "diff?run=1&run=2&show=all",
        "leaderboard",
        "run/1",
        "compare?run=1&run=2&run=3",
        "run/10",
        "nothing",
        "trends",
        f"query?run=1&run=2&query={QUERIES[site]}",
    ):
        shown(page, f"{sites[site]}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        picture(page, f"dashboard-{site}-phone-{path.partition('?')[0].replace('/', '-')}")


@pytest.mark.parametrize(
    ("path", "table", "columns"),
    [
        ("runs", "runs", ("name", "nDCG@10")),
        ("leaderboard?dataset=demo", "leaderboard", ("rank", "name", "nDCG@10", "picture")),
        ("compare?run=1&run=2&run=3", "systems", ("rank", "system", "mean", "picture")),
    ],
)
def test_a_phone_shows_the_value_and_the_interval(visited, sites, path, table, columns):
    page = visited(f"{sites['demo']}/{path}", width=420)
    heads = page.locator(f"#{table} th").evaluate_all(
        "all => all.map(one => [one.classList.contains('picture') ? 'picture'"
        " : one.innerText.trim(), one.getBoundingClientRect().right])"
    )
    right = dict(heads)
    for name in columns:
        assert 0 < right[name] <= 420, (name, right)
    labels = page.locator(".costs text:visible").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect())"
        ".map(box => [box.left, box.top, box.right, box.bottom])"
    )
    for i, a in enumerate(labels):
        for b in labels[:i]:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] + 2 or b[3] <= a[1] + 2
            assert apart, (a, b)


def test_dark_by_preference_and_by_switch_which_is_remembered(visited, sites, picture):
    def brightness(page, what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3

    page = visited(f"{sites['demo']}/trends?dataset=cranfield", color_scheme="dark")
    picture(page, "dashboard-dark")
    assert brightness(page, "backgroundColor") < 60
    assert brightness(page, "color") > 180
    page.click("#theme")
    assert brightness(page, "backgroundColor") > 200
    shown(page, f"{sites['demo']}/runs")
    assert brightness(page, "backgroundColor") > 200
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page, "backgroundColor") > 200


def test_everything_by_keyboard(visited, sites):
    page = visited(f"{sites['demo']}/runs?dataset=demo")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "brand"
    for name in ("dense", "lexical"):
        page.locator(f"input[aria-label$=' {name}']").focus()
        page.keyboard.press("Space")
    page.locator("#compare-chosen").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#systems")
    page.locator("#queries th a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#queries th[aria-sort=ascending]")
    assert rows_of(page, "queries")[0][0].split()[0] == "q00"


def test_works_without_script(visited, sites):
    page = visited(f"{sites['demo']}/runs?dataset=demo", java_script_enabled=False)
    page.get_by_label("Compare run 1: dense").check()
    page.get_by_label("Compare run 3: coarse").check()
    page.click("text=Compare the selected runs")
    page.wait_for_selector("#systems")
    shown(page, f"{sites['demo']}/trends")
    page.select_option("select[name=dataset]", "demo")
    page.click("text=Show")
    page.wait_for_url("**dataset=demo**")
    shown(page, f"{sites['demo']}/run/10")
    assert "running 37 %, 37 of 100" in page.locator("main").inner_text()
    assert page.locator("progress").get_attribute("value") == "37"


def test_a_running_run_is_followed_until_it_ends(visited, sites):
    with assay.store.open(f"{sites['folder']}/demo.db") as store:
        run = store.begin(RunRecord("live", dataset="live"))
        home = visited(sites["demo"])  # while nobody knows how much there is to do
        assert home.locator(f"[data-run='{run.id}'] progress").count() == 0
        run.progress(1, 4)
        listed = visited(f"{sites['demo']}/runs?dataset=live")
        page = visited(f"{sites['demo']}/run/{run.id}")
        assert page.locator("progress").get_attribute("value") == "1"
        run.progress(3, 4)
        page.wait_for_selector("text=running 75 %")
        listed.wait_for_selector("td:has-text('running 75 %')")
        assert page.evaluate("document.querySelector('progress').value") == 3
        home.wait_for_selector("td:has-text('running 75 %')")
        assert home.locator(f"[data-run='{run.id}'] progress").get_attribute("value") == "3"
        run.set_result(made_scores(5))
        run.finish()
        page.wait_for_selector("#numbers")
        listed.wait_for_selector("#runs:not(:has(td.status))")  # all of the list are finished
        home.wait_for_selector("tr:has-text('live') td.finished")
        assert page.locator("#numbers .strip .range").count() > 0
        assert page.complaints == listed.complaints == home.complaints == []
        store.delete(run.id)


def test_tables_can_be_downloaded(visited, sites):
    page = visited(f"{sites['hostile']}/runs")
    with page.expect_download() as event:
        page.click("#runs .tools a")
    with open(event.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == len(HOSTILE) + 3
    assert not [cell for row in rows for cell in row if re.match(r"[=+\-@\t\r]", cell)]


ALL_PAGES = (
    "",
    "runs",
    "leaderboard?dataset=cranfield",
    "compare",
    "compare?run=1&run=2&run=3",
    "diff?run=1&run=2",
    "run/1",
    "query?run=1&run=2&query=q07",
    "trends?dataset=cranfield",
)


@pytest.mark.parametrize("width", [1400, pytest.param(420, marks=pytest.mark.slow)])
def test_axe_finds_nothing_wrong(visited, sites, axe, width):
    wrong = {}
    for path in ALL_PAGES:
        page = visited(f"{sites['demo']}/{path}", width=width)
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        wrong[path] = axe(page)
        page.emulate_media(color_scheme="dark")
        wrong[path] += axe(page, "color-contrast", "link-in-text-block")
        page.context.close()
    assert wrong == {path: [] for path in ALL_PAGES}
