"""The documentation as a site: `scripts/docs` gathers its pages, and Zensical lays them out.

Pages are those of this folder, some that lie elsewhere in the repository, and the reference, which
is made from the code. Zensical, because MkDocs is no longer maintained and the authors of its
Material theme end that in favour of Zensical; the pages are plain Markdown, so that another
builder can take them. Everything that the site loads is part of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from docs.measures import measures_page
from docs.reference import API, api_page, commands_page, presets_page, tutorial_page

ROOT = Path(__file__).resolve().parents[1]
PICTURES = (".png", ".svg", ".css", ".js")
# Pages that lie elsewhere.
ELSEWHERE = {
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
_FENCES = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.S | re.M)
_LINK = re.compile(r"(\]\()([^)\s#]+)?((?:#[^)\s]*)?\))")


def sources() -> dict[str, Path]:
    """The pages that are written by hand, by their names on the site."""
    own = {page.name: page for page in sorted((ROOT / "docs").glob("*.md"))}
    return own | {name: ROOT / path for name, path in ELSEWHERE.items()}


def pages() -> dict[str, str]:
    """All pages of the site by name, with links that hold there."""
    names = {path: name for name, path in sources().items()} | {
        ROOT / "docs" / "tutorial.ipynb": "tutorial.md",
        ROOT / "README.md": "index.md",
    }
    found = {name: _moved(path, names) for name, path in sources().items()}
    return found | reference()


def reference() -> dict[str, str]:
    """The pages that are made from the code."""
    return {
        **{name: api_page(name) for name in API},
        "commands.md": commands_page(),
        "measures.md": measures_page(),
        "presets.md": presets_page(),
        "tutorial.md": tutorial_page(ROOT / "docs" / "tutorial.ipynb"),
    }


def navigation() -> list[str]:
    """The pages that the navigation names, in its order."""
    config = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    return list(_leaves(config["project"]["nav"]))


def _leaves(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [leaf for one in inner for leaf in _leaves(one)]  # type: ignore[attr-defined]


def _moved(path: Path, names: dict[Path, str]) -> str:
    """The text of a page, its links changed to where their targets are on the site."""

    def link(found: re.Match[str]) -> str:
        target = found[2] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        place = Path(os.path.normpath(path.parent / target))
        if place.parent == ROOT / "docs" and place.suffix in PICTURES:
            return f"{found[1]}{place.name}{found[3]}"
        return f"{found[1]}{names[place]}{found[3]}"  # what is not on the site is not linked

    parts = _FENCES.split(path.read_text("utf-8"))
    return "".join(one if at % 2 else _LINK.sub(link, one) for at, one in enumerate(parts))


def write(folder: Path) -> None:
    """Write pages and pictures into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")
    for picture in (ROOT / "docs").iterdir():
        if picture.suffix in PICTURES:
            shutil.copy(picture, folder)


def build(home: Path) -> None:
    """Gather the pages in `home`/pages, and build the site beside them; a warning is an error."""
    write(home / "pages")
    config = (ROOT / "zensical.toml").read_text("utf-8")
    (home / "zensical.toml").write_text(config, "utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=home, check=True)
    write_offline_search(home / "site")


def write_offline_search(folder: Path) -> None:
    """Write search.js, which the theme loads where the site is opened from disk.

    A browser reads neither search.json nor a worker's file from there. So the script holds the
    index, and the worker as text, of which it makes a blob.
    """
    (worker,) = folder.glob("assets/javascripts/workers/search.*.js")
    index = (folder / "search.json").read_text("utf-8")
    code = json.dumps(worker.read_text("utf-8"))
    script = f"""var __index = {index};
window.Worker = class extends Worker {{
  constructor() {{
    super(URL.createObjectURL(new Blob([{code}], {{type: "text/javascript"}})));
  }}
}};
"""
    (folder / "search.js").write_text(script, "utf-8")


if __name__ == "__main__":
    build(ROOT / "build" / "docs")
