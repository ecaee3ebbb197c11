"""Run the core of the tests against the Assay that is installed, not against the checkout.

    python scripts/core_tests.py [--install [--lowest]] [--pure] [arguments for pytest]

`--install` puts the checkout and what the tests need into this environment first, `--lowest` with
the lowest versions that are allowed of what Assay needs. `--pure`: there are no compiled kernels.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ["core", "measures", "native", "inspect", "comparison", "tables", "test_core_alone.py"]
OF_SOURCES = [
    "test_arm.py",
    "test_portable.py",
    "test_sanitizers.py",
]  # these compile
OPTIONS = {"--install", "--lowest", "--pure"}


def install(lowest: bool) -> None:
    """The checkout as a wheel, with its kernels."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = settings["tool"]["cibuildwheel"]["test-requires"]
    if lowest:
        needed = settings["project"]["dependencies"]
        packages = packages + [re.sub(r">=([\d.]+).*", r"==\1", one) for one in needed]
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, str(ROOT), *packages], check=True)


def check_install(pure: bool) -> None:
    """The package comes from a wheel, with the kernels that it should have."""
    code = "import assay.native; print(assay.__file__, assay.native.engine_name(), sep='\\n')"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    place, engine = done.stdout.splitlines()
    if ROOT / "src" in Path(place).resolve().parents:
        sys.exit(f"{place} is the checkout, not an installed wheel.")
    if (engine == "numpy") != pure:
        sys.exit(f"{place} runs on {engine}.")
    print(f"{place}: {engine}, Python {sys.version.split()[0]}", flush=True)


def main() -> int:
    """Install if asked, check, test."""
    chosen = OPTIONS.intersection(sys.argv)
    if "--install" in chosen:
        install("--lowest" in chosen)
    check_install("--pure" in chosen)
    folders = [str(ROOT / "tests" / name) for name in CORE]
    folders += [f"--ignore={ROOT / 'tests' / 'native' / name}" for name in OF_SOURCES]
    more = [one for one in sys.argv[1:] if one not in OPTIONS]
    with tempfile.TemporaryDirectory() as folder:
        settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
        settings += ["-q", "-p", "no:cacheprovider", "--basetemp", str(Path(folder) / "tests")]
        return subprocess.call([sys.executable, "-m", "pytest", *settings, *folders, *more])


if __name__ == "__main__":
    sys.exit(main())
