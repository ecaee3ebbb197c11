"""Help in groups, bare groups, and what a shell completes."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

import assay as library
from assay.cli.commands import FEW_OPTIONS, Command
from assay.cli.main import assay, main
from assay.cli.settings import SECTIONS
from assay.plugins import all_plugins
from tests.cli.every_command import COMMANDS


@pytest.mark.parametrize("typed", [[], ["runs"], ["descriptors"]])
def test_a_bare_group_prints_its_help(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed) == 0
    bare = capsys.readouterr()
    main([*typed, "--help"])
    assert bare.out == capsys.readouterr().out
    assert bare.out.startswith("Usage: assay")
    assert "\\n" not in bare.out
    assert not bare.err


def test_commands_stand_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    titles = ["Evaluate:", "Search:", "Tasks:", "Keep and show:", "Tools:"]
    assert sorted(titles, key=shown.index) == titles
    assert "More:" not in shown
    rows = [shown[shown.index(f"\n  {name} ") :].splitlines()[1] for name in ("eval", "rank")]
    assert [row[15] != " " and row[14] == " " for row in rows] == [True, True]  # one column


@pytest.mark.parametrize("name", COMMANDS)
def test_options_stand_in_groups_where_they_are_many(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if len(options) >= FEW_OPTIONS:
        assert [one.name for one in options if one.section not in SECTIONS] == []


def test_a_section_holds_its_options_and_every_option_once() -> None:
    command = COMMANDS["compare"]
    context = click.Context(command, info_name="compare", **assay.context_settings)
    shown = command.get_help(context)
    statistics = shown[shown.index("\nStatistics:") : shown.index("\nGate:")]
    assert "--resamples N" in statistics
    assert "--qrels" not in statistics
    for one in command.params:
        if isinstance(one, click.Option):
            assert shown.count(f"{one.opts[-1]} ") >= 1


def _completed(*words: str) -> list[tuple[str, str]]:
    *args, incomplete = words
    made = BashComplete(assay, {}, "assay", "_ASSAY_COMPLETE")
    return [(one.type, one.value) for one in made.get_completions(args, incomplete)]


@pytest.fixture
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ASSAY_COMPLETE", "bash_complete")


@pytest.mark.usefixtures("_asked")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ev",), [("plain", "eval")]),
        (("eval", "ru"), [("file", "ru")]),
        (("eval", "run.txt", "--qrels", "q"), [("file", "q")]),
        (("eval", "a", "-o", "out"), [("file", "out")]),
        (("eval", "a", "-m", "nD"), [("plain", "nDCG"), ("plain", "nDCG@10")]),
        (("eval", "a", "--measure", "ndcg@"), [("plain", "nDCG@10")]),
        (("compare", "a", "-c", "trec"), [("plain", "trec_eval"), ("plain", "trec_eval_9")]),
        (("compare", "--test", "s"), [("plain", "sign")]),
        (("bench", "--model", "tf"), [("plain", "tfidf")]),
        (("bench", "--model", "st"), [("plain", "st:")]),
        (("bench", "--corpus", "d"), [("file", "d")]),
        (("demo", "f"), [("dir", "f")]),
    ],
)
def test_a_shell_completes_what_may_stand_there(
    words: tuple[str, ...], offered: list[tuple[str, str]]
) -> None:
    assert _completed(*words) == offered


@pytest.mark.usefixtures("_asked")
def test_stored_runs_complete_by_number(folder: Path) -> None:
    assert _completed("runs", "show", "") == []  # there is no store
    scores = library.evaluate("run.txt", "qrels.txt", ["AP"])
    with library.store.open("assay.db") as store:
        store.save(scores, name="dense", dataset="two", tags=["kept"])
    assert _completed("runs", "show", "") == [("plain", "1")]
    assert _completed("runs", "list", "--dataset", "t") == [("plain", "two")]
    assert _completed("runs", "list", "--tag", "k") == [("plain", "kept")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_ASSAY_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_a_shell_is_answered_by_a_process() -> None:
    asked = {"_ASSAY_COMPLETE": "bash_complete", "COMP_WORDS": "assay eval ru", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "assay"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "file,ru\n", "")


def _count_words(text: str) -> int:
    """Words of a help line, without its default and the note that it may be repeated."""
    return len(re.sub(r"\[[^]]*\]|May be repeated\.", "", text).split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_an_option_has_at_most_ten_words(name: str) -> None:
    command = COMMANDS[name]
    lines = {
        option.opts[0]: option.help or ""
        for option in command.params
        if isinstance(option, click.Option)
    }
    assert {flag: text for flag, text in lines.items() if _count_words(text) > 10} == {}


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    entries = [entry for plugin in all_plugins() for entry in plugin.commands]
    summaries = {entry.name: entry.summary for entry in entries if entry.name in COMMANDS}
    firsts = {
        name: inspect.cleandoc(COMMANDS[name].help or "").split("\n")[0] for name in summaries
    }
    assert summaries == firsts
