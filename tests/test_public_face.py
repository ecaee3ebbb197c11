"""The public names, and that importing them stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import assay

HEAVY = ("pandas", "polars", "pyarrow", "rich", "click", "narwhals", "torch", "scipy", "sklearn")


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert assay.__all__ == sorted(assay.__all__, key=_capitals_first)
    for name in assay.__all__:
        assert getattr(assay, name) is not None
    assert set(assay.__all__) <= set(dir(assay))


def _capitals_first(name: str) -> tuple[bool, bool, str]:
    """Constants, then classes, then functions, each by name: the order that ruff keeps."""
    return (not name.isupper(), name[0].islower(), name)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        assay.nothing  # noqa: B018


def test_import_loads_no_heavy_package() -> None:
    code = "import sys, assay; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {name.split(".")[0] for name in loaded} & {"numpy", *HEAVY}


def test_evaluating_files_loads_no_heavy_package() -> None:
    code = (
        "import sys, assay; assay.evaluate({'q': {'a': 1.0}}, {'q': {'a': 1}}).mean();"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_public_functions_take_keywords_after_the_second_argument() -> None:
    import inspect

    for name in assay.__all__:
        function = getattr(assay, name)
        if not inspect.isfunction(function):
            continue
        positional = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        # `evaluate(run, qrels, measures)` and `check` read best with their third argument bare.
        assert len(positional) <= 3, name
