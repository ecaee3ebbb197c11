"""The GitHub Action and the hook of pre-commit: what their files say is run, on small files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from assay import __version__, evaluate
from assay.errors import AssayError
from tests.docs_pages import ROOT, blocks, commands

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, GATE = ACTION["runs"]["steps"]
PAGE = ROOT / "docs" / "ci.md"
N = 40
FURTHER = [f"d{number}" for number in range(97)]  # `assay check` warns of shorter lists


class Done(NamedTuple):
    code: int
    outputs: dict[str, str]
    summary: str
    comment: str
    err: str


def write_run(file: Path, lost: int) -> None:
    """The relevant document first, but third for some queries."""
    with file.open("w") as stream:
        for number in range(N):
            docs = ["x", "y", "rel"] if number < lost else ["rel", "x", "y"]
            for rank, doc in enumerate([*docs, *FURTHER], 1):
                print(f"q{number}", "Q0", doc, rank, 200 - rank, file.stem, file=stream)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lost in (("old", 10), ("same", 10), ("good one", 2), ("bad", 30)):
        write_run(tmp_path / f"{name}.run", lost)
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 rel 1\n" for i in range(N)))
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "assay").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m assay "$@"\n')
    (commands / "python").write_text('#!/bin/sh\necho "$@" >> installed.txt\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    return tmp_path


def environment(step: dict[str, Any], inputs: dict[str, str]) -> dict[str, str]:
    """The variables of a step, with the inputs in their places as the runner puts them there."""
    values = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
    found = {}
    for key, text in step["env"].items():
        named = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", text)
        assert named is not None, text
        found[key] = values[named[1]]
    return found


def call(step: dict[str, Any], folder: Path, **inputs: str) -> Done:
    given = {name.replace("_", "-"): text for name, text in inputs.items()}
    body = given.get("comment-file", "assay-verdict.md")
    return shell(step["run"], folder, environment(step, given), body)


def shell(line: str, folder: Path, inputs: dict[str, str], body: str = "assay-verdict.md") -> Done:
    """Run a line of an Action as its runner does."""
    variables = {
        **os.environ,
        **inputs,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": "output.txt",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    # As the runner calls `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    texts = [
        (folder / name).read_text("utf-8") if (folder / name).exists() else ""
        for name in ("output.txt", "summary.md", body)
    ]
    outputs = dict(line.split("=", 1) for line in texts[0].splitlines())
    return Done(done.returncode, outputs, texts[1], texts[2], done.stderr)


def test_a_worse_run_fails_with_the_reason_and_the_table(folder):
    done = call(
        GATE,
        folder,
        run="same.run\nbad.run\n",
        baseline="old.run",
        qrels="qrels.txt",
        measures="nDCG@10 RR",
        fail_if="RR < 0.2\nnDCG@10 < baseline - 0.3",
        comment_file="body.md",
    )
    assert done.code == 1
    assert done.outputs["failed"] == "true"
    assert done.outputs["comment-file"] == "body.md"
    assert done.comment.startswith("<!-- assay gate -->\n### Assay: failed\n")
    assert re.search(r"\*\*Failed:\*\* .*bad is worse than old on nDCG@10: −0\.", done.comment)
    assert "| bad − old |" in done.comment


@pytest.mark.slow
def test_a_margin_must_be_shown(folder):
    files = {"baseline": "old.run", "qrels": "qrels.txt"}
    same = call(GATE, folder, run="same.run", **files, margin="0.01")
    assert same.code == 0, same.err
    refused = call(GATE, folder, run="same.run\nbad.run", **files, margin="0.02")
    assert refused.code == 2
    assert "### Assay: the check could not run" in refused.comment
    assert "40 queries cannot rule out a loss of 0.02 on nDCG@10" in refused.outputs["verdict"]
    assert "Use a margin of 0.0722 or more" in refused.outputs["verdict"]
    narrow = call(GATE, folder, run="bad.run", **files, margin="0.0722")
    assert narrow.code == 1
    assert "**Failed:** bad may lose 0.0722 or more against old" in narrow.comment
    wide = call(GATE, folder, run="good one.run", **files, margin=".2")
    assert wide.code == 0, wide.err


@pytest.mark.slow
def test_a_missing_file_is_an_error_and_not_a_verdict(folder):
    done = call(GATE, folder, run="none.run", baseline="old.run", qrels="qrels.txt")
    assert done.code > 1
    assert "### Assay: the check could not run" in done.summary
    assert "none.run does not exist" in done.outputs["verdict"]


@pytest.mark.slow
def test_inputs_are_no_code(folder):
    call(
        GATE, folder, run="$(touch hacked).run", baseline="`touch hacked`", qrels="q; touch hacked"
    )
    assert not (folder / "hacked").exists()


def test_the_package_is_installed(folder):
    assert call(INSTALL, folder).code == 0
    pinned = f"-I -m pip install --quiet -- assay-eval=={__version__}\n"
    assert (folder / "installed.txt").read_text() == pinned
    assert INSTALL["if"] == "inputs.package != ''"


HARM = "open('imported', 'w').close()\n"


def test_a_module_of_a_pull_request_is_not_run(folder):
    """`python -m pip` would run the pip.py of the folder."""
    for name in ("pip", "assay", "click", "numpy", "json", "sitecustomize"):
        (folder / f"{name}.py").write_text(HARM)
    (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    asked = call(INSTALL, folder, package="--version")
    assert asked.code != 0
    assert "--version" in asked.err, "a name, not an option"
    script = Path(sys.executable).with_name("assay")
    if script.exists():  # as pip makes it; `python -m assay` looks into the current folder
        (folder / "bin" / "assay").write_text(f'#!/bin/sh\nexec "{script}" "$@"\n')
        done = call(GATE, folder, run="same.run", baseline="old.run", qrels="qrels.txt")
        assert done.code == 0, done.err
    assert not (folder / "imported").exists()


OPTION_LIKE = ("--margin=1", "-o", "--fail-if=nDCG@10 < 2", "--help", "--qrels=none.run")


@pytest.mark.parametrize(
    "name",
    [*OPTION_LIKE[:1], *(pytest.param(name, marks=pytest.mark.slow) for name in OPTION_LIKE[1:])],
)
def test_a_file_named_like_an_option_is_a_file(folder, name):
    (folder / "bad.run").rename(folder / name)
    inputs = {"baseline": "old.run", "qrels": "qrels.txt"}
    done = call(GATE, folder, run=name, **inputs)
    assert done.code == 1, done.err
    assert "**Failed:** " in done.comment


def test_inputs_like_options_are_values(folder):
    names = ["run", "baseline", "qrels", "margin", "look", "measures", "fail_if"]
    done = call(GATE, folder, **dict.fromkeys(names, "--help"))
    assert done.code in (2, 5)
    assert "Usage:" not in done.comment
    assert "### Assay: the check could not run" in done.comment


def test_measures_are_no_patterns_of_files(folder):
    (folder / "RR").touch()
    (folder / "bad option").touch()
    done = call(GATE, folder, run="same.run", baseline="old.run", qrels="qrels.txt", measures="*")
    assert done.code == 2
    assert "'*'" in done.outputs["verdict"]


def test_a_name_is_no_markup_in_the_comment(folder):
    name = "![x](https:evil) <b> @everybody `a` ```.run"
    (folder / "bad.run").rename(folder / name)
    inputs = {"baseline": "old.run", "qrels": "qrels.txt"}
    for done in (call(GATE, folder, run=name, **inputs), call(GATE, folder, run="<b>", **inputs)):
        assert done.code != 0
        text = re.sub(r"(?m)^    .*|`[^`\n]*`|\\.|<!-- assay gate -->", "", done.comment)
        assert not re.search(r"<b>|!\[|\]\(|```| @", text), done.comment


@pytest.mark.parametrize("name", ["run", "baseline", "qrels"])
@pytest.mark.parametrize(
    "place", ["../secret", ".git/config", "link/secret", "link/secret:scores", "../secret:x"]
)
def test_a_link_of_a_pull_request_is_not_quoted(folder, name, place):
    here = folder / "here"
    (here / ".git").mkdir(parents=True)
    for file in (folder / "secret", here / ".git" / "config"):
        file.write_text("TOKEN = s3cret\n")
    for file in ("old.run", "same.run", "qrels.txt"):
        (folder / file).rename(here / file)
    (here / "link").symlink_to("..")
    (here / "bin").symlink_to("../bin")
    target, colon, array = place.partition(":")
    if not target.startswith("link"):
        (here / "linked").symlink_to(target)
        place = f"linked{colon}{array}"
    inputs = {"run": "same.run", "baseline": "old.run", "qrels": "qrels.txt", name: place}
    done = call(GATE, here, **inputs)
    assert done.code == 2
    assert "These inputs lead out of the folder" in done.outputs["verdict"]
    assert "s3cret" not in "".join((*done.outputs.values(), done.summary, done.comment, done.err))


def test_a_link_inside_the_folder_is_a_file(folder):
    (folder / "new.run").symlink_to("same.run")
    inputs = {"baseline": "old.run", "qrels": str(folder / "qrels.txt")}
    assert call(GATE, folder, run="new.run", **inputs).code == 0
    assert call(GATE, folder, run="absent.run", **inputs).code == 5


@pytest.mark.parametrize("name", ["assay-verdict.md", "out/verdict.md"])
def test_the_comment_is_written_through_no_link(folder, name, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "verdict.md").write_text("precious")
    inside = name == "assay-verdict.md"
    link, target = (name, elsewhere / "verdict.md") if inside else ("out", elsewhere)
    (folder / link).symlink_to(target)
    inputs = {"run": "same.run", "baseline": "old.run", "qrels": "qrels.txt"}
    done = call(GATE, folder, **inputs, comment_file=name)
    assert done.code == (0 if inside else 2)
    assert (elsewhere / "verdict.md").read_text() == "precious"
    assert [file.name for file in elsewhere.iterdir()] == ["verdict.md"]
    assert "### Assay" in (folder / "assay-verdict.md").read_text()


def test_the_hook_takes_names_as_names(folder, assay):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (page,) = [yaml.safe_load(one.text) for one in blocks(PAGE, "yaml") if "repos:" in one.text]
    [documented] = page["repos"][0]["hooks"]
    assert documented["args"][-1] == "--"
    assert not re.search(hook["files"], "--margin=1")
    words = [*shlex.split(hook["entry"])[1:], "--qrels", "qrels.txt", *documented["args"][2:]]
    for name in ("--qrels=none.run", "-o.run"):
        assert re.search(hook["exclude"], name), "and where somebody forgets --"
        (folder / "old.run").rename(folder / name)
        done = assay(*words, name)
        assert done.code == 0, done.err
        assert "documents without a judgment" in done.out, "it was read"
        (folder / name).rename(folder / "old.run")
    assert not (folder / ".run").exists()


def test_a_run_that_is_not_worse_passes_and_every_output_is_set(folder):
    used = " ".join(text for step in (INSTALL, GATE) for text in step["env"].values())
    assert all(f"inputs.{name} " in used for name in ACTION["inputs"])
    done = call(GATE, folder, run="good one.run", baseline="old.run", qrels="qrels.txt", look="3")
    for name, one in ACTION["outputs"].items():
        assert one["value"] == f"${{{{ steps.gate.outputs.{name} }}}}"
        assert done.outputs[name]
    assert GATE["id"] == "gate"
    assert done.code == 0, done.err
    assert done.outputs["failed"] == "false"
    assert done.outputs["verdict"] == "good one is better than old on nDCG@10"
    assert "### Assay: passed" in done.summary
    assert "**Passed:** no significant loss against old.run on nDCG@10." in done.summary
    assert "| good one − old |" in done.summary
    assert done.comment == done.summary


def test_the_hook_checks_the_files_that_it_is_given(folder, assay):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    command = [*shlex.split(hook["entry"]), "--qrels", "qrels.txt", "-m", "RR"]
    assert command[0] == "assay"
    assert re.search(hook["files"], "eval/bm25.run")
    assert not re.search(hook["files"], "eval/qrels.txt")
    done = assay(*command[1:], "old.run", "good one.run")
    assert (done.code, "old.run:" in done.out, "good one.run:" in done.out) == (0, True, True)
    tied = folder / "tied.run"
    tied.write_text("".join(f"q{i} Q0 {doc} 1 1 t\n" for i in range(N) for doc in ("rel", "x")))
    assert assay(*command[1:], "old.run", "tied.run").code == 1
    assert assay(*command[1:], "tied.run").code == 1


def test_check_says_how_to_name_several_runs(folder, assay):
    assert "assay check RUN... -r QRELS" in assay("check", "old.run").err
    assert "several runs" in assay("check", "old.run", "same.run", "qrels.txt").err
    for more in (("--json",), ("-o", "out.txt")):
        done = assay("check", "old.run", "same.run", "-r", "qrels.txt", *more)
        assert done.code == 2
        assert "one by one" in done.err


# Runs by what became of them, and how the gate must end.
KINDS = {
    "identical": 0,
    "better": 0,
    "worse": 1,
    "missing": 5,
    "truncated": 3,
    "empty": 3,
    "other queries": 3,
}
COULD_RUN = (0, 1)
SAID = {  # by the assertion of pytest, where the check cannot run
    "missing": "does not exist",
    "truncated": "line",
    "empty": "empty",
    "other queries": "quer",
}


def write_kind(file: Path, baseline: Path, kind: str) -> None:
    """Write a run with this relation to the baseline, which has lost 10 queries of 40."""
    write_run(file, {"better": 2, "worse": 30}.get(kind, 10))
    text = baseline.read_text()
    if kind == "identical":
        file.write_text(text)
    elif kind == "missing":
        file.unlink()
    elif kind == "truncated":
        file.write_text(text[: 2 * len(text) // 3].rsplit(" ", 2)[0])
    elif kind == "empty":
        file.write_text("")
    elif kind == "other queries":
        file.write_text(re.sub("^q", "other", text, flags=re.M))


@pytest.fixture
def documented(folder: Path) -> Path:
    """The folder with the names that docs/ci.md prints."""
    for name in ("released", "lexical"):
        write_run(folder / f"{name}.run", 10)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    return folder


def test_the_documented_inputs_are_those_of_the_action_and_have_no_margin() -> None:
    (inputs,) = documented_inputs()
    assert set(inputs) <= set(ACTION["inputs"])
    assert "margin" not in inputs
    assert ACTION["inputs"]["margin"]["default"] == ""
    table = set(re.findall(r"`([a-z-]+)`", "".join(re.findall(r"^\| `.*?\|", _text(), re.M))))
    assert set(ACTION["inputs"]) <= table


def documented_inputs() -> list[dict[str, str]]:
    """What the YAML of docs/ci.md gives to the Action."""
    jobs = [yaml.safe_load(block.text) for block in blocks(PAGE, "yaml")]
    steps = [
        step for job in jobs for step in job.get("jobs", {}).get("quality", {}).get("steps", ())
    ]
    return [step["with"] for step in steps if step.get("uses", "").startswith("OWNER/assay@")]


def _text() -> str:
    return PAGE.read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_action_on_every_kind_of_run(documented, kind):
    (inputs,) = documented_inputs()
    write_kind(documented / inputs["run"], documented / inputs["baseline"], kind)
    done = call(GATE, documented, **{key.replace("-", "_"): one for key, one in inputs.items()})
    assert_ended(done, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_script_on_every_kind_of_run(documented, kind):
    (line,) = re.findall(r"^\$ (RUNS=.*scripts/gate)$", _text(), re.M)
    write_kind(documented / "new.run", documented / "released.run", kind)
    assert_ended(shell(line, documented, {}), kind)


def assert_ended(done: Done, kind: str) -> None:
    """Assert that code, outputs and summary say what became of the run."""
    assert done.code == KINDS[kind], done.err
    heading = {0: "passed", 1: "failed"}.get(done.code, "the check could not run")
    assert f"### Assay: {heading}\n" in done.comment
    assert done.comment == done.summary
    assert done.outputs["failed"] == ("false" if done.code == 0 else "true")
    assert done.outputs["verdict"]
    said = {0: "**Passed:** ", 1: "**Failed:** "}.get(done.code, "\n\n    assay: ")
    assert said in done.comment
    if kind == "identical":
        assert "**Passed:** same scores as released.run on nDCG@10 and AP." in done.comment


def test_a_slow_machine_does_not_put_progress_into_the_comment(documented):
    told_at_once = "from assay.cli import progress; progress._SELDOM = 0"
    start = f"{told_at_once}; import runpy; runpy.run_module('assay', run_name='__main__')"
    (documented / "bin" / "assay").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n'
    )
    (inputs,) = documented_inputs()
    write_kind(documented / inputs["run"], documented / inputs["baseline"], "empty")
    done = call(GATE, documented, **{key.replace("-", "_"): text for key, text in inputs.items()})
    assert_ended(done, "empty")
    assert "reading" not in done.comment


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_commands_on_every_kind_of_run(documented, assay, kind):
    printed = [one.words for one in commands(PAGE)]
    assert sorted(words[0] for words in printed) == ["check", "compare"]
    write_kind(documented / "dense.run", documented / "lexical.run", kind)
    for words in printed:
        done = assay(*words)
        if words[0] == "compare":
            assert done.code == KINDS[kind], done.err
            assert done.err.startswith("Passed: ") == (done.code == 0)
        elif KINDS[kind] in COULD_RUN:
            assert done.code == 0, done.out  # a check of the files, not of the ranking
        else:
            assert done.code in (1, 3, 5), done.out


@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_test_on_every_kind_of_run(documented, kind):
    (block,) = blocks(PAGE, "python")
    baseline = evaluate("lexical.run", "qrels.txt", ["nDCG@10", "AP"])
    write_kind(documented / "dense.run", documented / "lexical.run", kind)
    names: dict[str, Any] = {}
    exec(block.text, names)
    ends = {0: nullcontext(), 1: pytest.raises(AssertionError, match="worse than baseline")}
    with ends.get(KINDS[kind], pytest.raises((AssayError, AssertionError), match=SAID.get(kind))):
        names["test_search_is_not_worse"](lambda scores: baseline)


def test_inputs_that_are_not_set_are_named_and_no_verdict(documented):
    line = "bash scripts/gate"
    empty = shell(line, documented, {"RUNS": "same.run", "QRELS": ""})
    assert empty.code == 2
    assert "These inputs are empty: BASELINE QRELS" in empty.outputs["verdict"]
    least = {"RUNS": "same.run", "BASELINE": "old.run", "QRELS": "qrels.txt"}
    assert shell(line, documented, least).code == 0


def test_a_program_that_cannot_start_is_no_verdict(documented):
    (documented / "bin" / "assay").write_text("#!/bin/sh\necho ImportError >&2\nexit 1\n")
    inputs = {"RUNS": "same.run", "BASELINE": "old.run", "QRELS": "qrels.txt"}
    done = shell("bash scripts/gate", documented, inputs)
    assert done.code == 70
    assert "### Assay: the check could not run" in done.comment
