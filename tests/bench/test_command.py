"""`assay bench` and `assay schema bench` as a user calls them."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from assay.bench import make_request, read_config
from assay.bench.settings import MODEL
from assay.errors import AssayError
from assay.io.collections import write_collection
from assay.models.settings import EncoderSettings
from tests.bench.samples import small

LETTERS = "letters=py:tests.bench.samples:letters"
ROOT = Path(__file__).resolve().parents[2]
ONE = ("bench", "--corpus", "made", "--model", "bm25")
TWO = (*ONE, "--model", LETTERS)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_collection(small(empty=2), tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # the letters of WHOLE
    return tmp_path


def config(home: Path, text: str) -> Path:
    path = home / "bench.toml"
    path.write_text(text, "utf-8")
    return path


WHOLE = f"""
name = "mine"
corpus = "made"
measures = ["nDCG@10", "RR"]
index = []

[[model]]
spec = "bm25"
settings = {{ k1 = 0.9 }}

[[model]]
name = "letters"
spec = "{LETTERS.partition("=")[2]}"
query_prefix = "ka "

[[fusion]]
name = "both"
of = ["bm25", "letters"]
method = "combsum"
weights = [0.4, 0.6]
"""


def test_text(home: Path, assay: Callable[..., Any]) -> None:
    models = ("--model", "bm25", "--model", LETTERS)
    done = assay("bench", "--corpus", "made", *models, "-m", "nDCG@10", "--full")
    assert done.code == 0, done.err
    assert "model    nDCG@10" in done.out
    assert "chance" in done.out
    assert "2 documents without any text: d39, d38" in done.out or "d38, d39" in done.out
    assert "tiebreak:id-descending" in done.out
    assert "●" not in done.out, "no picture where there is no terminal"


def test_separate_files_and_measures(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(
        "bench",
        "--corpus",
        "made/corpus.jsonl",
        "--queries",
        "made/queries.jsonl",
        "--qrels",
        "made/qrels/test.tsv",
        "--model",
        "tfidf",
        "--json",
        "-m",
        "R@5",
        "-m",
        "RR",
    )
    data = json.loads(done.out)
    assert list(data["systems"][0]["measures"]) == ["R@5", "RR"]
    assert data["collection"]["documents"] == 40
    assert data["systems"][0]["costs"]["texts_per_second"] > 0
    assert data["chance"]["R@5"] == pytest.approx(5 / 40)
    assert len(data["systems"][0]["per_query"]) == 25


def test_on_a_cluster(home: Path, assay: Callable[..., Any]) -> None:
    here = json.loads(assay(*TWO, "--no-cache", "--json").out)
    done = assay(*TWO, "--no-cache", "--json", "--cluster", "threads", "--workers", "2")
    assert done.code == 0, done.err
    there = json.loads(done.out)
    for one, other in zip(here["systems"], there["systems"], strict=True):
        assert one["per_query"] == other["per_query"]
        assert one["fingerprint"] == other["fingerprint"]
    assert there["systems"][1]["costs"]["n_encoded"] == 38 + 25


def test_a_cluster_that_has_nothing_to_do(home: Path, assay: Callable[..., Any]) -> None:
    alone = assay(*ONE, "--workers", "2")
    assert alone.code == 2
    assert "--workers requires --cluster" in alone.err
    words = assay(*ONE, "--cluster", "auto")
    assert words.code == 0
    assert "--cluster ignored: no model encodes texts" in words.err
    nowhere = assay(*TWO, "--cluster", "nowhere")
    assert nowhere.code != 0
    assert "No Ray cluster answers at 'nowhere'" in nowhere.err


def test_config_file(home: Path, assay: Callable[..., Any]) -> None:
    done = assay("bench", config(home, WHOLE), "--json", "--allow-code")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert [one["name"] for one in data["systems"]] == ["bm25", "letters", "both"]
    assert data["systems"][2]["model"] == "combsum/minmax:0.4*bm25+0.6*letters"
    assert data["collection"]["name"] == "mine"
    more = assay("bench", "bench.toml", "--model", "tfidf", "-m", "AP", "--json")
    assert more.code == 2, "the fusion of the file names models that are no longer there"
    other = config(home, WHOLE.replace("k1 = 0.9", "k1 = 2.0"))
    changed = json.loads(assay("bench", other, "--json", "--allow-code").out)
    prints = [[one["fingerprint"] for one in found["systems"]] for found in (data, changed)]
    assert prints[0][0] != prints[1][0]
    assert prints[0][1] == prints[1][1]


def test_config_paths_are_relative_to_the_file(
    home: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = config(home, WHOLE)
    monkeypatch.chdir("/")
    assert assay("bench", path, "--csv", "--allow-code").code == 0


def test_csv_and_per_query(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*TWO, "--csv", "--per-query", "q.csv")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert {row["name"] for row in rows} == {"bm25", "letters"}
    assert float(rows[0]["nDCG@10 low"]) <= float(rows[0]["nDCG@10"])
    queries = list(csv.DictReader((home / "q.csv").read_text().splitlines()))
    assert len(queries) == 25
    assert float(queries[0]["bm25 nDCG@10"]) >= 0


def test_runs_files_score_the_same(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*TWO, "--runs", "out", "--json", "-m", "nDCG@10", "--depth", "100")
    wanted = {
        one["name"]: one["measures"]["nDCG@10"]["mean"] for one in json.loads(done.out)["systems"]
    }
    again = assay(
        "eval",
        "out/bm25.run",
        "out/letters.run",
        "-r",
        "made/qrels/test.tsv",
        "-m",
        "nDCG@10",
        "--json",
    )
    found = {
        one["name"]: one["measures"]["nDCG@10"]["mean"] for one in json.loads(again.out)["runs"]
    }
    assert found == wanted


def test_saved_with_what_was_found(home: Path, assay: Callable[..., Any]) -> None:
    from assay.store import open as opened

    done = assay(*ONE, "--save", "--dataset", "made")
    assert done.code == 0, done.err
    with opened(home / "assay.db") as store:
        run = store.run(1)
        assert (run.name, run.task, run.dataset) == ("bm25", "bench", "made")
        shown = run.results("q00")
        assert shown is not None
        assert shown.results[0].snippet
        assert {doc.grade for doc in (*shown.results, *shown.missed)} == {1.0, None}
        assert run.config["collection"]


def test_saved_with_the_groups_that_were_drawn_and_the_tasks_of_a_cluster(
    home: Path, assay: Callable[..., Any]
) -> None:
    from assay.store import open as opened

    queries = list(map(str, small(empty=2).query_ids))
    rows = "".join(f"{query},g{row % 9}\n" for row, query in enumerate(queries))
    (home / "groups.csv").write_text(f"query,group\n{rows}", "utf-8")
    done = assay(*TWO, "--by", "groups.csv", "--cluster", "serial", "--no-cache", "--save")
    assert done.code == 0, done.err
    with opened(home / "assay.db") as store:
        for run in store.runs():
            assert run.clusters == "group"
            assert run.config["cluster"]["totals"]["encode"]["tasks"] >= 2
    assert assay(*TWO, "--save").code == 0
    with opened(home / "assay.db") as store:
        assert store.run(3).clusters == ""
        assert "cluster" not in store.run(3).config


def test_a_saved_bench_is_filed_under_the_collection(home: Path, assay: Callable[..., Any]) -> None:
    from assay.store import open as opened

    for more in ([], ["--name", "notes"], ["--name", "notes", "--dataset", "made 2"]):
        assert assay(*ONE, "--save", *more).code == 0
    with opened(home / "assay.db") as store:
        assert [run.dataset for run in store.runs()] == ["made 2", "notes", "made"]


def test_one_query_of_a_saved_run(home: Path, assay: Callable[..., Any]) -> None:
    from assay.store import open as opened

    assert assay(*ONE, "--save").code == 0
    text = assay("runs", "show", "1", "--query", "q03").out
    with opened(home / "assay.db") as store:
        run = store.run(1)
        shown = run.results("q03")
        assert shown is not None
        value = run.scores()["nDCG@10"][3]
    assert "query q03 of run 1: bm25" in text
    for part in (shown.text, f"{value:.4f}", *(doc.doc for doc in shown.results)):
        assert part in text
    data = json.loads(assay("runs", "show", "1", "--query", "q03", "--json").out)
    assert (data["query"], data["text"], data["values"]["nDCG@10"]) == ("q03", shown.text, value)
    assert [(one["doc"], one["grade"]) for one in data["results"]] == [
        (one.doc, one.grade) for one in shown.results
    ]
    assert len(data["missed"]) == len(shown.missed)


def test_html(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*TWO, "--html", "r.html", "--resamples", "200")
    assert done.code == 0, done.err
    page = (home / "r.html").read_text("utf-8")
    assert "bm25" in page
    assert "texts/s" in page


def test_chunks(home: Path, assay: Callable[..., Any]) -> None:
    common = ("bench", "--corpus", "made", "--model", "bm25", "--json", "-m", "RR")
    plain = json.loads(assay(*common).out)
    folded = json.loads(assay(*common, "--chunk", "tokens:6:2", "--fold", "sum:2").out)
    assert folded["settings"]["chunk"] == "tokens:6:2"
    assert folded["systems"][0]["texts"]["n"] > plain["systems"][0]["texts"]["n"]


def test_a_baseline(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*TWO, "--model", "tfidf", "-b", "bm25", "-m", "RR")
    assert "vs bm25" in done.out
    assert "baseline" in done.out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "No documents"),
        (["--corpus", "made"], 2, "No model"),
        (["--corpus", "made", "--model", "bm52"], 2, "Did you mean bm25"),
        (["--corpus", "nowhere", "--model", "bm25"], 5, "nowhere does not exist"),
        (["--corpus", "made", "--model", "bm25", "-m", "nDGC@10"], 2, "nDCG"),
        (["--corpus", "made", "--model", "bm25", "--fold", "max"], 2, "needs chunks"),
        (["--corpus", "made", "--model", "bm25", "--judged", "chunks"], 2, "needs chunks"),
        (["--corpus", "made", "--model", "bm25", "--max-length", "9"], 2, "Omit 'max_length'"),
        (["--corpus", "made", "--model", "lsa:3", "--dimensions", "2"], 2, "models are lexical"),
        (["--corpus", "made", "--model", "bm25", "--chunk", "words:3"], 2, "characters"),
        (["--corpus", "made", "--model", "bm25", "--cache", "x", "--no-cache"], 2, "exclude"),
        (["--corpus", "made", "--model", "bm25", "--html", "r.pdf"], 2, ".html"),
        (
            ["--corpus", "made", "--model", "bm25", "--per-query", "made/qrels/test.tsv"],
            2,
            "inputs",
        ),
        (["--corpus", "made", "--model", "bm25", "--csv", "--json"], 2, "exclude"),
        (["bench.json"], 2, ".toml"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else None,
)
def test_requests_that_make_no_sense(
    home: Path, assay: Callable[..., Any], words: list[str], code: int, message: str
) -> None:
    done = assay("bench", *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_unknown_keys_and_wrong_types_are_named(home: Path, assay: Callable[..., Any]) -> None:
    for change, message in {
        ('name = "mine"', 'nmae = "mine"'): "unknown key 'nmae'. Did you mean name",
        ("query_prefix", "query_prefx"): "number 2: unknown key 'query_prefx'. Did you mean "
        "query_prefix",
        ('method = "combsum"', 'method = "combsun"'): "Did you mean combsum",
        ('measures = ["nDCG@10", "RR"]', 'measures = "RR"'): "measures: expected a list",
        ("weights = [0.4, 0.6]", "weights = [0.4, 0]"): "number 2: 0 must be above 0",
        ('corpus = "made"', ""): "'corpus' is missing",
        ('corpus = "made"', "corpus = 3"): "corpus: expected a string",
        ('corpus = "made"', 'corpus = "'): "not TOML",
        ("k1 = 0.9", "k = 0.9"): "no setting 'k'",
        ('query_prefix = "ka "', "max_length = true"): "max_length: expected a whole number",
    }.items():
        done = assay("bench", config(home, WHOLE.replace(*change)), "--allow-code")
        assert done.code in (2, 3), done.err
        assert message in done.err, done.err


def test_settings_of_a_model_are_those_that_encoders_take() -> None:
    keys = {setting.name for setting in MODEL}
    apart = {"name", "spec", "metric", "codes", "price", "chunk", "settings"}
    assert keys - apart == {one.name for one in fields(EncoderSettings)}


def test_schema_is_json_and_says_what_the_reader_checks(assay: Callable[..., Any]) -> None:
    done = assay("schema", "bench")
    schema = json.loads(done.out)
    assert schema["additionalProperties"] is False
    assert {"corpus", "model", "fusion", "chunk"} <= set(schema["properties"])
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema)


def test_help_has_every_option(assay: Callable[..., Any]) -> None:
    text = assay("bench", "--help").out
    for option in (
        "--corpus",
        "--qrels",
        "--model",
        "--fusion",
        "--index",
        "--chunk",
        "--html",
        "--save",
        "--json",
        "--csv",
        "--query-prefix",
        "--dimensions",
    ):
        assert option in text


def test_explain_shows_what_each_found(home: Path, assay: Callable[..., Any]) -> None:
    config(home, WHOLE)
    done = assay("explain", "bench.toml", "--query", "q03", "--allow-code")
    assert done.code == 0, done.err
    assert "relevant" in done.out
    assert "✓ 1" in done.out
    words = ("--query", "q03", "--json", "-n", "4", "--allow-code")
    data = json.loads(assay("explain", "bench.toml", *words).out)
    assert [one["name"] for one in data["systems"]] == ["bm25", "letters", "both"]
    assert all(len(one["results"]) <= 4 for one in data["systems"])
    relevant = {
        doc["doc"]
        for one in data["systems"]
        for doc in (*one["results"], *one["missed"])
        if doc["grade"]
    }
    assert len(relevant) == 1
    assert data["text"]


def test_explain_of_run_files_and_of_saved_runs(home: Path, assay: Callable[..., Any]) -> None:
    assert assay(*TWO, "--runs", "out", "--save").code == 0
    collection = ("--corpus", "made/corpus.jsonl", "--queries", "made/queries.jsonl")
    files = assay(
        "explain",
        "out/bm25.run",
        "out/letters.run",
        *collection,
        "-r",
        "made/qrels/test.tsv",
        "--query",
        "q03",
        "--json",
    )
    saving = assay("explain", "--saved", "--query", "q03", "--json")
    named = assay("explain", "--saved", "1", "2", "--query", "q03", "--json")
    first, second, third = (json.loads(one.out)["systems"] for one in (files, saving, named))
    assert second == third
    assert [one["results"] for one in first] == [one["results"] for one in second]
    assert second[0]["measures"]["nDCG@10"] >= 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["explain", "--query", "q"], 2, "Name a run"),
        (["explain", "a.run", "b.run", "--query", "q"], 2, "--corpus"),
        (["explain", "a.run", "--query", "q"], 2, "--qrels"),
        (["explain", "a.run", "--query", "q", "--store", "x.db"], 2, "--saved"),
        (["explain", "bench.toml", "--query", "zzz", "--allow-code"], 3, "Unknown query 'zzz'"),
        (["explain", "bench.toml", "x.toml", "--query", "q"], 2, "--corpus"),
        (["explain", "--saved", "--query", "q"], 5, "no store at"),
    ],
    ids=lambda value: " ".join(value)[8:40] if isinstance(value, list) else None,
)
def test_explanations_that_make_no_sense(
    home: Path, assay: Callable[..., Any], words: list[str], code: int, message: str
) -> None:
    config(home, WHOLE)
    done = assay(*words)
    assert (done.code, message in done.err) == (code, True), done.err


def test_the_report_holds_the_diagnosis(home: Path, assay: Callable[..., Any]) -> None:
    assert assay(*ONE, "--html", "r.md").code == 0
    assert "warning: 2 documents without text: d38, d39" in (home / "r.md").read_text("utf-8")


def test_judgments_of_chunks(home: Path, assay: Callable[..., Any]) -> None:
    (home / "q.txt").write_text("q00 0 d00#1 1\nq01 0 d01#2 1\n")
    words = (
        "bench",
        "--corpus",
        "made/corpus.jsonl",
        "--queries",
        "made/queries.jsonl",
        "-r",
        "q.txt",
        "--model",
        "bm25",
        "-m",
        "RR",
        "--chunk",
        "tokens:6",
    )
    data = json.loads(assay(*words, "--judged", "chunks", "--json").out)
    assert data["settings"] == {
        "depth": 1000,
        "metric": "cosine",
        "chunk": "tokens:6:0",
        "fold": "max",
        "judged": "chunks",
    }
    assert data["collection"]["documents"] > 40
    assert assay(*words).code == 3, "documents are not called d00#1"


@pytest.mark.parametrize(
    "words", [["-b", "bm52"], ["--level", "2"], ["--correction", "tukey", "--test", "t"]]
)
def test_statistics_are_checked_before_the_work(
    home: Path, assay: Callable[..., Any], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.bench.config.load_collection", None)  # would fail if called
    done = assay(*TWO, *words)
    assert done.code == 2, done.err


def test_a_password_in_an_address_is_never_stored(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*ONE, "--base-url", "https://me:hidden@host/v1", "--save")
    assert done.code == 2
    assert "hidden" not in done.err + done.out
    stored = b"".join(path.read_bytes() for path in home.glob("assay.db*"))
    assert b"hidden" not in stored


def test_a_password_of_a_database_is_neither_shown_nor_stored(
    home: Path, assay: Callable[..., Any]
) -> None:
    secret = "pgvector:postgresql://me:hidden@127.0.0.1:9/db"
    done = assay(*TWO, "--index", secret, "--save")
    assert done.code == 2
    assert "hidden" not in done.err + done.out
    text = WHOLE.replace("index = []", f'index = ["{secret}"]')
    allowed = ("--allow-code", "--allow-endpoint", "127.0.0.1:9")
    done = assay("bench", config(home, text), "--save", *allowed)
    assert done.code not in (0, 2), "nobody listens there"
    assert "hidden" not in done.err + done.out
    stored = b"".join(path.read_bytes() for path in home.glob("assay.db*"))
    assert b"hidden" not in stored


def test_behind_an_index(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*TWO, "--index", "exact", "--index", "exact", "--json", "-m", "nDCG@10")
    data = json.loads(done.out)
    names = [one["name"] for one in data["systems"]]
    assert names == ["bm25", "letters", "letters @ exact"]
    exact, behind = data["systems"][1:]
    assert behind["index"]["recall"] == 1.0
    assert behind["per_query"] == exact["per_query"]
    assert "recall" in assay(*TWO, "--index", "exact", "-m", "RR").out
    assert assay(*TWO, "--index", "fiass:Flat").code == 2


def on_terminal(home: Path, *words: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    ours, theirs = os.openpty()
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "assay", *words], cwd=home, env=env, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                parts.append(os.read(ours, 65536))
            except OSError:  # the other end is closed
                break
            if not parts[-1]:
                break
    os.close(ours)
    assert process.returncode == 0
    return b"".join(parts).decode()


def test_on_a_terminal_there_are_bars_and_a_picture(home: Path) -> None:
    text = on_terminal(home, *TWO, "-m", "nDCG@10")
    assert "✓" in text
    assert "├" in text
    assert "●" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert max(map(len, re.split(r"[\r\n]+", plain.partition("preset:")[0]))) <= 80


def test_others_see_how_far_a_saved_bench_is(
    home: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.store import OpenRun
    from assay.store import open as opened

    seen, told = [], []
    real = OpenRun.progress

    def progress(self: OpenRun, done: int, total: int, now: str) -> None:
        real(self, done, total, now)
        with opened(home / "assay.db", read_only=True) as store:
            run = store.run(1)
            seen.append((run.status, run.dataset, run.done, run.total))
            told.append((run.name, run.message))

    monkeypatch.setattr("assay.cli.output.REPORT_INTERVAL", 0)
    monkeypatch.setattr(OpenRun, "progress", progress)
    assert assay(*TWO, "--save").code == 0
    assert {one[:2] for one in seen} == {("running", "made")}
    assert seen == sorted(seen)
    assert seen[0][2:] == (0, 100)
    assert seen[-1][2:] == (100, 100)
    assert any(0 < done < 100 for *_, done, _ in seen)
    with opened(home / "assay.db", read_only=True) as store:
        names = [store.run(1).name, store.run(2).name]
        assert store.run(1).message == ""
    assert {name for name, _ in told} == {names[0]}  # from the start
    assert {message.partition(":")[0] for _, message in told} == set(names)


def test_a_store_that_cannot_be_told_does_not_stop_the_work(
    home: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.errors import StorageError
    from assay.store import OpenRun

    def locked(*_: Any) -> None:
        raise StorageError("locked")

    monkeypatch.setattr(OpenRun, "progress", locked)
    done = assay(*TWO, "--save")
    assert (done.code, "saved as runs 1 to 2" in done.err) == (0, True)


def gated(assay: Callable[..., Any], *words: str) -> tuple[int, str]:
    """The exit code and why the gate failed, for letters against bm25."""
    done = assay(*TWO, "--no-cache", "-b", "bm25", *words)
    why = [line for line in done.err.splitlines() if line.startswith("Failed: ")]
    assert ("Passed: " in done.err) == (done.code == 0)
    return done.code, "".join(why)


def test_the_gate(home: Path, assay: Callable[..., Any]) -> None:
    data = json.loads(assay(*TWO, "--no-cache", "-b", "bm25", "-m", "RR", "--json").out)
    bm25, letters = (one["measures"]["RR"]["mean"] for one in data["systems"])
    loss = bm25 - letters
    assert loss > 0.01
    code, why = gated(assay, "--fail-if", f"RR < baseline - {loss - 0.001:.6f}")
    assert (code, f"letters has RR {letters:.4f} < " in why) == (1, True)
    assert gated(assay, "--fail-if", f"RR < baseline - {loss + 0.001:.6f}") == (0, "")
    code, why = gated(assay, "--fail-if-worse", "-m", "RR", "--level", "0.5")
    assert (code, "letters is worse than bm25 on RR" in why) == (1, True)


def test_a_model_with_the_scores_of_the_baseline_passes(
    home: Path, assay: Callable[..., Any]
) -> None:
    twins = (*ONE, "--model", "again=bm25", "-b", "bm25", "-m", "RR")
    for more in ((), ("--margin", "0.001"), ("--look", "3"), ("--fail-if", "RR < baseline")):
        done = assay(*twins, "--no-cache", "--fail-if-worse", *more)
        assert (done.code, "Passed: same scores as bm25 on RR" in done.err) == (0, True), done.err
    refused = assay(*TWO, "--no-cache", "-b", "bm25", "--fail-if-worse", "--margin", "0.001")
    assert (refused.code, refused.out) == (2, "")
    assert "Use" in refused.err


def test_the_gate_of_a_model_holds_for_its_variants(home: Path, assay: Callable[..., Any]) -> None:
    plain = ("bench", "--corpus", "made", "--model", LETTERS, "-b", "letters", "--no-cache")
    words = (*plain, "-m", "RR", "--fail-if-worse", "--model")
    bits = f"v={LETTERS.partition('=')[2]}?codes=CODE"
    worse = assay(*words, bits.replace("CODE", "mrl:1"), "--level", "0.5")
    assert (worse.code, "v is worse than letters on RR" in worse.err) == (1, True), worse.err
    same = assay(*words, bits.replace("CODE", "float16"))
    assert (same.code, "Passed: " in same.err) == (0, True), same.err
    alone = assay(*plain, "-m", "RR", "--fail-if-worse")
    assert (alone.code, "The baseline is the only system" in alone.err) == (2, True)


def test_the_gate_brings_its_measure_and_is_in_the_data(
    home: Path, assay: Callable[..., Any]
) -> None:
    done = assay(*ONE, "-m", "RR", "--fail-if", "P@5 < 2", "--json")
    data = json.loads(done.out)
    assert (done.code, list(data["systems"][0]["measures"])) == (1, ["RR", "P@5"])
    assert data["gate"]["failed"] is True
    assert "bm25 has P@5" in data["gate"]["reasons"][0]
    assert "gate" not in json.loads(assay(*ONE, "--json").out)


def test_the_gate_counts_its_looks(home: Path, assay: Callable[..., Any]) -> None:
    words = (*TWO, "-b", "bm25", "-m", "RR", "--fail-if-worse", "--look-file", "looks.json")
    look = json.loads(assay(*words, "--json").out)["gate"]["look"]
    assert (look["number"], (home / "looks.json").exists()) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fail-if-worse"], "requires --baseline"),
        (["--fail-if", "RR < baseline"], "requires --baseline"),
        (["--fail-if", "RR < 0.5", "-b", "bm25"], "The baseline is the only system"),
        (["--look", "2"], "requires --fail-if-worse"),
    ],
)
def test_gates_that_make_no_sense(
    home: Path, assay: Callable[..., Any], words: list[str], message: str
) -> None:
    done = assay(*ONE, *words)
    assert (done.code, message in done.err) == (2, True)


def test_two_stages(home: Path, assay: Callable[..., Any]) -> None:
    two = "two=rerank/9:letters>py:tests.bench.samples:shared_words"
    done = assay(*TWO, "--rerank", two, "-m", "RR", "--fail-if", "RR < baseline", "-b", "letters")
    assert "Gain over letters: two is better than letters on RR" in done.out
    assert "two reranks the first 9 documents of each query: 225 pairs, in" in done.out
    assert done.code == 0, done.err
    as_model = assay(
        *TWO, "--model", two, "-m", "RR", "--fail-if", "RR < baseline", "-b", "letters"
    )
    assert as_model.out.splitlines()[0] == done.out.splitlines()[0]


def test_codes_tuned_weights_and_answers_on_the_command_line(
    home: Path, assay: Callable[..., Any]
) -> None:
    words = {query: [text.split()[0]] for query, text in _queries(home).items()}
    (home / "answers.json").write_text(json.dumps(words))
    more = (
        "--model",
        LETTERS.replace("letters=", "bits=") + "?codes=binary",
        "--fusion",
        "t=combsum:bm25+letters?tune=4",
    )
    options = ("--answers", "answers.json", "--price", "letters=3", "-m", "RR", "--resamples", 200)
    done = assay(*TWO, *more, *options, "--html", "report.html")
    assert done.code == 0, done.err
    assert "bytes/vector" in done.out
    assert "price" not in done.out, "nobody counted a token"
    assert "By answers: relevant is a document in which an answer stands" in done.out
    report = (home / "report.html").read_text()
    assert "t: weights by 4-fold cross-validation on RR (seed 0)" in report
    assert "By answers: " in report
    done = assay(*TWO, *more, *options, "--save", "--store", "s.db", "--json")
    data = json.loads(done.out)
    (first, *_) = data["by_answers"]["systems"]
    assert first["measures"]["Success@100"]["mean"] > 0.9
    assert [one["name"] for one in data["systems"]] == ["bm25", "letters", "bits", "t"]
    listed = json.loads(assay("runs", "list", "--store", "s.db", "--json").out)
    assert [one["name"].endswith(" by answers") for one in listed["runs"]].count(True) == 4
    assert assay(*TWO, "--price", "wrong=3").code == 2
    assert assay(*TWO, "--rerank", "bm25>rerank:https://me:pw@host/v1").code == 2


def test_tuned_weights_know_nothing_of_their_own_group(
    home: Path, assay: Callable[..., Any]
) -> None:
    asked = list(_queries(home))
    rows = [f"{query}\tg{number % 3}" for number, query in enumerate(asked)]
    (home / "groups.tsv").write_text("query\tauthor\n" + "\n".join(rows))
    how = ("--fusion", "t=combsum:bm25+letters?tune=3", "-m", "RR", "--resamples", 200, "--json")
    data = json.loads(assay(*TWO, *how, "--by", "groups.tsv").out)
    assert "tune=3-fold,measure=RR,seed=0,groups=3" in data["signature"]
    assert "groups=" not in json.loads(assay(*TWO, *how).out)["signature"]
    few = assay(*TWO, *how[:1], "t=combsum:bm25+letters?tune=4", *how[2:], "--by", "groups.tsv")
    (finding,) = (one for one in json.loads(few.out)["diagnosis"] if one["code"] == "left-out")
    assert "needs 2 to 3 folds (groups of queries with judgments)" in finding["examples"][0]


def _queries(home: Path) -> dict[str, str]:
    lines = (home / "made" / "queries.jsonl").read_text().splitlines()
    return {one["_id"]: one["text"] for one in map(json.loads, lines)}


def notes(home: Path) -> tuple[str, ...]:
    """A folder of German texts and other files, and what to run on it."""
    german = {
        "haus.md": "Die Häuser an der Straße sind alt, und die Dächer werden von dem Sturm bewegt.",
        "meer.rst": "Das Meer ist nicht ruhig, und die Schiffe werden auf dem Wasser bewegt.",
        "berg.html": "<h1>Der Berg</h1><p>Ein Berg ist hoch, und auf dem Gipfel liegt Schnee.",
        "skript.py": "print('der Berg')",
        "bild.png": "",
    }
    (home / "notes").mkdir()
    for name, text in german.items():
        (home / "notes" / name).write_text(text, "utf-8")
    pairs = [["Welche Häuser sind alt?", ["haus.md"]], ["Wo liegt der Schnee?", ["berg.html"]]]
    (home / "eval.json").write_text(json.dumps(pairs), "utf-8")
    return ("bench", "--corpus", "notes", "--qrels", "eval.json", "--no-cache", "-m", "RR")


def test_german_notes(home: Path, assay: Callable[..., Any]) -> None:
    pytest.importorskip("Stemmer")
    line = notes(home)
    done = assay(*line, "--model", "bm25?stemmer=de", "--model", "bm25", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["collection"]["documents"] == 3
    findings = {one["code"]: one for one in data["diagnosis"]}
    assert findings["files"]["message"] == "2 files of notes left out (1 .png, 1 .py)"
    assert findings["files"]["examples"] == ["bild.png", "skript.py"]
    notes_of_words = [one["message"] for one in data["diagnosis"] if one["code"] == "as-run"]
    assert notes_of_words == [
        "bm25?stemmer=de: German stop words are removed, because the stemmer is German",
        "bm25: German stop words are removed, because the documents are German",
    ]
    words = re.search(r"\|words:([^|]*)\|", data["signature"])
    assert words is not None
    assert words[1].startswith(
        "stopwords=de,stemmer=de,tokenizer=unicode;stopwords=de,stemmer=none"
    )
    more = assay(*line, "--model", "bm25", "--extension", ".py", "--json")
    assert json.loads(more.out)["collection"]["documents"] == 4
    explained = assay(
        *("explain", "out/bm25.run", "--corpus", "notes", "-r", "eval.json", "--query", "0")
    )
    assert explained.code == 5, "there is no such run yet"
    assert assay(*line, "--model", "bm25", "--runs", "out").code == 0
    shown = assay(
        *("explain", "out/bm25.run", "--corpus", "notes", "-r", "eval.json", "--query", "0"),
        *("--extension", "py"),
    )
    assert shown.code == 0, shown.err
    assert "1 file of notes left out (1 .png)" in shown.err
    assert "Die Häuser" in shown.out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--model", "bm25?stemmer=xx"), "Unknown stemmer 'xx'"),
        (("--model", "bm25", "--extension", "*"), "Cannot read extension"),
    ],
)
def test_wrong_settings_of_notes(
    home: Path, assay: Callable[..., Any], more: tuple[str, ...], words: str
) -> None:
    pytest.importorskip("Stemmer")
    done = assay(*notes(home), *more)
    assert done.code == 2
    assert words in done.err


def test_extensions_need_a_folder(home: Path, assay: Callable[..., Any]) -> None:
    done = assay(*ONE, "--extension", ".py")
    assert done.code == 2
    assert "extensions require a folder of texts, with" in done.err


def test_a_gate_does_not_pass_without_its_system(home: Path, assay: Callable[..., Any]) -> None:
    coded = f"pq={LETTERS.partition('=')[2]}?codes=pq:2"
    done = assay(*TWO, "--model", coded, "-b", "bm25", "--fail-if-worse", "-m", "RR")
    assert done.code == 3
    assert "The check could not run: pq cannot run (pq:2 needs 256" in done.err
    alone = assay(*TWO, "--model", coded, "-m", "RR", "--full")
    assert alone.code == 0
    assert "error: 1 system left out: pq (pq:2 needs 256 training vectors, found" in alone.out


def test_pairs_are_counted_before_and_after(home: Path, assay: Callable[..., Any]) -> None:
    two = ("--rerank", "two=rerank/9:bm25>py:tests.bench.samples:shared_words", "-m", "RR")
    done = assay(*ONE, *two)
    assert re.search(r"two: reranking 22\d pairs\n", done.err), done.err
    assert re.search(r"two reranks the first 9 documents of each query: 22\d pairs", done.out)
    assert "pairs" not in assay(*ONE, *two, "--quiet").err


def test_places_of_saved_runs(home: Path, assay: Callable[..., Any]) -> None:
    assert assay(*TWO, "--save", "--chunk", "tokens:4:1").code == 0
    three = assay("explain", "--saved", "--query", "q01", "--places", "3", "--json")
    systems = json.loads(three.out)["systems"]
    assert [len(system["results"]) for system in systems] == [3, 3]
    number, start, end = systems[0]["results"][0]["chunk"]
    assert number >= 1
    assert 0 <= start < end
    many = assay("explain", "--saved", "--query", "q01", "--places", "30", "--json")
    assert "--places 30: stored runs hold only the first 10 documents" in many.err
    assert [len(system["results"]) for system in json.loads(many.out)["systems"]] == [10, 10]


def test_no_value_of_a_config_is_an_internal_error(home: Path, assay: Callable[..., Any]) -> None:
    """Every key of every table with values of other types: an answer, or an error with words."""
    values = ("1", "nan", "true", '""', '"x"', "[]", "[1]", "{}", '{spec="x"}', "07:32:00", "[{}]")
    table = {"model": 'spec="bm25"', "fusion": 'of=["bm25","tfidf"]', "rerank": 'of="bm25"'}
    keys = json.loads(assay("schema", "bench").out)["properties"]
    lines = [(key, "", value) for key in keys for value in values]
    for name, needed in table.items():
        inside = keys[name]["items"]["properties"]
        lines += [(key, f"[[{name}]]\n{needed}\n", value) for key in inside for value in values]
    lines += [("settings", '[[model]]\nspec="bm25"\n', f"{{{name}=[]}}") for name in ("self", "k1")]
    codes = set()
    for key, head, value in lines:
        first = "" if key in ("corpus", "model") and not head else 'corpus="made"\n'
        text = f"{first}{head}{key}={value}\n" if head else f"{key}={value}\n{first}"
        path = config(home, text + '[[model]]\nspec="tfidf"\n')
        with suppress(AssayError):
            make_request(read_config(path))
        codes.add(key)
    assert len(codes) > 40
    assert (
        assay(
            "bench", config(home, 'corpus="made"\n[[model]]\nspec="bm25"\nsettings={spec="x"}')
        ).code
        == 2
    )
