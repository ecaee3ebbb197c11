"""The public face: sorted names that all load, and an import that costs little."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import assay
from assay import errors

HEAVY = {
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "click",
    "narwhals",
    "backports.zstd",
    "scipy",
    "sklearn",
    "pytrec_eval",
    "ir_measures",
    "html",
    "hypothesis",
}


def modules_after(code: str) -> set[str]:
    """What a new interpreter has imported after some code."""
    script = f"import sys, json; {code}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_names_are_sorted_and_load():
    assert assay.__all__ == sorted(assay.__all__)
    assert len(set(assay.__all__)) == len(assay.__all__)
    for name in assay.__all__:
        assert getattr(assay, name).__doc__ or name.isupper()
        assert name in dir(assay)


def test_unknown_names_are_attribute_errors():
    assert not hasattr(assay, "nonsense")


def test_import_brings_nothing_along():
    bare = modules_after("import assay")
    assert not bare & HEAVY
    ours = {name for name in bare if name.startswith("assay.")}
    assert ours == {"assay.core", "assay.core.on_demand"}
    assert "numpy" not in bare


def test_evaluating_dictionaries_brings_no_optional_package_along():
    code = "import assay; assay.evaluate({'q': {'a': 1.0}}, {'q': {'a': 1}}, 'RR').mean()"
    # Tables write HTML, for which they load the standard library's small module.
    assert not modules_after(code) & (HEAVY - {"html"})


def test_modules_are_not_hidden_by_names():
    """`assay.evaluate` is the function, whatever was imported before."""
    code = "import assay.scoring.evaluate, assay; assert callable(assay.evaluate)"
    assert "assay.scoring.evaluate" in modules_after(code)


def test_every_error_is_an_assay_error_with_an_exit_code():
    kinds = [name for name in errors.__all__ if name.endswith("Error")]
    assert set(errors.__all__) - set(kinds) == {"error_text", "need"}
    for name in kinds:
        kind = getattr(errors, name)
        assert issubclass(kind, assay.AssayError)
        assert kind.exit_code in range(1, 6)
        assert kind.__doc__
    assert errors.__all__ == sorted(errors.__all__)
    assert all(name in errors.__doc__ for name in kinds)


def test_public_functions_take_keywords_after_the_second_argument():
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


def public_functions():
    """Yield the functions behind every door, once each."""
    package = Path(assay.__file__).parent
    functions = {}
    for door in (package / "__init__.pyi", *sorted(package.glob("*/__init__.pyi"))):
        names = re.findall(r"^from (\S+) import (\w+) as", door.read_text("utf-8"), re.MULTILINE)
        for module, name in names:
            value = getattr(import_module(module), name, None)
            if inspect.isfunction(value):
                functions[f"{value.__module__}.{value.__name__}"] = value
    return functions


@pytest.mark.parametrize(("name", "function"), public_functions().items())
def test_a_public_function_says_what_it_takes_and_gives(name, function):
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    assert "Args:" in text or not signature.parameters
    assert re.search("Returns:|Yields:", text) or signature.return_annotation == "None"
    assert re.search("Example|>>>", text)
