"""Labels on disk: nothing acknowledged is lost; formats of other tools come back as they went."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from assay.errors import FormatError, MismatchError, StorageError, ValueRangeError
from assay.judging import Label, LabelLog, LabelSet, make_pool, read_labels, write_labels
from assay.judging.labels import settle
from tests.judging.samples import label_all, make_runs

WRITER = """
import sys
from assay.judging.labels import Label, LabelLog
log, who = LabelLog(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    log.append(Label(f"q{number}", "d", number % 4, by=who, note="x" * (number % 400)))
    print(number, flush=True)
"""


def write_in_process(path: Path, who: str, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, str(n)], stdout=subprocess.PIPE, text=True
    )


def test_a_killed_process_loses_no_label_that_it_acknowledged(tmp_path: Path):
    path = tmp_path / "labels.jsonl"
    told = {}
    for kill in range(2):
        process = write_in_process(path, f"p{kill}", 10_000)
        lines = [process.stdout.readline() for _ in range(15 + 11 * kill)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
        process.wait()
        process.stdout.close()
        told[f"p{kill}"] = {int(line) for line in lines if line.strip()}
    there = LabelLog(path).read().by_labeller()
    for who, numbers in told.items():
        assert {f"q{number}" for number in numbers} <= {query for query, _ in there[who]}


def test_several_writers_share_a_log(tmp_path: Path):
    path = tmp_path / "labels.jsonl"
    writers = [write_in_process(path, f"p{number}", 60) for number in range(3)]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    there = LabelLog(path).read()
    assert there.torn == 0
    assert {who: len(grades) for who, grades in there.by_labeller().items()} == {
        "p0": 60,
        "p1": 60,
        "p2": 60,
    }


def test_lines_stay_whole_where_the_system_writes_a_byte_at_a_time(tmp_path: Path, monkeypatch):
    """Each writer holds the file until its line is complete."""
    path, write = tmp_path / "labels.jsonl", os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1]))

    def append(who: str) -> None:
        for number in range(10):
            LabelLog(path).append(Label(f"q{number}", "d", 1, by=who))

    writers = [threading.Thread(target=append, args=(who,)) for who in "abc"]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    finally:
        sys.setswitchinterval(interval)
    there = LabelLog(path).read()
    assert there.torn == 0
    assert {who: len(grades) for who, grades in there.by_labeller().items()} == dict.fromkeys(
        "abc", 10
    )


def test_a_torn_line_is_counted_and_the_next_label_survives(tmp_path: Path):
    log = LabelLog(tmp_path / "labels.jsonl")
    log.append(Label("q1", "d1", 2), Label("q2", "d1", 1))
    whole = log.path.read_bytes()
    for cut in range(len(whole)):
        log.path.write_bytes(whole[:cut])
        log.append(Label("q3", "d1", 3))
        labels = log.read()
        queries = [label.query for label in labels.labels]
        complete = [
            q for q, end in (("q1", whole.index(b"\n")), ("q2", len(whole) - 1)) if cut >= end
        ]
        assert queries == [*complete, "q3"]


def test_the_last_act_counts():
    acts = [
        Label("q", "d", 1, by="ada"),
        Label("q", "d", 3, by="ada"),
        Label("q", "d", 0, by="bob"),
        Label("q", "e", 2, by="ada"),
        Label("q", "e", None, by="ada", state="undo"),
        Label("q", "f", None, by="ada", state="skip"),
        Label("q", "g", None, by="ada", state="cannot"),
    ]
    labels = settle(acts)
    assert [(a.doc, a.grade, a.by) for a in labels.labels] == [("d", 3, "ada"), ("d", 0, "bob")]
    assert labels.aside == {"undo": 1, "skip": 1, "cannot": 1}
    assert labels.remarks() == ["1 pairs were skipped", "1 pairs could not be judged"]


@pytest.mark.parametrize("format", ["log", "csv", "label-studio", "argilla"])
def test_labels_come_back_from_every_format(tmp_path: Path, format: str):
    names = {"log": "a.jsonl", "csv": "a.csv", "label-studio": "a.json", "argilla": "a.jsonl"}
    labels = LabelSet(
        tuple(
            Label(f"q{n}", f"d{n}", float(n % 4), by="ada" if n % 2 else "bob", note="=1+1")
            for n in range(8)
        )
    )
    path = tmp_path / names[format]
    write_labels(labels, path, format=format)
    for read in (read_labels(path), read_labels(path, format=format)):
        assert read.by_labeller() == labels.by_labeller()


def test_trec_qrels_hold_one_grade_a_pair(tmp_path: Path):
    path = tmp_path / "qrels.txt"
    write_labels(
        LabelSet((Label("q", "d", 2.0, "ada"), Label("q", "e", 0.0, "ada"))), path, format="trec"
    )
    assert path.read_text() == "q 0 d 2\nq 0 e 0\n"
    path.write_text("q 0 d 2\nq 0 e -1\n")
    assert [a.doc for a in read_labels(path).labels] == ["d"]
    both = LabelSet((Label("q", "d", 2, "ada"), Label("q", "d", 1, "bob")))
    with pytest.raises(MismatchError, match="has 2"):
        write_labels(both, path, format="trec")


def test_other_tools_as_they_write(tmp_path: Path):
    task = {
        "data": {"query_id": "q1", "doc_id": "d1", "text": "…"},
        "annotations": [
            {"completed_by": 7, "lead_time": 3.5, "result": [{"value": {"choices": ["2"]}}]},
            {"completed_by": 8, "was_cancelled": True, "result": []},
            {"completed_by": {"email": "c@x"}, "result": [{"value": {"rating": 1}}]},
        ],
    }
    (tmp_path / "ls.json").write_text(json.dumps([task]))
    labels = read_labels(tmp_path / "ls.json")
    assert [(a.by, a.grade, a.seconds) for a in labels.labels] == [
        ("7", 2.0, 3.5),
        ("c@x", 1.0, 0.0),
    ]
    assert labels.aside == {"skip": 1}
    record = {
        "id": "1",
        "fields": {"query": "q1", "doc": "d1"},
        "responses": {
            "rel": [{"value": 2, "user_id": "u"}, {"value": None, "status": "discarded"}]
        },
    }
    (tmp_path / "argilla.jsonl").write_text(json.dumps(record))
    assert [(a.by, a.grade) for a in read_labels(tmp_path / "argilla.jsonl").labels] == [("u", 2.0)]


def test_bad_labels_are_refused_with_their_place(tmp_path: Path):
    pool = make_pool(make_runs(2), 20)
    good = label_all(pool, pool=pool.digest)
    assert good.check(pool) is good
    first = good.labels[0]
    for wrong, message in (
        (Label(first.query, first.doc, 7), "not on the scale 0, 1, 2, 3"),
        (Label("nobody", "d", 1), "not in the pool"),
        (
            Label(first.query, first.doc, 1, pool="f" * 32),
            r"labels belong to another pool \(digest ffffffff…",
        ),
    ):
        with pytest.raises((ValueRangeError, MismatchError), match=message):
            LabelSet((wrong,)).check(pool)
    (tmp_path / "a.csv").write_text("query,doc,grade\nq,d,high\n")
    with pytest.raises(ValueRangeError, match=r"a\.csv, line 2.*not a number"):
        read_labels(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("query,doc,grade\nq,d,1\nq,d,2\n")
    with pytest.raises(
        MismatchError, match=r"line 3: query q, document d has two labels by a\.csv, 1 and 2"
    ):
        read_labels(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_text("not json\n")
    with pytest.raises(FormatError):
        LabelLog(tmp_path / "a.jsonl").read()
    with pytest.raises(StorageError, match="No label was recorded"):
        LabelLog(tmp_path / "no" / "such" / "labels.jsonl").append(first)


def test_labels_of_a_pool_serve_the_pool_that_extends_it():
    runs = make_runs(2)
    first = make_pool(runs, 10)
    labels = label_all(first, pool=first.digest)
    assert labels.check(make_pool(runs, 10, extend=first)) is labels


def test_a_full_disk_is_an_error_and_not_a_label(tmp_path: Path, monkeypatch):
    log = LabelLog(tmp_path / "labels.jsonl")
    log.append(Label("q", "d", 1))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        log.append(Label("q", "e", 1))


@pytest.mark.slow
def test_two_hundred_kills_lose_no_label(tmp_path: Path):
    """A child writes and tells the pipe what is on disk; it is killed at any moment."""
    path, told = tmp_path / "labels.jsonl", {}
    for kill in range(200):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            log = LabelLog(path)
            for number in range(10_000):
                log.append(Label(f"q{number}", "d", number % 4, by=f"p{kill}", note="x" * number))
                os.write(writer, b"%d\n" % number)
            os._exit(0)
        os.close(writer)
        lines = os.read(reader, 1 + kill % 37)  # how much is read decides when it is killed
        os.kill(child, signal.SIGKILL)
        while part := os.read(reader, 1 << 16):
            lines += part
        os.waitpid(child, 0)
        os.close(reader)
        told[f"p{kill}"] = {int(line) for line in lines.split(b"\n")[:-1]}
    there = LabelLog(path).read().by_labeller()
    assert sum(map(len, told.values())) > 200
    for who, numbers in told.items():
        written = {query for query, _ in there.get(who, {})}
        assert {f"q{number}" for number in numbers} <= written


@pytest.mark.parametrize("format", ["label-studio", "argilla"])
@pytest.mark.parametrize(
    "content",
    [
        [3],
        ["x"],
        [[]],
        [{"data": [], "fields": [], "annotations": [1]}],
        [
            {
                "data": {"query_id": "q", "doc_id": "d"},
                "annotations": 7,
                "responses": {"rel": 5},
                "fields": {"query_id": "q", "doc_id": "d"},
            }
        ],
    ],
)
def test_exports_of_another_shape_are_named(tmp_path: Path, format: str, content: list) -> None:
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"labels\.json"):
        read_labels(file, format=format)


def test_an_id_may_be_the_number_0(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    value = {"value": {"rating": 2}}
    task = {"data": {"query_id": 0, "doc_id": 0}, "annotations": [{"result": [value]}]}
    file.write_text(json.dumps([task]))
    (label,) = read_labels(file, format="label-studio").labels
    assert (label.query, label.doc, label.grade) == ("0", "0", 2.0)
