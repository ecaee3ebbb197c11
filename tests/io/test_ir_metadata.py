"""ir_metadata headers of TREC runs: written, read, carried along, and skipped by every reader."""

from __future__ import annotations

import io

import numpy as np
import pytest
import pytrec_eval
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assay import Ranking, evaluate, read_run, write_run
from assay.errors import FormatError, StorageError, UsageError
from assay.io.plain_data import to_yaml
from assay.io.writers import describe_run, read_header, read_ir_metadata

METADATA = {
    "schema-version": 0.1,
    "tag": "bm25+rm3",
    "research goal": {"venue": {"name": "ECIR", "year": 2019}},
    "method": {"automatic": True, "retrieval": [{"name": "bm25", "b": 0.4}, {"name": "rm3"}]},
    "actor": {"name": "A: B # C", "fields": ["ir", "nlp"], "orcid": "0000-0002"},
}
# As the website and repro_eval write it: other indents, a space at the end of lines, dates.
OTHERS = """\
# ir_metadata.start
# schema-version: 0.1 
# tag: x 
# data:
#     test collection:
#         name: The New York Times 
#         since: 2008-10-17
# ir_metadata.end
q1 Q0 a 1 2.5 x
q1 Q0 b 2 1.5 x
"""  # noqa: W291


@pytest.fixture
def ranking():
    return Ranking.from_scores(np.array([[2.0, 1.0]]), query_ids=["q1"], doc_ids=["a", "b"])


def test_what_is_written_is_read(ranking, tmp_path):
    for name in ("run.txt", "run.run.gz"):
        write_run(ranking, tmp_path / name, metadata=METADATA)
        assert read_ir_metadata(tmp_path / name) == METADATA


def test_the_run_below_is_the_same(ranking, tmp_path):
    write_run(ranking, tmp_path / "with.txt", metadata=METADATA)
    write_run(ranking, tmp_path / "without.txt")
    whole = (tmp_path / "with.txt").read_text("utf-8")
    assert whole == read_header(tmp_path / "with.txt") + (tmp_path / "without.txt").read_text()
    assert whole.splitlines()[0] == "# ir_metadata.start"
    scores = [evaluate(tmp_path / name, {"q1": {"a": 1}}, "RR") for name in ("with.txt",)]
    assert scores[0].mean()["RR"] == 1.0


def test_the_header_is_read_as_repro_eval_reads_it(ranking, tmp_path):
    write_run(ranking, tmp_path / "run.txt", metadata=METADATA)
    lines = (tmp_path / "run.txt").read_text("utf-8").splitlines(keepends=True)
    assert lines[0] == "# ir_metadata.start\n"
    end = lines.index("# ir_metadata.end\n")
    assert yaml.safe_load("".join(line.strip("#") for line in lines[1:end])) == METADATA
    run = pytrec_eval.parse_run(io.StringIO("".join(line for line in lines if line[0] != "#")))
    assert run == {"q1": {"a": 2.0, "b": 1.0}}


def test_headers_of_others_are_read_and_their_dates_are_texts(tmp_path):
    (tmp_path / "run.txt").write_text(OTHERS, "utf-8")
    found = read_ir_metadata(tmp_path / "run.txt")
    assert found["data"]["test collection"]["since"] == "2008-10-17"
    assert read_run(tmp_path / "run.txt").row("q1") == [("a", 2.5), ("b", 1.5)]


def test_a_run_without_a_header_has_no_metadata(ranking, tmp_path):
    write_run(ranking, tmp_path / "run.txt")
    assert read_ir_metadata(tmp_path / "run.txt") is None
    (tmp_path / "noted.txt").write_text("# a comment\nq1 Q0 a 1 2.5 x\n# ir_metadata.start\n")
    assert read_ir_metadata(tmp_path / "noted.txt") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# ir_metadata.start\n# tag: x\nq1 Q0 a 1 2.5 x\n", "without '# ir_metadata.end'"),
        ("# ir_metadata.start\n# [1, 2]\n# ir_metadata.end\n", "a table of entries"),
        ("# ir_metadata.start\n# a: b: c\n# ir_metadata.end\n", "is not YAML"),
        ("# ir_metadata.start\n# a: 1\n# a: 2\n# ir_metadata.end\n", "appears twice"),
    ],
)
def test_a_broken_header_is_refused(tmp_path, text, message):
    (tmp_path / "run.txt").write_text(text, "utf-8")
    with pytest.raises(FormatError, match=message):
        read_ir_metadata(tmp_path / "run.txt")


def test_other_formats_have_no_place_for_it(ranking, tmp_path):
    with pytest.raises(UsageError, match="json has none"):
        write_run(ranking, tmp_path / "run.json", metadata=METADATA)
    assert not (tmp_path / "run.json").exists()


def test_a_header_is_of_comments(ranking, tmp_path):
    with pytest.raises(UsageError, match="begin with #"):
        write_run(ranking, tmp_path / "run.txt", metadata="tag: x\n")


def test_entries_of_a_file_go_before_what_is_found(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("tag: other\nplatform:\n  hardware:\n    ram: 64 GB\nactor:\n  team: us\n")
    found = describe_run("bm25", command="assay rank", file=str(file))
    assert found["tag"] == "other"
    assert found["platform"]["hardware"]["ram"] == "64 GB"
    assert found["platform"]["hardware"]["cpu"]["number of cores"] >= 1
    assert found["implementation"]["executable"] == {"cmd": "assay rank"}
    file.write_text("- a\n")
    with pytest.raises(UsageError, match="actor and research goal"):
        describe_run("bm25", file=str(file))
    with pytest.raises(StorageError, match="does not exist"):
        describe_run("bm25", file=str(tmp_path / "none.yaml"))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(["", "no", "Null", "1e3", "2020-01-01", "a: b", "- x", "#", "é\u2028", "~"])
)


@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    )
)
def test_yaml_reads_back(data):
    assert yaml.safe_load(to_yaml(data)) == data


def test_yaml_refuses_what_it_cannot_hold():
    with pytest.raises(UsageError, match="not <object"):
        to_yaml({"a": object()})


def test_commands_write_and_keep_the_header(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.eye(3, dtype=np.float32))
    np.save("d.npy", np.eye(3, dtype=np.float32))
    assert (
        assay("rank", "q.npy", "d.npy", "-k", "2", "-o", "a.run", "--ir-metadata", "auto")[0] == 0
    )
    found = read_ir_metadata("a.run")
    assert found["implementation"]["executable"]["cmd"].startswith("assay rank q.npy d.npy")
    assert found["method"]["retrieval"][0] | {"zero": ""} == {
        "name": "exact search",
        "metric": "cosine",
        "k": 2,
        "zero": "",
    }
    assert assay("convert", "a.run", "b.run.gz").code == 0
    assert read_header("b.run.gz") == read_header("a.run")
    done = assay("convert", "a.run", "b.json")
    assert "ir_metadata left out" in done.err
    assert assay("fuse", "a.run", "b.run.gz", "-o", "c.run", "--ir-metadata", "auto").code == 0
    assert read_ir_metadata("c.run")["method"]["retrieval"][0]["interpolates"] == ["assay"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "a.json", "--ir-metadata", "auto"), "is unknown"),
        (("-o", "a.run", "--ir-metadata", "none.yaml"), "does not exist"),
        (("-r", "a.qrels", "--ir-metadata", "auto"), "requires -o"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_search(
    assay, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.eye(3, dtype=np.float32))
    done = assay("rank", "q.npy", "absent.npy", *arguments)
    assert done.code != 0
    assert message in done.err
