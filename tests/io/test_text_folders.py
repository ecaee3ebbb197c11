"""Folders of texts: which files are documents, which are left out, and HTML as its text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.errors import FormatError, UsageError
from assay.io.collections import load_collection
from assay.io.texts import FOLDER_ENDINGS, TextFolder, html_text, read_texts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three .md, four .rst, a page, and what is not one of these."""
    files = {f"a{i}.md": f"text {i}" for i in range(3)}
    files |= {f"guide/b {i}.RST": f"more {i}" for i in range(4)}
    files |= {"page.html": "<p>One<p>Two", "code.py": "x = 1", "table.csv": "a,b", "README": "no"}
    files |= {".hidden.md": "no", ".git/c.md": "no"}
    for name, text in files.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    os.symlink(tmp_path / "notes" / "a0.md", tmp_path / "notes" / "link.md")
    return tmp_path / "notes"


def test_common_texts_are_read_and_others_are_counted(folder: Path) -> None:
    texts = TextFolder(folder)
    ids, contents = texts.read()
    guide = [f"guide/b%20{i}.RST" for i in range(4)]
    assert ids == ["a0.md", "a1.md", "a2.md", *guide, "page.html"]
    assert contents[-1] == "One\nTwo"
    assert texts.left_out == ["README", "code.py", "link.md", "table.csv"]
    words = texts.describe_left_out()
    assert words.startswith(f"4 files of {folder} left out (")
    assert {"1 .py", "1 .csv", "1 .md", "1 no ending"} == set(
        words[words.index("(") + 1 : -1].split(", ")
    )


@pytest.mark.parametrize("ending", [".py", "py", ".PY"])
def test_other_endings_by_choice(folder: Path, ending: str) -> None:
    texts = TextFolder(folder, [ending])
    assert "code.py" in texts.read()[0]
    assert "code.py" not in texts.left_out
    assert texts.endings == (*FOLDER_ENDINGS, ".py")


@pytest.mark.parametrize("ending", ["", ".", "*.py", "a/b", "p y"])
def test_what_is_no_ending(folder: Path, ending: str) -> None:
    with pytest.raises(UsageError, match=r"Write it like \.py"):
        TextFolder(folder, [ending])


def test_nothing_is_left_out_in_silence(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"4 files of .*notes left out \("):
        read_texts(folder, "doc")
    for name in ("README", "code.py", "link.md", "table.csv"):
        (folder / name).unlink()
    assert len(read_texts(folder, "doc").ids) == 8  # and a warning would be an error
    qrels = {"0": {"a0.md": 1}}
    (folder.parent / "q.jsonl").write_text('{"_id": "0", "text": "ask"}\n', "utf-8")
    loaded = load_collection(TextFolder(folder), folder.parent / "q.jsonl", qrels)
    assert loaded.name == "notes"


def test_a_folder_without_texts_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(FormatError, match=r"holds no \.txt.*1 file of .* left out \(1 \.pdf\)"):
        TextFolder(tmp_path).read()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h1>T</h1>\n<p>a <b>b</b>c &lt; d&nbsp;e</p>", "T\na bc < d e"),
        ("<ul><li>x<li>y</ul>z<br>w", "x\ny\nz\nw"),
        ("<style>p{}</style><script>if (a<b) c('<p>')</script>seen", "seen"),
        ("<svg><text>no</text></svg>yes<template><p>no</p></template>", "yes"),
        ("<!doctype html><!-- no --><![if x]>a<![endif]><![odd[b]]>c", "acc"[:1] + "c"),
        ("<table><tr><td>1<td>2</table>", "1\n2"),
        ("", ""),
        ("no tags", "no tags"),
        ("</p></script>left", "left"),
        ("a<span>b</span><a href='x'>c</a>", "abc"),
    ],
)
def test_html_is_reduced_to_its_text(page: str, text: str) -> None:
    assert html_text(page) == text


@pytest.mark.parametrize("charset", ["latin-1", "utf-8", "cp1252"])
def test_pages_say_their_encoding(tmp_path: Path, charset: str) -> None:
    page = f'<meta charset="{charset}"><p>Größe'
    (tmp_path / "a.htm").write_bytes(page.encode(charset))
    assert TextFolder(tmp_path).read() == (["a.htm"], ["Größe"])


@pytest.mark.parametrize("page", [b"<p>Gr\xf6\xdfe", b'<meta charset="odd"><p>\xff'])
def test_a_page_in_an_unknown_encoding_is_named(tmp_path: Path, page: bytes) -> None:
    (tmp_path / "a.html").write_bytes(page)
    with pytest.raises(FormatError, match=r"a\.html, line 1: the text is not UTF-8"):
        TextFolder(tmp_path).read()
