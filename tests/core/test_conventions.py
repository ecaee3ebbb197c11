"""Conventions: presets, signatures, and reading them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import PRESETS, Conventions, evaluate, preset
from assay.core.conventions import CHOICES, OLD_PRESETS, PRESET_NOTES
from assay.errors import ConventionError
from tests.examples import examples

RUN, QRELS = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_reads_back_from_its_signature(name):
    again = Conventions.parse(preset(name).signature())
    assert again == preset(name)
    assert again.preset == name == Conventions.parse(name).preset


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_signature_of_scores_reads_back(name):
    scores = evaluate(RUN, QRELS, "RR", conventions=name)
    again = Conventions.parse(scores.signature)
    assert again == preset(name)
    assert again.preset == name


@pytest.mark.parametrize(("old", "new"), OLD_PRESETS.items())
def test_an_old_name_of_a_preset_gives_the_new_preset(old, new):
    assert old not in PRESETS
    assert preset(old) is preset(new)
    assert Conventions.parse(old).preset == new
    stored = preset(new).signature().replace(f"preset:{new}", f"preset:{old}") + "|version:0.1.0"
    assert Conventions.parse(stored) == preset(new)
    assert Conventions.parse(stored).signature() == preset(new).signature()
    changed = Conventions.parse(f"preset:{old}*|ties:worst")
    assert changed.preset == f"{new}*"
    assert Conventions(preset=f"{old}*").preset == f"{new}*"
    assert evaluate(RUN, QRELS, "RR", conventions=old).signature.startswith(f"preset:{new}|")


def choices() -> st.SearchStrategy[dict]:
    names = {
        ("self_match" if key == "self" else key): st.sampled_from(values)
        for key, values in CHOICES.items()
    }
    return st.fixed_dictionaries({}, optional={**names, "depth": st.integers(0, 10**6)})


@examples(200, derandomize=True)
@given(choices(), st.sampled_from([None, *PRESETS]))
def test_any_combination_reads_back(changes, start):
    ties = changes.get("ties") or (preset(start) if start else Conventions()).ties
    if changes.get("unjudged") == "bounds" and ties not in ("order", "expected"):
        with pytest.raises(ConventionError, match="ties order and expected only"):
            Conventions(unjudged="bounds", ties=ties)
        return
    rules = Conventions(**changes) if start is None else preset(start).replace(**changes)
    again = Conventions.parse(str(rules))
    assert again == rules
    assert again.preset == rules.preset
    assert str(again) == str(rules)


def test_a_changed_preset_says_so():
    assert preset("beir").replace(ties="expected").preset == "beir*"
    assert preset("beir").replace(ties="expected").replace(gain="exp").preset == "beir*"
    assert preset("beir").replace(ties="order").preset == "beir"  # nothing changed
    assert preset("beir").replace(ties=None).preset == "beir"
    assert Conventions(ties="best").replace(gain="exp").preset == "custom"


def test_a_short_signature_stands_on_its_preset():
    assert Conventions.parse("preset:beir") == preset("beir")
    changed = Conventions.parse("preset:trec_eval|ties:best")
    assert changed == preset("trec_eval").replace(ties="best")
    assert changed.preset == "trec_eval*"
    assert Conventions.parse("ties:best") == Conventions(ties="best")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nosuch",
        "ties",
        "ties:",
        "ties:bset",
        "tie:best",
        "|",
        "ties:best|",
        "preset:nosuch",
        "ties:best|ties:best",
        "depth:-1",
        "depth:x",
        "self_match:keep",
        "a|ties:best",
        None,
        3,
        [],
    ],
)
def test_what_is_no_signature_is_refused(text):
    with pytest.raises(ConventionError):
        Conventions.parse(text)
    with pytest.raises(ConventionError):
        evaluate(RUN, QRELS, "RR", conventions=text)


def test_messages_name_the_nearest():
    with pytest.raises(ConventionError, match="trec_eval"):
        preset("trec-eval")
    with pytest.raises(ConventionError, match="expected"):
        Conventions(ties="expcted")
    with pytest.raises(ConventionError, match="tiebreak"):
        preset("beir").replace(tibreak="index")


@pytest.mark.parametrize("name", ["a|ties:best", "", "a b", "<script>", "x**", None, "é|", 'a"'])
def test_a_preset_name_cannot_break_a_signature(name):
    with pytest.raises(ConventionError):
        Conventions(preset=name)


@pytest.mark.parametrize("depth", [-1, True, 2.5, "3", None])
def test_depth_is_a_whole_number(depth):
    with pytest.raises(ConventionError, match="depth"):
        Conventions(depth=depth)


def test_every_preset_has_a_note_and_a_place_in_the_documentation():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "conventions.md").read_text("utf-8")
    assert set(PRESET_NOTES) == set(PRESETS)
    for name, note in PRESET_NOTES.items():
        assert note.endswith("."), name
        assert f"`{name}`" in page
        assert "ested" in note or "to test against" in note, name


def test_conventions_are_values():
    assert hash(preset("beir")) == hash(Conventions.parse(preset("beir").signature()))
    with pytest.raises(AttributeError):
        preset("beir").ties = "best"


# Each choice changes a number


TIED = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}


def value(name: str, rules: Conventions, run=TIED, qrels=None) -> float:
    return evaluate(run, qrels or {"q": {"b": 2}}, name, conventions=rules).mean()[name]


def test_tiebreak():
    ranks = {
        tb: round(1 / value("RR", Conventions(tiebreak=tb), {"q": {"b": 1.0, "c": 1.0, "a": 1.0}}))
        for tb in CHOICES["tiebreak"]
    }
    assert ranks == {"id-descending": 2, "id-ascending": 2, "index": 1}


def test_score_precision():
    run = {"q": {"a": 1.0 + 1e-9, "b": 1.0}}
    assert value("RR", Conventions(), run) == 0.5
    assert value("RR", Conventions(scores="float32"), run) == 1.0  # b comes first by id


def test_gain_and_ideal():
    run, qrels = {"q": {"x": 3.0, "a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 3, "z": 2}}
    found = {
        (gain, ideal): value("nDCG", Conventions(gain=gain, ideal=ideal), run, qrels)
        for gain in CHOICES["gain"]
        for ideal in CHOICES["ideal"]
    }
    assert len(set(found.values())) == 4
    assert found["linear", "retrieved"] > found["linear", "judged"]


def test_denominators():
    run, qrels = {"q": {"a": 3.0, "x": 2.0, "y": 1.0}}, {"q": {"a": 1, "b": 1, "c": 1}}
    found = {ap: value("AP@2", Conventions(ap=ap), run, qrels) for ap in CHOICES["ap"]}
    assert found == {"R": 1 / 3, "min": 0.5, "hits": 1.0, "k": 0.5}
    found = {r: value("R@2", Conventions(recall=r), run, qrels) for r in CHOICES["recall"]}
    assert found == {"R": 1 / 3, "min": 0.5}
    assert value("AP(over=R)@2", Conventions(ap="hits"), run, qrels) == 1 / 3  # the name wins


def test_recall_levels():
    run, qrels = {"q": {"a": 3.0, "x": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 1, "c": 1}}
    assert value("iprec@0.45", Conventions(iprec="round"), run, qrels) == 1.0
    assert value("iprec@0.45", Conventions(iprec="ceil"), run, qrels) == pytest.approx(2 / 3)


def test_empty_missing_self_and_depth():
    run = {"q": {"q": 3.0, "b": 2.0, "c": 1.0}, "e": {"b": 1.0}}
    qrels = {"q": {"b": 1}, "e": {"b": 0}, "m": {"b": 1}}
    found = {
        (empty, missing): value("RR", Conventions(empty=empty, missing=missing), run, qrels)
        for empty in ("skip", "zero")
        for missing in ("skip", "zero")
    }
    assert found == {
        ("skip", "skip"): 0.5,
        ("skip", "zero"): 0.25,
        ("zero", "skip"): 0.25,
        ("zero", "zero"): pytest.approx(0.5 / 3),
    }
    assert value("RR", Conventions(missing="skip", self_match="exclude"), run, qrels) == 1.0
    assert value("RR", Conventions(missing="skip", depth=1), run, qrels) == 0.0


def test_a_depth_has_at_most_18_digits():
    assert Conventions.parse(f"depth:{'9' * 18}").depth == 10**18 - 1
    assert (Conventions.parse("depth:all").depth, Conventions.parse("depth:1").depth) == (0, 1)
    for odd in ("9" * 19, "-1", "1.0", ""):
        with pytest.raises(ConventionError, match=f"must be 'all' or a number, found '{odd}'"):
            Conventions.parse(f"depth:{odd}")
    for odd in (-1, True, 1.0):
        with pytest.raises(ConventionError, match="depth must be a whole number"):
            Conventions(depth=odd)


def test_the_nearest_choices_are_offered():
    with pytest.raises(ConventionError, match=r"Known: .*\. Did you mean trec_eval or .* or .*\?$"):
        preset("trec_evl")
    with pytest.raises(ConventionError, match=r"Known: order, .*midrank-up\.$"):
        Conventions(ties="xyz")
