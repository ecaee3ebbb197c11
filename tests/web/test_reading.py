"""What a reader sees first: verdicts, means before counts, no column that says nothing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import assay.store
from assay import compare, evaluate
from assay.store import RunRecord
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client, save_demo
from tests.web.test_pages import shown_rows
from tests.web.test_views import heads_of, save_at


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    place = tmp_path_factory.mktemp("reading") / "s.db"
    with assay.store.open(place) as store:
        save_demo(store)
    return Client(place)


def verdict_of(page: str) -> list[str]:
    """The lines of the first verdict, without markup."""
    inside = page[page.index('<div class="verdict') :].partition("</div>")[0]
    return [re.sub("<[^>]+>", "", line) for line in re.split("</p>|</small>", inside)[:-1]]


def test_a_mean_comes_before_counts_wherever_only_one_number_is_shown(tmp_path: Path) -> None:
    qrels = {f"q{i}": {"a": 1, "b": int(i % 2)} for i in range(8)}
    lists = {q: {"a": 2.0 - i % 3, "b": 1.0} for i, q in enumerate(qrels)}
    scores = evaluate(lists, qrels, ["num_ret", "num_rel", "AP"])
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(scores, "counted", dataset="d")
        store.save(evaluate(lists, qrels, ["num_ret"]), "counts only", dataset="other")
    client = Client(tmp_path / "s.db")
    boards = {board["dataset"]: board["measure"] for board in client("/home.json").json["datasets"]}
    assert boards == {"d": "AP", "other": "num_ret"}
    assert client("/leaderboard.json?dataset=d").json["measure"] == "AP"
    rows = shown_rows(client("/runs?column=name").text, "runs")
    assert len(rows) == 2
    newest = shown_rows(client("/").text, "newest")
    assert [row[2] for row in newest] == ["num_ret", "AP"]


def test_the_leaderboard_begins_with_the_verdict_of_the_comparison(client: Client) -> None:
    board = client("/leaderboard.json?dataset=demo").json  # waits for the statistics
    page = client("/leaderboard?dataset=demo").text
    store = client.source.store()
    tested = compare({row["name"]: store.run(row["id"]).scores() for row in board["runs"]})
    verdict = tested.verdicts[board["measure"]]
    assert verdict_of(page) == [f"{verdict.headline}.", verdict.numbers]
    assert page.index('class="verdict"') < page.index('id="leaderboard"')


def test_what_all_runs_share_is_said_once_and_stays_in_the_file(client: Client) -> None:
    page = client("/leaderboard?dataset=demo").text
    heads = heads_of(page, "leaderboard")
    assert not {"chance", "queries"} & set(heads)
    assert "by the mean over 50 queries" in page
    chance = client("/leaderboard.json?dataset=demo").json["runs"][0]["chance"]
    assert f"A random order reaches {chance:.4f}" in page
    rows = list(csv.DictReader(io.StringIO(client("/leaderboard.csv?dataset=demo").text)))
    assert {row["queries"] for row in rows} == {"50"}
    assert [float(row["chance"]) for row in rows] == [pytest.approx(chance)] * 3


def test_runs_that_cannot_be_tested_have_no_empty_group(tmp_path: Path) -> None:
    with assay.store.open(tmp_path / "s.db") as store:
        for seed in (1, 2):
            scores = made_scores(seed).with_groups(
                scene={f"q{i:03}": "ab"[i % 2] for i in range(60)}
            )
            store.save(RunRecord(f"m{seed}", scores, dataset="d", clusters="scene"))
    page = Client(tmp_path / "s.db")("/leaderboard?dataset=d").text
    assert "group" not in heads_of(page, "leaderboard")
    assert "share a letter" not in page
    assert "Too few groups (2) to compare" in verdict_of(page)[0]


def test_the_kind_of_average_stands_beside_the_measure(client: Client) -> None:
    page = client("/run/4").text  # means over queries and over topics
    assert heads_of(page, "numbers")[:5] == ["measure", "average", "value", "from", "to"]
    rows = [tuple(row[:2]) for row in shown_rows(page, "numbers")]
    assert ("nDCG@10", "micro") in rows
    assert ("nDCG@10", "macro by topic") in rows
    assert len(rows) == len(set(rows))


def test_bold_has_one_meaning_on_the_page_of_a_comparison(client: Client) -> None:
    page = client("/compare?run=1&run=2&run=3&measure=AP").text
    assert heads_of(page, "measures")[0] == "run"
    part = page[page.index('id="measures"') :].partition("</table>")[0]
    place = heads_of(page, "measures").index("AP")
    cells = [re.split("<t[dh]", row)[place + 1] for row in part.split("<tr>")[2:]]
    bold = [cell for row in cells for cell in re.findall(r"<strong>([\d.]+)</strong>", row)]
    store, names = client.source.store(), {1: "dense", 2: "lexical", 3: "coarse"}
    runs = {name: store.run(number).scores() for number, name in names.items()}
    leaders = [row for row in compare(runs, measures=["AP"]).standings_on("AP") if row.leads]
    assert bold == [f"{row.mean.estimate:.4f}" for row in leaders]
    first = shown_rows(page, "measures")[0]
    means = [
        float(row[heads_of(page, "measures").index("AP")]) for row in shown_rows(page, "measures")
    ]
    assert means == sorted(means, reverse=True)
    assert first[0] == leaders[0].name


def test_the_value_of_one_query_is_never_bold(client: Client) -> None:
    page = client("/query?run=1&run=2&query=q07").text
    assert "<strong>" not in page[page.index('id="values"') :].partition("</table>")[0]
    assert "Bold" not in page
    assert re.search(r'<span class="badge">rank \d+ in lexical</span>', page)
    assert "there " not in page.partition("Retrieved documents")[2].partition("<div")[0]


def test_a_trend_shows_its_change_beside_the_mean(client: Client, tmp_path: Path) -> None:
    page = client("/trends?dataset=cranfield").text
    heads = heads_of(page, "trend")
    assert heads.index("change") < heads.index("difference")
    commits = [run["git_commit"] for run in client("/trends.json?dataset=cranfield").json["runs"]]
    assert ("commit" in heads) == any(commits)
    with assay.store.open(tmp_path / "s.db") as store:
        now = datetime.now(UTC)
        save_at(store, now - timedelta(days=1), "only", 0.5, 1, dataset="d")
    alone = Client(tmp_path / "s.db")("/trends?dataset=d").text
    assert "A trend needs at least two runs." in alone
    assert "<svg" not in alone.partition("<main")[2]
    assert "significant change" not in alone


def test_new_runs_are_one_line_for_each_dataset(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with assay.store.open(tmp_path / "s.db") as store:
        save_at(store, now - timedelta(days=20), "old", 0.5, 1, dataset="d")
        for number in range(15):
            save_at(store, now - timedelta(days=2), f"new-{number:02}", 0.3, number, dataset="d")
    page = Client(tmp_path / "s.db")("/").text
    (line,) = re.findall(r"<li>New on d: (.*?)</li>", page, re.S)
    assert len(re.findall(r'<a href="/run/\d+">new-\d+</a> \(nDCG@10 0\.\d{4}\)', line)) == 12
    assert re.search(r'and <a href="/runs\?dataset=d&amp;since=[\d-]+">3 more</a>', line)
    assert "JSON of this page" not in page.partition("<footer")[0]


def test_a_group_without_a_name_has_a_row_with_words(client: Client, tmp_path: Path) -> None:
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "plain")
    rows = shown_rows(Client(tmp_path / "s.db")("/runs?group=dataset").text, "groups")
    assert rows[0][0] == "(none)"
