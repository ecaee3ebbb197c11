"""`assay verify`: a result is computed again from its inputs, and what differs is named."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import __version__
from assay.verify.command import leads_out, with_paths
from assay.verify.differences import compare_results, compare_signatures
from tests.golden.commands import COMMANDS, unmet
from tests.golden.inputs import make_inputs

EVAL = ("eval", "run.txt", "other.txt", "-r", "qrels.txt", "-m", "nDCG", "AP", "-q", "--json")


@pytest.fixture
def result(assay: Any, folder: Path) -> Path:
    assert assay(*EVAL, "-o", "result.json").code == 0
    return folder / "result.json"


def change(file: Path, edit: Any) -> None:
    data = json.loads(file.read_text())
    edit(data)
    file.write_text(json.dumps(data))


def test_json_says_how_it_was_made(result: Path) -> None:
    made = json.loads(result.read_text())["made_by"]
    assert made["arguments"] == list(EVAL)
    assert list(made["inputs"]) == ["run.txt", "other.txt", "qrels.txt"]
    assert all(len(one["sha256"]) == 64 for one in made["inputs"].values())


def test_a_password_is_in_no_result(assay: Any, folder: Path) -> None:
    address = "postgresql://me:secret@nowhere/db"
    done = assay("eval", "run.txt", "-r", "qrels.txt", "--by", address, "--json")
    assert "secret" not in done.out
    assert assay("eval", "run.txt", "-r", "qrels.txt", "--json", f"--store={address}").code == 2


def test_a_result_is_reproduced(assay: Any, result: Path) -> None:
    done = assay("verify", result)
    assert done.code == 0, done.err
    assert "reproduced to the last digit (" in done.out
    assert "3 inputs, 0 changed" in done.out
    data = json.loads(assay("verify", result, "--json").out)
    assert data["reproduced"]
    assert data["schema"] == "assay/verify/1"
    assert data["compared"] > 40
    assert not data["differences"]


def test_the_last_bit_of_a_value_counts(assay: Any, result: Path) -> None:
    def edit(data: Any) -> None:
        measures = data["runs"][0]["measures"]["nDCG"]
        measures["mean"] += 2**-53

    change(result, edit)
    done = assay("verify", result)
    assert done.code == 1
    assert "NOT reproduced" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("runs[0]"))
    assert row.split()[0] == "runs[0].measures.nDCG.mean"
    assert abs(float(row.split()[-1])) == 2**-53


def test_a_changed_input_is_named(assay: Any, result: Path, folder: Path) -> None:
    (folder / "qrels.txt").write_text("q1 0 b 1\nq1 0 c 2\nq2 0 a 1\n")
    done = assay("verify", result)
    assert done.code == 1
    assert "qrels.txt has changed" in done.out
    assert "runs[0].measures.AP.mean" in done.out


def test_an_input_that_no_longer_fits_is_a_difference(
    assay: Any, result: Path, folder: Path
) -> None:
    (folder / "qrels.txt").write_text("nonsense\n")
    done = assay("verify", result)
    assert done.code == 1
    assert "it cannot be computed again: " in done.out


def test_another_signature_is_named(assay: Any, result: Path) -> None:
    change(
        result,
        lambda data: data.update(signature=data["signature"].replace("gain:linear", "gain:exp")),
    )
    done = assay("verify", result)
    assert done.code == 1
    assert "gain is exp in the signature but linear" in done.out


def test_what_another_version_words_differently_is_no_difference(assay: Any, result: Path) -> None:
    change(result, lambda data: data["runs"][0].update(remarks=["worded"]))
    assert assay("verify", result).code == 1
    older = result.read_text().replace(f"version:{__version__}", "version:0.0.1")
    result.write_text(older)
    change(result, lambda data: data["made_by"].update(version="0.0.1"))
    done = assay("verify", result)
    assert done.code == 0, done
    assert "made by version 0.0.1" in done.out
    assert "sentences that differ: 2 (trust the recomputed ones)" in done.out
    assert "'worded'" in done.out  # and is shown
    change(result, lambda data: data["runs"][0].update(tag="worded"))
    assert assay("verify", result).code == 1  # a name is no sentence


def test_inputs_elsewhere(
    assay: Any, result: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = folder / "inputs"
    inputs.mkdir()
    for name in ("run.txt", "other.txt", "qrels.txt"):
        (folder / name).rename(inputs / name)
    absent = assay("verify", result)
    assert absent.code == 5
    assert "3 are missing: 'run.txt', 'other.txt', 'qrels.txt'" in absent.err
    assert assay("verify", result, "--folder", "inputs").code == 0
    (inputs / "qrels.txt").rename(folder / "judgments")  # known by its digest
    given = ["judgments", "inputs/other.txt", "inputs/run.txt"]
    assert assay("verify", result, *given).code == 0


def test_paths_outside_are_read_with_consent_only(assay: Any, folder: Path) -> None:
    (folder / "qrels.txt").rename(folder / "apart.txt")
    (folder / "in").mkdir()
    (folder / "run.txt").rename(folder / "in" / "run.txt")
    os.chdir(folder / "in")
    line = ("eval", "run.txt", "-r", folder / "apart.txt", "--json", "-o", "r.json")
    assert assay(*line).code == 0
    refused = assay("verify", "r.json")
    assert refused.code == 5
    assert "--outside" in refused.err
    assert assay("verify", "r.json", "--outside").code == 0
    assert assay("verify", "r.json", "../apart.txt").code == 0


def test_a_comparison_is_reproduced(assay: Any, folder: Path) -> None:
    line = ("compare", "run.txt", "other.txt", "-r", "qrels.txt", "--resamples", "100")
    assert assay(*line, "--json", "-o", "c.json").code == 0
    assert assay("verify", "c.json").code == 0


def test_exported_runs_are_reproduced(assay: Any, folder: Path) -> None:
    pytest.importorskip("sqlalchemy")
    assert assay(*EVAL, "--save", "--store", "s.db").code == 0
    assert assay("runs", "export", "--store", "s.db", "-o", "runs.json").code == 0
    done = assay("verify", "runs.json")
    assert done.code == 0, done.err + done.out
    (folder / "qrels.txt").write_text("q1 0 b 1\nq1 0 c 2\nq2 0 a 1\n")
    changed = assay("verify", "runs.json")
    assert changed.code == 1
    assert "run.scores.measures.AP.mean" in changed.out


def test_some_of_the_exported_runs_are_enough_if_their_inputs_are(assay: Any, folder: Path) -> None:
    pytest.importorskip("sqlalchemy")
    assert assay("eval", "run.txt", "-r", "qrels.txt", "--save", "--store", "s.db").code == 0
    assert assay(*EVAL, "--save", "--store", "s.db").code == 0
    exported = {"1": "one.json", "2": "two.json"}
    for run, file in exported.items():
        assert assay("runs", "export", run, "--store", "s.db", "-o", file).code == 0
    assert assay("verify", "one.json").code == 0
    part = assay("verify", "two.json")  # its command reads other.txt, which another run names
    assert part.code == 1
    assert "Export all runs of a command" in part.out
    assert assay("runs", "export", "--store", "s.db", "-o", "all.json").code == 0
    whole = assay("verify", "all.json")
    assert whole.code == 0, whole.out
    assert "repeated: assay eval run.txt -r qrels.txt; assay eval run.txt other.txt" in whole.out


def test_an_exported_search_is_reproduced(assay: Any, folder: Path) -> None:
    pytest.importorskip("sqlalchemy")
    np.save("docs.npy", np.eye(6, dtype=np.float32))
    np.save("queries.npy", np.eye(6, dtype=np.float32)[:3])
    Path("rows.qrels").write_text("0 0 0 1\n1 0 2 1\n2 0 2 1\n")
    line = ("rank", "queries.npy", "docs.npy", "-k", "4", "-r", "rows.qrels", "-o", "found.run")
    assert assay(*line, "--save", "--store", "s.db").code == 0
    before = Path("found.run").stat().st_mtime_ns
    assert assay("runs", "export", "--store", "s.db", "-o", "runs.json").code == 0
    assert assay("verify", "runs.json").code == 0
    assert Path("found.run").stat().st_mtime_ns == before


def write_shards(folder: Path, prefix: str = "") -> tuple[str, ...]:
    """Write queries, judgments and a manifest of two shards with ids; return a command."""
    pytest.importorskip("sqlalchemy")
    vectors = np.eye(6, dtype=np.float32)
    np.save(folder / "queries.npy", vectors[:3])
    (folder / "rows.qrels").write_text("0 0 d0 1\n1 0 d2 1\n2 0 d2 1\n")
    (folder / "parts").mkdir()
    entries = []
    for part in range(2):
        np.save(folder / f"parts/s-{part}.npy", vectors[3 * part : 3 * part + 3])
        ids = "".join(f"d{row}\n" for row in range(3 * part, 3 * part + 3))
        (folder / f"parts/s-{part}.ids").write_text(ids)
        path = f"{prefix}parts/s-{part}"
        entries.append({"path": f"{path}.npy", "ids": f"{path}.ids"})
    (folder / "shards.json").write_text(json.dumps({"shards": entries}))
    return ("rank", "queries.npy", "shards.json", "-k", "4", "-r", "rows.qrels")


def export_rank(assay: Any, *line: Any) -> dict[str, Any]:
    done = assay(*line, "--save", "--store", "s.db")
    assert done.code == 0, done
    assert assay("runs", "export", "--store", "s.db", "-o", "runs.json").code == 0
    data: dict[str, Any] = json.loads(Path("runs.json").read_text())["runs"][0]["data"]
    return data


def test_a_search_in_shards_is_known_by_all_its_files(assay: Any, folder: Path) -> None:
    data = export_rank(assay, *write_shards(folder))
    shards = {f"parts/s-{part}.{end}" for part in range(2) for end in ("npy", "ids")}
    assert set(data) == {"queries.npy", "shards.json", "rows.qrels", *shards}
    assert assay("verify", "runs.json").code == 0
    np.save("parts/s-1.npy", np.eye(6, dtype=np.float32)[:3])
    done = assay("verify", "runs.json")
    assert done.code == 1
    assert "parts/s-1.npy has changed" in done.out


def test_a_search_in_a_pattern_with_ids_is_reproduced(assay: Any, folder: Path) -> None:
    write_shards(folder)
    (folder / "asked.ids").write_text("0\n1\n2\n")
    (folder / "rows.qrels").write_text("0 0 0 1\n1 0 2 1\n2 0 2 1\n")
    line = ("rank", "queries.npy", "parts/s-*.npy", "--query-ids", "asked.ids", "-k", "4")
    data = export_rank(assay, *line, "-r", "rows.qrels")
    assert {"asked.ids", "parts/s-0.npy", "parts/s-1.npy"} < set(data)
    done = assay("verify", "runs.json")
    assert done.code == 0, done
    (folder / "asked.ids").write_text("0\n2\n1\n")
    assert "asked.ids has changed" in assay("verify", "runs.json").out


def test_a_manifest_elsewhere_keeps_its_shards_beside_it(
    assay: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, queries, docs, *rest = write_shards(folder)
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    for start in (f"{folder}/", "../"):
        line = ("rank", f"{start}{queries}", f"{start}{docs}", *rest[:-1], f"{start}{rest[-1]}")
        export_rank(assay, *line)
        assert assay("verify", "runs.json").code == 5
        done = assay("verify", "runs.json", "--outside")
        assert done.code == 0, done
        Path("s.db").unlink()


@pytest.mark.parametrize("prefix", ["{}/", "parts/../../{}/", "~/"])
def test_a_strangers_manifest_opens_no_other_files(
    assay: Any, folder: Path, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = write_shards(folder)
    export_rank(assay, *line)
    name = folder if prefix.startswith("{}") else folder.name
    entry = {"path": f"{prefix.format(name)}parts/s-0.npy"}
    (folder / "shards.json").write_text(json.dumps({"shards": [entry]}))

    def refuse(*_: object) -> None:
        raise AssertionError("a shard was opened")

    monkeypatch.setattr("assay.cluster.shards.open_shard", refuse)
    done = assay("verify", "runs.json")
    assert done.code == 2, done
    assert "not one of its inputs" in done.err
    assert "--outside" in done.err


def test_a_manifest_of_absolute_paths_is_read_with_consent(assay: Any, folder: Path) -> None:
    export_rank(assay, *write_shards(folder, f"{folder}/"))
    files = [f"parts/s-{part}.{end}" for part in range(2) for end in ("npy", "ids")]
    done = assay("verify", "runs.json", *files)
    assert done.code == 2
    assert "not one of its inputs" in done.err
    assert assay("verify", "runs.json", "--outside").code == 0


@pytest.fixture
def exported(assay: Any, folder: Path) -> Path:
    pytest.importorskip("sqlalchemy")
    line = ("eval", "run.txt", "-r", "qrels.txt", "-m", "AP", "--save", "--store", "s.db")
    assert assay(*line).code == 0
    assert assay("runs", "export", "--store", "s.db", "-o", "runs.json").code == 0
    change(folder / "runs.json", lambda data: data["runs"][0].pop("digest"))
    return folder / "runs.json"


def test_of_two_runs_with_one_name_both_count(assay: Any, exported: Path) -> None:
    def forge(data: Any) -> None:
        true = json.loads(json.dumps(data["runs"][0]))
        data["runs"].append({**true, "uid": "0" * 32})
        forged = data["runs"][0]
        forged["scores"]["values"][0] = [1.0] * len(forged["scores"]["queries"])
        for name in ("value", "value_skip", "value_zero", "high"):
            forged["aggregates"][0][name] = 1.0

    assert assay("verify", exported).code == 0
    change(exported, forge)
    done = assay("verify", exported)
    assert done.code == 1, done.err
    assert "NOT reproduced" in done.out


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("details", {"curve": [0.5, 1.0]}),
        ("wide", {"AUC": 0.75}),
        ("shown", [["q1", {"text": "t", "results": [["a", 9.0, 1.0, ""]], "missed": []}]]),
    ],
)
def test_everything_that_an_export_shows_counts(
    assay: Any, exported: Path, key: str, value: Any
) -> None:
    change(exported, lambda data: data["runs"][0].update({key: value}))
    done = assay("verify", exported)
    assert done.code == 1, done
    assert f"run.{key}." in done.out


@pytest.mark.parametrize("version", [__version__, "0.0.1"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "prediction"),
        ("model", "winner"),
        ("seeds", {"seed": 1}),
        ("config", {"runs": ["other.txt"]}),
    ],
)
def test_what_an_exported_run_says_of_itself_counts(
    assay: Any, exported: Path, key: str, value: Any, version: str
) -> None:
    def forge(data: Any) -> None:
        run = data["runs"][0]
        run["versions"]["assay"] = version
        run["signature"] = run["signature"].replace(__version__, version)

    change(exported, forge)
    assert assay("verify", exported).code == 0
    change(exported, lambda data: data["runs"][0].update({key: value}))
    done = assay("verify", exported)
    assert done.code == 1, done
    assert f".{key}" in done.out


def test_another_signature_of_an_exported_run_is_named(assay: Any, exported: Path) -> None:
    def forge(data: Any) -> None:
        data["runs"][0]["versions"]["assay"] = "0.0.1"
        for name in ("signature", "conventions"):
            data["runs"][0][name] = data["runs"][0][name].replace("gain:linear", "gain:exp")

    change(exported, forge)
    done = assay("verify", exported)
    assert done.code == 1, done
    assert "gain is exp in the signature" in done.out


@pytest.mark.parametrize("command", [["check", "run.txt", "-r", "qrels.txt"], ["tasks", "run.txt"]])
def test_runs_of_commands_that_save_none_are_refused(
    assay: Any, exported: Path, command: list[str]
) -> None:
    change(exported, lambda data: data["runs"][0].update(command=command))
    done = assay("verify", exported)
    assert done.code == 2
    assert "saves no runs" in done.err


# Strangers


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve"], 2, "Cannot repeat 'serve'"),
        (["runs", "delete", "1"], 2, "has no --save"),
        (["eval", "--help"], 2, "only prints its help"),
        (["eval", "run.txt", "-r", "/etc/hostname"], 2, "not one of its inputs"),
        (["eval", "run.txt", "-r../secret.txt"], 2, "not one of its inputs"),
        (["eval", "run.txt", "-r", "~/secret.txt"], 2, "not one of its inputs"),
        (["bench", "--corpus", "c", "--model", "py:os:system"], 2, "--allow-code"),
        (["bench", "--corpus", "c", "--model", "openai:x", "--base-url", "http://h/v1"], 2, "to h"),
        (["crossmodal", "--modality", "a=../x.npy"], 2, "not one of its inputs"),
        (
            ["compare", "a", "b", "-r", "c", "--resamples", "9" * 15],
            2,
            "result.json asks for 999,999,999,999,999 resamples",
        ),
        (["eval", "run.txt", "-r", "qrels.txt", "--store", "mine.db"], 2, "names a store"),
    ],
)
def test_a_strangers_command_is_refused(
    assay: Any, result: Path, arguments: list[str], code: int, words: str
) -> None:
    change(result, lambda data: data["made_by"].update(arguments=arguments))
    done = assay("verify", result)
    assert done.code == code
    assert words in done.err


@pytest.mark.parametrize("qrels", [["-r", "-"], ["--qrels=-"], ["-r-"]])
def test_a_stranger_does_not_take_standard_input(
    assay: Any, result: Path, monkeypatch: pytest.MonkeyPatch, qrels: list[str]
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"mine"))
    monkeypatch.setattr("sys.stdin", typed)
    change(result, lambda data: data["made_by"].update(arguments=["eval", "run.txt", *qrels]))
    done = assay("verify", result)
    assert done.code == 2
    assert "standard input" in done.err
    assert typed.read() == "mine"


@pytest.fixture
def bench(assay: Any, folder: Path) -> Path:
    texts = {"corpus": {"a": "cat", "b": "bird"}, "queries": {"q1": "cat", "q2": "bird"}}
    for name, rows in texts.items():
        lines = [json.dumps({"_id": key, "text": text}) for key, text in rows.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "judged.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    return write_bench(folder, "corpus.jsonl")


def write_bench(folder: Path, corpus: object) -> Path:
    lines = (f'corpus = "{corpus}"', 'queries = "queries.jsonl"', 'qrels = "judged.txt"')
    (folder / "bench.toml").write_text("\n".join((*lines, "[[model]]", 'spec = "bm25"')))
    return folder / "bench.toml"


def test_a_bench_in_any_folder_is_reproduced(assay: Any, bench: Path, tmp_path: Path) -> None:
    assert assay("bench", "bench.toml", "-o", "result.json").code == 0
    elsewhere = shutil.copytree(bench.parent, tmp_path / "another name")
    done = assay("verify", "result.json", "--folder", elsewhere)
    assert done.code == 0, done


@pytest.mark.parametrize("name", ["../up", "/abs", "", "a/b", "a\0b", 7, None, ".", "x" * 999])
def test_a_stranger_does_not_name_the_folder(assay: Any, bench: Path, name: Any) -> None:
    assert assay("bench", "bench.toml", "-o", "result.json").code == 0
    result = bench.with_name("result.json")
    change(result, lambda data: data["collection"].update(name=name))
    done = assay("verify", result)
    assert done.code == 1
    assert "collection.name" in done.out


@pytest.mark.parametrize("corpus", ["{}/corpus.jsonl", "x://../../{}/corpus.jsonl", "~/{}"])
def test_a_strangers_config_reads_inputs_alone(assay: Any, bench: Path, corpus: str) -> None:
    assert assay("bench", "bench.toml", "-o", "result.json").code == 0
    write_bench(bench.parent, corpus.format(bench.parent))
    done = assay("verify", "result.json")
    assert done.code == 2
    assert "not one of its inputs" in done.err


def test_two_inputs_have_two_places(assay: Any, folder: Path, tmp_path: Path) -> None:
    assert assay("eval", folder / "run.txt", "-r", "qrels.txt", "-o", "result.json").code == 0
    kept = Path("outside", "root", *(folder / "run.txt").parts[1:])
    kept.parent.mkdir(parents=True)
    kept.write_text("other")
    mark = {"bytes": 5, "sha256": "0"}
    change(folder / "result.json", lambda data: data["made_by"]["inputs"].update({str(kept): mark}))
    done = assay("verify", "result.json", "--outside")
    assert done.code == 5
    assert "Two inputs have the same place 'outside" in done.err


@pytest.mark.parametrize("option", [["-o", "run.txt"], ["--output=run.txt"]])
def test_a_strangers_command_writes_nothing(
    assay: Any, result: Path, folder: Path, option: list[str]
) -> None:
    before = {one.name: one.read_bytes() for one in folder.iterdir()}
    change(result, lambda data: data["made_by"]["arguments"].extend(option))
    before["result.json"] = result.read_bytes()
    assert assay("verify", result).code == 0
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


def test_no_input_is_written_through(
    assay: Any, result: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.verify.command.LARGEST_COPY", 0)  # large files are links
    (folder / "verified.json").write_text("mine")
    stranger = {"bytes": 4, "sha256": "0"}
    change(result, lambda data: data["made_by"]["inputs"].update({"verified.json": stranger}))
    assert assay("verify", result).code == 1  # its digest is another
    assert (folder / "verified.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("{", "not JSON"),
        ("[1]", "x.json is not a result. Pass what a command wrote"),
        ("{}", "x.json: no record of its command"),
        (
            '{"command": "eval", "made_by": {}, "schema_version": 2}',
            "x.json: layout version 2, not 1",
        ),
        (
            '{"command": "eval", "made_by": [], "schema_version": 2}',
            "x.json: layout version 2, not 1",
        ),
        ('{"command": "eval", "made_by": {}, "schema_version": 1}', "'version' is missing"),
        ('{"command": "eval", "made_by": [], "schema_version": 1}', "expected a table"),
        ('{"a": 1e999}', "exceeds the range of a float"),
        ('{"a": ' + "1" * 5000 + "}", "limit"),
        ('{"a": NaN}', "NaN is not valid JSON"),
        ('{"a": 1, "a": 2}', "appears twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"layout": "other", "runs": []}', ""),
    ],
)
def test_what_is_no_result_is_refused(assay: Any, folder: Path, text: str, words: str) -> None:
    (folder / "x.json").write_text(text)
    done = assay("verify", "x.json")
    assert done.code == 3, done
    assert words in done.err


@pytest.mark.parametrize(
    "inputs",
    [
        {"run.txt": 1},
        {"run.txt": {"bytes": "x", "sha256": "y"}},
        {"run.txt": {"bytes": 10**400, "sha256": "y"}},
        {"": {"bytes": 1, "sha256": "y"}},
        {"a\0b": {"bytes": 1, "sha256": "y"}},
        {"run.txt/below": {"bytes": 1, "sha256": "y"}, "run.txt": {"bytes": 1, "sha256": "y"}},
        {"/dev/zero": {"bytes": 1, "sha256": "y"}},
    ],
)
def test_odd_inputs_end_in_words(assay: Any, result: Path, inputs: Any) -> None:
    change(result, lambda data: data["made_by"].update(inputs=inputs))
    done = assay("verify", result, "--outside")
    assert done.code in (1, 3, 5)
    assert "internal error" not in done.err


@pytest.mark.parametrize("value", [10**300, 10**400, "0.5", None, True, [], {"a": 1}, -0.0])
def test_odd_values_differ(assay: Any, result: Path, value: Any) -> None:
    change(result, lambda data: data["runs"][0]["measures"]["AP"].update(mean=value))
    done = assay("verify", result)
    assert done.code == 1, done.err
    assert "runs[0].measures.AP.mean" in done.out


def test_deep_values_are_refused(assay: Any, result: Path) -> None:
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    change(result, lambda data: data.update(deep=deep))
    done = assay("verify", result)
    assert done.code == 3
    assert "nested too deeply" in done.err


# Parts


@pytest.mark.parametrize("key", ["host", "folder", "commit", "worker", "seconds", "x_seconds"])
def test_a_query_counts_whatever_it_is_called(key: str) -> None:
    stored, found = ({"runs": [{"per_query": {key: {"AP": x}}}]} for x in (0.9, 0.5))
    assert len(compare_results(stored, found, "a.json")[1]) == 1


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ({"runs": [{"AP": 0.9}], "runs[0].AP": 0.5}, {"runs": [{"AP": 0.5}]}),
        ({"a": {"b": 0.9}, "a.b": 0.5}, {"a": {"b": 0.5}}),
        ({"a": 1, "b": "absent"}, {"a": 1}),
        ({"a": "empty"}, {"a": {}}),
        ({"a": []}, {"a": {}}),
    ],
)
def test_no_value_hides_behind_another(stored: Any, found: Any) -> None:
    assert compare_results(stored, found, "a.json")[1]


def test_zeros_have_signs_and_truth_is_no_number() -> None:
    stored, found = {"a": 0.0, "b": True, "c": 1, "d": 0}, {"a": -0.0, "b": 1, "c": 1.0, "d": 0.0}
    names = [one.value for one in compare_results(stored, found, "x")[1]]
    assert names == ["a", "b"]


def test_values_that_only_one_has_differ() -> None:
    _, found = compare_results(
        {"a": 1, "costs": {"n": 1, "build_seconds": 3}},
        {"b": [], "costs": {"n": 1, "build_seconds": 4}},
        "x",
    )
    assert [(one.value, one.stored, one.recomputed) for one in found] == [
        ("a", 1, "absent"),
        ("b", "absent", "empty list"),
    ]


def test_a_signature_that_cannot_be_read_is_named() -> None:
    lines = compare_signatures("ties:never|version:1", "ties:order|version:2")
    assert lines[0] == "ties is never in the signature but order"
    assert "cannot be read" in lines[1]
    assert not compare_signatures("ties:order|version:1", "ties:order|version:2")


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("a/b.run", False),
        ("nDCG@10", False),
        ("combsum/zscore:0.3*a", False),
        ("/a", True),
        ("x=/a", True),
        ("onnx:~/m", True),
        ("C:\\a", True),
        ("a/../b", True),
        ("x=../b", True),
        ("a..b", False),
    ],
)
def test_paths_that_lead_out(text: str, out: bool) -> None:
    assert leads_out(text) is out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a/x", "in0/x"),
        ("-r/a/x", "-rin0/x"),
        ("name=/a/x", "name=in0/x"),
        ("/a/x.npz:queries", "in1/x.npz:queries"),
        ("/a/x, line 3: '/a/x.npz'.", "in0/x, line 3: 'in1/x.npz'."),
        ("found in /a/x.", "found in in0/x."),
        ("/a/x.old", "/a/x.old"),
        ("/a/x2", "/a/x2"),
        ("/a/x/y", "/a/x/y"),
        ("/a/x-y", "/a/x-y"),
        ("/b/a/x", "/b/a/x"),
        ("../a/x", "in2/x"),
        ("../../a/x", "../../a/x"),
    ],
)
def test_a_path_inside_a_longer_one_is_not_replaced(text: str, expected: str) -> None:
    renamed = {"/a/x": "in0/x", "/a/x.npz": "in1/x.npz", "../a/x": "in2/x"}
    assert with_paths({text: [text]}, renamed) == {expected: [expected]}


# Commands: one of each kind

KINDS = (
    "eval/chance by kind",
    "compare/gate closed",
    "compare/tukey and bootstrap",
    "tasks/queries",
    "check/coarse",
    "explain/AP",
    "predict/lists by user",
    "predict/results",
    "codes/ties expected",
    "crossmodal/protocol, folds",
    "crossmodal/zero-shot, levels",
    "bench/notes",
    "bench/lexical",
    "descriptors patches/tasks",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verified")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("name", [name for name in KINDS if name in COMMANDS])
def test_what_commands_print_is_reproduced(
    assay: Any, inputs: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if missing := unmet(COMMANDS[name]):
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(inputs)
    first = assay(*COMMANDS[name].arguments)
    assert json.loads(first.out)["made_by"]["inputs"]
    Path("result.json").write_text(first.out)
    done = assay("verify", "result.json", "--json")
    found = json.loads(done.out)
    assert found["reproduced"], (found["findings"], found["differences"])
    assert found["compared"] > 5


@pytest.mark.parametrize("name", ["bench/lexical", "predict/lists by user", "codes/ties expected"])
def test_what_commands_save_is_reproduced(
    assay: Any, inputs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    if missing := unmet(COMMANDS[name]):
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.chdir(inputs)
    place = ("--store", str(tmp_path / "s.db"))
    assert assay(*COMMANDS[name].arguments, "--save", *place).code == 0
    assert assay("runs", "export", *place, "-o", str(tmp_path / "runs.json")).code == 0
    done = assay("verify", str(tmp_path / "runs.json"))
    assert done.code == 0, done.out
