"""The real predictions of two systems on GeoLife, and the figures published for one of them."""

from __future__ import annotations

import csv
import gzip

import pytest

from assay.prediction import compare_models, evaluate_baselines, evaluate_candidates


@pytest.fixture(scope="module")
def rows(data_dir):
    path = data_dir("geolife") / "geolife_top10_predictions.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture(scope="module")
def results(rows):
    ids = [row["query_id"] for row in rows]
    users = {row["query_id"]: row["user_id"] for row in rows}
    return {
        name: evaluate_candidates(
            [row[name].split() for row in rows],
            [row["ground_truth"] for row in rows],
            name=name,
            query_ids=ids,
            groups={"user": users},
            n_classes=1300,
        )
        for name in ("top10", "top10_wot")
    }


def test_the_published_figures(results):
    mean = results["top10_wot"].mean()
    found = [round(mean[name], 4) for name in ("Acc@1", "Acc@5", "Acc@10", "nDCG@10")]
    assert found == [0.3296, 0.8291, 0.8737, 0.6276]
    assert results["top10_wot"].n_samples == 3459


def test_repeats_in_the_lists_are_counted(results, rows):
    for name, result in results.items():
        places = [row[name].split() for row in rows]
        assert result.repeated == sum(len(place) - len(set(place)) for place in places) > 0


def test_the_systems_swap_places_between_acc_1_and_acc_5(results):
    report = compare_models({name: [result] for name, result in results.items()})
    first, fifth = (report.paired.standings_on(name) for name in ("Acc@1", "Acc@5"))
    assert [one.name for one in first] == ["top10", "top10_wot"]
    assert [one.name for one in fifth] == ["top10_wot", "top10"]
    assert report.paired.pair("top10", "top10_wot", measure="Acc@1").winner == "top10"
    assert report.paired.pair("top10", "top10_wot", measure="Acc@5").winner is None


def test_users_weigh_the_same_in_the_macro_mean(results):
    macro = results["top10"].mean(by="user")
    assert len(macro.groups) == 45
    assert macro["Acc@1"] == pytest.approx(
        sum(group["Success@1"] for group in macro.groups.values()) / 45
    )
    assert macro["Acc@1"] != results["top10"].mean()["Acc@1"]


def test_both_are_far_beyond_the_baselines(results, rows, data_dir):
    with open(data_dir("geolife") / "geolife_train.csv", encoding="utf-8") as file:
        visits = list(csv.DictReader(file))
    labels = [visit["location_id"] for visit in visits]
    (majority,) = evaluate_baselines(
        labels,
        [row["ground_truth"] for row in rows],
        measures=["Acc@1", "Acc@10"],
        query_ids=[row["query_id"] for row in rows],
    )
    top = max(sorted(set(labels)), key=labels.count)
    assert majority.mean()["Acc@1"] == pytest.approx(
        sum(row["ground_truth"] == top for row in rows) / len(rows)
    )
    assert majority.mean()["Acc@10"] < results["top10_wot"].mean()["Acc@10"] / 2


def test_markov_beats_staying_on_the_test_visits(data_dir):
    visits = {}
    for part in ("train", "test"):
        with open(data_dir("geolife") / f"geolife_{part}.csv", encoding="utf-8") as file:
            visits[part] = list(csv.DictReader(file))
    pairs = [
        (before["location_id"], after["location_id"])
        for before, after in zip(visits["test"], visits["test"][1:], strict=False)
        if before["user_id"] == after["user_id"]
    ]
    found = evaluate_baselines(
        [visit["location_id"] for visit in visits["train"]],
        [after for _, after in pairs],
        measures=["Acc@1", "RR"],
        previous=[before for before, _ in pairs],
        users=[visit["user_id"] for visit in visits["train"]],
    )
    majority, last, markov = (one.mean() for one in found)
    assert last["Acc@1"] == sum(a == b for a, b in pairs) / len(pairs)
    assert majority["RR"] < markov["RR"]
    assert last["Acc@1"] < markov["Acc@1"]
