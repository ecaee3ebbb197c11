"""Two small files that the tests of the commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

RUN = """\
q1 Q0 a 1 3 tag
q1 Q0 b 2 2 tag
q1 Q0 c 3 1 tag
q2 Q0 b 1 2 tag
q2 Q0 a 2 1 tag
"""
OTHER = RUN.replace("q2 Q0 a 2 1", "q2 Q0 a 2 9")
QRELS = "q1 0 a 1\nq1 0 c 2\nq2 0 a 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with run.txt, other.txt and qrels.txt, made the current one."""
    for name, text in {"run.txt": RUN, "other.txt": OTHER, "qrels.txt": QRELS}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path
