"""Run `assay demo` on a pseudo-terminal and draw what it prints as SVG."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 84
COMMAND = "assay demo"
# What a bar writes to draw itself again: go up, clear the line, hide the cursor.
MOVES = re.compile(r"\x1b\[(\d*)A|\x1b\[\d?K|\x1b\[\?25[lh]|\r|\n|[^\r\n\x1b]+|\x1b\[[\d;]*m|\x1b")


def on_terminal(command: str, folder: Path) -> str:
    """What a command prints when it talks to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
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


def settled(text: str) -> str:
    """What is left on the screen when all bars are done."""
    lines, row = [""], 0
    for found in MOVES.finditer(text):
        piece = found.group()
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row = max(0, row - int(found.group(1) or 1))
        elif piece.endswith("K") and piece.startswith("\x1b"):
            lines[row] = ""
        elif piece != "\r" and not piece.startswith("\x1b[?"):
            lines[row] += piece
    return "\n".join(lines)


def main() -> None:
    """Draw the picture into the file named on the command line."""
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as made:
        console.print(Text(f"$ {COMMAND}", style="bold"))
        console.print(Text.from_ansi(settled(on_terminal(COMMAND, Path(made))).rstrip()))
    svg = console.export_svg(title="assay", unique_id="assay")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # no request to another host
    Path(sys.argv[1]).write_text(svg.replace("Fira Code,", ""), encoding="utf-8")


if __name__ == "__main__":
    main()
