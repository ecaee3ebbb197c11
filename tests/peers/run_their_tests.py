"""Run a peer's own tests against `assay.compat`: its tests are copied, with its import replaced.

    python tests/peers/run_their_tests.py ranx PATH/TO/CHECKOUT [PYTEST OPTION …]
    python tests/peers/run_their_tests.py ir_measures PATH/TO/CHECKOUT

The checkout stays as it is. `docs/switching.md` says which of them cannot pass, and why.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PEERS = ("ranx", "ir_measures", "pytrec_eval")


def replace_imports(text: str, peer: str) -> str:
    """The text with the package taken from `assay.compat`, wherever it is imported.

    ranx has a module for each metric, class and normalization, Assay one for all of a kind.
    """
    ours = f"assay.compat.{peer}"
    text = re.sub(rf"^(\s*)import {peer}$", rf"\1import {ours} as {peer}", text, flags=re.M)
    text = re.sub(rf"^(\s*)import {peer}(\.[\w.]+ as )", rf"\1import {ours}\2", text, flags=re.M)
    text = re.sub(rf"^(\s*)from {peer}\b", rf"\1from {ours}", text, flags=re.M)
    text = re.sub(rf"from {ours}\.(normalization|fusion)\b[.\w]*", f"from {ours}.fusion", text)
    text = re.sub(rf"from {ours}\.(metrics|meta)\b[.\w]*", f"from {ours}.metrics", text)
    return re.sub(rf"(from {ours}\.data_structures)\.\w+", r"\1", text)


def run(peer: str, checkout: Path, options: list[str]) -> int:
    """Copy the tests into a folder of their own, and run pytest there."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(checkout / "tests", Path(folder) / "tests")
        for path in Path(folder).rglob("*.py"):
            path.write_text(replace_imports(path.read_text("utf-8"), peer), "utf-8")
        names = ["-o", "python_files=test_*.py *_test.py *_tests.py", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", *names, "tests", *options]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in PEERS:
        sys.exit(f"{__doc__}\nThe peers are {', '.join(PEERS)}.")
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
