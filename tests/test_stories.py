"""The five jobs of the README, done as it prints them, on files of somebody else."""

from __future__ import annotations

import csv
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

import assay as package
from assay.io import demo_collection
from assay.search import demo_texts
from tests.conftest import Answer
from tests.docs_pages import ROOT, Printed, blocks, commands

Command = Callable[..., Answer]
MOST_COMMANDS = 3
MOST_LINES = 5


def sections() -> dict[str, str]:
    """Return the text of each job by its heading."""
    jobs = re.search(
        r"^## Five jobs\n(.*?)^## ", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
    )
    assert jobs is not None
    parts = re.split(r"^### (.*)\n", jobs[1], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


RAG, PAPER, NOTEBOOK, CI, MONTHS = sections()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write a job's section as a page; the current folder is a new one."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))

    def section(heading: str) -> Path:
        page = tmp_path / "section.md"
        page.write_text(sections()[heading], "utf-8")
        return page

    return section


def commands_of(page: Path) -> list[Printed]:
    """Return the commands of a section, which are few."""
    printed = commands(page)
    assert 1 <= len(printed) <= MOST_COMMANDS
    return printed


def test_a_folder_of_markdown_and_a_csv(job: Callable[[str], Path], assay: Command) -> None:
    pytest.importorskip("wordllama")
    texts = demo_texts.small_collection()
    questions = [("question", "relevant_doc")]
    for query, question in zip(map(str, texts.query_ids), texts.query_texts, strict=True):
        questions.append((question, f"{query[2:].replace('.', '/')}.md"))
    for name in map(str, texts.doc_ids):
        file = Path("notes", f"{name.replace('.', '/')}.md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts.text_of(name), "utf-8")
    with open("questions.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(questions)
    (bench,) = commands_of(job(RAG))
    done = assay(*bench.words)
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert re.search(r"better than|not significant", first), first
    assert "wordllama" in first
    assert "bm25" in first


def test_six_runs_to_a_table(
    job: Callable[[str], Path], assay: Command, data_dir: Callable[[str], Path]
) -> None:
    for packed in data_dir("robust03").glob("*.gz"):
        name = packed.name.removeprefix("input.").removesuffix(".gz")
        target = "qrels.txt" if name.endswith(".txt") else f"{name}.run"
        Path(target).write_bytes(gzip.decompress(packed.read_bytes()))
    package.write_run(package.fuse(["MU03rob01.run", "pircRBa1.run"]), "fused.run")
    (compare,) = commands_of(job(PAPER))
    assert len([word for word in compare.words if word.endswith(".run")]) == 6
    done = assay(*compare.words)
    assert done.code == 0, done.err
    table = Path("table.tex").read_text("utf-8")
    assert "\\toprule" in table
    assert "\\textbf" in table
    for name in ("InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100", "fused"):
        mean = package.evaluate(f"{name}.run", "qrels.txt", "nDCG@10").mean()["nDCG@10"]
        assert re.search(rf"^. & {name} & .*?{mean:.4f}", table, re.M), name


def test_vectors_in_a_notebook(job: Callable[[str], Path]) -> None:
    rng = np.random.default_rng(5)
    docs, queries = rng.normal(size=(400, 32)), rng.normal(size=(20, 32))
    np.save("docs.npy", docs)
    np.save("queries.npy", queries)
    Path("docs.txt").write_text("".join(f"d{i}\n" for i in range(400)), "utf-8")
    Path("queries.txt").write_text("".join(f"q{i}\n" for i in range(20)), "utf-8")
    relevant = rng.integers(400, size=20)
    judgments = "".join(f"q{i}\td{doc}\t1\n" for i, doc in enumerate(relevant))
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judgments, "utf-8")
    (code,) = blocks(job(NOTEBOOK), "python")
    lines = [line for line in code.text.splitlines() if line]
    assert len(lines) <= MOST_LINES
    names: dict[str, object] = {}
    exec("\n".join(lines[:-1]), names)
    scores = eval(lines[-1], names)
    assert isinstance(scores, package.Scores)
    cosines = queries @ (docs / np.linalg.norm(docs, axis=1, keepdims=True)).T
    ranks = (cosines > cosines[range(20), relevant][:, None]).sum(axis=1)
    found = dict(zip(map(str, scores.query_ids), scores["R@100"], strict=True))
    assert [found[f"q{i}"] for i in range(20)] == (ranks < 100).tolist()
    assert "nDCG@10" in repr(scores)


@pytest.mark.parametrize(("new", "old", "code"), [("b", "a", 0), ("a", "b", 1), ("a", "a", 0)])
def test_a_gate_in_ci(
    job: Callable[[str], Path], assay: Command, new: str, old: str, code: int
) -> None:
    (compare,) = commands_of(job(CI))
    baseline = compare.words[compare.words.index("--baseline") + 1]
    quality = {"a": 4, "b": 1}  # place of the relevant document
    for file, system in ((compare.words[1], new), (baseline, old)):
        rows = (
            f"q{query} Q0 {'r' if place == quality[system] else f'n{place}'} {place} {-place} x\n"
            for query in range(30)
            for place in range(1, 6)
        )
        Path(file).write_text("".join(rows), "utf-8")
    Path("qrels.txt").write_text("".join(f"q{i} 0 r 1\n" for i in range(30)), "utf-8")
    done = assay(*compare.words)
    assert done.code == code, done.err
    assert ("Failed:" if code else "Passed:") in done.err


def test_runs_in_a_browser(
    job: Callable[[str], Path], assay: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    demo_collection.write_files(Path())
    evaluate, serve = commands_of(job(MONTHS))
    done = assay(*evaluate.words)
    assert done.code == 0, done.err
    monkeypatch.setenv("BROWSER", "true")  # the program, which opens nothing
    command = [sys.executable, "-m", "assay", *serve.words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[-1].rstrip("/")
            with urlopen(f"{address}/runs.csv") as answer:
                runs = answer.read().decode()
        finally:
            server.terminate()
    assert {"dense", "lexical", "coarse"} <= set(re.findall(r"[a-z]+", runs))


def test_the_readme_begins_with_a_picture_and_the_two_commands() -> None:
    head = (ROOT / "README.md").read_text("utf-8").partition("\n## ")[0]
    parts = ["](docs/demo.svg)", "scripts/demo ", "scripts/test "]
    places = [head.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)
