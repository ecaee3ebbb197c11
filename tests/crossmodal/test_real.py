"""Label retrieval on real data by wordllama vectors; docs/crossmodal.md has the figures."""

from __future__ import annotations

import numpy as np
import pytest

from assay.crossmodal import Prototypes, encode_text_prototypes, label_retrieval
from assay.models import encoder
from tests.crossmodal.real_data import (
    LABEL_WORDS,
    banking_questions,
    home_activities,
    intent_words,
)


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("wordllama")
    return encoder("wordllama")


@pytest.fixture(scope="module")
def homes(data_dir, model):
    folder = data_dir("ordonez_adl")
    prototypes = Prototypes.of(*encode_text_prototypes(LABEL_WORDS, model))
    found = {}
    for home in "AB":
        activities = home_activities(folder, home)
        sides = {
            "sensor": model.encode([one.sensors for one in activities]),
            "text": model.encode([one.caption for one in activities]),
        }
        found[home] = sides, np.array([one.label for one in activities]), prototypes
    return found


def search(home, **options):
    sides, labels, prototypes = home
    directions = ["text2sensor", "sensor2text", "sensor2sensor", "prototype2sensor"]
    return label_retrieval(
        sides, labels, prototypes=prototypes, directions=directions, k_values=[5, 10], **options
    )["label"]


# P@10 and P@50 of questions among questions, then of intent names among questions.
BANKING = [0.8175, 0.6537, 0.8532, 0.7340]
BANKING_CHANCE = 0.013393

# Home: queries, then P@5 of the four directions in the order of `search`.
HOMES = {
    "A": (248, [0.9879, 0.8347, 0.9323, 0.8889]),
    "B": (493, [0.8446, 0.5842, 0.7716, 0.6600]),
}


@pytest.mark.parametrize("home", HOMES)
def test_activities_of_two_homes(homes, home):
    n, expected = HOMES[home]
    found = search(homes[home])
    assert [found[name].scores.n_queries for name in found] == [n, n, n, 10]
    assert [result[5] for result in found.values()] == pytest.approx(expected, abs=5e-4)
    for result in found.values():
        assert result.chance.mean()["P@5"] < result[5] <= result.ceiling.mean()["P@5"]


def test_nobody_has_dinner_in_home_a(homes):
    assert search(homes["A"])["prototype2sensor"].empty_labels == ["Dinner"]
    assert search(homes["B"])["prototype2sensor"].empty_labels == []


def test_many_activities_look_alike_to_the_sensors(homes):
    """Equal events give equal vectors, so ties decide a good part of these numbers."""
    by_order = search(homes["B"])["text2sensor"]
    assert by_order.micro.counts["P@5"].tied_share > 0.4
    expected = search(homes["B"], ties="expected")["text2sensor"]
    low, high = (search(homes["B"], ties=ties)["text2sensor"][5] for ties in ("worst", "best"))
    assert low < expected[5] < high
    assert low < by_order[5] < high


def test_leaving_labels_out_and_meals_as_one(homes):
    sides, labels, _ = homes["B"]
    meals = np.where(np.isin(labels, ["Breakfast", "Lunch", "Dinner", "Snack"]), "Meal", labels)
    found = label_retrieval(
        sides,
        {"fine": labels, "coarse": meals},
        directions=["sensor2sensor"],
        k_values=[5],
        drop_labels=["Leaving"],
    )
    fine, coarse = (found[level]["sensor2sensor"] for level in ("fine", "coarse"))
    assert "Leaving" not in fine.targets
    assert coarse[5] > fine[5] + 0.05
    worst = fine.confusion.mistakes(3)
    assert {row.query_label for row in worst} <= {"Breakfast", "Lunch", "Dinner", "Snack"}


def test_banking_questions_and_intents(data_dir, model):
    questions = banking_questions(data_dir("banking77"))
    assert len(questions) == 13_083
    labels = np.array([one.intent for one in questions])
    names = {intent: intent_words(intent) for intent in sorted(set(labels.tolist()))}
    found = label_retrieval(
        {"text": model.encode([one.text for one in questions])},
        labels,
        k_values=[10, 50],
        directions=["text2text", "prototype2text"],
        prototypes=Prototypes.of(*encode_text_prototypes(names, model)),
    )["label"]
    assert len(found["prototype2text"].scores.query_ids) == 77
    assert found["prototype2text"].empty_labels == []
    assert found["text2text"].chance.mean()["P@10"] == pytest.approx(BANKING_CHANCE, abs=1e-5)
    figures = [found[name][k] for name in found for k in (10, 50)]
    assert figures == pytest.approx(BANKING, abs=5e-4)
