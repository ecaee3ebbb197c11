"""The outputs of docs/tutorial.ipynb: `python -m docs.tutorial` runs it and keeps them.

Pictures are SVG, so that the notebook shows them without a network.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOK = Path(__file__).with_name("tutorial.ipynb")
VARIES = "varies"  # the tag of a cell whose output has dates or numbers of this run


def execute(folder: str | Path) -> Any:
    """The notebook, run from its beginning in a folder."""
    book = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources=resources, record_timing=False
    ).execute()
    for cell in book.cells:
        for output in cell.get("outputs", ()):
            if len(output.get("data", ())) > 1:  # a picture or a table says it all
                output["data"].pop("text/plain", None)
    return book


def shown(book: Any) -> list[list[tuple[str, str]]]:
    """For each cell the kinds of its outputs, with their text where it is the same each time."""
    return [
        [part for output in cell.get("outputs", ()) for part in _parts(output, _tags(cell))]
        for cell in book.cells
    ]


def _tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def _parts(output: Any, tags: list[str]) -> list[tuple[str, str]]:
    data = output.get("data", {"stream": output.get("text", "")})
    silent = ("image/svg+xml",) if VARIES not in tags else tuple(data)
    return [(kind, "" if kind in silent else _plain(data[kind])) for kind in sorted(data)]


def _plain(text: str) -> str:
    """Without what another version or machine changes."""
    return re.sub(r"\|version:[^|]*\|engine:[^|]*", "", text)


def record() -> None:
    """Run the notebook and write its outputs into it."""
    with tempfile.TemporaryDirectory() as folder:
        book = execute(folder)
    nbformat.write(book, NOTEBOOK)


if __name__ == "__main__":
    record()
