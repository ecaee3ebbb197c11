"""Runs, judgments and scores in whatever form people have them, in every function of the API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import assay
from assay.core.conventions import CHOICES
from assay.errors import ConventionError, UsageError
from assay.io.writers import write_run

QRELS = {f"q{i}": {"a": 1, "c": 2} for i in range(8)}
NEW = {q: {"a": 3.5, "b": 2.5, "c": 1.5} for q in QRELS}
OLD = {q: {"b": 3.5, "a": 2.5, "c": 1.5} for q in QRELS}


def _frame(run: dict[str, dict[str, float]]) -> object:
    pandas = pytest.importorskip("pandas")
    rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
    return pandas.DataFrame(rows, columns=["query", "doc", "score"])


def _file(run: dict[str, dict[str, float]], folder: Path) -> Path:
    path = folder / f"{id(run)}.json"
    path.write_text(json.dumps(run))
    return path


FORMS = {
    "dictionary": lambda run, _: run,
    "frame": lambda run, _: _frame(run),
    "tuples": lambda run, _: [(q, d, s) for q, docs in run.items() for d, s in docs.items()],
    "lists": lambda run, _: {
        q: sorted(docs, key=docs.get, reverse=True) for q, docs in run.items()
    },
    "path": _file,
    "text": lambda run, folder: str(_file(run, folder)),
    "ranking": lambda run, folder: assay.read_run(_file(run, folder)),
    "scores": lambda run, _: assay.evaluate(run, QRELS, ["RR", "AP"]),
}
WANTED = assay.compare(
    assay.evaluate(NEW, QRELS, ["RR", "AP"]),
    assay.evaluate(OLD, QRELS, ["RR", "AP"]),
    names=["new", "old"],
)


@pytest.mark.parametrize("form", FORMS)
def test_compare_takes_runs_by_name(form, tmp_path):
    mixed = {"new": FORMS[form](NEW, tmp_path), "old": OLD}
    found = assay.compare(mixed, QRELS, ["RR", "AP"])
    assert found.to_dict() == WANTED.to_dict()
    both = {name: FORMS[form](run, tmp_path) for name, run in (("new", NEW), ("old", OLD))}
    judged = None if form == "scores" else QRELS
    assert assay.compare(both, judged, measures=["RR", "AP"]).to_dict() == WANTED.to_dict()


def test_compare_takes_the_keywords_of_evaluate():
    groups = {"half": {q: q > "q3" for q in QRELS}}
    found = assay.compare(
        {"new": NEW, "old": OLD}, QRELS, "RR", conventions="beir", ties="expected", groups=groups,
        by="half", baseline="old", resamples=200,
    )  # fmt: skip
    scores = [
        assay.evaluate(
            run,
            QRELS,
            "RR",
            conventions=assay.preset("beir").replace(ties="expected"),
            groups=groups,
        )
        for run in (NEW, OLD)
    ]
    wanted = assay.compare(*scores, names=["new", "old"], by="half", baseline="old", resamples=200)
    assert found.to_dict() == wanted.to_dict()


def test_without_measures_compare_takes_those_of_the_command():
    found = assay.compare({"new": NEW, "old": OLD}, QRELS)
    assert list(map(str, found.measures)) == ["nDCG@10"]
    scored = assay.compare({"new": assay.evaluate(NEW, QRELS, "RR"), "old": OLD}, qrels=QRELS)
    assert list(map(str, scored.measures)) == ["RR"]


SCORES = WANTED.aligned and assay.evaluate(NEW, QRELS, "RR")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: assay.compare({"a": NEW, "b": OLD}), "'a' is a run. Pass the judgments"),
        (lambda: assay.compare({"a": SCORES, "b": SCORES}, QRELS), "already. Omit"),
        (lambda: assay.compare({"a": NEW, "b": OLD}, QRELS, "RR", "AP"), "once each"),
        (lambda: assay.compare({"a": NEW, "b": OLD}, QRELS, names=["x", "y"]), "once each"),
        (lambda: assay.compare({"a": NEW, "b": OLD}, QRELS, "RR", measures="AP"), "once each"),
        (lambda: assay.compare(SCORES, SCORES, ties="best"), "ties applies to runs by name"),
        (lambda: assay.compare(SCORES, SCORES, qrels=QRELS), "qrels applies to runs by name"),
        (lambda: assay.compare(NEW, OLD), "This is one run"),
        (lambda: assay.compare(SCORES), "two or more systems, found 1"),
        (lambda: assay.fuse(NEW), "fuse takes a list of runs, found dict"),
        (lambda: assay.report.make_report({"a": NEW}), "the run 'a'"),
    ],
)
def test_what_does_not_go_together_is_named(call, words):
    with pytest.raises(assay.AssayError, match=words):
        call()


def test_every_convention_is_a_keyword():
    for key, choices in CHOICES.items():
        name = "self_match" if key == "self" else key
        for value in choices:
            if value == "error":
                continue
            found = assay.evaluate(NEW, QRELS, "nDCG", **{name: value})
            wanted = assay.evaluate(
                NEW, QRELS, "nDCG", conventions=assay.preset("trec_eval").replace(**{name: value})
            )
            assert found.signature == wanted.signature
            assert found.to_dict() == wanted.to_dict()
    assert assay.evaluate(NEW, QRELS, "num_ret", depth=2).mean()["num_ret"] == 16
    with pytest.raises(ConventionError, match="Did you mean ties"):
        assay.evaluate(NEW, QRELS, tie="expected")


def test_other_functions_take_conventions_as_keywords():
    tied = {"q": {"a": 1.0, "b": 1.0}}
    judged = {"q": {"a": 1}}
    assert assay.explain(tied, judged, query="q", measure="RR", ties="expected").value == 0.75
    assert "ties:expected" in assay.check(tied, judged, ties="expected").signature
    stream = assay.Stream("RR", ties="expected")
    stream.add(tied, judged)
    assert stream.scores().mean()["RR"] == 0.75


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("scores", "lists")])
def test_fuse_takes_runs_in_any_form(form, tmp_path):
    rankings = [FORMS["ranking"](run, tmp_path) for run in (NEW, OLD)]
    wanted = assay.fuse(rankings)
    found = assay.fuse([FORMS[form](NEW, tmp_path), OLD])
    for fused, name in ((wanted, "wanted.txt"), (found, "found.txt")):
        write_run(fused, tmp_path / name, tag="x")
    assert (tmp_path / "found.txt").read_text() == (tmp_path / "wanted.txt").read_text()


def test_a_report_takes_scores_by_name():
    scores = {name: assay.evaluate(run, QRELS, "RR") for name, run in (("new", NEW), ("old", OLD))}
    report = assay.report.make_report(scores)
    assert report.names == ("new", "old")
    assert report.verdicts["RR"].startswith("new is probably better than old on RR")
    record = assay.runs.RunRecord("other", scores["old"])
    assert assay.report.make_report({"new": scores["new"], "old": record}).names == ("new", "old")


def test_frames_and_latex_of_results():
    pandas = pytest.importorskip("pandas")
    frame = WANTED.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["measure"].tolist() == ["RR", "AP"]
    assert frame["difference"].tolist() == [pair.difference for pair in WANTED.pairs]
    assert frame["p"].dtype == "float64"
    assert WANTED.to_latex().count(r"\begin{tabular}") == 1
    mean = assay.evaluate(NEW, QRELS, ["RR", "AP"]).mean()
    assert mean.to_frame()["mean"].tolist() == list(mean.values())
    assert mean.to_frame()["n"].tolist() == [8, 8]


def test_a_mean_as_plain_data():
    scores = assay.evaluate(
        NEW,
        QRELS,
        ["RR", "GMAP"],
        groups={"half": {q: "late" if q > "q3" else "early" for q in QRELS}},
    )
    data = scores.mean().to_dict()
    assert data["measures"] == scores.to_dict()["measures"]
    assert set(data) == {"average", "measures"}
    by = scores.mean(by="half").to_dict()
    assert (by["average"], by["by"], by["sizes"]) == ("macro", "half", {"early": 4, "late": 4})
    assert by["groups"]["late"] == {"RR": 1.0, "GMAP": pytest.approx(5 / 6)}
    json.dumps(by, allow_nan=False)


def test_objects_of_ir_measures():
    theirs = pytest.importorskip("ir_measures")
    asked = [theirs.nDCG @ 2, theirs.AP(rel=2) @ 3, theirs.RR, "P@1"]
    assert list(map(str, assay.parse_many(asked))) == ["nDCG@2", "AP(rel=2)@3", "RR", "P@1"]
    assert assay.parse(theirs.P @ 5) == assay.parse("P@5")
    run = [theirs.ScoredDoc(q, d, s) for q, docs in NEW.items() for d, s in docs.items()]
    qrels = [theirs.Qrel(q, d, g) for q, docs in QRELS.items() for d, g in docs.items()]
    found = assay.evaluate(run, qrels, asked).mean()
    assert dict(found) == dict(assay.evaluate(NEW, QRELS, asked).mean())
    with pytest.raises(assay.AssayError, match="alpha_nDCG@2 of ir_measures is not a measure"):
        assay.evaluate(run, qrels, theirs.alpha_nDCG @ 2)


def test_packages_resolve_without_an_import_of_their_own():
    for name in ("bench", "crossmodal", "errors", "io", "prediction", "runs", "stats", "store"):
        assert getattr(assay, name).__name__ == f"assay.{name}"
        assert name in dir(assay)
    with pytest.raises(UsageError):
        assay.report.make_report([])


def test_frames_of_queries_and_tasks():
    pytest.importorskip("pandas")
    found = WANTED.differences("RR").to_frame()
    assert found.columns.tolist() == ["query", "value_a", "value_b", "difference"]
    assert found["difference"].tolist() == [0.5] * 8
    tasks = assay.compare_tasks(
        {"new": {"t": SCORES, "u": SCORES}, "old": {"t": SCORES, "u": SCORES}}, resamples=200
    )
    frame = tasks.to_frame()
    assert frame["name"].tolist() == [one.name for one in tasks.standings]
    assert frame["mean"].tolist() == [1.0, 1.0]
    assert r"\begin{tabular}" in tasks.to_latex()
