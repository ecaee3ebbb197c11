"""What is published: names, versions, extras, what the sdist leaves out, and the workflows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ITSELF = re.compile(r"assay-eval\[([^]]+)\]")


def texts() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    return [*pages, *(ROOT / "src").rglob("*.py")]


def test_the_metadata_is_complete():
    assert PROJECT["name"] == "assay-eval"
    assert PROJECT["scripts"] == {"assay": "assay.__main__:main"}
    assert "urls" not in PROJECT  # nothing is published: nobody owns an address
    for subject in ("Operating System", "Topic", "Typing", "Intended Audience"):
        assert any(one.startswith(f"{subject} :: ") for one in PROJECT["classifiers"]), subject
    # An expression of the licence forbids a classifier of it.
    assert PROJECT["license"] == "Apache-2.0"
    assert not any(one.startswith("License") for one in PROJECT["classifiers"])
    assert (ROOT / "src" / "assay" / "py.typed").is_file()


def test_the_licences_of_what_the_kernels_link_come_along():
    """BSD and MIT ask for their text in binary distributions."""
    files = {path.name for glob in PROJECT["license-files"] for path in ROOT.glob(glob)}
    assert files == {"LICENSE", "nanobind.txt", "robin-map.txt"}
    assert "NB_STATIC" in (ROOT / "CMakeLists.txt").read_text("utf-8")
    for name, holder in {"nanobind": "Wenzel Jakob", "robin-map": "Goetghebuer-Planchon"}.items():
        text = (ROOT / "LICENSES" / f"{name}.txt").read_text("utf-8")
        assert re.search(rf"Copyright \(c\) \d+ .*{holder}", text)


def test_the_versions_of_python_are_those_that_are_tested():
    """A version in the classifiers is one that the tests run on, and the other way round."""
    named = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    declared = {found[1] for one in PROJECT["classifiers"] if (found := named.fullmatch(one))}
    jobs = (ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8")
    (matrix,) = re.findall(r"python: \[(.*)\]", jobs)
    tested = set(re.findall(r'"(.*?)"', matrix))
    assert declared == tested
    assert PROJECT["requires-python"] == ">=" + min(tested, key=lambda one: int(one[2:]))


def test_what_is_installed_is_what_is_declared():
    try:
        found = metadata("assay-eval")
    except PackageNotFoundError:
        pytest.skip("this checkout is used without being installed")
    assert found["Version"] == PROJECT["version"]
    assert found["Author"] == PROJECT["authors"][0]["name"]
    assert found["License-Expression"] == "Apache-2.0"
    assert set(found.get_all("Provides-Extra")) == set(EXTRAS)


def test_the_version_is_one():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {assay.__version__}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    assert "https://" not in citation
    assert PROJECT["version"] == assay.__version__
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert first is not None
    assert first[1] == assay.__version__


def test_extras_that_are_named_exist():
    for path in texts():
        text = path.read_text("utf-8")
        assert not re.search(r"pip install ['\"]?assay(?!-eval)\b", text), path
        named = {one for found in ITSELF.findall(text) for one in found.split(",")}
        assert not {one for one in named if one != "…" and "{" not in one} - set(EXTRAS), path


def test_extras_that_messages_fill_in_exist():
    needs = re.compile(r"need\(\s*\"[\w.]+\",\s*f?\"[^\"]*\",\s*\"([\w-]+)\"")
    named = {
        one
        for path in texts()
        if path.suffix == ".py"
        for one in needs.findall(path.read_text("utf-8"))
    }
    assert {"parquet", "report", "vision"} <= named <= set(EXTRAS)


def test_extras_that_name_others_name_some_that_exist():
    for wanted in EXTRAS.values():
        for one in wanted:
            for found in ITSELF.findall(one):
                assert set(found.split(",")) <= set(EXTRAS)


def test_the_page_on_installing_lists_every_extra_for_users():
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    own = {"dev", "slow", "mutation", "bench", "docs"}  # for work on Assay itself
    rows = "".join(line for line in page.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([\w-]+)`", rows)) - {"bm25", "tfidf"} >= set(EXTRAS) - own


def steps(path: Path) -> list[dict[str, object]]:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"].values()
    return [step for job in jobs for step in job.get("steps", ())]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_step_of_a_workflow_is_a_script(path):
    found = [shlex.split(str(step["run"])) for step in steps(path) if "run" in step]
    assert found or path.stem == "release"
    for words in found:
        script = words[1] if words[0] == "python" else words[0]
        assert script.startswith("scripts/"), words
        assert (ROOT / script).is_file(), script
        assert words[0] == "python" or os.access(ROOT / script, os.X_OK), script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned(path):
    used = [str(step["uses"]) for step in steps(path) if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+", action), action


def test_a_checkout_on_windows_has_the_bytes_of_the_repository(tmp_path):
    """bash runs no script whose lines end as Windows ends them, and tests compare bytes."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    name = "scripts/release_wheels"
    as_there = ["git", "-C", str(ROOT), "-c", "core.autocrlf=true"]
    subprocess.run([*as_there, "checkout-index", f"--prefix={tmp_path}/", name], check=True)
    assert b"\r" not in (tmp_path / name).read_bytes()


def test_publishing_needs_no_secret():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert publish["environment"] == "release"
    assert "secrets." not in text
    assert "password" not in text


def test_wheels_are_built_for_every_supported_python():
    """One by one for 3.11 and for free-threaded Python, one by the stable ABI for all others."""
    wheels = PYPROJECT["tool"]["cibuildwheel"]
    assert PYPROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert wheels["build"] == ["cp311-*", "cp312-*", "cp314t-*"]
    assert PROJECT["requires-python"] == ">=3.11"
    assert wheels["environment"]["ASSAY_NEEDS_KERNELS"] == "1"
