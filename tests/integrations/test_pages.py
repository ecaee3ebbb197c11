"""What the pages on tools print is run: tests by pytest, optional packages where they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from assay.io.demo_collection import write_demo

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)


OPTIONAL = blocks("integrations.md", "py")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", OPTIONAL, ids=lambda block: block.splitlines()[0])
def test_blocks_of_optional_packages_run(block, tmp_path, monkeypatch):
    package = re.match(r"# needs (\w+)\n", block)
    assert package is not None
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    pytest.importorskip(package[1])
    write_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "integrations.md", "exec"), {})


def test_the_test_of_the_page_passes_and_fails(pytester, run_pytest):
    (block,) = blocks("ci.md", "python")
    write_demo(pytester.path)
    pytester.makepyfile(test_page=block)
    run_pytest("--assay-update-baseline").assert_outcomes(passed=1)
    run_pytest().assert_outcomes(passed=1)
    (pytester.path / "dense.run").write_bytes((pytester.path / "coarse.run").read_bytes())
    done = run_pytest()
    done.assert_outcomes(failed=1)
    shown = (ROOT / "docs" / "ci.md").read_text("utf-8").split("    new is worse")[1]
    for line in f"    new is worse{shown}".split("\n\n")[0].splitlines():
        done.stdout.fnmatch_lines([f"*{line.strip().partition('…')[0].replace('[', '[[]')}*"])


def test_the_job_of_the_page_names_inputs_that_there_are():
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    job = yaml.safe_load(blocks("ci.md", "yaml")[0])["jobs"]["quality"]
    (gate,) = [step for step in job["steps"] if step.get("id") == "gate"]
    required = {name for name, one in action["inputs"].items() if one.get("required")}
    assert required <= set(gate["with"]) <= set(action["inputs"])
    text = (ROOT / "docs" / "ci.md").read_text("utf-8")
    assert all(f"`{name}`" in text for name in (*action["inputs"], *action["outputs"]))


def test_the_hook_of_the_page_is_there():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (used,) = yaml.safe_load(blocks("ci.md", "yaml")[1])["repos"][0]["hooks"]
    assert used["id"] == hook["id"]
    assert used["args"][0] == "--qrels"
