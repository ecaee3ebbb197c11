"""Every recorded command still says what it said: `tests/golden/commands.json`, digit by digit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from assay.native import engine_name
from tests.golden.commands import COMMANDS, RECORDED, read, renames, unmet, versions
from tests.golden.differences import differences
from tests.golden.recording import Session

# Other versions of these may well give other numbers.
COUNTING = ("bm25s", "cv2", "faiss", "skimage", "sklearn", "wordllama")
# Without the compiled kernels the numbers are the same, and signatures say who computed them.
TWINS = {
    "engine:native": "engine:numpy",
    "search:native-certified": "search:numpy-certified",
    "native-certified": "numpy-certified",
}
WHOLE = read(RECORDED)


packages_here = cache(versions)  # not while tests are collected, by every worker


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A folder with all inputs; commands that others build on run in it once."""
    twins = TWINS if engine_name() == "numpy" else {}
    return Session(tmp_path_factory.mktemp("golden"), COMMANDS, renames(twins))


@pytest.mark.parametrize("name", COMMANDS)
def test_command(session: Session, name: str) -> None:
    command = COMMANDS[name]
    if missing := unmet(command):
        pytest.skip(f"not installed: {', '.join(missing)}")
    for package in set(command.needs) & set(COUNTING):
        then, now = WHOLE["packages"].get(package), packages_here().get(package)
        if then != now:
            pytest.skip(f"recorded with {package} {then}, here is {now}")
    found = [
        one for one in differences(WHOLE["commands"][name], session.answer(name)) if not one.words
    ]
    assert not found, "\n".join([f"assay {command.line}", *map(str, found)])


def test_every_command_is_recorded_and_none_is_forgotten() -> None:
    assert list(WHOLE["commands"]) == list(COMMANDS)


def test_the_recording_is_small() -> None:
    assert Path(RECORDED).stat().st_size < 600_000
