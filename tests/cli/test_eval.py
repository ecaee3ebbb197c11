"""`assay eval`."""

from __future__ import annotations

import csv
import io
import json

import pytest

from assay import Conventions, evaluate
from assay.io.streams import unique_names
from assay.stats import interval

# By hand: q1 has relevant documents at ranks 1 and 3 of R = 2, q2 one at rank 2 of R = 1.
AP = ((1 + 2 / 3) / 2 + 1 / 2) / 2
SIGNATURE = "preset:trec_eval|ties:order|"

pytestmark = pytest.mark.usefixtures("folder")


def test_one_run_lists_its_measures(assay):
    measures = ("-m", "AP", "-m", "P@1")
    answer = assay("eval", "run.txt", "--qrels", "qrels.txt", *measures, "--signature")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "run, 2 judged queries"
    assert lines[3].split() == ["AP", f"{AP:.4f}", "micro", "n=2"]
    assert lines[4].split() == ["P@1", "0.5000", "micro", "n=2"]
    assert lines[-1].startswith(SIGNATURE)
    assert answer.err == ""


def test_a_mean_has_its_interval_in_text_and_json(assay, folder):
    found = [1, 0, 1, 1, 0, 1]
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d 1\n" for i in range(6)))
    lines = (f"q{i} Q0 {'d' if hit else 'x'} 1 1 t\n" for i, hit in enumerate(found))
    (folder / "run.txt").write_text("".join(lines))
    command = ("eval", "run.txt", "-r", "qrels.txt", "-m", "P@1,num_ret")
    expected = interval(found, bounds=(0, 1))
    lines = assay(*command).out.splitlines()
    assert lines[2].split() == ["measure", "value", "95", "%", "CI", "average", "queries"]
    assert expected.text() in lines[3]
    assert "–" in lines[4]
    (run,) = json.loads(assay(*command, "--json").out)["runs"]
    ends = {"low": expected.low, "high": expected.high, "level": 0.95}
    assert run["intervals"] == {"P@1": ends}


def test_several_runs_make_one_table(assay):
    answer = assay("eval", "run.txt", "other.txt", "-r", "qrels.txt", "-m", "RR,num_rel_ret")
    rows = [line.split() for line in answer.out.splitlines()[2:5]]
    assert rows == [["run", "RR", "num_rel_ret"], ["run", "0.7500", "3"], ["other", "1.0000", "3"]]


def test_means_of_several_runs_have_their_intervals_below(assay, folder):
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d 1\n" for i in range(6)))
    hits = {"a": [1, 0, 1, 1, 0, 1], "b": [1, 1, 1, 1, 1, 1]}
    for name, found in hits.items():
        lines = (f"q{i} Q0 {'d' if hit else 'x'} 1 1 t\n" for i, hit in enumerate(found))
        (folder / f"{name}.txt").write_text("".join(lines))
    command = ("eval", "a.txt", "b.txt", "-r", "qrels.txt", "-m", "num_ret,P@1")
    a, b = (interval(found, bounds=(0, 1)) for found in hits.values())
    rows = [line.split() for line in assay(*command).out.splitlines()[3:7]]
    heading = ["95", "%", "CI", "–"]
    assert rows[1] == [*heading, f"{a.low:.3f}–{a.high:.3f}"]
    assert rows[3] == [*heading, f"{b.low:.3f}–1.000"]
    percent = assay(*command, "--percent").out.splitlines()[4]
    assert percent.split()[-1] == f"{100 * a.low:.1f}–{100 * a.high:.1f}"
    assert "CI" not in assay(*command, "--format", "csv").out


def test_default_group(assay):
    text = assay("eval", "run.txt", "-r", "qrels.txt", "--format", "csv").out
    assert text.splitlines()[0] == "run,nDCG@10,AP,RR,P@10,R@100,signature"


def test_per_query_rows_and_their_mean(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-q", "-m", "RR")
    assert [line.split() for line in answer.out.splitlines()[3:6]] == [
        ["q1", "1.0000"],
        ["q2", "0.5000"],
        ["all", "(micro)", "0.7500"],
    ]


def test_json_is_what_evaluate_gives(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-m", "AP,nDCG@10", "--json", "-q")
    data = json.loads(answer.out)
    scores = evaluate("run.txt", "qrels.txt", ["AP", "nDCG@10"])
    assert data["schema_version"] == 1
    assert data["command"] == "eval"
    assert data["signature"] == scores.signature
    (run,) = data["runs"]
    assert (run["name"], run["path"], run["tag"]) == ("run", "run.txt", "tag")
    assert {m: v["mean"] for m, v in run["measures"].items()} == dict(scores.mean())
    assert [run["per_query"][q]["AP"] for q in ("q1", "q2")] == scores["AP"].tolist()


def test_csv_keeps_every_digit_and_the_signature(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-m", "AP", "--format", "csv", "-q")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [row["query"] for row in rows] == ["q1", "q2", "all (micro)"]
    assert float(rows[0]["AP"]) == (1 + 2 / 3) / 2
    assert Conventions.parse(rows[0]["signature"]) == Conventions.parse("trec_eval")


def test_markdown_marks_the_best(assay):
    answer = assay(
        "eval", "run.txt", "other.txt", "-r", "qrels.txt", "-m", "RR", "--format", "markdown"
    )
    assert "| run | 0.7500 |" in answer.out
    assert "| other | **1.0000** |" in answer.out


def test_the_ending_of_the_file_says_the_format(assay, folder):
    assert assay("eval", "run.txt", "-r", "qrels.txt", "-o", "out.json").out == ""
    assert json.loads((folder / "out.json").read_text())["schema_version"] == 1
    assay("eval", "run.txt", "-r", "qrels.txt", "-o", "out.json", "--format", "csv")
    assert (folder / "out.json").read_text().startswith("run,")


def test_percent_is_for_people_only(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-m", "RR,num_ret", "--percent")
    assert "75.00" in answer.out
    assert "percent" in answer.out
    assert answer.out.splitlines()[4].split()[:3] == ["num_ret", "5", "sum"]
    assert assay("eval", "run.txt", "-r", "qrels.txt", "--percent", "--json").code == 2


def test_conventions_by_options_and_by_signature(assay):
    options = assay(
        "eval",
        "run.txt",
        "-r",
        "qrels.txt",
        "--ties",
        "expected",
        "--depth",
        "2",
        "--empty",
        "skip",
        "--missing",
        "skip",
        "--signature",
    ).out
    signature = options.splitlines()[-1]
    assert "preset:trec_eval*|ties:expected|" in signature
    assert "|empty:skip|missing:skip|self:keep|depth:2|" in signature
    again = assay(
        "eval", "run.txt", "-r", "qrels.txt", "--conventions", signature, "--signature"
    ).out
    assert again == options


def test_threshold_for_measures_that_name_none(assay):
    answer = assay(
        "eval",
        "run.txt",
        "-r",
        "qrels.txt",
        "--rel",
        "2",
        "--format",
        "csv",
        "-m",
        "RR",
        "-m",
        "P(rel=0)@1",
        "-m",
        "nDCG@10",
    )
    head, values = (line.split(",") for line in answer.out.splitlines())
    assert head[1:4] == ["RR(rel=2)", "P(rel=0)@1", "nDCG@10"]
    assert float(values[1]) == pytest.approx(1 / 3 / 2)


@pytest.mark.parametrize("text", ["query\tkind\nq1\tx\nq2\ty\n", "q1\tx\nq2\ty\n", "q1,x\nq2,y\n"])
def test_groups(assay, folder, text):
    (folder / "groups.tsv").write_text(text)
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "groups.tsv", "-m", "RR")
    rows = {line.rsplit(None, 2)[0]: line.split()[-2:] for line in answer.out.splitlines()[3:7]}
    assert rows == {
        "micro (over queries)": ["2", "0.7500"],
        "macro (over groups)": ["2", "0.7500"],
        "x": ["1", "1.0000"],
        "y": ["1", "0.5000"],
    }


def test_groups_by_name_and_number_of_the_column(assay, folder):
    (folder / "g.csv").write_text("query,kind,size\nq1,x,big\nq2,x,small\nq9,z,big\n")
    by_name = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "g.csv:size", "--json").out
    by_number = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "g.csv:3", "--json").out
    groups = json.loads(by_name)["runs"][0]["by"]
    assert groups["average"] == "macro"
    assert set(groups["groups"]) == {"big", "small"}
    assert groups["groups"] == json.loads(by_number)["runs"][0]["by"]["groups"]
    assert groups["sizes"] == {"big": 1, "small": 1}


def test_groups_with_numbers_in_their_names_are_in_their_order(assay, folder):
    names = ["10", "9", "2", "01", "1", "a2", "a10"]
    queries = [f"q{at}" for at in range(len(names) * 2)]
    (folder / "r.txt").write_text("".join(f"{q} Q0 d 1 1 t\n" for q in queries))
    (folder / "q.txt").write_text("".join(f"{q} 0 d 1\n" for q in queries))
    (folder / "g.csv").write_text(
        "".join(f"{q},{n}\n" for q, n in zip(queries, 2 * names, strict=True))
    )
    found = assay("eval", "r.txt", "-r", "q.txt", "--by", "g.csv", "--format", "csv").out
    rows = [line.split(",")[:2] for line in found.splitlines()[3:]]
    assert rows == [[name, "2"] for name in ["01", "1", "2", "9", "10", "a2", "a10"]]


@pytest.mark.parametrize(
    ("text", "by", "words"),
    [
        ("q1\tx\n", "g.tsv", "q2"),
        ("q1\tx\nq1\ty\nq2\ty\n", "g.tsv", "line 2: query 'q1' is in group 'x' and in group 'y'"),
        ("q1\tx\nq2\n", "g.tsv", "line 2: found 1 columns"),
        ("query\tkind\nq1\tx\n", "g.tsv:size", "no column 'size'; it has: query, kind"),
        ("# nothing\n", "g.tsv", "is empty"),
        (f"q1\t{'x' * 200_000}\n", "g.tsv", "line 1: field larger"),
    ],
)
def test_groups_that_do_not_fit(assay, folder, text, by, words):
    (folder / "g.tsv").write_text(text)
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--by", by)
    assert answer.code == 3
    assert words in answer.err


def test_chance_and_ceiling(assay):
    answer = assay(
        "eval", "run.txt", "-r", "qrels.txt", "-m", "P@10", "--chance", "--n-docs", "100"
    )
    row = next(line for line in answer.out.splitlines() if line.startswith("P@10"))
    assert row.split()[1:4] == ["0.1500", "0.0150", "0.1500"]
    assert assay("eval", "run.txt", "-r", "qrels.txt", "--chance").code == 2


def test_chance_where_relevant_documents_are_not_in_the_collection(assay, folder):
    (folder / "qrels.txt").write_text("q1 0 d0 1\nq1 0 x 1\n")
    run = "".join(f"q1 Q0 d{i} {i + 1} {-i} t\n" for i in range(10))
    (folder / "run.txt").write_text(run)
    command = ("eval", "run.txt", "-r", "qrels.txt", "-m", "RR", "-m", "R@10", "--chance")
    answer = assay(*command, "--n-docs", "10")
    rows = {line.split()[0]: line.split() for line in answer.out.splitlines() if line.strip()}
    assert rows["RR"][2:4] == ["0.2929", "1.0000"]
    assert rows["R@10"][2:4] == ["0.5000", "0.5000"]
    few = assay(*command, "--n-docs", "9")
    assert few.code == 3
    assert "names 10 documents, more than the collection's 9" in few.err


def test_several_runs_tell_together_what_the_collection_holds(assay, folder):
    (folder / "qrels.txt").write_text("q1 0 d0 1\nq1 0 x 1\n")
    for name, rows in (("a", range(5)), ("b", range(3, 10))):
        lines = [f"q1 Q0 d{i} {i + 1} {-i} t\n" for i in rows]
        (folder / f"{name}.run").write_text("".join(lines))
    command = ("eval", "a.run", "b.run", "-r", "qrels.txt", "-m", "RR", "--chance", "--json")
    runs = json.loads(assay(*command, "--n-docs", "10").out)["runs"]
    assert [round(one["chance"]["RR"], 4) for one in runs] == [0.2929, 0.2929]


def test_remarks_are_counted_in_one_line_and_whole_with_full(assay, folder):
    (folder / "qrels.txt").write_text("q1 0 a 1\nq3 0 a 1\nq4 0 a 0\n")
    (folder / "run.txt").write_text("q1 Q0 a 1 1 t\nq1 Q0 b 2 1 t\nq2 Q0 a 1 1 t\nq4 Q0 a 1 1 t\n")
    brief = assay("eval", "run.txt", "-r", "qrels.txt")
    assert brief.err == ""
    assert [line for line in brief.out.splitlines() if line.startswith("⚠")] == [
        "⚠ every query gives all its documents the same score · judged queries are missing (1, "
        "counted as 0) · 1 query in the run not judged (left out) · 1 query without a "
        "relevant document · tied scores affect 33 % of queries · details: --full"
    ]
    beside = assay("eval", "run.txt", "-r", "qrels.txt", "--format", "csv").err
    for remarks in (assay("eval", "run.txt", "-r", "qrels.txt", "--full").out, beside):
        assert "1 query judged but not in the run, counted as 0: 'q3'" in remarks
        assert "1 query in the run but not judged, left out: 'q2'" in remarks
        assert "1 query without a relevant document, counted as 0" in remarks
        assert "33 % of queries have a value that depends on ties (ties: order)" in remarks


def test_underscores_are_hyphens(assay):
    a = assay(
        "eval", "run.txt", "-r", "qrels.txt", "--per_query", "--chance", "--n_docs", "9", "--json"
    )
    b = assay(
        "eval", "run.txt", "-r", "qrels.txt", "--per-query", "--chance", "--n-docs", "9", "--json"
    )
    assert a.code == b.code == 0
    hyphens, underscores = json.loads(b.out), json.loads(a.out)
    assert hyphens.pop("made_by") != underscores.pop("made_by")  # as typed
    assert hyphens == underscores


@pytest.mark.parametrize(
    "options",
    [
        ["--json", "--format", "csv"],
        ["--format", "trec", "--by", "g.tsv"],
        ["--by", "g.tsv", "-q"],
        ["--chance", "--n-docs", "9", "-q"],
        ["--depth", "0"],
        ["--depth", "2.5"],
        ["--ties", "no"],
        ["--rel", "x"],
    ],
)
def test_senseless_requests(assay, options):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", *options)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("assay: ")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/bm25.txt.gz", "b/dense.run"], ["bm25", "dense"]),
        (["a/run.txt", "b/run.txt"], ["a/run", "b/run"]),
        (["run.txt", "run.txt"], ["run.txt (1)", "run.txt (2)"]),
        (["run.txt", "run.csv"], ["run.txt (1)", "run.csv (2)"]),
        ([".txt"], [".txt"]),
        (["input.v1"], ["input.v1"]),
    ],
)
def test_names_of_runs(paths, names):
    assert unique_names(paths) == names


def test_the_size_of_the_collection_goes_with_chance(assay):
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--n-docs", "5")
    assert answer.code == 2
    assert "--n-docs requires --chance" in answer.err


@pytest.mark.parametrize("first", ["q1 a\nq2 b\n", "query\nq1\n", "zzz,\n"])
def test_groups_in_one_column_are_a_message(assay, folder, first):
    (folder / "groups.tsv").write_text(first)
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "groups.tsv")
    assert answer.code == 3
    assert "group" in answer.err


def test_space_between_columns_of_groups_is_named(assay, folder):
    (folder / "groups.tsv").write_text("q1 a\nq2 b\n")
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "groups.tsv")
    assert "groups.tsv: the first line has one column, 'q1 a'" in answer.err
    assert "Separate columns by tabs" in answer.err


@pytest.mark.parametrize("name", ["run.txt", "./run.txt", "link", "qrels.txt", "groups.tsv"])
def test_no_input_is_written_over(assay, folder, name):
    (folder / "link").symlink_to("run.txt")
    (folder / "groups.tsv").write_text("q1\ta\nq2\tb\n")
    before = (folder / name).read_text()
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "--by", "groups.tsv:2", "-o", name)
    assert answer.code == 2
    assert "is one of the inputs" in answer.err
    assert (folder / name).read_text() == before


@pytest.mark.parametrize("name", ["x.parquet", "x.csv.gz", "x.JSONL", "x.npz"])
def test_an_ending_that_promises_another_format_is_refused(assay, folder, name):
    asked = ["--format", "csv"] if name.endswith(".gz") else []
    answer = assay("eval", "run.txt", "-r", "qrels.txt", "-o", name, *asked)
    assert answer.code == 2
    assert "Use .md, .tex, .csv, .tsv, .json" in answer.err
    assert not (folder / name).exists()


def test_conflicting_judgments_name_their_file(assay, folder):
    (folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 a 2\n")
    answer = assay("eval", "run.txt", "-r", "qrels.txt")
    assert answer.code == 3
    assert answer.err.startswith("assay: qrels.txt: query 'q1', document 'a' is judged twice")
