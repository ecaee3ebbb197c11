"""How far work is: on a terminal after a second, elsewhere a line every ten seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.cli import progress
from assay.core.work import describe_progress, listening, tell
from assay.io.formats import read_run
from tests.conftest import Answer

WORDS = [
    (0, None, 1.0, ""),
    (0, 100, 1.0, "0 %, 0 of 100"),
    (5, None, 2.0, "5, 2.5/s"),
    (50, 200, 10.0, "25 %, 50 of 200, 5/s, 30 s left"),
    (1_000_000, 4_000_000, 1000.0, "25 %, 1,000,000 of 4,000,000, 1,000/s, 50 min 00 s left"),
    (200, 200, 2.0, "100 %, 200 of 200, 100/s, 0 s left"),
]


@pytest.mark.parametrize(("done", "total", "seconds", "words"), WORDS)
def test_words(done: int, total: int | None, seconds: float, words: str) -> None:
    assert describe_progress(done, total, seconds) == words


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def work(display: progress.Display, clock: Clock, seconds: int) -> None:
    for second in range(1, seconds + 1):
        clock.now += 1
        display.tell("searching", 10 * second, 1000)


def test_without_a_terminal_a_line_comes_every_ten_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    work(progress.Display(False, lambda: False), clock, 35)
    assert capsys.readouterr().err.splitlines() == [
        "searching: 10 %, 100 of 1,000, 10/s, 90 s left".replace("90 s", "1 min 30 s"),
        "searching: 20 %, 200 of 1,000, 10/s, 1 min 20 s left",
        "searching: 30 %, 300 of 1,000, 10/s, 1 min 10 s left",
    ]


def test_quiet_and_short_work_shows_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    work(progress.Display(False, lambda: True), clock, 35)
    work(progress.Display(False, lambda: False), clock, 9)
    work(progress.Display(True, lambda: True), clock, 9)
    clock.now += 0.5
    progress.Display(True, lambda: False).tell("searching", 1, 2)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_bar_appears_after_a_second_and_goes(clock: Clock) -> None:
    display = progress.Display(True, lambda: False)
    work(display, clock, 3)
    (shown,) = display.bar.tasks
    assert (shown.fields["what"], shown.completed, shown.total) == ("searching", 30, 1000)
    assert shown.fields["words"] == "3 %, 30 of 1,000, 10/s, 1 min 37 s left"
    display.close()
    assert display.bar is None


def test_reading_tells(tmp_path: Path) -> None:
    run = tmp_path / "a.run"
    run.write_text("".join(f"q{i} Q0 d 1 {i} t\n" for i in range(500)))
    heard: list[tuple[str, int, int | None]] = []
    with listening(lambda *told: heard.append(told)):
        read_run(run)
    assert heard[-1] == ("reading a.run (kB)", run.stat().st_size // 1000, heard[-1][2])
    tell("nobody listens", 1, 2)


@pytest.mark.usefixtures("folder")
def test_every_command_takes_quiet(assay: Callable[..., Answer]) -> None:
    typed = ("eval", "run.txt", "-r", "qrels.txt")
    assert assay(*typed, "--quiet") == assay(*typed)
    assert "--quiet" in assay("bench", "--help").out
