"""Specs: taken apart in one way, with the nearest kind for a name that is not known."""

from __future__ import annotations

import pytest

from assay.core.specs import Spec, SpecKind, SpecRegistry
from assay.errors import PluginError, UsageError
from assay.plugins import MODELS
from tests.plugins import install

SHAPES = SpecRegistry(
    "shape",
    {
        "dot": SpecKind("dot", "math:sqrt"),
        "box": SpecKind("box:SIDE", "math:sqrt"),
        "line": SpecKind("line[:END]", "math:sqrt", "lines"),
    },
    MODELS,
)


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("dot", ("dot", "", {})),
        ("box:3", ("box", "3", {})),
        ("box:a:b?c=d&e=", ("box", "a:b", {"c": "d", "e": ""})),
        ("dot?a", ("dot", "", {"a": ""})),
        ("line?end=x:y?z", ("line", "", {"end": "x:y?z"})),
    ],
)
def test_a_spec_is_kind_argument_and_options(spec, parts):
    assert SHAPES.parse(spec) == Spec(*parts, spec)


@pytest.mark.parametrize("spec", ["dot?a=1&a=2", "dot?&&"])
def test_an_option_is_given_once(spec):
    with pytest.raises(UsageError, match="each name once"):
        SHAPES.parse(spec)


def test_an_unknown_kind_is_answered_with_the_nearest_one():
    with pytest.raises(UsageError, match=r"Unknown shape 'bix:2'\. Did you mean box:SIDE\?"):
        SHAPES.parse("bix:2")


def test_messages_show_the_text_that_was_given_for_them():
    with pytest.raises(UsageError, match=r"Unknown shape 'hidden'"):
        SHAPES.parse("secret", "hidden")


def test_only_a_form_without_brackets_needs_an_argument():
    assert [SHAPES[name].needs_argument for name in SHAPES] == [False, True, False]
    assert len(SHAPES) == 3


def test_a_kind_is_imported_when_it_is_loaded():
    assert SHAPES["dot"].load()(4) == 2
    assert SHAPES.find("circle") is None


def test_a_kind_of_another_package_counts_where_its_name_is_free(tmp_path, monkeypatch):
    entries = {MODELS: {"circle": "spec_shapes:circle", "dot": "spec_shapes:circle"}}
    modules = {"spec_shapes": "def circle(): return 'round'\nnothing = 3\n"}
    entries[MODELS]["odd"] = "spec_shapes:nothing"
    install(tmp_path, package="shapes", entries=entries, modules=modules)
    monkeypatch.syspath_prepend(tmp_path)
    circle = SHAPES.find("circle")
    assert circle is not None
    assert circle.load()() == "round"
    assert SHAPES.find("dot") is SHAPES["dot"]
    assert SHAPES.forms()["circle"] == "circle[:ARGUMENT]"
    assert "circle" not in SHAPES, "as a mapping, the registry has its own kinds only"
    odd = SHAPES.find("odd")
    assert odd is not None
    with pytest.raises(PluginError, match=r"package shapes 1\.0 offers 'odd'.*is not a function"):
        odd.load()
