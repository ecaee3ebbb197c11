"""Settings stand in signatures as they are, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.conventions import (
    CHOICES,
    PRESETS,
    Conventions,
    as_settings,
    join_settings,
    pair_digest,
    query_digest,
    setting_parts,
)
from assay.core.ids import Ids

HOSTILE = [
    "a|ties:best",
    "x\ny",
    "50%",
    "%7C",
    "\x1b[31m",
    "\ud800",
    " ",
    "",
    "é·日本",
    "a" * 10**5,
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("preset", ["trec_eval", "beir"])
def test_no_value_reaches_beyond_its_part(preset, value):
    rules = PRESETS[preset]
    (part,) = setting_parts({"model": value})
    assert part.startswith("model:")
    assert part.isprintable()
    assert not set(part) & set("| \n")
    assert len(part) < 500
    signature = f"{rules.signature()}|version:1|{part}|queries:3-00"
    assert Conventions.parse(signature) == rules


@given(st.text(), st.text())
def test_different_values_have_different_parts(a, b):
    parts = [setting_parts({"key": value}) for value in (a, b)]
    assert (parts[0] == parts[1]) == (a == b)


def test_long_values_differ_by_their_end():
    short, long = "p" * 500, "p" * 500 + "q"
    assert setting_parts({"k": short}) != setting_parts({"k": long})


def test_a_value_of_120_characters_is_shown_whole():
    for size, shown in ((120, "x" * 120), (121, "x" * 121 + "…")):
        ((_, value),) = [part.split(":") for part in setting_parts({"k": "x" * size})]
        assert value.startswith(shown)
        assert len(value) == len(shown) + 8 * (size > 120)


def test_the_digest_of_pairs_is_of_different_pairs():
    assert pair_digest([(1, 2), (1, 2), (0, 3)]).startswith("2-")
    assert pair_digest([(1, 2)]) != pair_digest([(2, 1)])


def test_zero_is_a_setting_and_false_is_none():
    assert as_settings(seed=0, p=0.0, full=False, none=None, empty=()) == {"seed": "0", "p": "0"}
    assert as_settings(options={"b": 2, "a": True}) == {"options": "a=yes,b=2"}


def test_systems_are_listed_where_they_differ():
    joined = join_settings([{"a": "1", "b": "x"}, {"a": "1"}, {"b": "y", "a": "1"}])
    assert joined == {"a": "1", "b": "x;-;y"}
    assert join_settings([]) == {}


def test_parts_of_a_result_are_skipped_and_misspelt_conventions_are_not():
    rules = PRESETS["ranx"].replace(depth=7)
    assert Conventions.parse(f"{rules.signature()}|version:0|engine:x|metric:dot|k:5") == rules
    assert Conventions.parse("version:0|metric:dot|ties:best").ties == "best"
    with pytest.raises(ValueError, match="metric"):
        Conventions.parse("ties:best|metric:dot")
    with pytest.raises(ValueError, match="repeats"):
        Conventions.parse("ties:best|version:0|ties:best")


@given(st.lists(st.integers(-50, 50), unique=True, min_size=1))
def test_a_query_set_is_its_ids_in_any_order_and_of_any_kind(numbers):
    found = query_digest(Ids.of(numbers))
    assert found == query_digest(Ids.of([str(one) for one in reversed(numbers)]))
    assert found != query_digest(Ids.of([*numbers, 99]))
    assert found.startswith(f"{len(numbers)}-")


def test_queries_that_are_only_numbered_are_said_to_be():
    assert query_digest(Ids.count(20)) == query_digest(Ids.of(list(range(20)))) + "-numbered"


def test_ids_that_join_to_one_text_are_different_sets():
    assert query_digest(Ids.of(["ab", "c"])) != query_digest(Ids.of(["a", "bc"]))


def test_no_setting_is_called_like_a_convention():
    """`Conventions.parse` reads those wherever they stand."""
    assert not {"metric", "zero", "k", "n_docs", "code", "model", "queries"} & {*CHOICES, "depth"}
