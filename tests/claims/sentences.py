"""The sentences of the documentation, and which of them promise something that a test can show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "SECURITY.md",
    *sorted(f"docs/{page.name}" for page in ROOT.glob("docs/*.md")),
)

_FENCE = re.compile(r"^```.*?^```", re.S | re.M)
_BLOCK = re.compile(r"\n\s*\n|\n(?=[-|#*]|\d+\. )")
_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`*\[−\d])")
_PROMISE = re.compile(
    r"""\b(
        exact(ly)? | certif\w+ | reproduc\w+ | guarantee\w* | deterministic\w* | atomic\w*
      | same\ bytes | byte\ for\ byte | bit\ (for|by)\ bit | identical | agree\w*
      | never | ever | always | nothing\ is | at\ most | no\ more\ than | less\ than
      | any\ number\ of\ threads | every\ machine
      | to\ the\ (last|printed)\ (digit|bit) | milliseconds?
    )\b""",
    re.I | re.X,
)
_FIGURE = re.compile(r"(?<![\w.,])[\d.,]*\d\s?(ms|s|MB|GB)\b")
_SCRIPT = re.compile(r"benchmarks/\w+\.py")


def read_page(page: str) -> str:
    """A page without its code blocks, every run of white space a single space."""
    return " ".join(_FENCE.sub("", (ROOT / page).read_text("utf-8")).split())


def promises(page: str) -> Iterator[str]:
    """Sentences and table rows with a word that promises, or with a time or a size.

    A time or a size needs no entry where its section, or the start of its page, names the benchmark
    that measures it.
    """
    intro, *sections = re.split(r"^(?=##+ )", (ROOT / page).read_text("utf-8"), flags=re.M)
    for section in (intro, *sections):
        scripts = {*_SCRIPT.findall(intro), *_SCRIPT.findall(section)}
        measured = any((ROOT / script).is_file() for script in scripts)
        for block in _BLOCK.split(_FENCE.sub("", section)):
            for sentence in _END.split(" ".join(block.split())):
                if _PROMISE.search(sentence) or (_FIGURE.search(sentence) and not measured):
                    yield sentence
