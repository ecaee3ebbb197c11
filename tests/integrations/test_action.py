"""The GitHub Action and the hook of pre-commit: what their files say is run, on small files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, GATE = ACTION["runs"]["steps"]
N = 40


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
            for rank, doc in enumerate(docs, 1):
                print(f"q{number}", "Q0", doc, rank, 4 - rank, file.stem, file=stream)


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
    variables = {
        **os.environ,
        **environment(step, given),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": "output.txt",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    # As the runner calls `shell: bash`.
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    texts = [
        (folder / name).read_text("utf-8") if (folder / name).exists() else ""
        for name in ("output.txt", "summary.md", given.get("comment-file", "assay-verdict.md"))
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
    assert done.comment.startswith("<!-- assay gate -->\n### Assay: worse than the baseline\n")
    assert re.search(r"\*\*Why:\*\* .*bad is worse than old on nDCG@10: -0\.", done.comment)
    assert "| bad − old |" in done.comment


@pytest.mark.slow
def test_a_margin_must_be_shown(folder):
    done = call(GATE, folder, run="same.run", baseline="old.run", qrels="qrels.txt", margin="0.01")
    assert done.code == 1
    assert "### Assay: not shown to be as good as the baseline" in done.summary
    wide = call(
        GATE, folder, run="good one.run", baseline="old.run", qrels="qrels.txt", margin=".2"
    )
    assert wide.code == 0, wide.err


@pytest.mark.slow
def test_a_missing_file_is_an_error_and_not_a_verdict(folder):
    done = call(GATE, folder, run="none.run", baseline="old.run", qrels="qrels.txt")
    assert done.code > 1
    assert "### Assay: the gate could not be asked" in done.summary
    assert "none.run does not exist" in done.outputs["verdict"]


@pytest.mark.slow
def test_inputs_are_no_code(folder):
    call(
        GATE, folder, run="$(touch hacked).run", baseline="`touch hacked`", qrels="q; touch hacked"
    )
    assert not (folder / "hacked").exists()


def test_the_package_is_installed(folder):
    assert call(INSTALL, folder).code == 0
    assert (folder / "installed.txt").read_text() == "-m pip install --quiet assay-eval\n"
    assert INSTALL["if"] == "inputs.package != ''"


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
    assert done.outputs["verdict"].startswith("good one is better than old on nDCG@10: +0.")
    assert "### Assay: not worse than the baseline" in done.summary
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
