"""Bold and blue mean one thing wherever they stand: may be the best; a footnote says so."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

import assay.store
from assay import compare
from assay.cli import terminal
from assay.report import make_report
from assay.runs import RunRecord
from assay.tables.table import BOLD, as_markdown, latex_text, text_page
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client

# The first two cannot be told apart, the third is worse.
SCORES = {
    "a": made_scores(1, skill=0.50),
    "b": made_scores(2, skill=0.50),
    "c": made_scores(3, skill=0.40),
}
MEASURE = "AP"
LEADERS = {"a", "b"}


@pytest.fixture(scope="module")
def compared():
    return compare(*SCORES.values(), names=list(SCORES), measures=[MEASURE], resamples=500)


@pytest.fixture(scope="module")
def report():
    runs = [RunRecord(name, scores) for name, scores in SCORES.items()]
    return make_report(runs, resamples=500)


def bold_in_latex(text: str) -> set[str]:
    """Names of the second column, behind the letters, in rows with bold."""
    rows = [line.split(" & ") for line in text.splitlines() if r"\textbf" in line]
    return {row[1] for row in rows}


def test_the_test_decides_and_not_the_highest_mean_alone(compared):
    assert {row.name for row in compared.standings if row.leads} == LEADERS
    assert {pair.outcome for pair in compared.pairs} >= {"not separable"}


def test_latex_of_compare_and_of_a_report_agree(compared, report, tmp_path):
    of_report = report.save(tmp_path / "report.tex").read_text()
    assert bold_in_latex(compared.to_latex()) == LEADERS
    table = of_report.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    headline = {row.split(" & ")[1] for row in table.splitlines() if r"\textbf" in row}
    assert headline == LEADERS
    for text in (compared.to_latex(), of_report):
        assert latex_text(BOLD) in text


def test_bold_is_at_most_one_footnote_and_none_without_bold(compared):
    assert compared.to_latex().count("footnotesize") == 1
    assert BOLD not in text_page(compared.page())  # plain text shows no bold
    assert "**" not in as_markdown(compared.pair_table())
    alone = make_report({"a": SCORES["a"]}, resamples=100)
    assert BOLD.removeprefix("Bold") not in alone.to_html()


def test_tables_and_intervals_of_the_page_agree(report):
    page = report.to_html()
    board = page.partition('<section id="leaderboard"')[2].partition("</section>")[0]
    means = page.partition('<section id="overview"')[2].partition("</section>")[0]
    number = [str(measure) for measure in report.measures].index(MEASURE)
    part = board.split("<div data-measure=")[number + 1]
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)[1:]
    names = [re.search(r'class="name[^"]*">([^<]+)<', row).group(1) for row in rows]
    assert {n for n, row in zip(names, rows, strict=True) if "<strong>" in row} == LEADERS
    assert {
        n for n, row in zip(names, rows, strict=True) if 'class="strip first"' in row
    } == LEADERS
    of_means = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in means.split("<tr>")[2:]]
    bold = {re.sub("<[^>]+>", "", row[0]) for row in of_means if "<strong>" in row[number + 1]}
    assert bold == LEADERS
    for section in (board, means):
        assert BOLD.replace("Bold", "Bold and blue") in section


def test_a_baseline_does_not_change_what_bold_means():
    against = compare(
        *SCORES.values(), names=list(SCORES), measures=[MEASURE], baseline="b", resamples=500
    )
    # The best is tested against the baseline, which is not significantly worse.
    assert {row.name for row in against.standings if row.leads} == LEADERS
    other = compare(
        *SCORES.values(), names=list(SCORES), measures=[MEASURE], baseline="c", resamples=500
    )
    first = other.standings[0].name  # no test compares the best two: the highest alone
    assert {row.name for row in other.standings if row.leads} == {first}
    assert {row.outcome for row in other.standings[:2]} == {"better"}


def test_the_terminal_says_what_bold_means(compared, monkeypatch):
    drawn = StringIO()
    make = lambda **_: Console(file=drawn, width=200, force_terminal=True)  # noqa: E731
    monkeypatch.setattr(terminal, "Console", make)
    terminal.print_page(compared.page())
    lines = drawn.getvalue().splitlines()
    assert {line.split()[0] for line in lines if "\x1b[1;32m" in line} == LEADERS
    assert BOLD[:40] in drawn.getvalue()


def test_the_dashboard_agrees(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for name, scores in SCORES.items():
            store.save(scores, name, dataset="d")
    client = Client(tmp_path / "s.db")
    for address in (
        f"/leaderboard?measure={MEASURE}",
        f"/compare?run=1&run=2&run=3&measure={MEASURE}",
    ):
        client(address.replace("?", ".json?", 1))  # waits for the comparison
        page = client(address).text
        table = "leaderboard" if "leaderboard" in address else "systems"
        figure = page.partition(f'id="{table}"')[2].partition("</figure>")[0]
        rows = figure.split("<tr>")[2:]
        bold = {
            re.search(r'href="/run/\d[^"]*">([^<]+)<', r).group(1)
            for r in rows
            if "strip first" in r
        }
        assert bold == LEADERS
        marked = [re.sub("<[^>]+>", "", row) for row in rows if "<strong>" in row]
        assert len(marked) >= 2
        assert BOLD.replace("Bold", "Bold and blue") in page


def test_other_measures_of_the_dashboard_are_tested_as_well(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for name, scores in SCORES.items():
            store.save(scores, name, dataset="d")
    first = next(str(m) for m in SCORES["a"].measures if str(m) != MEASURE)
    address = f"/leaderboard?measure={first}&also={MEASURE}"
    client = Client(tmp_path / "s.db")
    client(address.replace("?", ".json?", 1))  # waits for the comparisons
    figure = client(address).text.partition('id="leaderboard"')[2].partition("</figure>")[0]
    head, *rows = figure.split("<tr>")[1:]
    titles = [re.sub("<[^>]+>", "", cell).strip() for cell in head.split("<th")[1:]]
    place = next(i for i, title in enumerate(titles) if title.endswith(MEASURE))
    bold = {
        re.search(r'href="/run/\d[^"]*">([^<]+)<', row).group(1)
        for row in rows
        if "<strong>" in re.split("<t[dh]", row)[place + 1]
    }
    assert bold == LEADERS
