"""The letters of the leaderboard are those of the comparison of the same runs."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay.runs import RunRecord
from tests.comparison.made_scores import scores_of
from tests.web.samples import Client


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Twelve models, two of them behind an index as well, and a run under other conventions."""
    place = tmp_path_factory.mktemp("store") / "many.db"
    rng = np.random.default_rng(2)
    base = rng.random(60)
    with assay.store.open(place) as store:
        for number in range(12):
            row = np.clip(0.8 * base + 0.1 * rng.random(60) + 0.008 * number, 0, 1)
            store.save(RunRecord(f"m{number}", scores_of(row), task="bench", dataset="d"))
            if number in (3, 11):
                config = {"variant_of": f"m{number}"}
                name = f"m{number} @ usearch"
                store.save(
                    RunRecord(name, scores_of(row), task="bench", dataset="d", config=config)
                )
        other = scores_of(base, empty="zero")
        store.save(RunRecord("other", other, task="bench", dataset="d"))
    return Client(place)


def test_letters_are_those_of_the_comparison(many: Client) -> None:
    board = many("/leaderboard.json?dataset=d&measure=RR").json
    assert board["total"] == 15
    shown = {row["name"]: row["letters"] for row in board["runs"]}
    assert all(shown[f"m{number}"] for number in range(12))
    assert shown["m3 @ usearch"] == shown["m11 @ usearch"] == shown["other"] == ""
    assert "(max-t over 66 pairs)" in board["letters_note"]
    assert board["letters_note"].endswith("Left out: 1 of other conventions, 2 variants of others.")
    page = many("/leaderboard?dataset=d&measure=RR").text
    link = page.split('href="/compare?')[1].split('"')[0].replace("&amp;", "&")
    compared = many(f"/compare.json?{link}").json["comparison"]
    assert compared["family"] == "all 66 pairs of 12 systems"
    for one in compared["measures"]["RR"]["systems"]:
        assert one["letters"] == shown[one["name"]]


def test_many_runs_may_be_compared_and_few_pairs_are_shown(many: Client) -> None:
    ids = "&".join(f"run={i}" for i in range(1, 15))
    assert many(f"/compare?{ids}").status == 200
    assert many("/compare?" + "&".join(f"run={i}" for i in range(1, 102))).status >= 400
