"""Runs of pytest inside a test, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from types import ModuleType

import pytest

# Where the package was installed before it had the plugin, pytest has to be told of it.
_INSTALLED = "assay" in entry_points(group="pytest11").names
_NAMED = () if _INSTALLED else ("-p", "assay.integrations.pytest_plugin")
OPTIONS = (*_NAMED, "-p", "no:cacheprovider")


class _Modules:
    """A plugin that remembers which modules a run has imported."""

    def __init__(self) -> None:
        self.found: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.found |= {name: one for name, one in sys.modules.items() if name[:5] != "test_"}


@pytest.fixture(autouse=True)  # which is set up before `pytester`, and ends after it
def modules() -> Iterator[_Modules]:
    """What runs import stays: pytester forgets it, and kernels cannot be loaded twice."""
    kept = _Modules()
    yield kept
    for name, module in kept.found.items():
        sys.modules.setdefault(name, module)


@pytest.fixture
def run_pytest(modules: _Modules, pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run pytest with the plugin in the folder of `pytester`."""

    def run(*options: str) -> pytest.RunResult:
        done = pytester.runpytest_inprocess(*OPTIONS, *options, plugins=[modules])
        for name, module in modules.found.items():
            sys.modules.setdefault(name, module)
        return done

    return run
