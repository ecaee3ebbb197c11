"""Names of directions."""

from __future__ import annotations

import pytest

from assay.crossmodal.evaluate import default_directions, parse_directions
from assay.crossmodal.samples import Direction
from assay.errors import UsageError


def names(found):
    return [direction.name for direction in found]


def test_defaults_are_those_of_the_document():
    assert names(default_directions(["sensor", "text"], prototypes=False)) == [
        "text2sensor",
        "sensor2text",
    ]
    assert names(default_directions(["sensor", "text"], prototypes=True)) == [
        "prototype2sensor",
        "prototype2text",
    ]
    assert names(default_directions(["image"], prototypes=False)) == ["image2image"]


def test_a_name_with_a_two_in_it_is_cut_in_the_right_place():
    found = parse_directions(["web2text2image"], ["web2text", "image"], prototypes=False)
    assert found == [Direction("web2text", "image")]


def test_a_name_that_can_be_cut_in_two_ways_is_refused():
    with pytest.raises(UsageError, match="a → b2c or a2b → c"):
        parse_directions(["a2b2c"], ["a", "b2c", "a2b", "c"], prototypes=False)


def test_repeats_count_once():
    found = parse_directions(["a2b", "a2b"], ["a", "b"], prototypes=False)
    assert names(found) == ["a2b"]


def test_unknown_directions_are_answered_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean text2sensor"):
        parse_directions(["txt2sensor"], ["sensor", "text"], prototypes=False)
    with pytest.raises(UsageError, match="needs prototypes"):
        parse_directions(["prototype2text"], ["text"], prototypes=False)
    with pytest.raises(UsageError, match="Unknown direction"):
        parse_directions(["prototype2prototype"], ["text"], prototypes=True)
    with pytest.raises(UsageError, match="directions is empty"):
        parse_directions([], ["text"], prototypes=True)


@pytest.mark.parametrize("name", ["", "prototype", "a b", "a=b", "a,b"])
def test_names_that_cannot_be_used(name):
    with pytest.raises(UsageError, match="Invalid modality '"):
        parse_directions(None, [name], prototypes=False)


def test_titles():
    assert Direction("prototype", "sensor").title == "Text Prototype -> Sensor"
    assert Direction("image", "RGBVideo").title == "Image -> RGBVideo"
