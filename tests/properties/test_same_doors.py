"""The Python door and the command line: the same numbers under the same signature."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import assay
from assay.bench import run_bench
from assay.codes import evaluate_codes
from assay.crossmodal import label_retrieval
from assay.io.collections import load_collection
from assay.prediction import Accumulator, evaluate_candidates, evaluate_predictions
from assay.runs.record import RunRecord
from assay.scoring.scores import Scores
from assay.tasks.comparison import compare_tasks
from assay.vision import PatchReport, evaluate_patches, read_patch_scenes
from tests.properties.metamorphic import Sayings

LETTERS = "letters=py:tests.golden.models:bag"
# Times, and what is said about files and the command.
_APART = re.compile(
    r"\w*seconds?\w*|\w+_per_second|\w*time_ms|timings|metadata|command|schema_version|remarks|text|path|tag"
)
MEASURES = ["AP", "nDCG@10", "SetP"]


@pytest.fixture(autouse=True)
def _inside(sayings: Sayings) -> Iterator[None]:
    here = os.getcwd()
    os.chdir(sayings.folder)
    yield
    os.chdir(here)


def _plain(value: Any) -> Any:
    """What JSON holds, without what is apart."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if not _APART.fullmatch(str(k))}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def _scores(name: str) -> Scores:
    return assay.evaluate(f"{name}.run", "qrels.txt", MEASURES)


def _vectors(name: str) -> Any:
    return np.load(f"{name}.npy")


def _codes() -> Any:
    found = np.load("codes.npz")
    return evaluate_codes(
        found["docs"],
        found["queries"],
        doc_ids=found["doc_ids"],
        query_ids=found["query_ids"],
        qrels="codes.qrels",
        bits=[8],
        k=[5],
        resamples=200,
    ).to_dict()


def _labels() -> Any:
    found = label_retrieval(
        {"sensor": _vectors("sensor"), "text": _vectors("text")},
        _vectors("labels"),
        directions=["sensor2text", "text2text"],
        k_values=[3, 10],
        full=True,
    )
    return found.to_dict()


def _predictions() -> Any:
    result = evaluate_predictions(_vectors("a"), _vectors("targets"), name="a")
    return {"models": {"a": [result.to_dict()]}, "signature": result.scores.signature}


_FILES = "--sensor-embeddings sensor.npy --text-embeddings text.npy --labels labels.npy"
# A command line, and what Python says.
DOORS: dict[str, tuple[str, Callable[[], Any]]] = {
    "compare": (
        "compare dense.run coarse.run -r qrels.txt -m AP -m nDCG@10 -m SetP --json",
        lambda: assay.compare(
            _scores("dense"), _scores("coarse"), names=["dense", "coarse"]
        ).to_dict(),
    ),
    "check": (
        "check coarse.run qrels.txt -m AP --json",
        lambda: assay.check("coarse.run", "qrels.txt", measures=["AP"]).to_dict(),
    ),
    "explain": (
        "explain coarse.run -r qrels.txt --query 302 -m AP --json",
        lambda: assay.explain("coarse.run", "qrels.txt", query="302", measure="AP").to_dict(),
    ),
    "crossmodal": (
        f"crossmodal {_FILES} --directions sensor2text text2text --k-values 3 10 --full --json",
        _labels,
    ),
    "predict": ("predict a.npy -t targets.npy --json", _predictions),
    "codes": (
        "codes --embeddings codes.npz --queries codes.npz -r codes.qrels --bits 8 --k 5"
        " --resamples 200 --json",
        _codes,
    ),
    "bench": (
        f"bench --corpus made --model 'bm25?k1=1.3' --model {LETTERS} --no-cache -m nDCG@10 --json",
        lambda: run_bench(
            load_collection("made"), ["bm25?k1=1.3", LETTERS], measures=["nDCG@10"]
        ).to_dict(per_query=True),
    ),
    "tasks": (
        "tasks values.csv --resamples 200 --json",
        lambda: compare_tasks("values.csv", resamples=200).to_dict(),
    ),
    "descriptors patches": (
        "descriptors patches floats --json",
        lambda: PatchReport(
            (evaluate_patches(read_patch_scenes("floats"), name="floats"),)
        ).to_dict(),
    ),
}
NEEDS = {"bench": "bm25s"}


@pytest.mark.parametrize("command", DOORS)
def test_python_says_what_the_command_says(command: str, sayings: Sayings) -> None:
    if command in NEEDS and find_spec(NEEDS[command]) is None:
        pytest.skip(f"needs {NEEDS[command]}")
    line, call = DOORS[command]
    said = sayings.spoken(line)
    found = call()
    assert _plain({key: said[key] for key in found if key in said}) == _plain(found)
    assert "signature" in json.dumps(_plain(found)) or command in ("check", "explain")


# Where a run comes from


def _dictionary(name: str, column: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for line in Path(name).read_text().splitlines():
        cells = line.split()
        found.setdefault(cells[0], {})[cells[2]] = float(cells[column])
    return found


def _triples(name: str, column: int) -> list[tuple[str, str, float]]:
    rows = _dictionary(name, column).items()
    return [(query, doc, value) for query, docs in rows for doc, value in docs.items()]


def _frame(package: str, value: str) -> Callable[[str, int], Any]:
    def make(name: str, column: int) -> Any:
        library = pytest.importorskip(package)
        queries, docs, values = map(list, zip(*_triples(name, column), strict=True))
        table = {"query_id": queries, "doc_id": docs, value: values}
        return getattr(library, "DataFrame", getattr(library, "table", None))(table)

    return make


SOURCES: dict[str, tuple[Callable[[str, int], Any], Callable[[str, int], Any]]] = {
    "path": (lambda name, _: name, lambda name, _: Path(name)),
    "value": (lambda name, _: assay.read_run(name), lambda name, _: assay.read_qrels(name)),
    "dictionary": (_dictionary, _dictionary),
    "triples": (_triples, _triples),
    "backwards": (lambda *a: _triples(*a)[::-1], lambda *a: _triples(*a)[::-1]),
    **{
        package: (_frame(package, "score"), _frame(package, "grade"))
        for package in ("pandas", "polars", "pyarrow")
    },
}


@pytest.mark.parametrize("conventions", ["trec_eval", "sentence_transformers", "beir"])
@pytest.mark.parametrize("source", SOURCES)
def test_evaluate_says_what_eval_says(source: str, conventions: str, sayings: Sayings) -> None:
    options = f"-m {','.join(MEASURES)} -q -c {conventions} --json"
    said = sayings.spoken(f"eval coarse.run -r qrels.txt {options}")
    run, qrels = SOURCES[source]
    rules = {"conventions": conventions}
    given = run("coarse.run", 4)
    if source == "value":
        given = assay.read_run("coarse.run", **rules)
    scores = assay.evaluate(given, qrels("qrels.txt", 3), MEASURES, **rules)
    found = {key: value for key, value in scores.to_dict().items() if key in said["runs"][0]}
    assert said["signature"] == scores.signature
    assert _plain(found) == _plain({key: said["runs"][0][key] for key in found})


def test_a_stream_says_what_one_go_says() -> None:
    run, qrels = _dictionary("coarse.run", 4), _dictionary("qrels.txt", 3)
    whole = assay.evaluate(run, qrels, MEASURES)
    for size in (1, 5, 100):
        stream = assay.Stream(MEASURES)
        missing = {query: docs for query, docs in qrels.items() if query not in run}
        queries = [query for query in qrels if query in run]
        for first in range(0, len(queries), size):
            some = queries[first : first + size]
            judged = {query: qrels[query] for query in some} | (missing if first == 0 else {})
            rows = {query: run[query] for query in some}
            stream.add(rows, judged, allow_mismatch=True)
        assert _plain(stream.scores().to_dict()) == _plain(whole.to_dict())


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_of_predictions_say_what_one_go_says(size: int) -> None:
    scores, targets = _vectors("a"), _vectors("targets")
    batches = Accumulator()
    for first in range(0, len(scores), size):
        batches.add(scores[first : first + size], targets[first : first + size])
    whole = evaluate_predictions(scores, targets)
    assert _plain(batches.result().to_dict()) == _plain(whole.to_dict())
    assert batches.result().scores.signature == whole.scores.signature


def test_lists_say_what_scores_say() -> None:
    """Candidates in the order of scores, where none tie."""
    rng = np.random.default_rng(3)
    scores, targets = rng.random((40, 6)), rng.integers(0, 6, 40)
    lists = np.argsort(-scores, axis=1)
    by_list = evaluate_candidates(lists, targets, n_classes=6, measures=["Success@1", "RR@6"])
    by_score = evaluate_predictions(scores, targets, measures=["Success@1", "RR@6"])
    assert by_list.scores.values.tolist() == by_score.scores.values.tolist()


# Files that commands write


def _written(ranking: assay.Ranking, tag: str) -> str:
    assay.write_run(ranking, "by-hand.run", tag=tag)
    return Path("by-hand.run").read_text()


def test_rank_and_fuse_write_what_the_commands_write(sayings: Sayings) -> None:
    line = "rank q.npy d.npy -k 9 --query-ids q.ids --doc-ids d.ids -o door.run"
    ids = [Path(f"{side}.ids").read_text().split() for side in "qd"]
    for metric in ("cosine", "dot", "l2"):
        said = sayings.answer(f"{line} --metric {metric}", "door.run")["files"]["door.run"]
        found = assay.rank(
            _vectors("q"), _vectors("d"), 9, metric=metric, query_ids=ids[0], doc_ids=ids[1]
        )
        assert said["data"] == _written(found, "assay")
    said = sayings.answer("fuse dense.run coarse.run -o door2.run", "door2.run")
    runs = [assay.read_run(f"{name}.run") for name in ("dense", "coarse")]
    assert said["files"]["door2.run"]["data"] == _written(assay.fuse(runs), "rrf")


def test_rank_scores_what_evaluate_scores(sayings: Sayings) -> None:
    line = "rank q.npy d.npy -k 9 --query-ids q.ids --doc-ids d.ids -r named.qrels -m AP --full"
    ids = [Path(f"{side}.ids").read_text().split() for side in "qd"]
    found = assay.rank(_vectors("q"), _vectors("d"), 9, query_ids=ids[0], doc_ids=ids[1])
    scores = assay.evaluate(found, "named.qrels", "AP")
    text = sayings.answer(line)["text"]
    version = re.sub(r"version:[^|]+", "version:…", scores.signature)
    assert version in text
    assert f"{scores.mean()['AP']:.4f}" in text


def test_a_report_says_what_the_command_says(sayings: Sayings) -> None:
    pytest.importorskip("altair")
    from assay.report import make_report

    line = "report dense.run coarse.run -r qrels.txt -m AP -m nDCG@10 -m SetP -o door.md --json"
    said = sayings.spoken(line)
    report = make_report([RunRecord(name, _scores(name)) for name in ("dense", "coarse")])
    assert said["signature"] == report.aligned.signature
    words = json.dumps(said)
    assert all(json.dumps(one)[1:-1] in words for one in report.verdicts.values())
