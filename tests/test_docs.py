"""Every code block of the documentation runs, and the generated tables are up to date."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.measures import REGISTRY
from assay.report.registry_page import measures_page
from assay.tasks.demo import write_demo
from tests.conftest import Answer

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the demo."""
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(
    page: Path,
    demo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    known = dict(REGISTRY)
    space: dict[str, object] = {"__name__": page.stem}
    try:
        for block in _blocks(page, "python"):
            exec(compile(block, str(page.name), "exec"), space)
    finally:
        REGISTRY.clear()
        REGISTRY.update(known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run(
    page: Path,
    demo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    assay: Callable[..., Answer],
) -> None:
    shutil.copytree(demo, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for block in _blocks(page, "console"):
        for line in re.findall(r"^\$ (assay .*(?:\\\n.*)*)", block, re.M):
            command = shlex.split(line.replace("\\\n", " "), comments=True)
            done = assay(*command[1:])
            assert done.code in (0, 1), f"{line}\n{done.err}"
            assert "Traceback" not in done.err


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_measures_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "measures.md").read_text("utf-8")
    assert written == measures_page(), (
        "run: python -m assay.report.registry_page > docs/measures.md"
    )
