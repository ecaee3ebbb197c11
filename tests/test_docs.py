"""Commands and code of the documentation and of help run as printed; generated pages are fresh."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli.main import assay as program
from assay.io.demo_collection import write_files
from assay.measures import REGISTRY
from docs.measures import measures_page
from tests.cli.every_command import COMMANDS
from tests.conftest import Answer
from tests.docs_pages import PAGES, ROOT, Printed, blocks, commands, examples, outside_blocks

# Commands, and those that need what they leave, which take seconds: only the slow tests run them.
LONG = {
    "assay bench --corpus stdlib --model bm25 --model tfidf --fusion rrf:bm25+tfidf"
    " -m nDCG@10 --save",
    "assay codes --demo codes-demo",
    "assay codes --embeddings docs.npy --queries queries.npy --qrels qrels.tsv --doc-ids docs.txt"
    " --query-ids queries.txt --k 10 --method sign asymmetric itq int8 mrl:64 mrl:128 pq:32"
    " rabitq:1 --oversample 2 4 10 --chart curve.svg",
    "assay crossmodal --demo pairs-demo",
    "assay demo",
    "assay descriptors demo --descriptor ORB --strongest 60",
    "assay explain --saved --query q:math.isclose",
}
LONG_PYTHON = ("descriptors.md", "report.md")
# The same of the examples that help prints, and those that a page prints, too.
LONG_EXAMPLES = {
    "assay bench --corpus stdlib --model bm25",
    "assay bench --corpus notes/ --qrels eval.json --chunk sentences:5:1 --model tfidf",
    "assay codes --embeddings docs.npy --bits 64 128 256 --k 10",
    "assay codes --embeddings docs.npy --queries queries.npy --method sign asymmetric int4 mrl:64"
    " mrl:64+sign pq:32 rabitq:1 rabitq:4 --oversample 2 4 10",
    "assay codes --embeddings docs.npy --queries queries.npy --method itq --rerank 100",
    "assay demo",
    "assay demo --export stdlib",
    "assay descriptors demo",
    "assay descriptors demo --descriptor SIFT --descriptor ORB --scenes --write scenes-here",
    "assay report *.run -r qrels.txt -b lexical.run -o report.html --figures figures",
}
# What no test can run, by what it needs; each says so where it is printed.
NOT_RUN = {
    "needs Ray": 3,
    "needs a network": 4,
    "stays up": 4,
}
EXAMPLES_NOT_RUN = {
    "needs Ray": 2,
    "needs a network": 3,
    "stays up": 4,
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that `assay demo --files` writes."""
    folder = tmp_path_factory.mktemp("demo")
    write_files(folder)
    return folder


@pytest.fixture
def inside(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of these files, as the current folder."""
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return tmp_path


def _run_python(page: Path) -> None:
    known = dict(REGISTRY)
    space: dict[str, object] = {"__name__": page.stem}
    try:
        for block in blocks(page, "python"):
            exec(compile(block.text, str(page.name), "exec"), space)
    finally:
        REGISTRY.clear()
        REGISTRY.update(known)


def _pages(language: str, *left_out: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language) and page.name not in left_out]


def _named(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", _pages("python", *LONG_PYTHON), ids=_named)
def test_python_blocks_run(page: Path, inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run_python(page)


@pytest.mark.parametrize("page", _pages("pycon"), ids=_named)
def test_examples_print_what_they_print(page: Path, inside: Path) -> None:
    text = "\n".join(block.text for block in blocks(page, "pycon")).replace("…", "...")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, page.name, 0)
    found: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=found.append)
    assert examples.examples
    assert not found, "".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_PYTHON)
def test_long_python_blocks_run(
    name: str, inside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run_python(ROOT / "docs" / name)


def _run(printed: Iterable[Printed], assay: Callable[..., Answer]) -> None:
    for one in printed:
        done = _call(one, assay)
        assert done.code in (0, 1), f"{one.line}\n{done.err}"
        assert "Traceback" not in done.err
        if one.output:
            assert _agrees(one.output, done.out), f"{one.line}\n{done.out}"


def _call(one: Printed, assay: Callable[..., Answer]) -> Answer:
    if not one.input:
        return assay(*one.words)
    with open(one.input, encoding="utf-8") as given, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", given)
        return assay(*one.words)


def _agrees(printed: str, found: str) -> bool:
    """To the last character; `…` stands for anything."""
    pattern = re.escape(printed.strip("\n")).replace("…", ".*?")
    return re.fullmatch(pattern, found.strip("\n"), re.S) is not None


def _runnable(page: Path) -> list[Printed]:
    return [one for one in commands(page) if not one.needs]


WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=_named)
def test_commands_run(page: Path, inside: Path, assay: Callable[..., Answer]) -> None:
    _run((one for one in _runnable(page) if one.line not in LONG), assay)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(one.line in LONG for one in commands(page))],
    ids=_named,
)
def test_long_commands_run(page: Path, inside: Path, assay: Callable[..., Answer]) -> None:
    _run(_runnable(page), assay)


def test_every_command_is_found() -> None:
    found = [one for page in PAGES for one in commands(page)]
    assert len(found) >= 85
    needs = [one.needs for one in found if one.needs]
    assert {need: needs.count(need) for need in needs} == NOT_RUN
    assert {one.line for one in found} >= LONG


def _command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and the words after its name."""
    command: Any = program
    context = click.Context(command)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def _examples(name: str) -> list[Printed]:
    """The commands that the help of a command or a group prints; "" is `assay` itself."""
    command, _ = _command_of(name.split())
    context = click.Context(command, info_name=f"assay {name}", **program.context_settings)
    return examples(command.get_help(context))


_GROUPS = {name.rpartition(" ")[0] for name in COMMANDS}
EXAMPLES = {name: found for name in sorted({*COMMANDS, *_GROUPS}) if (found := _examples(name))}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_help_run(name: str, inside: Path, assay: Callable[..., Answer]) -> None:
    short = [one for one in EXAMPLES[name] if one.line not in LONG_EXAMPLES]
    _run((one for one in short if not one.needs), assay)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name for name, found in EXAMPLES.items() if any(one.line in LONG_EXAMPLES for one in found)],
)
def test_long_examples_of_help_run(name: str, inside: Path, assay: Callable[..., Answer]) -> None:
    _run((one for one in EXAMPLES[name] if not one.needs), assay)


def test_every_example_is_found() -> None:
    printed = [one for found in EXAMPLES.values() for one in found]
    assert len(printed) >= 100
    needs = [one.needs for one in printed if one.needs]
    assert {need: needs.count(need) for need in needs} == EXAMPLES_NOT_RUN
    assert {one.line for one in printed} >= LONG_EXAMPLES
    assert [name for name in COMMANDS if name not in EXAMPLES] == []
    assert not {one.line: wrong for one in printed if (wrong := _unknown_options(one.line))}


def test_words_are_those_that_a_shell_gives(inside: Path) -> None:
    line = "assay eval *.run 'docs-*.npy' --fail-if 'AP < 1' - < qrels.txt"
    runs = ["coarse.run", "dense.run", "lexical.run"]
    assert examples(f"  {line}")[0].words == [
        "eval",
        *runs,
        "docs-*.npy",
        "--fail-if",
        "AP < 1",
        "-",
    ]
    assert Printed(line, "", "").input == "qrels.txt"
    assert Printed("assay completion zsh >> ~/.zshrc", "", "").words == ["completion", "zsh"]


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_commands_are_printed_where_they_are_run(page: Path) -> None:
    """A command stands behind `$` in a console block; elsewhere no test would run it."""
    printed = re.compile(r"^\s*\$ ?assay .*|^ {4,}assay [a-z]+ .*", re.M)
    elsewhere = [block.text for block in blocks(page) if block.language not in ("console", "yaml")]
    bare = [found for text in (outside_blocks(page), *elsewhere) for found in printed.findall(text)]
    assert not bare


def _unknown_options(line: str) -> list[str]:
    command, words = _command_of(line.split()[1:])
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    used = [re.split(r"[=,;:.)]", word)[0] for word in words if re.match(r"--[a-z]", word)]
    return [name for name in used if name not in {*known, "--help", "--version"}]


@pytest.mark.parametrize("page", PAGES, ids=_named)
def test_options_of_commands_in_the_text_exist(page: Path) -> None:
    """Also of those that are not run: in running text, or marked."""
    text = " ".join(outside_blocks(page).split())
    lines = re.findall(r"`(assay [a-z][^`]*)`", text)
    lines += [one.line for one in commands(page) if one.needs]
    assert not {line: wrong for line in lines if (wrong := _unknown_options(line))}


def test_an_unknown_option_is_noticed() -> None:
    assert _unknown_options("assay eval a.run --qrel q.txt") == ["--qrel"]
    assert _unknown_options("assay runs list --nonsense 3") == ["--nonsense"]


def test_other_output_is_noticed() -> None:
    assert _agrees("a  1\n…\nc", "a  1\n\nb\nc\n")
    assert not _agrees("a  1\nb", "a  1\nc\n")
    assert not _agrees("a  1", "a 1\n")


def test_measures_page_says_what_the_registry_says() -> None:
    """The site is built from the registry: a new measure may be absent here until it is written."""
    written = (ROOT / "docs" / "measures.md").read_text("utf-8").splitlines()
    current = measures_page().splitlines()
    assert [line for line in current if line in written] == written, (
        "run: python -m docs.measures > docs/measures.md"
    )
