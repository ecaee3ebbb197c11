"""The front page over time, what a list of runs shows, and which runs /compare offers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

import assay.store
from assay.store.summaries import costs_of
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client
from tests.web.test_pages import shown_rows
from tests.web.test_views import heads_of, save_at


def store_of(place: Path, runs: list[tuple[float, float]], **about: object) -> Client:
    """A store of one system; each run has an age in days and a skill."""
    now = datetime.now(UTC)
    with assay.store.open(place) as store:
        for seed, (days, skill) in enumerate(runs):
            about = {"dataset": "d", **about}
            save_at(store, now - timedelta(days=days), "nightly", skill, seed, **about)
    return Client(place)


@pytest.mark.parametrize(
    ("age", "days"), [(1, 7), (8, 30), (29, 30), (31, 90), (89, 90), (100, None)]
)
def test_it_opens_on_the_shortest_period_that_has_runs(tmp_path, age, days):
    client = store_of(tmp_path / "s.db", [(age + 1, 0.5), (age, 0.5)])
    data, page = client("/home.json").json, client("/").text
    assert data["days"] == days
    assert data["recent"]
    chosen = re.search(r'<a href="/\?days=(\w+)" aria-current="true"', page).group(1)
    assert chosen == str(days or "all")
    offered = re.findall(r'<a href="/\?days=(\w+)"', page)
    assert offered == ["7", "30", "90", "all"]
    for period in offered:
        assert client(f"/?days={period}").status == 200


def test_a_period_without_runs_can_be_chosen_and_says_so(tmp_path):
    client = store_of(tmp_path / "s.db", [(50, 0.5)])
    page = client("/?days=7").text
    assert "No runs in the last 7 days." in page
    assert client("/home.json?days=all").json["recent"] == {"finished": 1}
    assert client("/?days=none").status == 400


def test_an_open_regression_is_shown_in_every_period(tmp_path):
    client = store_of(tmp_path / "s.db", [(60, 0.5), (50, 0.4), (1, 0.4)])
    for period in ("7", "30", "90", "all"):
        (drop,) = client(f"/home.json?days={period}").json["regressions"]
        assert (drop["run"]["id"], drop["recovered"]) == (2, None)
        page = client(f"/?days={period}").text
        assert "1 open regression" in page
        assert 'class="verdict worse"' in page


def test_a_recovered_regression_says_so_and_leaves_with_its_period(tmp_path):
    client = store_of(tmp_path / "s.db", [(60, 0.5), (50, 0.4), (45, 0.41), (40, 0.5), (1, 0.5)])
    (drop,) = client("/home.json?days=90").json["regressions"]
    assert (drop["run"]["id"], drop["recovered"]) == (2, 4)
    page = client("/?days=90").text
    assert "1 recovered regression since" in page
    assert 'recovered in <a href="/run/4">run 4</a>' in page
    assert 'class="verdict worse"' not in page
    assert client("/home.json?days=30").json["regressions"] == []
    trend = client("/trends.json?dataset=d").json
    assert (trend["regressions"], trend["recovered"]) == ([2], [2])
    assert "Regression in run 2 (recovered in run 4)." in client("/trends?dataset=d").text


def test_half_of_the_way_back_is_no_recovery(tmp_path):
    client = store_of(tmp_path / "s.db", [(5, 0.5), (4, 0.4), (3, 0.44)])
    assert "Regression in run 2 (open)." in client("/trends?dataset=d").text
    # More than half, but a test still tells it from what was before.
    client = store_of(tmp_path / "t.db", [(5, 0.5), (4, 0.4), (3, 0.46)])
    assert "Regression in run 2 (open)." in client("/trends?dataset=d").text


def test_datasets_have_an_interval_a_line_and_the_change_of_the_followed_run(tmp_path):
    client = store_of(tmp_path / "s.db", [(3, 0.5), (2, 0.5), (1, 0.4)])
    with assay.store.open(tmp_path / "s.db") as store:
        best = store.save(made_scores(9, skill=0.6), "best", dataset="d").aggregate("nDCG@10")
    (board,) = client("/home.json").json["datasets"]
    assert (board["best"], board["low"], board["high"]) == ("best", best.low, best.high)
    trend = client("/trends.json?dataset=d&name=nightly").json["runs"]
    assert [point["value"] for point in board["series"]] == [run["value"] for run in trend]
    change = trend[-1]["change"]
    assert board["change"] == {key: change[key] for key in board["change"]}
    assert change["kind"] == "worse"
    page = client("/").text
    heads = heads_of(page, "datasets")
    texts = [head for head in heads if head != "trend"]  # which is a picture
    row = dict(zip(texts, shown_rows(page, "datasets")[0], strict=True))
    assert row["95 % CI"] == f"[{best.low:.4f}, {best.high:.4f}]"
    assert row["trend of"] == "nightly"
    assert heads[:5] == ["dataset", "best", "measure", "trend", "change"]  # what a phone shows
    assert 'class="spark"' in page
    assert '<td class="change worse n short">' in page


def test_the_trend_names_its_test_and_where_its_axis_begins(tmp_path):
    page = store_of(tmp_path / "s.db", [(3, 0.5), (2, 0.5), (1, 0.4)])("/trends").text
    assert "randomisation test" in page
    assert "Student" not in page
    low, high = map(float, re.search(r"axis from ([\d.]+) to ([\d.]+), not from 0", page).groups())
    assert 0 < low < 0.4
    assert high > 0.5


def test_codes_have_the_size_of_a_vector_and_no_memory(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for name, size in (("itq", 8), ("float", 1024)):
            store.save(made_scores(size), name, dataset="c", config={"bytes_per_vector": size})
    page = Client(tmp_path / "s.db")("/leaderboard").text
    assert "memory" not in heads_of(page, "leaderboard")
    cells = [cell for row in shown_rows(page, "leaderboard") for cell in row]
    assert {"8 bytes", "1,024 bytes"} <= set(cells)
    assert "0.0 kB" not in page
    assert costs_of(5, {"bytes_per_vector": 8}, {}).bytes is None


def test_a_long_path_of_a_model_is_shortened_and_whole_in_the_title_and_csv(tmp_path):
    path = "/models/checkpoints/2026-09/e5-base-finetuned"
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "e5", dataset="d", model=path)
        store.save(made_scores(2), "bm25", dataset="d", model="bm25")
    client = Client(tmp_path / "s.db")
    for page, csv in (("/leaderboard", "/leaderboard.csv"), ("/runs", "/runs.csv")):
        text = client(page).text
        assert f'title="{path}"' in text
        assert "…/e5-base-finetuned" in text
        assert path in client(csv).text
        table = text.partition("<tbody>")[2]
        assert table.count(">bm25<") == 1  # the name says it
        assert "bm25,bm25" in client(csv).text or client(csv).text.count("bm25") == 2


def test_status_is_a_column_only_where_some_run_is_not_finished(tmp_path):
    client = store_of(tmp_path / "s.db", [(1, 0.5)])
    assert "status" not in heads_of(client("/runs").text, "runs")
    assert heads_of(client("/runs").text, "runs")[1:3] == ["name", "nDCG@10"]
    with assay.store.open(tmp_path / "s.db") as store:
        store.begin(assay.store.RunRecord("new"))
    assert "status" in heads_of(client("/runs").text, "runs")
    assert "status" in heads_of(client("/runs?column=status").text, "runs")


def test_two_runs_of_one_dataset_are_offered_and_can_be_compared(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for seed, (name, dataset) in enumerate([("a", "x"), ("b", "x"), ("c", "y"), ("d", "z")]):
            store.save(made_scores(seed), name, dataset=dataset)
    client = Client(tmp_path / "s.db")
    page = unescape(client("/compare").text)
    link = re.search(r'<a href="([^"]+)">Compare the two newest runs of x: b and a</a>', page)
    assert client(link.group(1)).status == 200
    assert client(link.group(1).replace("?", ".json?")).json["comparison"]["systems"] == ["b", "a"]


def test_nothing_is_offered_where_no_two_runs_can_be_compared(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        for seed, dataset in enumerate("xyz"):
            store.save(made_scores(seed), dataset, dataset=dataset)
    page = Client(tmp_path / "s.db")("/compare").text
    assert "Compare the two newest" not in page
    assert "Select two or more runs" in page
