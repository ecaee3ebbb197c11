"""Run files as records: scored as `assay.evaluate` does, with chance, groups and checksums."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from assay import evaluate
from assay.errors import AssayError
from assay.io.streams import unique_names
from assay.runs.run_files import group_records, score_run_files

QRELS = "q1 0 a 1\nq1 0 b 1\nq2 0 a 1\n"
RUNS = {
    "one.run": "q1 Q0 a 1 3 tag\nq1 Q0 c 2 2 tag\nq1 Q0 b 3 1 tag\n"
    "q2 Q0 b 1 2 tag\nq2 Q0 a 2 1 tag\n",
    "two.txt": "q1 Q0 c 1 3 x\nq2 Q0 a 1 2 x\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {**RUNS, "qrels.txt": QRELS}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "groups.tsv").write_text("query\tkind\nq1\tlong\nq2\tshort\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_values_are_those_of_evaluate() -> None:
    records = score_run_files(list(RUNS), "qrels.txt", ["AP", "RR"])
    assert [one.name for one in records] == ["one", "two"]
    for record, path in zip(records, RUNS, strict=True):
        expected = evaluate(path, "qrels.txt", ["AP", "RR"])
        assert record.scored().values.tobytes() == expected.values.tobytes()
        assert record.scored().signature == expected.signature
        assert (record.task, record.files) == ("retrieval", (path, "qrels.txt"))
        assert (record.chance, record.ceiling, record.hits) == (None, None, None)
    assert records[0].provenance == {"file": "one.run", "tag": "tag"}


@pytest.mark.usefixtures("folder")
def test_chance_hits_and_checksums_come_on_demand() -> None:
    (record,) = score_run_files(
        ["one.run"], "qrels.txt", ["RR"], n_docs=10, keep_hits=True, checksums=True, names=["x"]
    )
    of_one = sum(1 / rank for rank in range(1, 11)) / 10  # one relevant document among ten
    of_two = sum((10 - rank) / rank for rank in range(1, 10)) / 45  # the first of two
    assert (record.chance_means() or {})["RR"] == pytest.approx((of_one + of_two) / 2)
    assert (record.ceiling_means() or {})["RR"] == 1.0
    assert record.name == "x"
    assert record.hits is not None
    digits = hashlib.sha256(Path("one.run").read_bytes()).hexdigest()[:16]
    assert record.provenance["SHA-256, first 16 digits"] == digits
    assert record.provenance["judgments"].startswith("qrels.txt ")


@pytest.mark.usefixtures("folder")
def test_groups_are_read_once_for_all_records() -> None:
    records, column = group_records(score_run_files(list(RUNS), "qrels.txt", "RR"), "groups.tsv")
    assert column == "kind"
    assert [one.scored().groups["kind"].tolist() for one in records] == [["long", "short"]] * 2


@pytest.mark.usefixtures("folder")
def test_conventions_are_those_of_a_preset_or_a_signature() -> None:
    (record,) = score_run_files(["one.run"], "qrels.txt", "RR", conventions="beir")
    assert record.scored().signature.startswith("preset:beir|")
    with pytest.raises(AssayError, match="nowhere"):
        score_run_files(["one.run"], "qrels.txt", "RR", conventions="nowhere")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/run.txt"], ["run"]),
        (["a/run.txt", "b/run.txt"], ["a/run", "b/run"]),
        (["run.txt", "run.csv"], ["run.txt (1)", "run.csv (2)"]),
        (["x/a.run.gz", "x/b.v2.run"], ["a", "b.v2"]),
        ([".txt"], [".txt"]),
    ],
)
def test_names_are_as_short_as_can_be(paths: list[str], names: list[str]) -> None:
    assert unique_names(paths) == names
