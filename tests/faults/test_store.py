"""Faults 46 to 54: what must happen to a store when things go wrong."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

import assay.store
from assay import AssayError, Scores
from assay.errors import StorageError
from assay.store.schema import REVISIONS, newest_version
from tests.examples import some_of
from tests.store.next_schema import NEXT, OLD, add_mood, make_old_store
from tests.store.places import HOSTILE, make_scores, place, same_scores, without_guards
from tests.waiting import PATIENCE

__all__ = ["place"]

ROOT = Path(__file__).resolve().parents[2]
RUN = "q1 Q0 a 1 3 tag\nq1 Q0 b 2 2 tag\nq2 Q0 b 1 2 tag\nq2 Q0 a 2 1 tag\n"
QRELS = "q1 0 a 1\nq2 0 a 1\n"


def drive(*arguments: object) -> str:
    """Call the crash driver; it fails by its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.crash_driver", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "rounds", [12, pytest.param(200, marks=pytest.mark.slow)], ids=["12", "200"]
)
def test_kill_9_while_runs_are_stored(place, tmp_path, rounds):
    reported = int(drive("kill", place, tmp_path / "log", rounds, 46))
    assert reported > rounds / 2  # the kills did hit writers at work
    with assay.store.open(place) as store:
        assert {run.status for run in store.runs()} <= {"finished", "running"}
        assert any(run.status == "running" for run in store.runs())
        store.save(make_scores(1), "afterwards")


def test_kill_during_an_upgrade(tmp_path, monkeypatch):
    files = {moment: tmp_path / f"{moment}.db" for moment in ("backup", "tables", "commit")}
    for file in files.values():
        make_old_store(file)
    _kill_at_moments(files)
    for place_of_kill, file in files.items():
        with closing(sqlite3.connect(file)) as connection:
            (version,) = connection.execute("SELECT version_num FROM assay_schema").fetchone()
            assert version == OLD
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            columns = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
            assert "mood" not in columns
        with monkeypatch.context() as patched:
            patched.setitem(REVISIONS, NEXT, add_mood)
            store = assay.store.open(file)
        with store:
            assert [run.name for run in store.runs()] == ["old 2", "old 1"]
            assert store.damages() == []
        for backup in tmp_path.glob(f"{place_of_kill}.db.*backup-?"):
            with closing(sqlite3.connect(backup)) as connection:
                assert connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)


def _kill_at_moments(files: dict[str, Path]) -> None:
    """Upgrade each file in a process of its own and kill that at its moment."""
    code = f"""
import os, signal, sqlite3, assay.store, assay.store.database as opening
from alembic.operations import Operations
from tests.store import next_schema
next_schema.add_revision()
def after(function):
    def call(*given):
        found = function(*given); wait(); return found
    return call
for moment, file in { ({moment: str(file) for moment, file in files.items()})!r}.items():
    reached, reach = os.pipe()
    child = os.fork()
    if child == 0:
        def wait(*_, **__):
            os.write(reach, b"here"); signal.pause()
        if moment == "backup":
            opening.os.replace = wait
        elif moment == "tables":
            Operations.execute = wait
        else:
            opening.upgrade = after(opening.upgrade)
        assay.store.open(file)
        os._exit(1)
    os.close(reach)
    print(moment, os.read(reached, 9))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{moment} b'here'\n" for moment in files)


@pytest.mark.slow  # by default four writers save fewer runs each, beside the same reader
def test_two_writers_at_once_and_a_reader(place, tmp_path):
    assert drive("together", place, tmp_path / "log", 2, 10) == "20"


@pytest.mark.parametrize("writers", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_many_writers_lose_nothing(place, tmp_path, writers):
    assert drive("together", place, tmp_path / "log", writers, 3) == str(3 * writers)
    with assay.store.open(place) as store:
        assert all(len(store.runs(tag=f"writer {n * 1000}")) == 3 for n in range(writers))
        assert len({run.uid for run in store.runs()}) == 3 * writers


def test_a_reader_does_not_wait_for_a_writer(place):
    with assay.store.open(place) as store, assay.store.open(place) as other:
        store.save(make_scores(1), "a")
        with store.database.writing() as connection:
            connection.execute(text("UPDATE runs SET notes = 'not yet'"))
            assert other.run(1).notes == ""
        assert other.run(1).notes == "not yet"


def make_newer(place: str) -> None:
    with assay.store.open(place) as store:
        store.save(make_scores(1), "a", tags=["t"])
        with store.database.writing() as connection:
            connection.execute(text("UPDATE assay_schema SET version_num = '9999'"))
            connection.execute(text("ALTER TABLE runs ADD COLUMN mood TEXT DEFAULT 'fine'"))


def test_newer_store(place):
    make_newer(place)
    with assay.store.open(place) as store:
        assert "newer version of Assay (schema 9999" in store.read_only_reason
        assert "Upgrade Assay" in store.read_only_reason
        assert same_scores(store.run(1).scores(), make_scores(1))
        assert store.runs(tag="t")[0].name == "a"
        for change in (lambda: store.save(make_scores(2), "b"), lambda: store.delete(1)):
            with pytest.raises(StorageError, match="read-only"):
                change()
        assert len(store) == 1


def test_newer_store_on_the_command_line(tmp_path, monkeypatch, assay):
    monkeypatch.chdir(tmp_path)
    make_newer("assay.db")
    (tmp_path / "run.txt").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    before = (tmp_path / "assay.db").read_bytes()
    listed = assay("runs", "list")
    assert listed.code == 0
    assert "newer version of Assay" in listed.err
    assert "a" in listed.out
    for command in (["eval", "run.txt", "-r", "qrels.txt", "--save"], ["runs", "tag", "1", "x"]):
        refused = assay(*command)
        assert (refused.code, refused.out) == (5, "")
        assert "read-only" in refused.err
    assert (tmp_path / "assay.db").read_bytes() == before


GARBAGE = [
    b"x",
    b"hello world\n" * 1000,
    bytes(4096),
    b"SQLite format 3\0",
    b"\x89PNG\r\n" * 99,
    b"SQLite format 3\0" + bytes(5000),
    b"SQLite format 3\0" + b"\xff" * 5000,
]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage(tmp_path, content, assay):
    file = tmp_path / "assay.db"
    file.write_bytes(content)
    answer = assay("runs", "list", "--store", file)
    assert answer.code == 5
    assert str(file) in answer.err
    assert "internal error" not in answer.err
    assert file.read_bytes() == content


def test_other_things_than_stores(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE notes (x)")
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(StorageError, match="another program's database"):
        assay.store.open(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before
    with pytest.raises(StorageError, match="is not a file"):
        assay.store.open(tmp_path)
    with pytest.raises(StorageError, match="cannot be opened"):
        assay.store.open(tmp_path / "other.db" / "no" / "runs.db")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="is not a file"):
        assay.store.open(tmp_path / "pipe")
    (tmp_path / "empty.db").touch()
    with assay.store.open(tmp_path / "empty.db") as store:
        assert len(store) == 0


def test_truncated(tmp_path):
    file = tmp_path / "assay.db"
    with assay.store.open(file) as store:
        for seed in range(5):
            store.save(make_scores(seed, 500), str(seed))
    whole = file.read_bytes()
    for cut in sorted(random.Random(50).sample(range(1, len(whole)), 60)):
        file.write_bytes(whole[:cut])
        with pytest.raises(StorageError, match=r"truncated|not an SQLite database"):
            assay.store.open(file)
        assert file.read_bytes() == whole[:cut]


def test_flipped_bytes_are_noticed_or_harmless(tmp_path):
    file = tmp_path / "assay.db"
    scores = [make_scores(seed, 300) for seed in range(4)]
    with assay.store.open(file) as store:
        for seed in range(4):
            store.save(scores[seed], str(seed), tags=["t"], config={"a": 1})
    whole = file.read_bytes()
    rng = random.Random(50)
    for _ in range(some_of(240)):
        spoiled = bytearray(whole)
        for _ in range(rng.choice([1, 8, 64])):
            spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
        for rest in tmp_path.glob("assay.db-*"):
            rest.unlink()
        file.write_bytes(spoiled)
        with suppress(AssayError), assay.store.open(file) as store:
            store.damages()
            for run in store.runs():
                with suppress(AssayError):
                    _check_values(run, scores)


def _check_values(run, scores):
    """Values that come back without a complaint are those that were saved."""
    values = run.values("AP").tobytes()
    assert any(values == one["AP"].tobytes() for one in scores)


def test_hostile_names_are_stored_and_found(place):
    """Each among all the others, in one store."""
    with assay.store.open(place) as store:
        runs = {name: _saved_under(store, name) for name in HOSTILE}
        for name, run in runs.items():
            for key in ("name", "task", "dataset", "model", "tag"):
                assert store.runs(**{key: name}) == [run], (key, name)
            assert (run.name, run.task, run.dataset, run.model, run.notes) == (name,) * 5
            assert (run.tags, run.config, run.data) == ((name,), {name: name}, {name: name})
            assert (run.command, run.folder) == ((name,), name)
            assert run.details() == {name: [name]}
            store.untag(run.id, name)
            assert store.runs(tag=name) == []
        assert len(store) == len(HOSTILE)


def _saved_under(store, name):
    return store.save(
        make_scores(2),
        name,
        task=name,
        dataset=name,
        model=name,
        tags=[name],
        notes=name,
        config={name: name},
        seeds={name: 1},
        data={name: name},
        command=[name],
        folder=name,
        details={name: [name]},
        timings={name: 1.0},
    )


def test_hostile_messages_are_kept(place):
    with assay.store.open(place) as store:
        for name in HOSTILE:
            with store.start_run("failing") as running:
                running.fail(ValueError(name))
                with suppress(AssayError):
                    running.finish()
                assert store.run(running.id).message == f"ValueError: {name}"
                running.finish = lambda: None


def test_hostile_groups_and_ids(place):
    scores = make_scores(1, len(HOSTILE))
    names = [name.rstrip("\x00") for name in HOSTILE]  # numpy drops NUL at the end of a text
    scores = scores.with_groups(scene=dict(zip(scores.query_ids, map(repr, names), strict=True)))
    with assay.store.open(place) as store:
        assert same_scores(store.save(scores, "a").scores(), scores)


def test_resume_computes_only_what_is_not_there(place):
    parts = {f"part {seed}": seed for seed in range(4)}
    computed = []

    def compute(part):
        import dataclasses

        import numpy as np

        computed.append(part)
        seed = parts[part]
        made = make_scores(7, 40)  # one conventions value for all
        rows = np.arange(40)[seed::4]
        return dataclasses.replace(
            made,
            query_ids=made.query_ids.take(rows),
            values=made.values[:, rows],
            tied=made.tied[:, rows],
            missing=made.missing[rows],
            groups={k: v[rows] for k, v in made.groups.items()},
            extra=made.extra.take([]),
        )

    def evaluate(store, stop_after=None, **resume):
        with store.start_run("a", config={"k": 1}, **resume) as run:
            found = []
            for number, part in enumerate(parts):
                if number == stop_after:
                    raise RuntimeError("power cut")
                found.append(run.load_part(part) or run.save_part(part, compute(part)))
            run.set_result(Scores.merge(*found))
        return run.id

    with assay.store.open(place) as store:
        with pytest.raises(RuntimeError):
            evaluate(store, stop_after=3)
        assert computed == ["part 0", "part 1", "part 2"]
        resumed = evaluate(store, resume=1)
        assert computed == ["part 0", "part 1", "part 2", "part 3"]
        fresh = evaluate(store)
        assert same_scores(store.run(resumed).scores(), store.run(fresh).scores())
        assert store.run(resumed).aggregates == store.run(fresh).aggregates
        with store.database.reading() as connection:  # nothing is left of the parts
            assert not connection.execute(text("SELECT 1 FROM blobs WHERE part <> ''")).all()


def test_ctrl_c(tmp_path):
    (tmp_path / "run.txt").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    code = """
import signal, sys, assay.runs.run_files as scored
def slow(*_, **__):
    print("here", flush=True); signal.pause()
scored.score_run_files = slow
from assay.cli.main import main
sys.exit(main(["eval", "run.txt", "-r", "qrels.txt", "--save"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        with assay.store.open(tmp_path / "assay.db") as store:
            assert store.run(1).status == "running"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130
    assert "Traceback" not in errors
    with assay.store.open(tmp_path / "assay.db") as store:
        assert (store.run(1).status, store.run(1).message) == (
            "failed",
            "KeyboardInterrupt: interrupted",
        )
        assert store.damages() == []


def test_a_corrupted_part_is_noticed_and_computed_again(place):
    scores = make_scores(1)
    with assay.store.open(place) as store:
        with store.start_run("a") as run:
            run.save_part("good", scores)
            run.save_part("bad", scores)
            with store.database.writing() as connection:
                blobs = connection.execute(
                    text(
                        "SELECT content FROM blobs WHERE part = 'bad' AND kind = 'values' "
                        "AND position = 0"
                    )
                ).scalar_one()
                spoiled = bytearray(blobs)
                spoiled[len(spoiled) // 2] ^= 1
                connection.execute(
                    text(
                        "UPDATE blobs SET content = :x WHERE part = 'bad' AND kind = 'values' "
                        "AND position = 0"
                    ),
                    {"x": bytes(spoiled)},
                )
            assert same_scores(run.load_part("good"), scores)
            assert run.load_part("bad") is None
            assert run.load_part("never") is None
            run.save_part("bad", scores)
            assert same_scores(run.load_part("bad"), scores)
            run.set_result(scores)
        assert store.damages() == []


def test_a_corrupted_array_of_a_finished_run_is_named(place):
    with assay.store.open(place) as store:
        run = store.save(make_scores(1), "precious")
        with without_guards(store) as connection:
            connection.execute(
                text("UPDATE blobs SET content = :x WHERE name = 'AP'"), {"x": b"junk"}
            )
        with pytest.raises(StorageError, match=r"Run 1 \('precious'\).*'values AP'.*checksum"):
            run.values("AP")
        with pytest.raises(StorageError, match="checksum"):
            run.scores()
        assert run.values("nDCG@10").tobytes() == make_scores(1).values[0].tobytes()
        assert len(store.damages()) == 1


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path):
    """SQLite's own limit of pages stands for the disk: it raises the same error."""
    file = tmp_path / "assay.db"
    with assay.store.open(file) as store:
        store.save(make_scores(1), "a")
        with store.database.reading() as connection:
            connection.execute(text("PRAGMA max_page_count = 60"))
        with pytest.raises(StorageError, match="disk is full"):
            store.save(make_scores(2, 100_000), "large")
        assert store.damages() == []
        assert same_scores(store.run(1).scores(), make_scores(1))
    shutil.copy(file, tmp_path / "copy.db")
    with assay.store.open(tmp_path / "copy.db") as copy:
        assert all(run.status == "finished" for run in copy.runs())
        assert newest_version() == copy.database.version


def _as_anybody() -> list[str]:
    """What makes permissions hold for root, too."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and setpriv is not installed")
    dropped = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}"]


def test_a_store_in_a_write_protected_folder_can_be_read(tmp_path):
    folder = tmp_path / "sealed"
    folder.mkdir()
    with assay.store.open(folder / "assay.db") as store:
        store.save(make_scores(1), "a")
    code = (
        "import assay.store\n"
        "from assay.errors import StorageError\n"
        f"store = assay.store.open({str(folder / 'assay.db')!r})\n"
        "print(store.run(1).scores().n_queries, store.damages())\n"
        "try:\n    store.tag(1, 'x')\nexcept StorageError as error:\n    print(error)\n"
    )
    folder.chmod(0o555)
    try:
        done = subprocess.run(
            [*_as_anybody(), sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("7 []\n")
        assert "Make the file and its folder writable" in done.stdout
        assert [path.name for path in folder.iterdir()] == ["assay.db"]
    finally:
        folder.chmod(0o755)


def test_a_report_names_the_damaged_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with assay.store.open("assay.db") as store:
        store.save(make_scores(1), "precious")
        with without_guards(store) as connection:
            connection.execute(
                text("UPDATE blobs SET content = :x WHERE name = 'AP'"), {"x": b"junk"}
            )
    done = subprocess.run(
        [sys.executable, "-m", "assay", "report", "1", "-o", "x.html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "Run 1 ('precious')" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("x.html").exists()


def test_two_processes_upgrade_at_once(tmp_path):
    file = tmp_path / "assay.db"
    make_old_store(file)
    code = (
        "import assay.store\nfrom tests.store.next_schema import add_revision\nadd_revision()\n"
        f"with assay.store.open({str(file)!r}) as s: print(len(s))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [child.communicate()[0] for child in both] == ["2\n"] * 2
    with assay.store.open(file) as store:
        assert store.damages() == []
    assert len(list(tmp_path.glob("*.backup-?"))) == 1
