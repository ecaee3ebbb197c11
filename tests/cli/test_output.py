"""`emit`: one result in every format."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

from assay import store
from assay.cli import output
from assay.cli.main import assay as group
from assay.errors import AssayError, UsageError
from assay.io import fingerprints
from assay.tables.table import Cell, Page, Table, Words
from tests.cli.every_command import COMMANDS as EVERY_COMMAND

TABLE = Table(("run", "AP"), ((Cell("a"), Cell(0.25, "fraction")),))


class Whole:
    """Has everything that `emit` knows."""

    signature = "sig"
    remarks = ("mind the ties",)

    def table(self) -> Table:
        return TABLE

    def page(self) -> Page:
        return [Words("a is best", "verdict"), TABLE, Words("sig", "signature")]

    def to_dict(self) -> dict[str, Any]:
        return {"AP": 0.25}

    def trec(self) -> str:
        return "map all 0.2500"


class Several:
    """Has tables, and no page."""

    signature = "sig"

    def tables(self) -> list[Table]:
        return [TABLE, TABLE]

    def to_dict(self) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    """A command that is running."""
    parent = click.Context(click.Group("assay"), info_name="assay")
    with click.Context(click.Command("score"), parent=parent, info_name="score"):
        yield


_ID = f"signature {hashlib.sha256(b'sig').hexdigest()[:10]} (whole: --signature)\n"


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("text", "a is best\n\nrun      AP\na    0.2500\n\n" + _ID),
        ("markdown", "**a is best**\n\n| run | AP |\n|:---|---:|\n| a | 0.2500 |\n\n`sig`\n"),
        ("csv", "run,AP,signature\na,0.25,sig\n"),
        ("tsv", "run\tAP\tsignature\na\t0.25\tsig\n"),
        ("trec", "map all 0.2500\n"),
    ],
)
def test_every_format(format: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(Whole(), format, None)
    assert capsys.readouterr().out == expected


def test_latex(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(Whole(), "latex", None)
    out = capsys.readouterr().out
    assert out.startswith("a is best\n\n\\begin{tabular}")
    assert out.endswith("% sig\n")


def test_json_names_the_command_first(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(Whole(), "json", None)
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["schema_version", "schema", "command", "AP"]
    assert list(data.values()) == [1, "assay/score/1", "score", 0.25]
    output.emit(Whole(), "json", None, command="other")
    assert json.loads(capsys.readouterr().out)["command"] == "other"


def test_remarks_go_beside_a_table_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    for format in ("text", "markdown", "latex", "csv", "tsv", "json"):
        output.emit(Whole(), format, None)
        told = "mind the ties" in capsys.readouterr().err
        assert told == (format in ("csv", "tsv")), format


def test_tables_without_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(Several(), "text", None)
    assert capsys.readouterr().out == "run      AP\na    0.2500\n\n" * 2 + _ID
    output.emit(Several(), "csv", None)
    assert (
        capsys.readouterr().out == "run,AP,signature\na,0.25,sig\n\nrun,AP,signature\na,0.25,sig\n"
    )


def test_a_text_is_safe_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(output.TextResult("one\n\x1b[31mtwo", {}), "text", None)
    assert capsys.readouterr().out == "one\n\\x1b[31mtwo\n"


def test_a_table_with_nothing_around_it(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(output.TableResult(TABLE), "text", None)
    output.emit(output.TableResult(TABLE), "csv", None)
    assert capsys.readouterr().out == "run      AP\na    0.2500\nrun,AP\na,0.25\n"


def test_a_layout_of_its_own_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    seen: list[Any] = []
    output.emit(Whole(), "text", None, terminal=seen.append)
    assert len(seen) == 1
    assert capsys.readouterr().out == ""
    output.emit(Whole(), "text", str(tmp_path / "result.txt"), terminal=seen.append)
    assert len(seen) == 1
    output.emit(Whole(), "text", None)
    assert "a is best" in capsys.readouterr().out


def test_the_ending_of_the_file_says_the_format() -> None:
    known = ("text", "markdown", "latex", "csv", "json")
    endings = {"a.md": "markdown", "a.TEX": "latex", "a.csv": "csv", "a.json": "json", "a": "text"}
    for file, format in endings.items():
        assert output.choose_format(None, False, file, known=known) == format
    for file in ("a.tsv", "a.html", "a.csv.gz"):
        with pytest.raises(UsageError, match="cannot be written as"):
            output.choose_format(None, False, file, known=known)
    assert output.choose_format("csv", False, "a.tsv", known=known) == "csv"


def _words(option: click.Option, context: click.Context, *, negated: bool) -> list[str]:
    """An option with a value that it takes."""
    names = option.secondary_opts if negated and option.secondary_opts else option.opts
    if option.is_flag:
        return [names[-1]]
    for tried in ("it's ü", "1", "0.5", "AP", "auto", "qrels", "trec_results"):
        word = getattr(option.type, "choices", (tried,))[0]
        value: Any = (word,) * option.nargs if option.nargs > 1 else word
        with suppress(click.UsageError, AssayError):
            option.process_value(context, (value,) if option.multiple else value)
            return [names[-1], *[word] * option.nargs]
    return []  # trec_eval's that are refused, whatever they say


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_the_command_line_of_a_result_means_what_was_typed(
    name: str, negated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = EVERY_COMMAND[name]
    shown, parsed = [], []

    def note(**params: object) -> None:
        shown.append(output.command_line())
        parsed.append(params)

    monkeypatch.setattr(command, "callback", note)
    given = [one for one in command.params if isinstance(one, click.Option) and not one.is_eager]
    context = click.Context(command)
    words = [word for one in given for word in _words(one, context, negated=negated)]
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    files = [getattr(one.type, "choices", ["a b.npy"])[0] for one in arguments]
    group.main([*name.split(), *files, *words], standalone_mode=False)
    group.main(shlex.split(shown[0])[1:], standalone_mode=False)
    assert shown[0] == shown[1]
    assert parsed[0] == parsed[1]
    assert not negated or all(parsed[0][one.name] is False for one in given if one.secondary_opts)


@pytest.mark.parametrize("command", ["eval", "compare"])
def test_inputs_are_hashed_once_for_json_and_store(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hashed, real = [], fingerprints.fingerprint_file
    monkeypatch.setattr(
        fingerprints, "fingerprint_file", lambda file: hashed.append(str(file)) or real(file)
    )
    words = [command, "run.txt", "other.txt", "-r", "qrels.txt", "--json", "--save"]
    group.main([*words, "--store", "s.db"], standalone_mode=False)
    made = json.loads(capsys.readouterr().out)["made_by"]["inputs"]
    assert sorted(hashed) == sorted(made) == ["other.txt", "qrels.txt", "run.txt"]
    with store.open("s.db") as opened:
        known = opened.run(1).data
        assert known == {file: made[file] for file in known}
