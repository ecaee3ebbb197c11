"""A copy of the package to change, as a newcomer would, and commands that run on the copy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import assay
from assay import native

# The finder of an editable install would find the original.
START = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "_editable" not in type(one).__module__]
sys.path.insert(0, sys.argv[1])
"""
CALL = """
from assay.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
HELP = """
from assay.cli.main import main
for command in sys.argv[2:]:
    print("\\f", flush=True)
    main([command, "--help"])
"""


class Checkout:
    """A copy of the package in a folder, with the files of the demo beside it."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "src" / "assay"
        ignored = shutil.ignore_patterns(
            "*.cpp", "*.hpp"
        )  # compiled files stay: only edits need it
        shutil.copytree(Path(assay.__file__).parent, self.package, ignore=ignored)
        compiled = getattr(sys.modules.get("assay.native._kernels"), "__file__", None)
        if compiled:
            shutil.copy(compiled, self.package / "native")
        self.folder = folder

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text that stands in a file once."""
        path = self.package / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1, (file, old)
        path.write_text(text.replace(old, new), "utf-8")

    def add(self, file: str, text: str) -> None:
        """Write a new file."""
        path = self.package / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")

    def assay(self, *words: str, code: int = 0) -> str:
        """Run a command; return what it printed."""
        return self.python(CALL, *words, code=code)

    def helps(self, *commands: str) -> list[str]:
        """Return the help of each command."""
        return self.python(HELP, *commands).split("\f")[1:]

    def python(self, program: str, *words: str, code: int = 0) -> str:
        """Run a program on the copy; return what it printed."""
        call = [sys.executable, "-c", START + program, str(self.package.parent), *words]
        done = subprocess.run(call, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout


def load_kernels() -> None:
    """Load the compiled kernels, if there are any, so that a copy can take them."""
    native.kernels()
