"""Run commands on a pseudo-terminal and draw what they print as SVG."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from assay.demo import write_demo

WIDTH = 92
COMMANDS = (
    "assay eval dense.run lexical.run coarse.run -r qrels.txt --chance --n-docs 2000",
    "assay eval coarse.run -r qrels.txt -m nDCG@10 -m RR --ties expected",
    "assay explain dense.run -r qrels.txt --query q07 -m nDCG@5",
)


def on_terminal(command: str, folder: Path) -> str:
    """What a command prints when it talks to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    with subprocess.Popen(command.split(), cwd=folder, env=env, stdout=theirs, stderr=theirs):
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def main() -> None:
    """Draw the picture into the file named on the command line."""
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as made:
        write_demo(Path(made))
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold"))
            console.print(Text.from_ansi(on_terminal(command, Path(made)).rstrip()))
            console.print()
    svg = console.export_svg(title="assay", unique_id="assay")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # no request to another host
    Path(sys.argv[1]).write_text(svg.replace("Fira Code,", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
