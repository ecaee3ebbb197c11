"""Lists of runs as the address asks for them; the front page; settings side by side; progress."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest

import assay.store
from assay.store import OpenRun, RunRecord, Store, writing
from assay.store.run import Payload, start_values
from assay.store.schema import RUNS
from assay.web.page import describe_status, progress_of
from tests.comparison.made_scores import made_scores
from tests.web.samples import Client


def save_at(store: Store, moment: datetime, name: str, skill: float, seed: int, **about) -> int:
    """A finished run that began at another time."""
    record = RunRecord(name, made_scores(seed, skill=skill), **about)
    created = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with store.database.writing() as connection:
        row = {**start_values(record), "created": created, "updated": created}
        run = writing.add_run(connection, row, record.tags)
        writing.finish_run(connection, run, Payload.of(record), seconds=float(seed))
    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of five weeks with a regression, of two tasks, with costs and settings."""
    found = tmp_path_factory.mktemp("views") / "s.db"
    now = datetime.now(UTC)
    with assay.store.open(found) as store:
        for number, (days, skill) in enumerate([(40, 0.42), (13, 0.45), (3, 0.36), (1, 0.37)]):
            save_at(store, now - timedelta(days=days), "weekly", skill, number, dataset="news")
        for number in range(4):
            costs = {"search_seconds": 0.6 * (number + 1), "texts_per_second": 1000 / (number + 1)}
            save_at(
                store,
                now - timedelta(days=20 - 6 * number),
                f"model {number}",
                0.3 + 0.1 * number,
                number,
                dataset="bench",
                task="bench",
                tags=["paper", f"t{number % 2}"],
                config={"costs": {**costs, "bytes": 10**6}, "depth": 100, "k": {"a": number}},
                seeds={"seed": 7},
            )
        aggregates = [assay.store.Aggregate("Accuracy", 0.9, n=3)]
        for number in range(2):
            record = RunRecord(f"p{number}", task="predict", dataset="p", aggregates=aggregates)
            store.save(record)
    return found


@pytest.fixture(scope="module")
def client(place: Path) -> Client:
    return Client(place)


def csv_of(client: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client(address).text)))


def heads_of(page: str, table: str) -> list[str]:
    figure = page.split(f'id="{table}">', 1)[1].split("</thead>", 1)[0]
    heads = re.findall(r"<th[^>]*>(.*?)</th>", figure)
    return [unescape(re.sub(r"<[^>]+>", "", head)) for head in heads]


def test_columns_are_those_of_the_address_in_its_order(client: Client):
    page = client("/runs?column=tags&column=AP&column=seconds&column=nothing").text
    assert heads_of(page, "runs")[1:] == ["name", "tags", "AP", "took"]
    assert re.search(r'name="column" value="AP" checked', page)
    assert not re.search(r'name="column" value="dataset" checked', page)
    assert "column=tags&amp;column=AP" in page  # sorting keeps the view
    assert list(csv_of(client, "/runs.csv?column=AP")[0]) == ["name", "AP"]


def test_every_column_sorts_and_runs_without_a_value_come_last(client: Client):
    page = client("/runs?" + "&".join(f"column={key}" for key in (*_KEYS, "AP", "P@10"))).text
    figure = page.split('id="runs">', 1)[1].split("</thead>", 1)[0]
    links = [unescape(link) for link in re.findall(r'<th[^>]*><a href="([^"]+)"', figure)]
    assert len(links) == len(_KEYS) + 3
    for link in links:
        assert client(link).status == 200, link
    for order, turned in (("up", False), ("down", True)):
        rows = client(f"/runs.json?sort=AP&order={order}").json["runs"]
        means = [row["means"].get("AP") for row in rows]
        known = [mean for mean in means if mean is not None]
        assert known == sorted(known, reverse=turned)
        assert means[: len(known)] == known
        assert None in means
        tags = [row["tags"] for row in client(f"/runs.json?sort=tags&order={order}").json["runs"]]
        first = [own[0] for own in tags if own]
        assert first == sorted(first, reverse=turned)
        assert all(tags[: len(first)])


_KEYS = ("id", "status", "task", "dataset", "model", "n_queries", "seconds", "tags", "created")


def test_a_page_shows_the_measures_of_its_task_only(client: Client):
    page = client("/runs?task=predict").text
    assert "Accuracy" in heads_of(page, "runs")
    assert "nDCG@10" not in page
    page = client("/runs?task=bench").text
    assert "nDCG@10" in heads_of(page, "runs")
    assert "Accuracy" not in page
    mixed = heads_of(client("/runs").text, "runs")
    # Values of several tasks do not stand in one column of a measure.
    assert mixed[1:4] == ["name", "mean", "measure"]
    assert not {"AP", "nDCG@10", "Accuracy"} & set(mixed)
    assert heads_of(client("/runs?measure=AP").text, "runs")[2] == "AP"


@pytest.mark.parametrize("column", ["name", "dataset", "tag", "task", "model"])
def test_groups_are_those_of_the_runs(client: Client, place: Path, column: str):
    found = client(f"/runs.json?group={column}").json["groups"]
    with assay.store.open(place) as store:
        runs = store.summaries()
    keys = [(key, run) for run in runs for key in _keys(run, column)]
    assert {one["name"]: one["runs"] for one in found} == Counter(key for key, _ in keys)
    for one in found:
        own = [run for key, run in keys if key == one["name"]]
        assert one["last"] == max(run.created for run in own)
        best = [run.means()["AP"] for run in own if "AP" in run.means()]
        assert one["best"].get("AP") == max(best, default=None)


def _keys(run, column: str) -> tuple[str, ...]:
    return run.tags if column == "tag" else (getattr(run, column),)


def test_groups_keep_the_filters_and_lead_to_their_runs(client: Client):
    """Filters by tag and measure look at tables that the grouping joins, too."""
    found = client("/runs.json?group=tag&tag=t1&measure=AP").json["groups"]
    assert {one["name"]: one["runs"] for one in found} == {"paper": 2, "t1": 2}
    page = client("/runs?group=tag&task=bench").text
    link = unescape(re.search(r'<a href="(/runs\?[^"]*tag=t0[^"]*)"', page).group(1))
    assert {run["name"] for run in client(link.replace("/runs", "/runs.json")).json["runs"]} == {
        "model 0",
        "model 2",
    }
    names = [one["name"] for one in client("/runs.json?group=name&sort=group").json["groups"]]
    assert names == sorted(names)
    by_mean = client("/runs.json?group=name&sort=AP").json["groups"]
    assert by_mean[0]["name"] == "model 3"
    assert "AP" not in by_mean[-1]["best"]


def test_moments_are_words_with_the_exact_time_beside_them(client: Client):
    page = client("/runs?dataset=news").text
    exact = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    assert re.search(rf'title="{exact} \d\d:\d\d">yesterday \d\d:\d\d<', page)
    assert csv_of(client, "/runs.csv?dataset=news")[0]["began (UTC)"].startswith(exact)


def test_the_front_page_says_what_is_here_and_what_changed(client: Client):
    data = client("/home.json").json
    assert {one["dataset"]: one["runs"] for one in data["datasets"]} == {
        "news": 4,
        "bench": 4,
        "p": 2,
    }
    best = {one["dataset"]: one["best"] for one in data["datasets"]}
    assert (best["bench"], best["news"]) == ("model 3", "weekly")
    kinds = {(one["kind"], one["dataset"], one["name"]) for one in data["news"]}
    assert ("best", "bench", "model 3") in kinds
    assert ("name", "bench", "model 3") in kinds
    assert ("dataset", "p", "p1") in kinds
    assert not [one for one in kinds if one[1] == "news"]
    assert data["recent"] == {"finished": 5}
    assert data["runs"][0]["name"] == "p1"
    page = client("/").text
    for words in (
        "1 open regression",
        "New highest nDCG@10 on",
        "New dataset",
        "Newest runs",
        "Datasets",
    ):
        assert words in page


def test_regressions_of_the_front_page_are_those_of_the_trend(client: Client):
    (found,) = client("/home.json").json["regressions"]
    trend = client("/trends.json?dataset=news&measure=nDCG%4010").json
    assert trend["regressions"] == [found["run"]["id"]]
    change = next(one["change"] for one in trend["runs"] if one["id"] == found["run"]["id"])
    assert {key: change[key] for key in found["change"]} == found["change"]
    assert found["before"]["id"] == found["run"]["id"] - 1
    assert found["recovered"] is None
    assert client("/home.json?days=2").json["regressions"] == [found]  # open, so never hidden
    numbers = f"Change {change['difference']:+.4f} (95 % CI {change['low']:+.4f} to "
    assert numbers.replace("-", "−") in client("/").text


def test_an_empty_store_has_a_front_page(tmp_path: Path):
    assay.store.open(tmp_path / "s.db").close()
    client = Client(tmp_path / "s.db")
    assert "The store is empty" in client("/").text
    assert "Select two or more runs" in client("/diff").text
    assert client("/runs?group=tag").status == 200


def test_settings_side_by_side(client: Client):
    data = client("/diff.json?run=5&run=6").json
    rows = {row["name"]: row["values"] for row in data["settings"]}
    assert rows["k.a"] == ["0", "1"]
    assert rows["tags"] == ["paper t0", "paper t1"]
    assert not {"depth", "seed", "costs.bytes"} & rows.keys()
    assert data["differing"] == len(rows)
    whole = client("/diff.json?run=5&run=6&show=all").json
    assert {"depth", "seed"} <= {row["name"] for row in whole["settings"]}
    assert whole["total"] == len(whole["settings"])
    page = client("/diff?run=5&run=6&run=7").text
    assert page.count('class="other short"') >= 4
    assert "compare their numbers" in page
    assert "settings differ" in client("/compare?run=5&run=6").text
    assert client("/diff?" + "&".join(f"run={i}" for i in range(1, 11)) * 3).status in (200, 404)


def test_a_leaderboard_of_several_measures_with_costs(client: Client):
    data = client("/leaderboard.json?dataset=bench&measure=AP").json
    assert (data["measure"], data["also"]) == ("AP", ["nDCG@10", "P@10"])
    first = data["runs"][0]
    assert first["name"] == "model 3"
    assert set(first["means"]) == {"nDCG@10", "P@10"}
    assert first["costs"] == {
        "seconds_per_query": pytest.approx(2.4 / 60),
        "texts_per_second": 250.0,
        "bytes": 1e6,
        "bytes_per_vector": None,
    }
    page = client("/leaderboard?dataset=bench&measure=AP").text
    heads = heads_of(page, "leaderboard")
    assert heads[1:5] == ["rank", "name", "AP", "95 % CI"]
    assert {"search/query", "texts/s", "memory", "nDCG@10"} <= set(heads)
    assert "40.0 ms" in page
    assert page.count('class="system first"') == 4  # the better, the dearer: all are on the front
    assert "time to encode a text" in page
    one = client("/leaderboard?dataset=bench&measure=AP&also=P%4010").text
    assert "nDCG@10" not in heads_of(one, "leaderboard")
    assert "Quality and cost" not in client("/leaderboard?dataset=news").text


def test_a_search_in_a_leaderboard_changes_neither_places_nor_letters(client: Client):
    whole = {row["id"]: row for row in client("/leaderboard.json?dataset=bench").json["runs"]}
    found = client("/leaderboard.json?dataset=bench&named_like=MODEL+1").json
    assert found["total"] == 1
    assert found["runs"] == [whole[found["runs"][0]["id"]]]
    assert found["runs"][0]["place"] == 3
    assert (
        "No run of this dataset is named" in client("/leaderboard?dataset=bench&named_like=x").text
    )


def test_progress_is_percent_count_rate_time_left_and_what_is_done_now(tmp_path: Path):
    with assay.store.open(tmp_path / "s.db") as store:
        run = store.begin(RunRecord("live", dataset="d"))
        run.progress(0, 0)
        assert describe_status(store.run(1)) == "running"
        assert progress_of(store.run(1))["rate"] is None
        run.progress(3000, 6000, "encoding documents")
        now = datetime.now(UTC)
        moments = [f"{now - timedelta(seconds=ago):%Y-%m-%dT%H:%M:%S.%fZ}" for ago in (1000, 0)]
        with store.database.writing() as connection:
            connection.execute(RUNS.update().values(created=moments[0], updated=moments[1]))
        far = progress_of(store.run(1))
        assert (far["percent"], far["done"], far["total"]) == (50.0, 3000, 6000)
        assert far["rate"] == pytest.approx(3.0, rel=0.02)
        assert far["seconds_left"] == pytest.approx(1000, rel=0.02)
        client = Client(tmp_path / "s.db")
        data = client("/run/1.json").json["run"]
        assert data["progress"]["now"] == "encoding documents"
        assert (
            data["shown_status"]
            == "running 50 %, 3,000 of 6,000, 3/s, 16 min 40 s left: encoding documents"
        )
        assert "running 50 %, 16 min 40 s left" in client("/runs").text
        run.set_result(made_scores(1))
        run.finish()
        assert (store.run(1).message, store.run(1).name) == ("", "live")
        assert client("/run/1.json").json["run"]["progress"] is None


def test_a_silent_run_has_no_time_left(tmp_path: Path):
    with assay.store.open(tmp_path / "s.db") as store:
        store.begin(RunRecord("dead"))
        OpenRun(store, 1).progress(5, 10)
        old = "2026-01-01T00:00:00.000000Z"
        with store.database.writing() as connection:
            connection.execute(RUNS.update().values(created=old, updated=old))
        assert re.fullmatch(r"running 50 %, silent for \d+ days", describe_status(store.run(1)))
        assert progress_of(store.run(1))["seconds_left"] is None
