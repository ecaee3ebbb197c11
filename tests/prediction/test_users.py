"""Users are clusters: their samples are drawn together in intervals, tests and the gate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import FormatError, MismatchError, UsageError
from assay.integrations.assertions import assert_not_worse
from assay.prediction import (
    compare_models,
    distance_errors,
    evaluate_confidence,
    evaluate_predictions,
)
from assay.prediction.evaluate import median_interval
from assay.prediction.files import read_prediction_file
from assay.stats import interval
from assay.store import open as open_store

N_USERS, N_EACH, N_CLASSES = 12, 25, 6


def logits(seed, lucky=0.0):
    """Scores of a model that is right for some users always, and for the others never."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(N_USERS), N_EACH)
    targets = rng.integers(N_CLASSES, size=len(users))
    right = rng.permutation(N_USERS)[users] < N_USERS * (0.5 + lucky)
    scores = rng.normal(size=(len(users), N_CLASSES))
    scores[np.arange(len(users)), targets] += np.where(right, 9.0, -9.0)
    return scores, targets, users


def result_of(seed, **more):
    scores, targets, users = logits(seed, **more)
    groups = {"user": [f"u{user}" for user in users]}
    return evaluate_predictions(scores, targets, groups=groups, clusters="user", measures="Acc@1")


def test_intervals_are_those_of_whole_users():
    result = result_of(0)
    scores, targets, users = logits(0)
    alone = evaluate_predictions(scores, targets, measures="Acc@1")
    span, narrow = result.intervals()["Success@1"], alone.intervals()["Success@1"]
    expected = interval(result.scores["Acc@1"], clusters=users, bounds=(0.0, 1.0))
    assert (span.low, span.high, span.method) == (expected.low, expected.high, expected.method)
    assert span.high - span.low > 3 * (narrow.high - narrow.low)
    # The error of a mean of N_USERS means, by hand.
    means = result.scores["Acc@1"].reshape(N_USERS, N_EACH).mean(axis=1)
    half = 2.2 * means.std(ddof=1) / np.sqrt(N_USERS)
    assert span.half_width == pytest.approx(half, rel=0.25)
    assert result.records()[0].clusters == "user"
    assert "|clusters:user(n=12,effective=12.0)|" in result.scores.signature
    assert "clusters" not in alone.to_dict()


def test_uneven_users_count_like_fewer():
    groups = {"user": ["a"] * 8 + ["b"] * 1 + ["c"] * 1 + ["d"] * 4}
    scores = np.eye(14)
    result = evaluate_predictions(
        scores, [*range(10), -1, -1, -1, -1], groups=groups, clusters="user"
    )
    assert result.to_dict()["clusters"] == {"column": "user", "n": 3, "effective": 100 / 66}
    assert "by" not in result.to_dict()
    with pytest.raises(UsageError, match=r"no group column 'usr' to resample by.*user"):
        evaluate_predictions(scores, range(14), groups=groups, clusters="usr")


def two_models():
    """Scores of two models, the second better for three users."""
    scores, targets, users = logits(3)
    better = scores.copy()
    gained = np.isin(users, (0, 1, 2))
    better[gained, targets[gained]] = 20.0
    return scores, better, targets, users


def test_a_lead_of_few_users_is_no_verdict():
    scores, better, targets, users = two_models()
    models = {}
    for by in ("", "user"):
        groups = {"user": users}
        models[by] = {
            name: [evaluate_predictions(part, targets, groups=groups, clusters=by, measures="RR")]
            for name, part in (("new", better), ("old", scores))
        }
    alone = compare_models(models[""]).paired.pair("new", "old")
    together = compare_models(models["user"]).paired.pair("new", "old")
    assert alone.winner == "new"
    assert together.winner is None
    assert together.difference == alone.difference


def test_the_gate_of_a_test_draws_the_clusters_of_a_record():
    worse, scores, targets, users = two_models()
    for by in ("", "user"):
        new, old = (
            evaluate_predictions(
                part, targets, groups={"user": users}, clusters=by, measures="RR"
            ).records()[0]
            for part in (worse, scores)
        )
        if by:
            assert assert_not_worse(new, old, "RR").settings.by == "user"
        else:
            with pytest.raises(AssertionError, match="new is worse than baseline"):
                assert_not_worse(new, old, "RR")


def test_medians_distances_and_confidence_draw_users():
    rng = np.random.default_rng(5)
    users = np.repeat(np.arange(20), 10)
    values = np.repeat(rng.exponential(size=20), 10)
    wide, narrow = median_interval(values, clusters=users), median_interval(values)
    assert wide.high - wide.low > narrow.high - narrow.low
    assert np.isnan(median_interval(values, clusters=users % 2).low)
    places = {"a": (0.0, 0.0), "b": (0.0, 1.0)}
    predicted = ["a" if user % 2 else "b" for user in users]
    errors = distance_errors(predicted, ["a"] * 200, places, users=users)
    alone = distance_errors(predicted, ["a"] * 200, places)
    assert errors.mean.half_width > 2 * alone.mean.half_width
    scores, targets, owners = logits(6)
    targets = np.where(np.arange(300) % 25 == 0, -1, targets)
    sure, plain = (evaluate_confidence(scores, targets, users=by) for by in (owners, None))
    assert sure.calibration.brier.half_width > 2 * plain.calibration.brier.half_width
    assert sure.calibration.ece == plain.calibration.ece
    assert sure.detection[0].auroc == plain.detection[0].auroc
    assert sure.detection[0].auroc_low != plain.detection[0].auroc_low


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("new", "old", "targets", "users"), two_models(), strict=True):
        np.save(f"{name}.npy", part)
    return tmp_path


RUN = ("predict", "new.npy", "old.npy", "-t", "targets.npy", "-m", "RR")


def test_the_command_draws_users_in_verdicts_and_in_the_gate(assay, files):
    gate = ("--baseline", "old", "--fail-if-worse")
    assert assay(*RUN, *gate).code == 1
    passed = assay(*RUN, *gate, "--users", "users.npy")
    assert passed.code == 0, passed.err
    assert "Passed: no significant loss against old on RR." in passed.err
    assert "Intervals and tests resample whole groups by user (12" in passed.out
    data = json.loads(assay(*RUN, *gate, "--users", "users.npy", "--json").out)
    assert data["comparison"]["paired"]["settings"]["by"] == "user"
    assert data["gate"]["failed"] is False
    assert data["models"]["new"][0]["clusters"]["n"] == 12
    assert "clusters:user(n=12,effective=12.0)" in data["signature"]
    assert assay(*RUN, "--users", "users.npy", "--save", "--store", "runs.db").code == 0
    with open_store("runs.db") as store:
        assert {run.clusters for run in store.runs()} == {"user"}


def test_conditions_of_the_gate(assay, files):
    one = ("predict", "old.npy", "-t", "targets.npy")
    write(files / "gaps.csv", "row,who", [(n, "u" if n else "") for n in range(300)])
    assert assay(*one, "--fail-if", "Acc@1 < 0.9").code == 1
    assert assay(*one, "--fail-if", "Acc@1 < 0.1").code == 0
    assert assay(*RUN, "-b", "old", "--fail-if", "RR < baseline - 0.9").code == 0
    for wrong, words in (
        ((*one, "--fail-if", "RR@3 < 0.1"), "RR@3 was not computed"),
        ((*one, "--fail-if-worse"), "requires --baseline"),
        ((*one, "-b", "old", "--fail-if-worse"), "needs other models"),
        ((*one, "--users", "gaps.csv"), "--users: 1 of 300 rows lack a user"),
        ((*RUN, "-b", "odl", "--fail-if-worse"), "not a model. Did you mean old"),
        ((*one, "--legacy-json", "--fail-if", "RR < 0.1"), "--legacy-json and a gate"),
        (("predict", "--results", "x.json", "--fail-if", "RR < 0.1"), "--results and a gate"),
    ):
        answer = assay(*wrong)
        assert (answer.code, words in answer.err) == (2, True), answer.err


# Joins


TABLE = "visit,place,list\n" + "".join(f"v{n},p{n % 3},p{n % 3} p{n % 2}\n" for n in range(12))


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(TABLE)
    return read_prediction_file("p.csv", candidates=("list",), target="place", ids="visit")


def write(path, head, rows):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.mark.parametrize("option", ["--by", "--users", "--previous", "--history"])
def test_every_option_joins_by_id(read, tmp_path, option):
    rows = [(f"v{n}", f"u{n % 4}") for n in reversed(range(12))]
    expected = [f"u{n % 4}" for n in range(12)]
    write(tmp_path / "u.csv", "visit,who", rows)
    assert read.join("u.csv:who", option) == ("who", expected, ())
    assert read.join("u.csv", option).values == expected
    write(tmp_path / "o.csv", "who,visit", [row[::-1] for row in rows])
    assert read.join("o.csv:who", option).values == expected
    write(tmp_path / "more.csv", "sample_id,who", [*rows, ("v99", "u")])
    assert read.join("more.csv:who", option).values == expected
    (tmp_path / "bare.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    assert read.join("bare.tsv", option).values == expected
    assert read.join("bare.tsv:2", option).values == expected
    np.savez(tmp_path / "u.npz", who=expected[::-1], sample_ids=[row[0] for row in rows])
    assert read.join("u.npz:who", option).values == expected
    assert read.join("place", option).name == "place"


def test_joins_that_do_not_fit(read, tmp_path):
    write(tmp_path / "case.csv", "visit,who", [(f"V{n}", "u") for n in range(12)])
    with pytest.raises(MismatchError, match="upper and lower case"):
        read.join("case.csv:who", "--users")
    write(tmp_path / "few.csv", "visit,who", [(f"v{n}", "u") for n in range(10)])
    with pytest.raises(
        MismatchError, match=r"few\.csv has no row for 2 of 12 samples: 'v10', 'v11'"
    ):
        read.join("few.csv:who", "--users")
    write(tmp_path / "rows.csv", "who", [("u",)] * 11)
    with pytest.raises(MismatchError, match=r"11.*12"):
        read.join("rows.csv:who", "--users")
    twice = [("v1", "a"), *((f"v{n}", "c") for n in range(12))]
    write(tmp_path / "twice.csv", "id,who", twice)
    with pytest.raises(FormatError, match=r"twice\.csv: 'v1' has values 'a' and 'c'"):
        read.join("twice.csv:who", "--users")
    with pytest.raises(UsageError, match=r"--users nobody: no file and no column of p\.csv"):
        read.join("nobody", "--users")
    write(tmp_path / "order.csv", "kind,who", [("k", f"u{n}") for n in range(12)])
    column = read.join("order.csv:who", "--users")
    assert column.values[3] == "u3"
    assert "order.csv has no sample ids: rows were matched by order" in column.remarks[0]


def test_numbered_samples_go_by_number_or_by_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", scores=np.eye(3), targets=[0, 1, 2])
    read = read_prediction_file("x.npz")
    write(tmp_path / "n.csv", "row,who", [(2, "c"), (0, "a"), (1, "b")])
    assert read.join("n.csv:who", "--users").values == ["a", "b", "c"]
    write(tmp_path / "t.csv", "time,who", [("9:00", "c"), ("9:05", "a"), ("9:10", "b")])
    assert read.join("t.csv:who", "--users").values == ["c", "a", "b"]


def test_places_without_coordinates_leave_out_their_samples(assay, read, tmp_path):
    write(tmp_path / "places.csv", "place,lat,lon", [("p0", 1, 1), ("p1", 1, 2), ("p2", "", "")])
    run = ("predict", "p.csv", "--candidates", "list", "--target", "place", "--id", "visit")
    answer = assay(*run, "--coordinates", "places.csv", "--json")
    assert answer.code == 0, answer.err
    data = json.loads(answer.out)
    (distances,) = data["distances"].values()
    assert (distances["samples"], distances["without_coordinates"]) == (8, 4)
    assert distances["places_without"] == ["p2"]
    assert "4 samples whose places lack coordinates: 'p2'" in " ".join(data["remarks"])
