"""Run `assay demo` on a pseudo-terminal; draw what it prints, its report and its dashboard."""

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).parent
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


def draw_terminal(printed: str, file: Path) -> None:
    """A terminal with what was printed, as SVG."""
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(Text(f"$ {COMMAND}", style="bold"))
    console.print(Text.from_ansi(settled(printed).rstrip()))
    svg = console.export_svg(title="assay", unique_id="assay")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # no request to another host
    file.write_text(svg.replace("Fira Code,", ""), encoding="utf-8")


@contextmanager
def served(store: Path) -> Iterator[str]:
    """The address of a dashboard over a store."""
    command = [sys.executable, "-m", "assay", "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def photograph(browser: str, pages: dict[Path, tuple[str, int]]) -> None:
    """Pages in a window of this height, as PNG."""
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for file, (address, height) in pages.items():
            window = {"width": 1240, "height": height}
            page = chromium.new_page(viewport=window, device_scale_factor=1.25)
            page.goto(address)
            page.wait_for_load_state("networkidle")
            # Groups come a moment later; the page loads itself again until they are there.
            page.wait_for_selector("html:not(:has(meta[http-equiv=refresh])):has(body)")
            page.screenshot(path=file)
        chromium.close()


def main(browser: str) -> None:
    """Run the demo once, and make all pictures of it."""
    with tempfile.TemporaryDirectory() as made:
        demo = Path(made) / "assay-demo"
        draw_terminal(on_terminal(COMMAND, Path(made)), DOCS / "demo.svg")
        with served(demo / "assay.db") as address:
            board = f"{address.rstrip('/')}/leaderboard?dataset=stdlib"
            photograph(
                browser,
                {
                    DOCS / "report.png": ((demo / "report.html").as_uri(), 1165),
                    DOCS / "dashboard.png": (board, 960),
                },
            )


if __name__ == "__main__":
    main(sys.argv[1])
