"""Faults of collections and benches, by their numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import Model, run_bench
from assay.core.conventions import preset
from assay.core.judgments import Judgments
from assay.errors import FormatError, IdError, InputError, StorageError, install_command
from assay.io.collections import Collection, load_collection, write_collection
from tests.bench.samples import letters, small
from tests.hostile import HOSTILE
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
ASSAY = [sys.executable, "-m", "assay"]
LETTERS = "letters=py:tests.bench.samples:letters"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_collection(small(), tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def zeros(texts: list[str]) -> np.ndarray:
    """A model that gives some texts no direction."""
    rows = letters(texts)
    rows[::3] = 0
    return rows


def nothing(texts: list[str]) -> np.ndarray:
    """A model that gives no text a direction."""
    return np.zeros((len(texts), 3))


def slow(texts: list[str]) -> np.ndarray:
    """A model that never ends."""
    print("encoding", file=sys.stderr, flush=True)
    signal.pause()
    return letters(texts)


def test_a_zero_vector_is_neither_first_nor_found() -> None:
    result = run_bench(small(), ["zeros=py:tests.faults.test_bench:zeros"])
    found = result["zeros"]
    assert found.result.n_without == 14
    assert result.diagnosis["zero-vectors"].count == 14
    assert set(found.ranking.lengths.tolist()) <= {0, 26}
    with pytest.raises(InputError, match="a zero vector: nothing can be retrieved"):
        run_bench(small(), ["nothing=py:tests.faults.test_bench:nothing"])


def test_duplicate_mixed_and_invalid_ids_are_refused(tmp_path: Path) -> None:
    queries, qrels = tmp_path / "q.csv", tmp_path / "q.txt"
    queries.write_text("q1,x\n")
    qrels.write_text("q1 0 a 1\n")
    corpus = tmp_path / "c.jsonl"
    for text, words in {
        '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n': "appears twice",
        '{"id": "1", "text": "x"}\n{"id": 1, "text": "y"}\n': "mix text and integers",
        '{"id": "a\\tb", "text": "x"}\n': "line 1",
        '{"id": "", "text": "x"}\n': "line 1",
        '{"id": null, "text": "x"}\n': "line 1",
    }.items():
        corpus.write_text(text)
        with pytest.raises(IdError, match=words):
            load_collection(corpus, queries, qrels)


def test_forms_of_accents_stay_distinct(tmp_path: Path) -> None:
    rows = {"caf\u00e9": "one", "cafe\u0301": "two"}
    (tmp_path / "c.json").write_text(json.dumps(rows))
    (tmp_path / "q.csv").write_text("q1,x\n")
    (tmp_path / "q.json").write_text(json.dumps({"q1": {"caf\u00e9": 1}}))
    found = load_collection(tmp_path / "c.json", tmp_path / "q.csv", tmp_path / "q.json")
    assert len(found.doc_ids) == 2


def test_a_constant_scorer_does_not_look_good() -> None:
    model = "same=py:tests.faults.test_bench:same"
    result = run_bench(small(), [model], measures=["RR", "R@10"])
    assert result["same"].scores.tied.all()
    rules = preset("trec_eval").replace(ties="expected")
    expected = run_bench(small(n_docs=300), [model], measures=["RR", "R@10"], conventions=rules)
    for name, value in expected["same"].scores.mean().items():
        assert value == pytest.approx(expected.chance.mean()[name], abs=1e-12)


def same(texts: list[str]) -> np.ndarray:
    """A model to which all texts are one."""
    return np.ones((len(texts), 4))


def test_fewer_documents_than_the_cut_off_are_enough() -> None:
    result = run_bench(small(n_docs=30), [LETTERS], measures=["P@100", "nDCG@100"])
    assert set(result["letters"].ranking.lengths.tolist()) == {30}
    assert result["letters"].scores.mean()["P@100"] == pytest.approx(0.01)


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.tsv", "c.json"])
def test_truncated_files_are_refused(tmp_path: Path, name: str) -> None:
    import gzip

    data = gzip.compress(b'{"id": "a", "text": "x"}\n' * 50, mtime=0)
    path = tmp_path / f"{name}.gz"
    for cut in (1, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises((FormatError, StorageError)):
            load_collection(path, path, path)


def test_invalid_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    for text in ('{"id": "a", "text": NaN}', '{"id": "a", "id": "b", "text": "x"}', "[" * 100_000):
        path.write_text(text)
        with pytest.raises(FormatError):
            load_collection(path, path, path)


def test_files_without_texts_are_refused(tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_text("a,x\n")
    (tmp_path / "empty").mkdir()
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"a,caf\xe9\n")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, words in {
        tmp_path / "absent.csv": "does not exist",
        tmp_path / "empty": "holds no .txt",
        latin: "line 1: the text is not UTF-8",
        tmp_path / "pipe.csv": "pipe",
    }.items():
        with pytest.raises((FormatError, StorageError), match=words):
            load_collection(path, good, good)


def test_links_and_hidden_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("public")
    (folder / "link.txt").symlink_to(secret)
    (tmp_path / "q.csv").write_text("q1,x\n")
    (tmp_path / "q.txt").write_text("q1 0 a.txt 1\n")
    with pytest.warns(UserWarning, match="1 file of .* left out"):
        found = load_collection(folder, tmp_path / "q.csv", tmp_path / "q.txt")
    assert list(found.doc_texts) == ["public"]


def test_control_c_ends_cleanly_and_marks_the_run_as_failed(home: Path) -> None:
    command = [
        *ASSAY,
        "bench",
        "--corpus",
        "made",
        "--model",
        "py:tests.faults.test_bench:slow",
        "--save",
    ]
    with subprocess.Popen(
        command,
        cwd=home,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        while process.stderr.readline().strip() != "encoding":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    listed = subprocess.run(
        [*ASSAY, "runs", "list", "--json"], cwd=home, capture_output=True, text=True, check=True
    )
    assert json.loads(listed.stdout)["runs"][0]["status"] == "failed"


def hostile_collection() -> Collection:
    texts = [text.encode(errors="replace").decode() for text in HOSTILE]
    ids = [f"{i}:{''.join(text.split())}" for i, text in enumerate(texts)]
    docs = [f"{text} wing {i}" for i, text in enumerate(texts)]
    qrels = Judgments.from_targets(ids[:3], query_ids=ids[:3], doc_ids=ids)
    return Collection(ids, docs, ids[:3], texts[:3], qrels, HOSTILE[0])


def test_hostile_names_and_texts_are_escaped(home: Path, assay: Callable[..., Any]) -> None:
    collection = hostile_collection()
    names = [text.encode(errors="replace").decode() for text in HOSTILE[:6]]
    result = run_bench(
        collection, [Model(f"{name} {i}", "bm25") for i, name in enumerate(names)], measures="RR"
    )
    page = result.report().to_html()
    assert "<script>window.pwned" not in page
    assert "<img src=x" not in page
    text = str(result)
    assert "\x1b" not in text
    from assay.tables.table import as_csv

    cells = as_csv(result.query_table()).splitlines()
    assert not any(cell.startswith(("=", "@")) for line in cells for cell in line.split(","))
    from assay.bench.explain import explain_bench

    answers = explain_bench(result, str(collection.query_ids[0]))
    from assay.tables.table import text_page

    assert "\x1b" not in text_page(answers.page())


def test_without_a_terminal_there_is_no_bar(home: Path, assay: Callable[..., Any]) -> None:
    done = assay("bench", "--corpus", "made", "--model", "bm25")
    assert "━" not in done.err + done.out
    assert "\x1b" not in done.err + done.out


def test_the_locale_does_not_change_the_decimal_point(home: Path) -> None:
    done = subprocess.run(
        [*ASSAY, "bench", "--corpus", "made", "--model", "bm25", "--csv"],
        cwd=home,
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "LANG": "C", "LC_ALL": "C"},
    )
    assert "0." in done.stdout


def test_a_misspelt_measure_is_answered_with_the_nearest(
    home: Path, assay: Callable[..., Any]
) -> None:
    done = assay("bench", "--corpus", "made", "--model", "bm25", "-m", "nDGC@10")
    assert done.code == 2
    assert "nDCG" in done.err


def test_empty_long_and_broken_texts_are_handled(tmp_path: Path) -> None:
    rows = {"empty": "", "long": "wing " * 250_000, "plain": "wing lift"}
    (tmp_path / "c.jsonl").write_text(
        "".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in rows.items())
    )
    (tmp_path / "q.csv").write_text("q1,wing lift\n")
    (tmp_path / "q.txt").write_text("q1 0 plain 1\n")
    found = load_collection(tmp_path / "c.jsonl", tmp_path / "q.csv", tmp_path / "q.txt")
    result = run_bench(found, ["bm25"], chunk="tokens:50000")
    assert result["bm25"].ranking.row("q1")[0][0] == "plain"
    (tmp_path / "c.csv").write_text(f"long,{rows['long']}\nplain,x\n")
    again = load_collection(tmp_path / "c.csv", tmp_path / "q.csv", tmp_path / "q.txt")
    assert len(again.doc_texts[0]) == 1_250_000
    (tmp_path / "c.jsonl").write_text('{"id": "plain", "text": "\\udc80"}\n')
    with pytest.raises(FormatError, match="half a character"):
        load_collection(tmp_path / "c.jsonl", tmp_path / "q.csv", tmp_path / "q.txt")


def test_a_missing_package_is_named(
    home: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("bm25s", "sklearn", "sklearn.feature_extraction.text"):
        monkeypatch.setitem(sys.modules, package, None)
    assert assay("bench", "--corpus", "made", "--model", "bm25").code == 0  # needs neither
    done = assay("bench", "--corpus", "made", "--model", "tfidf")
    assert done.code == 4
    assert install_command("lexical") in done.err
