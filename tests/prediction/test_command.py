"""`assay predict`: what it prints, in which unit, and what it answers to nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from assay.prediction import evaluate_confidence, evaluate_predictions

RNG = np.random.default_rng(5)
TARGETS = RNG.integers(0, 30, 80)
TABLE = (
    "query_id\tuser\tground_truth\tlast\tone\ttwo\n"
    "s1\ta\thome\twork\thome work\twork home\n"
    "s2\ta\twork\thome\twork gym\tgym work\n"
    "s3\tb\tgym\thome\thome home\tgym home\n"
    "s4\tb\thome\t\thome gym\tgym home\n"
)


def logits(strength, seed):
    values = np.random.default_rng(seed).standard_normal((80, 30)).astype(np.float32)
    values[np.arange(80), TARGETS] += strength
    return values


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for model, strength in (("a", 2.0), ("b", 1.0)):
        for seed in range(3):
            np.savez(f"{model}{seed}.npz", logits=logits(strength, seed), targets=TARGETS)
    np.save("x.npy", logits(2.0, 0))
    np.save("y.npy", TARGETS)
    np.save("train.npy", RNG.integers(0, 30, 200))
    np.save("last.npy", RNG.integers(0, 30, 80))
    (tmp_path / "lists.tsv").write_text(TABLE)
    (tmp_path / "train.txt").write_text("place\nhome\nwork\nhome\n")
    return tmp_path


def test_one_model_as_text(assay, files):
    more = ("--histogram", "--per-class", "--signature")
    code, out, err = assay("predict", "x.npy", "-t", "y.npy", *more)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["model", "(%)", "Acc@1", "Acc@5", "Acc@10", "MRR", "NDCG@10", "F1"]
    result = evaluate_predictions(logits(2.0, 0), TARGETS)
    means = result.means()
    shown = ("Success@1", "Success@5", "Success@10", "RR", "nDCG@10", "F1(avg=weighted)")
    assert lines[1].split() == ["x", *(f"{100 * means[name]:.2f}" for name in shown)]
    first = result.intervals()["Success@1"]
    assert lines[2].split()[:4] == [
        "95",
        "%",
        "CI",
        f"{100 * first.low:.1f}–{100 * first.high:.1f}",
    ]
    assert lines[3].split()[:3] == ["random", "guess", "3.33"]
    assert "rank   samples" in out
    assert "class  support  predicted" in out
    assert "preset:next_location" in lines[-1]


def test_the_same_numbers_from_every_format(assay, files):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"scores": logits(2.0, 0).tolist(), "targets": TARGETS}), files / "x.parquet"
    )
    found = []
    for given in (["x.npy", "-t", "y.npy"], ["a0.npz"], ["x.parquet"]):
        answer = json.loads(assay("predict", "--json", *given).out)
        (model,) = answer["models"].values()
        found.append({**model[0], "name": ""})
    assert found[0] == found[1] == found[2]
    assert found[0]["measures"]["RR"]["n"] == 80


def test_baselines_stand_beside_the_model(assay, files):
    out = assay(
        "predict", "x.npy", "-t", "y.npy", "--train", "train.npy", "--previous", "last.npy"
    ).out
    names = [line[:14].strip() for line in out.splitlines()[3:7]]
    assert names == ["majority", "last-location", "markov-1", "random guess"]
    data = json.loads(
        assay("predict", "x.npy", "-t", "y.npy", "--train", "train.npy", "--json").out
    )
    assert [one["name"] for one in data["baselines"]] == ["majority"]


def test_lists_with_groups_and_two_systems(assay, files):
    code, out, _ = assay(
        "predict",
        "lists.tsv",
        "--candidates",
        "one",
        "--candidates",
        "two",
        "--by",
        "user",
        "--n-classes",
        "9",
        "--full",
    )
    assert code == 0
    assert "one: 1 repeated candidates in lists (only" in out
    assert "micro (over samples)" in out
    assert "macro (over user)" in out
    heads = (line.split() for line in out.splitlines())
    assert ["measure", "one", "two", "random", "guess"] in heads
    assert "RR@2" in out
    assert "one − two" in out


def test_text_labels_for_baselines(assay, files):
    out = assay(
        "predict",
        "lists.tsv",
        "--candidates",
        "one",
        "--train",
        "train.txt:place",
        "--previous",
        "last",
    ).out
    assert any(line.startswith("markov-1 ") for line in out.splitlines())


def test_seeds_and_the_sentence_about_tests(assay, files):
    (files / "copy.npz").write_bytes((files / "a1.npz").read_bytes())
    names = [f"{m}={m}{s}.npz" for m in "ab" for s in range(3)]
    screen = assay("predict", *names, "-m", "RR").out
    assert screen.startswith("a is better than b on MRR\nLead ")  # verdict first, numbers second
    code, out, _ = assay("predict", *names, "a=copy.npz", "-m", "Acc@1", "-m", "RR", "--full")
    assert code == 0
    assert "copy.npz repeats a1.npz exactly: not counted as a seed" in out
    assert "a (mean of 3 seeds)" in out
    assert "p (Welch)" in out
    assert "Prefer the paired test over samples" in out
    assert "a is better than b on MRR" in out


def test_what_any_guess_gets_right_heads_no_verdict(assay, files):
    every = logits(2.0, 0).shape[1]
    measures = ("-m", f"Acc@{every}", "-m", "RR")
    out = assay("predict", "a=a1.npz", "b=b1.npz", *measures, "--full").out
    assert out.index(" on MRR") < out.index(f" on Acc@{every}")
    screen = assay("predict", "a=a1.npz", "b=b1.npz", *measures).out
    assert f"on Acc@{every}" not in screen


def test_the_old_json_is_in_percent(assay, files):
    out = assay("predict", "x.npy", "-t", "y.npy", "--legacy-json").out
    old = json.loads(out)
    new = json.loads(assay("predict", "x.npy", "-t", "y.npy", "--json").out)["models"]["x"][0]
    assert list(old) == ["acc@1", "acc@3", "acc@5", "acc@10", "mrr", "ndcg", "f1"]
    assert old["acc@5"] == pytest.approx(100 * new["measures"]["Success@5"]["mean"])
    assert old["f1"] == pytest.approx(100 * new["top1"]["F1(avg=weighted)"])


def write_results(folder, **models):
    """Write a result file per seed and model; return the options that name them."""
    options = []
    for model, values in models.items():
        for seed, value in enumerate(values):
            path = folder / f"{model}{seed}.json"
            path.write_text(json.dumps({"acc@1": value, "f1": 0.2 + value / 1000, "total": 90}))
            options += ["--results", f"{model}={path.name}"]
    return options


def test_result_files_become_a_table_with_means_over_seeds(assay, files):
    results = write_results(files, m=(30.0, 31.0, 32.0))
    code, out, _ = assay("predict", *results, "--f1-unit", "fraction", "--full")
    assert code == 0
    assert "0.3100  0.0100" in out
    code, out, err = assay("predict", *results, "--json")
    assert (code, out) == (2, "")
    assert "Pass --f1-unit fraction or --f1-unit percent" in err
    code, out, _ = assay("predict", *results, "--f1-unit", "percent", "--json")
    assert code == 1
    assert "0.0023, but these accuracies imply 0.1385" in json.loads(out)["contradictions"][0]


def test_result_files_are_compared_with_a_baseline(assay, files):
    results = write_results(files, lstm=(30.0, 30.5, 31.0), mhsa=(33.0, 33.2, 34.0), markov=(25.0,))
    command = ("predict", *results, "--f1-unit", "fraction", "--json")
    tests = json.loads(assay(*command, "--baseline", "lstm").out)["seeds"]["welch"]
    assert list(dict.fromkeys((row["a"], row["b"]) for row in tests)) == [
        ("mhsa", "lstm"),
        ("markov", "lstm"),
    ]
    code, _, err = assay(*command, "--baseline", "lstn")
    assert (code, "Did you mean lstm" in err) == (2, True)


def test_csv_and_markdown(assay, files):
    csv = assay("predict", "x.npy", "-t", "y.npy", "--format", "csv").out
    assert csv.splitlines()[0] == "measure,x,95 % CI low,high,random guess,signature"
    assert "| Acc@1 | 0." in assay("predict", "x.npy", "-t", "y.npy", "--format", "markdown").out
    assert assay("predict", "x.npy", "-t", "y.npy", "-o", "out.md").out == ""
    assert "| Acc@1 | 0." in (files / "out.md").read_text()


def test_cut_offs(assay, files):
    out = assay("predict", "x.npy", "-t", "y.npy", "-k", "2", "-k", "20").out
    assert assay("predict", "x.npy", "-k", "2", "20", "-t", "y.npy").out == out
    assert assay("predict", "-k", "2", "20", "x.npy", "-t", "y.npy").out == out
    heads = ["model", "(%)", "Acc@2", "Acc@20", "MRR", "NDCG@20", "F1"]
    assert out.splitlines()[0].split() == heads


def test_a_named_measure_is_shown_alone(assay, files):
    out = assay("predict", "x.npy", "-t", "y.npy", "-m", "Acc@1", "--full").out
    assert out.splitlines()[0].split() == ["model", "(%)", "Acc@1"]
    assert "F1" not in out
    assert "NDCG" not in out.upper()


def test_the_confusion_matrix_as_table_and_picture(assay, files):
    scores = logits(2.0, 0)
    assay("predict", "x.npy", "-t", "y.npy", "--confusion", "c.csv")
    rows = [line.split(",") for line in (files / "c.csv").read_text().splitlines()]
    assert rows[0] == ["class", "predicted", "samples", "share"]
    expected = Counter(zip(TARGETS.tolist(), scores.argmax(axis=1).tolist(), strict=True))
    expected = {pair: n for pair, n in expected.items() if pair[0] >= 0}
    assert {(int(true), int(first)): int(n) for true, first, n, _ in rows[1:]} == expected
    share = {(true, first): float(cell) for true, first, _, cell in rows[1:]}
    sizes = Counter(TARGETS.tolist())
    assert share == {(str(t), str(p)): n / sizes[t] for (t, p), n in expected.items()}
    assay("predict", "x.npy", "-t", "y.npy", "--confusion", "c.svg")
    assert (files / "c.svg").read_text().startswith("<svg")
    answer = assay("predict", "x.npy", "-t", "y.npy", "--confusion", "c.pdf")
    assert (answer.code, "use .svg" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "Pass a file of predictions, or --results [NAME=]FILE"),
        (["x.npy"], 2, "--targets"),
        (["x.npy", "-t", "last.npy", "--previous", "last.npy"], 2, "--previous requires --train"),
        (["x.npy", "-t", "y.npy", "--n-classes", "40"], 2, "--n-classes applies to lists only"),
        (["x.npy", "-t", "y.npy", "--unit", "percent"], 2, "--unit requires --results"),
        (["x.npy", "-t", "y.npy", "-b", "a"], 2, "--baseline needs other models"),
        (
            ["x.npy", "-t", "y.npy", "--by", "nobody"],
            2,
            "--by nobody: no file and no column of x.npy (none)",
        ),
        (["x.npy", "-t", "y.npy", "-m", "ndgc@10"], 2, "nDCG"),
        (["x.npy", "-t", "y.npy", "-k", "0"], 2, "0"),
        (["x.npy", "-t", "y.npy", "-k", "1", "0"], 2, "0"),
        (["x.npy", "-t", "y.npy", "-m", "F1"], 2, "always reported"),
        (["x.npy", "-t", "y.npy", "-o", "x.npy"], 2, "x.npy"),
        (["lists.tsv", "--candidates", "three"], 3, "three"),
        (["lists.tsv", "--candidates", "one", "-m", "RR"], 2, "RR@2"),
        (
            ["lists.tsv", "--candidates", "one", "--candidates", "two", "--legacy-json"],
            2,
            "one result",
        ),
        (["a0.npz", "x.xlsx"], 3, "x.xlsx: unknown type"),
        (["nothing.npz"], 5, "nothing.npz"),
        (["x.npy", "-t", "train.npy"], 3, "80 rows, targets 200"),
        (["--results", "a.json", "x.npy"], 2, "files of predictions exclude each other"),
        (["--results", "a=a.json"], 5, "a.json"),
    ],
)
def test_nonsense_is_answered(assay, files, arguments, code, words):
    answer = assay("predict", *arguments)
    assert answer.code == code, answer
    assert words in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err


def test_help_has_examples(assay):
    out = assay("predict", "--help").out
    assert out.count("assay predict ") >= 2


def test_bad_scores_are_named_with_row_and_column(assay, files):
    values = logits(1.0, 1)
    values[7, 3] = np.nan
    np.save("bad.npy", values)
    answer = assay("predict", "bad.npy", "-t", "y.npy")
    assert (answer.code, answer.out) == (3, "")
    assert "nan at row 7, column 3" in answer.err


def test_checks_fire_without_assertions(files):
    done = subprocess.run(
        [sys.executable, "-O", "-m", "assay", "predict", "x.npy", "-t", "train.npy"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_models_of_different_vocabularies_have_a_baseline_each(assay, files):
    np.save("wide.npy", np.random.default_rng(9).standard_normal((80, 40)))
    code, out, _ = assay(
        "predict", "x.npy", "wide.npy", "-t", "y.npy", "-k", "1", "--format", "csv"
    )
    assert code == 0
    lines = [line.split(",") for line in out.splitlines()]
    assert lines[0][-3:-1] == ["random guess of 30", "random guess of 40"]
    assert [float(cell) for cell in lines[1][-3:-1]] == pytest.approx([1 / 30, 1 / 40], abs=1e-15)


def _logits(folder, n=120, classes=6):
    rng = np.random.default_rng(8)
    logits = rng.standard_normal((n, classes))
    targets = rng.integers(0, classes, n)
    logits[np.arange(n), targets] += 1.5
    targets[:20] = -1
    np.savez(folder / "net.npz", scores=logits, targets=targets)
    return logits, targets


def test_confidence_and_its_picture(assay, tmp_path):
    logits, targets = _logits(tmp_path)
    picture = tmp_path / "calibration.svg"
    answer = assay("predict", tmp_path / "net.npz", "--reliability", picture, "--json")
    data = json.loads(answer.out)["confidence"]["net"]
    expected = evaluate_confidence(logits, targets).to_dict()
    assert data == expected
    assert picture.read_text().startswith("<svg")
    text = assay("predict", tmp_path / "net.npz", "--confidence").out
    assert " if calibrated (p = " in text
    assert "FPR@95" in text


def test_metres_groups_and_predictability(assay, tmp_path):
    rows = ["id,user,hour,place,list", "1,u,8,a,a b", "2,u,9,b,a b", "3,v,9,c,c a", "4,v,8,a,b c"]
    (tmp_path / "p.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "where.csv").write_text("place,lat,lon\na,0,0\nb,0,0.001\nc,0,1\n")
    (tmp_path / "train.csv").write_text("place,user\n" + "a,u\nc,v\n" * 5 + "a,v\n")
    given = ["predict", tmp_path / "p.csv", "--candidates", "list", "--target", "place", "-k", 1]
    train = ["--train", f"{tmp_path / 'train.csv'}:place"]
    users = ["--train-users", f"{tmp_path / 'train.csv'}:user", "--users", "user"]
    looks = ["--new-places", "--by", "hour", "--predictability"]
    places = ["--coordinates", tmp_path / "where.csv"]
    data = json.loads(assay(*given, *train, *users, *looks, *places, "--json").out)
    one = data["models"]["p"][0]
    assert one["by"]["place"]["sizes"] == {"new": 1, "seen": 3}
    assert one["by"]["hour"]["sizes"] == {"8": 2, "9": 2}
    assert data["distances"]["p"]["metres"]["Acc@100m"]["value"] == 0.5
    assert data["predictability"]["users"] == ["u", "v"]
    alone = json.loads(assay(*given, *train, "--new-places", "--json").out)
    assert alone["models"]["p"][0]["by"]["place"]["sizes"] == {"new": 1, "seen": 3}
    assert "median error (m)" in assay(*given, *places).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--new-places"], "--new-places requires --train"),
        (["--confidence"], "needs scores or logits"),
        (["--coordinates", "nowhere.csv"], "nowhere.csv"),
        (["--coordinates", "odd.csv"], "lacks latitude (lat or latitude)"),
        (["--coordinates", "bad.csv"], "bad.csv, row 0: 'north' is not a number"),
        (["--train-users", "p.csv:user"], "--train-users requires --train"),
    ],
)
def test_looks_that_cannot_be_had(assay, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("id,user,place,list\n1,u,a,a b\n2,u,b,a b\n")
    (tmp_path / "odd.csv").write_text("place,x,y\na,0,0\n")
    (tmp_path / "bad.csv").write_text("place,lat,lon\na,north,0\n")
    answer = assay("predict", "p.csv", "--candidates", "list", "--target", "place", *options)
    assert answer.code != 0
    assert words in answer.err


def test_the_demo_shows_each_command_at_work(tmp_path, assay):
    answer = assay("predict", "--demo", str(tmp_path / "demo"))
    assert answer.code == 0
    assert answer.out.count("$ assay predict ") == 3
    assert "before − mixed" in answer.out or "mixed − before" in answer.out
    assert "user-markov-1" in answer.out
    assert "calibrated" in answer.out
    assert (tmp_path / "demo" / "reliability.svg").stat().st_size > 1000
    assert "Bound of Song et al" in answer.out
