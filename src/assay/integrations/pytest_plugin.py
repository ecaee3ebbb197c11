"""The plugin of pytest: baselines of scores in files, recorded with --assay-update-baseline.

It imports nothing of Assay's numbers until a test uses them: pytest loads it in every project.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.core.on_demand import OnDemand

if TYPE_CHECKING:
    from assay.scoring import score_data
    from assay.scoring.scores import Scores
else:
    score_data = OnDemand("assay.scoring.score_data")

__all__ = ["assay_baseline"]

_RECORDED = "assay_baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--assay-update-baseline, and where the files are."""
    parser.getgroup("assay", "quality of rankings").addoption(
        "--assay-update-baseline",
        action="store_true",
        help="Record the scores that tests give to assay_baseline, in place of the stored ones.",
    )
    parser.addini(
        "assay_baselines",
        "Folder of the files of assay_baseline, from the root directory.",
        default="tests/baselines",
    )


@pytest.fixture
def assay_baseline(request: pytest.FixtureRequest) -> Callable[..., Scores]:
    """A function from scores to the baseline to compare them with.

    `assay_baseline(scores)` reads the file of this test, `assay_baseline(scores, "dense")` the
    one of that name. With --assay-update-baseline it records the scores, and returns them.
    """
    folder = request.config.rootpath / request.config.getini("assay_baselines")
    update: bool = request.config.getoption("--assay-update-baseline")

    def find(scores: Scores, name: str | None = None) -> Scores:
        __tracebackhide__ = True
        stem = name or f"{Path(request.node.path).stem}-{request.node.name}"
        file = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', stem)}.json"
        if update:
            _record(request, scores, file)
            return scores
        if not file.is_file():
            pytest.fail(
                f"there is no baseline {file.relative_to(request.config.rootpath)}: record it "
                "with pytest --assay-update-baseline, and keep the file in version control",
                pytrace=False,
            )
        found: Scores = score_data.load_scores(file)
        return found

    return find


def _record(request: pytest.FixtureRequest, scores: Any, file: Path) -> None:
    """Write the file; tests that share it must give it the same scores."""
    file.parent.mkdir(parents=True, exist_ok=True)
    score_data.save_scores(scores, file)
    text = file.read_text("utf-8")
    if request.config.stash.setdefault(_FILES, {}).setdefault(file, text) != text:
        pytest.fail(f"{file.name} was recorded before with other scores: use two names")
    request.node.user_properties.append((_RECORDED, str(file)))


_FILES: pytest.StashKey[dict[Path, str]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which baselines were recorded; workers of xdist send them with their reports."""
    files = {
        file
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, file in getattr(report, "user_properties", ())
        if name == _RECORDED
    }
    for file in sorted(files):
        terminalreporter.write_line(f"assay: recorded {file}")
