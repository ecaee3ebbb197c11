"""`scripts/release_check`: what it lets pass and what it refuses, on a copy of what it reads."""

import shutil
import subprocess
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).resolve().parents[1]
TAG = f"v{assay.__version__}"
READ = [
    "pyproject.toml",
    "CITATION.cff",
    "action.yml",
    "src/assay/__init__.py",
    "scripts/release_check",
]
PYTHONS = ["cp311-cp311", "cp312-abi3", "cp314-cp314t"]
SYSTEMS = [
    "manylinux_2_27_x86_64.manylinux_2_28_x86_64",
    "manylinux_2_27_aarch64.manylinux_2_28_aarch64",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
    "macosx_11_0_x86_64",
    "macosx_11_0_arm64",
    "win_amd64",
]
WHEELS = [f"{python}-{system}.whl" for python in PYTHONS for system in SYSTEMS]


@pytest.fixture
def place(tmp_path):
    """A dated release with all its files; the program that reads their metadata says yes."""
    for name in READ:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"## {assay.__version__} (2030-01-01)\n")
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in [".tar.gz", *(f"-{wheel}" for wheel in WHEELS)]:
        (dist / f"assay_eval-{assay.__version__}{name}").touch()
    twine = tmp_path / "build/wheels/twine/bin/twine"
    twine.parent.mkdir(parents=True)
    twine.write_text("#!/bin/sh\n")
    twine.chmod(0o755)
    return tmp_path


def refusal(place: Path, *arguments: str) -> str:
    command = ["bash", str(place / "scripts/release_check"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(done.stderr)
    return done.stderr.strip()


def test_a_whole_release_passes(place):
    assert not refusal(place, TAG, "--all")


@pytest.mark.parametrize("wheel", [WHEELS[0], WHEELS[10], WHEELS[-1]])
def test_a_release_without_one_of_its_wheels_does_not(place, wheel):
    (place / f"dist/assay_eval-{assay.__version__}-{wheel}").unlink()
    assert refusal(place, TAG, "--all").startswith(f"dist/ has no wheel {wheel[:5]}")
    assert not refusal(place, TAG)


def test_without_files_only_names_can_be_checked(place):
    shutil.rmtree(place / "dist")
    assert not refusal(place, TAG)
    assert refusal(place, TAG, "--all").startswith("dist/ has no wheel")


def test_a_foreign_file_or_tag_and_a_release_without_a_date_are_refused(place):
    assert refusal(place, "v9.9.9") == f"The tag v9.9.9 is not {TAG}."
    (place / "dist/assay_eval-9.9.9.tar.gz").touch()
    assert refusal(place, TAG) == f"dist/assay_eval-9.9.9.tar.gz is not of {assay.__version__}."
    (place / "CHANGELOG.md").write_text(f"## {assay.__version__} (unreleased)\n")
    assert "write the date" in refusal(place, TAG)
