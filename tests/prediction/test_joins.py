"""Users and places that two files write differently: refused, or counted beside the numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.errors import AssayError, MismatchError
from assay.prediction import distance_errors, evaluate_baselines
from assay.prediction.baselines import check_users_match, mark_new_places

HOUSES = "ABCDEFGH"


def visits():
    """(user, place, place before) of eight users who walk round in circles of their own."""
    rng = np.random.default_rng(0)
    rows = []
    for number, user in enumerate(HOUSES):
        places = [f"p{number}{step}" for step in rng.permutation(5)]
        rows += [(user, places[step % 5], places[(step - 1) % 5]) for step in range(1, 31)]
    return rows


def names_of(style):
    return {
        "prefix": lambda user: f"house {user}",
        "case": str.lower,
        "number": lambda user: str(HOUSES.index(user)),
        "padding": lambda user: f"{HOUSES.index(user):02}",
        "decimal point": lambda user: f"{HOUSES.index(user)}.0",
        "same": str,
    }[style]


STYLES = [
    ("same", "prefix", "prefix|None of"),
    ("prefix", "same", "prefix|None of"),
    ("same", "case", "upper and lower case"),
    ("number", "padding", "zero padding"),
    ("padding", "number", "zero padding"),
    ("number", "decimal point", "a decimal point"),
    ("same", "number", "None of the 8 users of the samples is in the training users"),
]


def brute_markov(rows, samples):
    """Acc@1 of what most often followed the last place of each user."""
    followers = {}
    for user, place, before in rows:
        followers.setdefault((user, before), []).append(place)
    right = [
        max(dict.fromkeys(seen), key=seen.count) == place
        for user, place, before in samples
        for seen in [followers[user, before]]
    ]
    return sum(right) / len(right)


def baselines_of(train_style, sample_style, **more):
    users, places, previous = zip(*visits(), strict=True)
    results = evaluate_baselines(
        places,
        places,
        measures="Acc@1",
        previous=previous,
        users=[names_of(train_style)(user) for user in users],
        sample_users=[names_of(sample_style)(user) for user in users],
        **more,
    )
    return {one.name: one for one in results}


@pytest.mark.parametrize(("train_style", "sample_style", "words"), STYLES)
def test_users_that_are_written_differently_are_refused(train_style, sample_style, words):
    with pytest.raises(MismatchError, match=f"(?i){words}"):
        baselines_of(train_style, sample_style)
    found = baselines_of(train_style, sample_style, allow_mismatch=True)
    assert any("users of the samples" in text for text in found["user-markov-1"].scores.remarks)


def test_users_that_match_have_their_own_baselines():
    found = baselines_of("prefix", "prefix")
    assert found["user-markov-1"].mean()["Acc@1"] == brute_markov(visits(), visits())
    assert not found["user-markov-1"].scores.remarks


@pytest.mark.parametrize(("train_style", "sample_style", "words"), STYLES)
def test_new_places_need_the_same_users(train_style, sample_style, words):
    rows = visits()
    places = [place for _, place, _ in rows]
    users = [names_of(train_style)(user) for user, _, _ in rows]
    sample_users = [names_of(sample_style)(user) for user, _, _ in rows]
    assert set(mark_new_places(places, places, users, users)) == {"seen"}
    with pytest.raises(MismatchError, match=f"(?i){words}"):
        mark_new_places(places, places, users, sample_users)
    marks = mark_new_places(places, places, users, sample_users, allow_mismatch=True)
    assert set(marks) == {"new"}


def test_new_places_need_the_same_places_and_lengths():
    places = [f"p{number}" for number in range(20)]
    with pytest.raises(MismatchError, match="upper and lower case"):
        mark_new_places([place.upper() for place in places], places)
    with pytest.raises(AssayError, match="users"):
        mark_new_places(places, places, places, places[:3])
    assert mark_new_places(["gym", None, -1], ["home"]) == ["new"] * 3


def test_users_without_training_are_counted():
    known = [f"user{number}" for number in range(10)]
    (remark,) = check_users_match(known, [*known, *known, "new1", "new1", "new2"])
    assert remark.startswith("2 of 12 users of the samples (3 of 23 samples) have no training")
    assert check_users_match(known, known[:3]) == ()


def test_the_class_before_the_previous_is_checked():
    places = [f"p{number}" for number in range(12)]
    history = [[place.upper(), "p0"] for place in places]
    with pytest.raises(MismatchError, match="before the previous"):
        evaluate_baselines(places, places, measures="RR", history=history)


def test_places_near_to_coordinates_are_named():
    with pytest.raises(MismatchError, match=r"differs in zero padding .'01' and '1'"):
        distance_errors(["01", "02"], ["01", "02"], {"1": (0, 0), "2": (0, 1)})


def test_the_command_refuses_and_counts(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = visits()
    train = "".join(f"{user},{place}\n" for user, place, _ in rows)
    (tmp_path / "train.csv").write_text("user,place\n" + train)
    table = "".join(
        f"{number},house {user},{user},{place},{before},{place} {before}\n"
        for number, (user, place, before) in enumerate(rows)
    )
    (tmp_path / "p.csv").write_text("id,house,user,place,before,list\n" + table)
    given = ["predict", "p.csv", "--candidates", "list", "--target", "place", "-k", "1"]
    given += ["--train", "train.csv:place", "--train-users", "train.csv:user", "--json"]
    given += ["--new-places", "--previous", "before"]
    right = json.loads(assay(*given, "--users", "user").out)
    markov = {one["name"]: one["measures"]["Success@1"] for one in right["baselines"]}
    assert markov["user-markov-1"]["mean"] == brute_markov(rows, rows)
    assert right["models"]["p"][0]["by"]["place"]["sizes"] == {"seen": len(rows)}
    wrong = assay(*given, "--users", "house")
    assert wrong.code != 0
    assert "users of the samples" in wrong.err
    assert "--allow-mismatch" in wrong.err
    anyway = json.loads(assay(*given, "--users", "house", "--allow-mismatch").out)
    assert any("users of the samples" in remark for remark in anyway["remarks"])
    (tmp_path / "train.csv").write_text(
        "user,place\n" + "".join(line + "\n" for line in train.splitlines() if line[0] != "A")
    )
    partly = json.loads(assay(*given, "--users", "user").out)
    remark = next(text for text in partly["remarks"] if "users of the samples" in text)
    assert "1 of 8 users of the samples (30 of 240 samples) has no training label: 'A'" in remark
