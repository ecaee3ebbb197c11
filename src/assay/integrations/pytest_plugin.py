"""The plugin of pytest: baselines of scores in files, recorded with --assay-update-baseline.

It imports nothing of Assay's numbers until a test uses them: pytest loads it in every project.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from assay.io import writers
    from assay.scoring import score_data
    from assay.scoring.scores import Scores
else:
    score_data = OnDemand("assay.scoring.score_data")
    writers = OnDemand("assay.io.writers")


_RECORDED: Final = "assay_baseline"
_CONTENT: Final = "assay_baseline_content"
_REPLACED: Final = "assay_baseline_replaced"
_LONGEST: Final = 100  # letters of a file name before its digest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --assay-update-baseline, and where the files are."""
    parser.getgroup("assay", "ranking quality (assay)").addoption(
        "--assay-update-baseline",
        action="store_true",
        help="Replace the stored baselines by the scores of this run.",
    )
    parser.addini(
        "assay_baselines",
        "Folder of baseline files, relative to the root directory.",
        default="tests/baselines",
    )


@pytest.fixture
def assay_baseline(request: pytest.FixtureRequest) -> Callable[..., Scores]:
    """Return a function from scores to the baseline to compare them with.

    `assay_baseline(scores)` reads the file of this test, `assay_baseline(scores, "dense")` the
    one of that name. With --assay-update-baseline it records the scores, and returns them.
    """
    root = request.config.rootpath
    folder = root / request.config.getini("assay_baselines")
    update: bool = request.config.getoption("--assay-update-baseline")

    def find(scores: Scores, name: str | None = None) -> Scores:
        __tracebackhide__ = True
        owner = _node_id(request) if name is None else f"{_NAMED}{name}"
        # A readable name, with a digest that no other test has.
        digest = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        file = folder / f"{_plain(owner).strip('_')[-_LONGEST:]}-{digest}.json"
        # The name that the file had before names had digests.
        stem = name or f"{Path(request.node.path).stem}-{request.node.name}"
        old = folder / f"{_plain(stem)}.json"
        if update:
            _record(request, scores, file, owner)
            _note(request, _REPLACED, str(old) if old.is_file() else "")
            return scores
        if not file.is_file():
            record = "with pytest --assay-update-baseline, and keep the file in version control"
            text = f"no baseline {_relative(file, root)}: record it {record}"
            if old.is_file():
                text = (
                    f"{_relative(old, root)} is obsolete, because two tests could share it. "
                    f"Record {_relative(file, root)} {record}, then delete the old file. For "
                    "a last comparison pass its path to assert_not_worse"
                )
            pytest.fail(text, pytrace=False)
        baseline, recorded = score_data.load_baseline(file)
        if recorded != owner:
            _fail_as_other(file, root, recorded, owner)
        return baseline

    return find


_NAMED: Final = "::"  # begins no node id


def _node_id(request: pytest.FixtureRequest) -> str:
    """Return the id of the test, without the group of xdist."""
    node_id: str = request.node.nodeid
    for mark in request.node.iter_markers("xdist_group"):
        group = mark.args[0] if mark.args else mark.kwargs.get("name", "default")
        node_id = node_id.removesuffix(f"@{group}")
    return node_id


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)


def _relative(file: Path, root: Path) -> Path:
    return file.relative_to(root) if file.is_relative_to(root) else file


def _fail_as_other(file: Path, root: Path, recorded: str, owner: str) -> NoReturn:
    """Fail because the file is the baseline of another test."""
    __tracebackhide__ = True
    other = f"of {recorded.removeprefix(_NAMED)}" if recorded else "of no test"
    pytest.fail(
        f"{_relative(file, root)} is the baseline {other}, not of {owner.removeprefix(_NAMED)}. "
        "Delete it and record it with pytest --assay-update-baseline",
        pytrace=False,
    )


def _record(request: pytest.FixtureRequest, scores: Any, file: Path, owner: str) -> None:
    """Write the file; tests that share it must agree."""
    __tracebackhide__ = True
    text = score_data.scores_to_text(scores, owner)
    if request.config.stash.setdefault(_FILES, {}).setdefault(file, text) != text:
        pytest.fail(f"{file.name} was recorded with different scores: use two names")
    recorded = score_data.baseline_test(file)
    if recorded not in (None, owner):
        _fail_as_other(file, request.config.rootpath, str(recorded), owner)
    file.parent.mkdir(parents=True, exist_ok=True)
    writers.write_text(file, [text])
    _note(request, _RECORDED, str(file))
    _note(request, _CONTENT, f"{hashlib.sha256(text.encode()).hexdigest()} {file}")


def _note(request: pytest.FixtureRequest, name: str, value: str) -> None:
    if value:
        request.node.user_properties.append((name, value))


_FILES: pytest.StashKey[dict[Path, str]] = pytest.StashKey()


def _noted(config: pytest.Config, name: str) -> list[str]:
    """Return what tests have noted, also in workers of xdist."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = chain.from_iterable(() if reporter is None else reporter.stats.values())
    notes = (note for report in reports for note in getattr(report, "user_properties", ()))
    return sorted({value for key, value in notes if key == name})


def _shared(config: pytest.Config) -> list[str]:
    """Return files that tests of several workers have recorded with different scores."""
    files = [value.partition(" ")[2] for value in _noted(config, _CONTENT)]
    return sorted({file for file in files if files.count(file) > 1})


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where workers have recorded one file with different scores."""
    if not session.exitstatus and _shared(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List recorded baselines, and files that are no longer read."""
    config = terminalreporter.config
    lines = [f"recorded {file}" for file in _noted(config, _RECORDED)]
    lines += [f"{file} is obsolete: delete it" for file in _noted(config, _REPLACED)]
    twice = "was recorded with different scores by several tests: use two names"
    lines += [f"{file} {twice}" for file in _shared(config)]
    for line in lines:
        terminalreporter.write_line(f"assay: {line}")
