"""`assay diff`: every number against a brute force of its definition, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import assay
from assay import store as stores
from assay.cli.schema import result_schema
from assay.errors import AssayError, IdError, MismatchError, UsageError
from assay.runs.record import RunRecord
from assay.runs.results import QueryResults, ResultDoc
from assay.search import diff as diffs
from assay.search.neighbours import overlap, rbo
from assay.stats import interval
from tests.web.samples import Client

Run = dict[str, list[str]]


def brute_rbo(a: list[str], b: list[str], p: float) -> float:
    """RBO_EXT as Webber, Moffat and Zobel write it: equation 32, depth by depth."""
    short, long = sorted((a, b), key=len)
    s, l = len(short), len(long)  # noqa: E741
    if not s:
        return 0.0

    def x(d: int) -> int:
        return len(set(short[:d]) & set(long[:d]))

    total = sum(x(d) / d * p**d for d in range(1, l + 1))
    total += sum(x(s) * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * total + ((x(l) - x(s)) / l + x(s) / s) * p**l


def random_runs(seed: int, n: int = 60, docs: int = 14) -> tuple[Run, Run]:
    rng = np.random.default_rng(seed)
    runs: tuple[Run, Run] = ({}, {})
    for query in range(n):
        for run in runs:
            if rng.random() < 0.9:
                size = rng.integers(1, docs)
                run[f"q{query}"] = [f"d{doc}" for doc in rng.permutation(docs)[:size]]
    return runs


@pytest.mark.parametrize(("seed", "depth", "p"), [(0, 100, 0.9), (1, 5, 0.8), (2, 1, 0.5)])
def test_every_value_is_that_of_the_definition(
    seed: int, depth: int, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffs, "_BLOCK", 40)  # many blocks
    old, new = random_runs(seed)
    result = assay.diff(old, new, k=(1, 4), depth=depth, p=p)
    depth = max(depth, 4)
    assert list(result.query_ids) == list(dict.fromkeys([*old, *new]))
    for i, query in enumerate(result.query_ids):
        a, b = (run.get(str(query), [])[:depth] for run in (old, new))
        for k in (1, 4):
            both = len(set(a[:k]) & set(b[:k]))
            assert result.values[f"Overlap@{k}"][i] == both / min(k, max(len(a), len(b)))
        assert result.values[f"RBO(p={p:g})"][i] == pytest.approx(brute_rbo(a, b, p), abs=1e-12)
        ranks = range(max(len(a), len(b)))
        first = next((r + 1 for r in ranks if a[r : r + 1] != b[r : r + 1]), 0)
        assert result.first[i] == first
        assert result.values["appeared"][i] == len(set(b[:1]) - set(a[:1]))
        assert result.values["vanished"][i] == len(set(a[:1]) - set(b[:1]))
    assert result.join.only_queries == (len(old.keys() - new.keys()), len(new.keys() - old.keys()))
    span = result.means["all"]["Overlap@4"]
    expected = interval(result.values["Overlap@4"], bounds=(0, 1))
    assert (span.estimate, span.low, span.high) == (expected.estimate, expected.low, expected.high)


def test_lists_of_one_length_have_the_values_of_the_measures() -> None:
    rng = np.random.default_rng(3)
    old, new = (
        {f"q{q}": [f"d{d}" for d in rng.permutation(30)[:12]] for q in range(20)} for _ in range(2)
    )
    result = assay.diff(old, new, k=10)
    a, b = (assay.io.formats.as_ranking(run, assay.Conventions()) for run in (old, new))
    assert result.values["Overlap@10"] == pytest.approx(overlap(a, b, k=10))
    assert result.values["RBO(p=0.9)"] == pytest.approx(rbo(a, b, ties="order"))


def test_keys_that_do_not_fit_are_cut_into_more_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = random_runs(4)
    usual = assay.diff(old, new)
    make = diffs._Join.of
    wide = classmethod(lambda _, *runs: replace(make(*runs), bits=(10, 50)))  # a row fills a key
    monkeypatch.setattr(diffs._Join, "of", wide)
    assert assay.diff(old, new).values["RBO(p=0.9)"].tolist() == usual.values["RBO(p=0.9)"].tolist()


def test_equal_runs_are_equal_however_they_tie(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("".join(f"q{q} Q0 d{d} 1 0.5 x\n" for q in range(9) for d in range(300)))
    result = assay.diff(str(path), str(path), k=(10, 1000))
    assert result.verdict.startswith("No change: ")
    assert all((result.values[name] == 1).all() for name in list(result.values)[:3])
    assert result.moved == ()


def test_ties_stand_in_the_order_of_lines(tmp_path: Path) -> None:
    lines = ["q Q0 a 1 1.0 x\n", "q Q0 b 2 1.0 x\n"]
    for name, text in (("a", lines), ("b", lines[::-1])):
        (tmp_path / f"{name}.run").write_text("".join(text))
    result = assay.diff(str(tmp_path / "a.run"), str(tmp_path / "b.run"), k=1)
    assert (result.first[0], result.values["Overlap@1"][0]) == (1, 0)
    assert "ties-in-order-of-lines" in result.signature


def test_slices_and_texts(tmp_path: Path) -> None:
    old = {f"q{i}": ["a", "b"] for i in range(20)}
    new = {f"q{i}": ["a", "b"] if i % 2 else ["c", "b"] for i in range(20)}
    queries = tmp_path / "queries.tsv"
    queries.write_text("".join(f"q{i}\tquestion {i} of all\n" for i in range(20)))
    kinds = {f"q{i}": "odd" if i % 2 else "even" for i in range(20)}
    result = assay.diff(old, new, k=1, slices=kinds, queries=str(queries), moved=3)
    estimates = {part: spans["Overlap@1"].estimate for part, spans in result.means.items()}
    assert estimates == {"all": 0.5, "even": 0.0, "odd": 1.0}
    assert [(c.query, c.text, c.appeared, c.vanished) for c in result.moved[:1]] == [
        ("q0", "question 0 of all", ["c"], ["a"])
    ]
    assert len(result.moved) == 3
    named = assay.diff(old, new, k=1, slices={"q1": "all"})
    assert named.means["all"]["Overlap@1"].n == 20
    assert named.means["all (slice)"]["Overlap@1"].n == 1


def test_judgments_tell_whether_it_helped_and_what_is_not_judged() -> None:
    old = {f"q{i}": ["x", "a", "u"] for i in range(30)}
    new = {f"q{i}": ["a", "x", "v", "w"] for i in range(30)}
    qrels = {f"q{i}": {"a": 1, "x": 0} for i in range(29)}
    result = assay.diff(old, new, k=3, qrels=qrels, measures="RR")
    assert result.comparison is not None
    pair = result.comparison.pairs[0]
    assert (pair.a, pair.b, pair.difference) == ("new", "old", 0.5)
    assert result.unjudged == (29, 29)  # u, and v: w is below the cut, q29 is not judged
    assert "unjudged documents in the top 3 of one" in result.remarks[-1]
    same = assay.diff(old, old, k=3, qrels=qrels, measures="RR")
    assert same.unjudged == (0, 0)
    assert not any("pools" in remark for remark in same.remarks)


def test_unjudged_documents_are_those_of_a_brute_force() -> None:
    old, new = random_runs(5)
    rng = np.random.default_rng(6)
    qrels = {q: {f"d{d}": 1 for d in rng.permutation(20)[:6]} for q in list(old)[:40]}
    counts = [0, 0]
    for query, judged in qrels.items():
        tops = [set(run.get(query, [])[:4]) for run in (old, new)]
        for side in (0, 1):
            counts[side] += len(tops[side] - tops[1 - side] - judged.keys())
    assert assay.diff(old, new, k=4, qrels=qrels).unjudged == tuple(counts)


@pytest.mark.parametrize(
    ("old", "new", "options", "error", "words"),
    [
        ({}, {"q": ["a"]}, {}, AssayError, "holds no queries"),
        ({"q": ["a"]}, {"q": ["a"]}, {"k": 0}, AssayError, "k"),
        (
            {"q": ["a"]},
            {"q": ["a"]},
            {"k": ()},
            UsageError,
            "A diff needs a cutoff k and two names",
        ),
        ({"q": ["a"]}, {"q": ["a"]}, {"p": 1.0}, UsageError, "RBO's p"),
        ({"q": ["a"]}, {"q": ["a"]}, {"depth": float("nan")}, AssayError, "depth"),
        ({"q": ["a"]}, {"q": ["a"]}, {"slices": {"x": "y"}}, UsageError, "No query has a slice"),
        ({"q": ["a", "a"]}, {"q": ["a"]}, {}, IdError, "more than once"),
        (7, {"q": ["a"]}, {}, AssayError, "int"),
        ({"q": ["a"]}, {"q": ["a"]}, {"names": ["x"]}, UsageError, "two names"),
        ({"q": ["a"]}, {"q": ["a"]}, {"names": None}, AssayError, "names"),
        ({"q": ["a"]}, {"q": ["a"]}, {"slices": 3}, AssayError, "slices"),
        ({"q": ["a"]}, {"q": ["a"]}, {"level": 2}, UsageError, "level"),
        ({"q": ["a"]}, {"q": ["a"]}, {"moved": -1}, UsageError, "moved"),
        (
            {f"q{i}": [f"d{i}"] for i in range(30)},
            {f"q{i:03}": [f"d{i}"] for i in range(30)},
            {},
            MismatchError,
            "'q0' and 'q000'",
        ),
        (
            {f"q{i}": [f"d{i}"] for i in range(30)},
            {f"q{i}": [f"D{i}"] for i in range(30)},
            {},
            MismatchError,
            "upper and lower case",
        ),
    ],
)
def test_bad_requests(
    old: Any, new: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        assay.diff(old, new, **options)


def test_odd_runs() -> None:
    one = assay.diff({"q": ["a", "b"]}, {"q": ["b"]}, k=10)
    assert one.values["Overlap@10"].tolist() == [0.5]
    disjoint = assay.diff({"a": ["x"]}, {"b": ["x"]})
    assert (disjoint.join.only_queries, disjoint.values["Overlap@10"].tolist()) == ((1, 1), [0, 0])
    assert [change.only for change in disjoint.moved] == ["old", "new"]
    empty, full = (assay.Ranking.from_arrays(docs) for docs in ([[-1], [-1]], [[-1], [2]]))
    both = assay.diff(empty, full)
    assert both.values["RBO(p=0.9)"].tolist() == both.values["Overlap@10"].tolist() == [1, 0]
    far = assay.diff(
        {f"q{i}": [f"d{i}"] for i in range(30)},
        {f"q{i:03}": [f"d{i}"] for i in range(30)},
        allow_mismatch=True,
    )
    assert "zero padding" in " ".join(far.remarks)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    old, new = random_runs(8, n=30)
    paths = tmp_path / "old.run", tmp_path / "new.run", tmp_path / "qrels.txt"
    for path, run in zip(paths, (old, new), strict=False):
        path.write_text(
            "".join(f"{q} Q0 {d} 0 {-i} x\n" for q, docs in run.items() for i, d in enumerate(docs))
        )
    paths[2].write_text("".join(f"{q} 0 {docs[0]} 1\n" for q, docs in old.items()))
    return paths


def test_the_command_has_json_by_its_schema_and_a_gate(
    assay: Any, files: tuple[Path, Path, Path]
) -> None:
    old, new, qrels = files
    done = assay("diff", old, new, "-k", 3, "-k", 5, "-r", qrels, "-m", "RR", "--json")
    data = json.loads(done.out)
    jsonschema.validate(data, result_schema("diff"))
    assert data["judged"]["comparison"]["measures"]
    mean = data["means"]["all"]["Overlap@3"]["mean"]
    low, high = (
        assay("diff", old, new, "-k", 3, "--fail-if-overlap-below", limit)
        for limit in (mean, np.nextafter(mean, 1))
    )
    assert (low.code, high.code) == (0, 1)
    assert "Passed: mean Overlap@3" in low.err
    assert "Failed: mean Overlap@3" in high.err
    table = assay("diff", old, new, "--format", "csv").out.splitlines()
    assert table[0].split(",")[:3] == ["query", "Overlap@10", "RBO(p=0.9)"]
    assert len(table) == 1 + len(data["queries"])
    assert assay("diff", old, new, "-o", old).code != 0
    assert "-m requires -r" in assay("diff", old, new, "-m", "AP").err


@pytest.mark.parametrize("judged", [False, True])
def test_a_saved_diff_says_what_changed_and_never_how_good(
    assay: Any, files: tuple[Path, Path, Path], tmp_path: Path, judged: bool
) -> None:
    old, new, qrels = files
    store, result, export = (str(tmp_path / name) for name in ("runs.db", "d.json", "e.json"))
    more = ("-r", qrels, "-m", "RR") if judged else ()
    saved = assay("diff", old, new, *more, "--save", "--store", store, "-o", result)
    assert saved.code == 0
    data = json.loads(Path(result).read_text())
    mean = f"{data['means']['all']['Overlap@10']['mean']:.4f}"
    verdict = data["verdict"]
    assert mean in verdict
    texts = [
        assay("runs", "show", 1, "--store", store).out,
        assay("runs", "list", "--store", store).out,
    ]
    for ending in ("md", "html"):
        report = tmp_path / f"report.{ending}"
        assert assay("report", "run:1", "--store", store, "-o", report).code == 0
        texts.append(report.read_text())
    page = Client(store)
    texts.append(page("/run/1").text)
    for text in texts:
        assert "Overlap@10" in text
        assert "reaches" not in text
        assert "R@10" not in text
    for text in texts[2:]:
        assert "queries changed" in text
        assert "Queries that moved" in text
        assert "queries changed; mean Overlap@10" in text or "queries changed.</p>" in text
        assert ".." not in text
        assert ("on RR" in text) == judged  # the sentence of the comparison
    assert "Overlap" not in page("/leaderboard").text
    with stores.open(store) as opened:
        run = opened.run(1)
        assert (run.signature, run.details()["verdict"]) == (data["signature"], verdict)
        assert [each.average for each in run.aggregates] == ["overlap", "overlap"]
        opened.begin(RunRecord("begun", task="diff"))
    assert page("/run/2").status == 200  # it has no result yet
    assert assay("verify", result, "--folder", "/", "--outside").code == 0
    assert assay("runs", "export", 1, "--store", store, "-o", export).code == 0
    assert assay("verify", export, "--folder", "/", "--outside").code == 0
    tampered = {**data, "means": {"all": {}}}
    Path(result).write_text(json.dumps(tampered))
    assert assay("verify", result, "--folder", "/", "--outside").code == 1


def test_the_signature_has_all_that_changes_a_number(tmp_path: Path) -> None:
    old, new = random_runs(7, n=20)
    qrels = {q: {docs[0]: 1} for q, docs in old.items()}
    usual: dict[str, Any] = {
        "k": 3,
        "qrels": qrels,
        "measures": "RR",
        "slices": dict.fromkeys(old, "a"),
    }
    moved = {**new, "q0": [*reversed(new["q0"]), "further"]}
    variants: list[tuple[Run, Run, dict[str, Any]]] = [
        (old, new, {}),
        (moved, new, {}),
        (old, moved, {}),
        *(
            (old, new, change)
            for change in (
                {"k": 4},
                {"k": (3, 4)},
                {"p": 0.8},
                {"depth": 7},
                {"level": 0.1},
                {"resamples": 999},
                {"seed": 5},
                {"qrels": None},
                {"measures": "AP"},
                {"slices": None},
                {"qrels": {**qrels, "q1": {"d1": 2}}},
                {"slices": {**dict.fromkeys(old, "a"), "q1": "b"}},
                {"names": ("a", "b")},
            )
        ),
    ]
    signatures = [assay.diff(a, b, **{**usual, **more}).signature for a, b, more in variants]
    assert len(set(signatures)) == len(variants)
    assert assay.diff(old, new, **usual).signature == signatures[0]
    scored = {q: {d: -2.0 * i for i, d in enumerate(docs)} for q, docs in old.items()}
    assert assay.diff(scored, new, **usual).signature == signatures[0]  # the order is the same


def test_rbo_is_that_of_another_program() -> None:
    """The values are those of rbo 0.1.3, for lists of one length and of two."""
    cases = json.loads((Path(__file__).parent / "rbo.json").read_text())["cases"]
    assert {len(a) == len(b) for a, b, _, _ in cases} == {True, False}
    for a, b, p, value in cases:
        result = assay.diff({"q": list(a)}, {"q": list(b)}, p=p)
        assert result.values[f"RBO(p={p:g})"][0] == pytest.approx(value, abs=1e-12)
    a, b, p, value = cases[0]
    assert (a, b, p, round(value, 5)) == ("abcde", "bacdf", 0.9, 0.76878)


def test_rbo_of_ties_is_that_of_the_lists_as_they_are_written(tmp_path: Path) -> None:
    cases = json.loads((Path(__file__).parent / "rbo.json").read_text())["cases"]
    runs = tmp_path / "old.run", tmp_path / "new.run"
    for path, side in zip(runs, (0, 1), strict=True):
        lines = (f"q{n} Q0 {doc} 1 0.5 x\n" for n, case in enumerate(cases) for doc in case[side])
        path.write_text("".join(lines))
    result = assay.diff(str(runs[0]), str(runs[1]), p=0.9)
    for query, value in zip(result.query_ids, result.values["RBO(p=0.9)"], strict=True):
        a, b, _, _ = cases[int(str(query)[1:])]
        assert value == pytest.approx(brute_rbo(list(a), list(b), 0.9), abs=1e-12)


def test_stored_runs_are_taken_as_files_are(assay: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with stores.open("assay.db") as store:
        for docs in ("ab", "bc"):
            found = tuple(ResultDoc(doc, float(-i), None) for i, doc in enumerate(docs))
            store.save(RunRecord(docs, results={"q1": QueryResults("a question", found)}))
        store.save(RunRecord("bare"))
    data = json.loads(assay("diff", "run:1", "run:2", "-k", 2, "--json").out)
    assert data["means"]["all"]["Overlap@2"]["mean"] == 0.5
    assert data["moved"][0]["appeared"] == ["c"]
    limit = "is stored to rank 2: lower ranks are not compared"
    assert data["remarks"] == [f"run:1 {limit}", f"run:2 {limit}"]
    assert "holds no documents" in assay("diff", "run:1", "run:3").err
    Path("assay.db").rename("other.db")
    named = assay("diff", "run:1", "run:2", "-k", 2, "--store", "other.db", "--json")
    assert json.loads(named.out)["signature"] == data["signature"]
    Path("other.db").rename("assay.db")
    assert assay("diff", "run:1", "run:9").code != 0


def test_the_table_of_queries_fits_80_columns(assay, tmp_path: Path, monkeypatch) -> None:
    """Eight characters are what ids of test collections have; texts are shown if there are some."""
    monkeypatch.chdir(tmp_path)
    for name, step in (("old", 1), ("new", 7)):
        lines = (
            f"q{q:02} Q0 doc-{(q + rank * step) % 90:04} {rank} {100 - rank} x\n"
            for q in range(20)
            for rank in range(10)
        )
        Path(f"{name}.run").write_text("".join(lines))
    Path("texts.tsv").write_text("".join(f"q{q:02}\tquestion {q}\n" for q in range(20)))
    plain = assay("diff", "old.run", "new.run").out
    (heading,) = [line for line in plain.splitlines() if "first change" in line]
    assert "text" not in heading.split()
    assert max(map(len, plain.splitlines())) <= 80
    texts = assay("diff", "old.run", "new.run", "--queries", "texts.tsv").out
    (heading,) = [line for line in texts.splitlines() if "first change" in line]
    assert "text" in heading.split()
    assert "question 3" in texts
