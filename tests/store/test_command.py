"""`--save` and `assay runs`."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import assay.store
from assay import evaluate
from assay import store as run_store
from assay.runs.record import RunRecord
from tests.store.places import make_scores, same_scores

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch):
    monkeypatch.delenv("ASSAY_STORE", raising=False)


def save(assay, *more):
    return assay("eval", "run.txt", "other.txt", "-r", "qrels.txt", "-m", "AP,RR", "--save", *more)


def test_saved_runs_hold_what_eval_printed(assay):
    plain = assay("eval", "run.txt", "other.txt", "-r", "qrels.txt", "-m", "AP,RR")
    saved = save(assay, "--dataset", "tiny", "--tag", "x", "--tag", "y")
    assert (saved.code, saved.out) == (0, plain.out)
    assert "saved as runs 1 to 2 in assay.db" in saved.err
    with assay_store() as store:
        other, run = store.runs(tag="x")
        assert (run.name, other.name) == ("run", "other")
        assert (run.task, run.dataset, run.tags) == ("retrieval", "tiny", ("x", "y"))
        assert run.batch == other.batch
        assert run.seconds > 0
        assert same_scores(run.scores(), evaluate("run.txt", "qrels.txt", ["AP", "RR"]))
    assert set(run.data) == {"run.txt", "qrels.txt"}
    assert len(run.data["run.txt"]["sha256"]) == 64
    assert run.command[:4] == ("eval", "run.txt", "other.txt", "-r")
    assert "--save" not in run.command
    assert run.config["measures"] == ["AP,RR"]
    assert run.folder == os.getcwd()


def assay_store(place="assay.db"):
    return assay.store.open(place)


def test_nothing_is_stored_without_save(assay):
    assert assay("eval", "run.txt", "-r", "qrels.txt").code == 0
    assert not os.path.exists("assay.db")
    for option in (["--dataset", "d"], ["--tag", "t"], ["--store", "s.db"]):
        answer = assay("eval", "run.txt", "-r", "qrels.txt", *option)
        assert answer.code == 2
        assert f"{option[0]} requires --save" in answer.err


def test_passwords_are_not_stored(assay):
    url = f"sqlite:///{os.getcwd()}/secret-word.db"
    for option in (["--store", url], [f"--store={url}"]):
        assert save(assay, *option).code == 0
    with assay_store("secret-word.db") as store:
        for run in store.runs():
            assert "secret-word" not in json.dumps([run.config, run.command, run.notes, run.data])


def test_failures_are_stored_with_their_message(assay):
    answer = assay("eval", "absent.txt", "-r", "qrels.txt", "--save")
    assert answer.code == 5
    with assay_store() as store:
        (run,) = store.runs()
    assert (run.status, run.name) == ("failed", "eval")
    assert "absent.txt does not exist" in run.message
    listed = assay("runs", "list").out
    assert "failed" in listed


def test_a_request_without_sense_is_not_a_run(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--percent", "--json", "--save")
    assert answer.code == 2
    with assay_store() as store:
        assert len(store) == 0


def test_a_measure_that_is_not_known_is_not_a_run(assay):
    """The library refuses it, not the parser of options; nothing is left in the store either."""
    assert save(assay, "-m", "nonsense").code == 2
    with assay_store() as store:
        assert len(store) == 0


def test_a_store_that_cannot_be_opened_is_noticed_before_the_work(assay, tmp_path):
    (tmp_path / "bad.db").write_text("no database\n" * 20)
    answer = save(assay, "--store", tmp_path / "bad.db")
    assert (answer.code, answer.out) == (5, "")


def test_results_are_stored_even_if_nobody_reads_them():
    code = f"{sys.executable} -m assay eval run.txt -r qrels.txt --save | true"
    subprocess.run(["sh", "-c", code], check=True, capture_output=True)
    with assay_store() as store:
        assert store.run(1).status == "finished"


def test_compare_saves_its_systems(assay):
    answer = assay("compare", "run.txt", "other.txt", "-r", "qrels.txt", "--seed", "5", "--save")
    assert answer.code == 0
    with assay_store() as store:
        other, run = store.runs()
    assert (run.name, other.name, run.seeds) == ("run", "other", {"seed": 5})
    assert run.command[0] == "compare"


def test_compare_by_a_column_saves_what_it_drew_by(assay):
    with open("groups.tsv", "w", encoding="utf-8") as file:
        file.write("query\tkind\nq1\tx\nq2\ty\n")
    answer = assay(
        "compare", "run.txt", "other.txt", "-r", "qrels.txt", "--by", "groups.tsv", "--save"
    )
    assert answer.code == 0, answer.err
    with assay_store() as store:
        assert [run.clusters for run in store.runs()] == ["kind"] * 2


def test_predict_saves_every_model(assay):
    rng = np.random.default_rng(0)
    np.save("targets.npy", rng.integers(0, 5, 40))
    for name in ("a", "b"):
        np.save(f"{name}.npy", rng.random((40, 5)))
    answer = assay("predict", "m=a.npy", "m=b.npy", "-t", "targets.npy", "--save", "--json")
    assert answer.code == 0, answer.err
    with assay_store() as store:
        second, first = store.runs(task="prediction")
        printed = json.loads(answer.out)["models"]["m"]
        for run, data in ((first, printed[0]), (second, printed[1])):
            assert run.model == "m"
            found = {name: entry["mean"] for name, entry in data["measures"].items()}
            assert {**found, **data["top1"]}.items() <= run.means().items()
            assert run.aggregate("Success@1").chance == pytest.approx(0.2)
            assert run.scores().n_queries == 40
    assert (first.name, second.name) == ("m (1)", "m (2)")


def test_groups_in_a_column_are_no_file(assay):
    with open("p.tsv", "w", encoding="utf-8") as file:
        file.write("user\ttarget\ttop\n" + "u1\t3\t[3, 4]\nu2\t4\t[3, 4]\n" * 5)
    answer = assay(
        "predict",
        "p.tsv",
        "--candidates",
        "top",
        "--target",
        "target",
        "--by",
        "user",
        "-m",
        "Acc@1",
        "--save",
    )
    assert answer.code == 0, answer.err
    with assay_store() as store:
        (run,) = store.runs()
    assert set(run.data) == {"p.tsv"}
    assert run.aggregate("Acc@1", average="macro", by="user").value == 0.5


def test_an_import_of_results_is_not_saved(assay, tmp_path):
    (tmp_path / "a.json").write_text('{"acc@1": 30.0}')
    answer = assay("predict", "--results", "a.json", "--save")
    assert answer.code == 2
    assert "--save" in answer.err


def test_crossmodal_saves_every_direction(assay):
    rng = np.random.default_rng(0)
    np.save("s.npy", rng.random((30, 4)))
    np.save("t.npy", rng.random((30, 4)))
    np.save("l.npy", rng.integers(0, 3, 30))
    answer = assay(
        "crossmodal",
        "--sensor-embeddings",
        "s.npy",
        "--text-embeddings",
        "t.npy",
        "--labels",
        "l.npy",
        "--k-values",
        "1",
        "5",
        "--save",
        "--json",
    )
    assert answer.code == 0, answer.err
    (level,) = json.loads(answer.out)["levels"].values()
    with assay_store() as store:
        runs = {run.name: run for run in store.runs(task="crossmodal")}
    assert set(runs) == set(level)
    for name, run in runs.items():
        measures = level[name]["measures"]
        assert {key: one["micro"] for key, one in measures.items()} == run.means()
        assert run.aggregate("P@5").chance == measures["P@5"]["chance"]
        assert set(run.data) == {"s.npy", "t.npy", "l.npy"}
    assert any(run.total > 0 for run in runs.values())  # it told how far it was


@pytest.mark.parametrize("judged", [False, True])
def test_codes_save_every_code(assay, judged):
    rng = np.random.default_rng(0)
    np.save("v.npy", rng.normal(size=(60, 16)))
    with open("v.qrels", "w", encoding="ascii") as file:
        file.writelines(f"{i} 0 {(i + 1) % 60} 1\n" for i in range(60))
    more = ("-r", "v.qrels") if judged else ()
    answer = assay(
        "codes",
        "--embeddings",
        "v.npy",
        "--bits",
        8,
        "--method",
        "gaussian",
        "sign",
        "--k",
        5,
        "--resamples",
        200,
        *more,
        "--save",
        "--json",
    )
    assert answer.code == 0, answer.err
    printed = {one["name"]: one for one in json.loads(answer.out)["codes"]}
    with assay_store() as store:
        runs = {run.name: run for run in store.runs(task="codes")}
        assert list(reversed(runs)) == list(printed) == ["float", "sign", "gaussian-8"]
        for name, run in runs.items():
            assert run.config["bits"] == printed[name]["bits"]
            assert (run.config["relevant"] == "judged") is judged
            overlap = run.aggregate("Overlap@5")
            assert overlap.chance == 5 / 59
            assert overlap.low <= overlap.value <= overlap.high
            assert run.scores().n_queries == 60
            assert set(run.timings) == {"encode", "search"}
            near = {one.measure for one in run.aggregates if one.subset == "float neighbours"}
            assert near == ({"R@5", "nDCG@5"} if judged else set())
        assert runs["float"].aggregate("Overlap@5").value == 1
        assert runs["float"].means()["R@5"] == (
            1 if not judged else pytest.approx(runs["float"].scores()["R@5"].mean())
        )
    again = assay("runs", "rerun", 1)
    assert again.code == 0, again.err
    assert "float: run 4 equals run 1 bit by bit" in again.err


def test_list_and_its_filters(assay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    save(assay, "--dataset", "d1", "--tag", "x")
    assay("eval", "run.txt", "-r", "qrels.txt", "-m", "P@1", "--save", "--dataset", "d2")
    lines = assay("runs", "list").out.splitlines()
    assert lines[0].split()[:2] == ["id", "began"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]

    def ids(*arguments):
        data = json.loads(assay("runs", "list", "--json", *arguments).out)
        return [run["id"] for run in data["runs"]]

    assert ids("--dataset", "d1") == [2, 1]
    assert ids("--tag", "x", "--name", "run") == [1]
    assert ids("-m", "map") == [2, 1]
    assert ids("--task", "none") == []
    assert ids("--since", "2020-01-01", "--until", "2020-12-31") == []
    assert ids("--status", "finished", "-n", "1") == [3]
    rows = list(csv.reader(io.StringIO(assay("runs", "list", "-m", "AP", "--format", "csv").out)))
    assert "AP" in rows[0]
    assert len(rows) == 3
    nobody = assay("runs", "list", "--model", "nobody")
    assert (nobody.code, nobody.err) == (0, "No matching runs in assay.db.\n")
    assert assay("runs", "list", "--since", "never").code == 2


def test_show(assay):
    save(assay, "--dataset", "tiny")
    text = assay("runs", "show", "1", "-q").out
    for part in ("run 1: run, finished", "tiny", "q1", "preset:trec_eval|", "sha256"):
        assert part in text
    data = json.loads(assay("runs", "show", "1", "--json", "-q").out)["run"]
    assert data["uid"]
    assert data["per_query"]["q1"]["RR"] == 1.0
    assert [one["measure"] for one in data["aggregates"]] == ["AP", "RR"]
    assert assay("runs", "show", data["uid"][:8]).code == 0
    missing = assay("runs", "show", "9")
    assert missing.code == 2
    assert "Unknown run '9'; the last one is 2" in missing.err


def test_show_one_query(assay):
    save(assay)
    text = assay("runs", "show", "1", "--query", "q1").out
    assert "query q1 of run 1: run" in text
    assert "1.0000" in text
    assert "Retrieved documents are stored by 'assay bench --save' only" in text
    data = json.loads(assay("runs", "show", "1", "--query", "q1", "--json").out)
    assert (data["values"]["RR"], data["results"], data["missing"]) == (1.0, None, False)
    both = assay("runs", "show", "1", "--query", "q1", "-q")
    assert both.code == 2
    unknown = assay("runs", "show", "1", "--query", "nothing")
    assert unknown.code == 2
    assert "Unknown query 'nothing' in run 1" in unknown.err
    assert assay("eval", "absent.txt", "-r", "qrels.txt", "--save").code != 0
    failed = assay("runs", "show", "3", "--query", "q1")
    assert failed.code == 2
    assert "Run 3 ('eval') is failed" in failed.err


def test_compare_of_stored_runs_is_compare(assay):
    save(assay)
    settings = ["-m", "RR", "--seed", "3", "--resamples", "500"]
    files = json.loads(
        assay("compare", "run.txt", "other.txt", "-r", "qrels.txt", *settings, "--json").out
    )
    stored = json.loads(assay("runs", "compare", "1", "2", *settings, "--json").out)
    assert stored["measures"] == files["measures"]
    save(assay)
    alike = assay("runs", "compare", "1", "3", "-m", "RR", "-b", "1")
    assert "run #1" in alike.out
    assert assay("runs", "compare", "1").code == 2
    assert assay("runs", "compare", "1", "1").code == 2
    assert assay("runs", "compare", "1", "2", "--test", "magic").code == 2


def test_tag_note_delete(assay):
    save(assay)
    assert assay("runs", "tag", "1", "a", "b").code == 0
    assert assay("runs", "tag", "1", "a", "--remove").code == 0
    assert assay("runs", "note", "1", "said: 'x'; --").code == 0
    with assay_store() as store:
        assert (store.run(1).tags, store.run(1).notes) == (("b",), "said: 'x'; --")
    assert assay("runs", "delete", "1", "2", "--yes").code == 0
    with assay_store() as store:
        assert len(store) == 0


def test_delete_asks(assay, monkeypatch):
    save(assay)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert assay("runs", "delete", "1").code == 130
    with assay_store() as store:
        assert len(store) == 2


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_export_and_import(assay, ending):
    save(assay)
    assert assay("runs", "export", "1", "-o", f"one.{ending}").err == "exported: 1\n"
    assert assay("runs", "export", "--name", "other", "-o", f"two.{ending}").err == "exported: 1\n"
    answer = assay("runs", "import", f"one.{ending}", f"two.{ending}", "--store", "b.db")
    assert answer.code == 0
    with assay_store() as first, assay_store("b.db") as second:
        for number in (1, 2):
            assert same_scores(second.run(number).scores(), first.run(number).scores())
    assert assay("runs", "export", "-o", "x.xlsx").code == 2
    kept = Path(f"one.{ending}").read_bytes()
    nothing = assay("runs", "export", "--name", "nobody", "-o", f"one.{ending}")
    assert (nothing.code, "Change the filters" in nothing.err) == (2, True)
    assert Path(f"one.{ending}").read_bytes() == kept
    assert assay("runs", "import", "qrels.txt").code == 2


def test_rerun_gives_the_same_bits_or_says_so(assay):
    save(assay, "--tag", "x")
    again = assay("runs", "rerun", "2")
    assert again.code == 0, again.err
    assert again.err.count("bit by bit") == 2
    with assay_store() as store:
        assert len(store) == 4
        assert store.run(3).rerun_of == store.run(1).batch
        assert store.run(3).tags == ("x",)
    with open("run.txt", "a", encoding="utf-8") as file:
        file.write("q3 Q0 a 1 9 tag\n")
    with open("qrels.txt", "w", encoding="utf-8") as file:
        file.write("q1 0 c 1\nq2 0 b 1\n")
    changed = assay("runs", "rerun", "1")
    assert changed.code == 1
    assert "qrels.txt has changed since run 1" in changed.err
    assert "differs from run 1" in changed.err


def test_rerun_works_from_another_folder(assay, tmp_path, monkeypatch):
    save(assay)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert assay("runs", "rerun", "1", "--store", "../assay.db").code == 0
    assert os.getcwd() == str(tmp_path / "elsewhere")


def test_rerun_refuses_what_it_should(assay):
    with assay_store() as store:
        store.save(make_scores(1), "by hand")
        store.save(make_scores(1), "evil", command=["runs", "delete", "1", "--yes"])
    for number, words in (("1", "not saved by a command"), ("2", "has no --save")):
        answer = assay("runs", "rerun", number)
        assert answer.code == 2
        assert words in answer.err
    save(assay)
    assay("runs", "export", "3", "-o", "a.json")
    assay("runs", "import", "a.json", "--store", "b.db")
    foreign = assay("runs", "rerun", "1", "--store", "b.db")
    assert foreign.code == 2
    assert "Pass --yes to trust it" in foreign.err
    assert assay("runs", "rerun", "1", "--store", "b.db", "--yes").code == 0


def test_no_store_is_made_by_looking(assay):
    answer = assay("runs", "list")
    assert answer.code == 5
    assert "There is no store at assay.db" in answer.err
    assert not os.path.exists("assay.db")


def test_hostile_names_do_not_reach_the_terminal(assay):
    with assay_store() as store:
        store.save(make_scores(1), "\x1b[31mred\x00", tags=["\x07bell"], notes="\x9b2J")
    for command in (["list"], ["show", "1"]):
        out = assay("runs", *command).out
        assert not {"\x1b", "\x07", "\x9b", "\x00"} & set(out)
    assert json.loads(assay("runs", "show", "1", "--json").out)["run"]["name"] == "\x1b[31mred\x00"


def test_names_that_utf8_cannot_hold(assay):
    with assay_store() as store:
        store.save(make_scores(1), "half \ud83d")
    assert assay("runs", "list", "--json", "-o", "a.json").code == 0
    with open("a.json", encoding="utf-8") as file:
        assert json.load(file)["runs"][0]["name"] == "half \ud83d"
    for ending in ("txt", "md", "csv"):
        assert assay("runs", "list", "-o", f"a.{ending}").code == 0
    for ending in ("json", "csv", "parquet"):
        assert assay("runs", "export", "-o", f"b.{ending}").code == 0


def test_runs_of_one_command_began_together(assay):
    save(assay)
    with assay_store() as store:
        assert store.run(1).created == store.run(2).created


def test_help_loads_neither_a_database_nor_rich():
    code = (
        "import sys; from assay.cli.main import main; main(['runs', 'list', '--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sqlalchemy", "alembic", "rich"} & set(done.stderr.split())


def test_stored_matches_are_compared_on_the_measure_of_their_field(assay, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = {f"scene{i}/1-{k}": {"a": 1} for i in range(8) for k in (2, 3)}
    scenes = {pair: pair.partition("/")[0] for pair in pairs}
    with run_store.open("s.db") as opened:
        for name, rest in (("SIFT", {}), ("ORB", {"b": 1.0})):
            run = {pair: {"a": 2.0, **rest} for pair in pairs}
            scores = evaluate(run, pairs, "SetP", groups={"scene": scenes}).but_settings(pixels=3)
            opened.save(RunRecord(name, scores, task="matching", clusters="scene"))
    words = ("runs", "compare", 1, 2, "--store", "s.db", "--resamples", 200)
    for more in ((), ("-m", "MMA@3"), ("-m", "SetP"), ("--slices", "scene")):
        done = assay(*words, *more)
        assert done.code == 0, done.err
        assert "better than ORB on MMA@3" in done.out
        assert "SetP" not in done.out
    data = json.loads(assay(*words, "--slices", "scene", "--json").out)
    assert list(data["measures"]) == ["MMA@3"]
    assert "SetP" not in json.dumps(data)
