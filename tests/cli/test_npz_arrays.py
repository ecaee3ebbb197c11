"""`FILE.npz:NAME` names an array of a file in every command; others beside it are left alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

RNG = np.random.default_rng(3)
DOCS, QUERIES = RNG.normal(size=(12, 4)), RNG.normal(size=(5, 4))
SCORES = QUERIES @ DOCS.T
TARGETS = SCORES.argmax(axis=1)
LABELS = np.arange(12) % 3


@pytest.fixture
def files(folder):
    """One file with everything under names of its own, and one file for each under usual names."""
    beside = {"weights": np.ones(3), "notes": np.array(["a", "b"])}
    np.savez(
        "all.npz",
        passages=DOCS,
        questions=QUERIES,
        similarity=SCORES,
        gold=TARGETS,
        kind=LABELS,
        **beside,
    )
    np.savez("docs.npz", docs=DOCS, **beside)
    np.savez("vectors.npz", image_embeddings=DOCS, text_embeddings=DOCS, **beside)
    np.savez("queries.npz", queries=QUERIES, **beside)
    np.savez("run.npz", scores=SCORES, **beside)
    np.savez("truth.npz", targets=TARGETS, n_docs=12, docs=DOCS, queries=QUERIES, **beside)
    np.savez("labels.npz", labels=LABELS, **beside)
    np.savez("prediction.npz", scores=SCORES, targets=TARGETS, **beside)
    return folder


def test_runs_and_judgments(assay, files):
    usual = assay("eval", "run.npz", "-r", "truth.npz", "--json")
    named = assay("eval", "all.npz:similarity", "-r", "all.npz:gold", "--json")
    assert (usual.code, named.code) == (0, 0), usual.err + named.err
    (one,), (other,) = (json.loads(answer.out)["runs"] for answer in (usual, named))
    assert one["measures"] == other["measures"]
    for target in ("a.run", "b.run"):
        source = "run.npz" if target == "a.run" else "all.npz:similarity"
        assert assay("convert", source, target).code == 0
    assert (files / "a.run").read_bytes() == (files / "b.run").read_bytes()


def test_vectors_of_a_search(assay, files):
    for target, sides in (
        ("a.csv", ("queries.npz", "docs.npz")),
        ("b.csv", ("all.npz:questions", "all.npz:passages")),
        ("c.csv", ("all.npz:questions", "all.npz:passages", "--cluster", "serial")),
    ):
        answer = assay("rank", *sides, "-k", "3", "-o", target)
        assert answer.code == 0, answer.err
    assert (files / "a.csv").read_bytes() == (files / "b.csv").read_bytes()
    assert (files / "a.csv").read_bytes() == (files / "c.csv").read_bytes()


def test_codes_crossmodal_and_predict(assay, files):
    usual = "--embeddings docs.npz --queries queries.npz"
    named = "--embeddings all.npz:passages --queries all.npz:questions"
    asked = [("codes", *given.split(), "--k", "3", "--json") for given in (usual, named)]
    usual = "--modality image=vectors.npz --modality text=vectors.npz --labels labels.npz"
    named = "--modality image=all.npz:passages --modality text=all.npz:passages"
    named += " --labels all.npz:kind"
    asked += [
        ("crossmodal", *given.split(), "--k-values", "2", "--json") for given in (usual, named)
    ]
    asked += [("predict", "prediction.npz", "--json")]
    asked += [("predict", "m=all.npz:similarity", "--targets", "all.npz:gold", "--json")]
    found = []
    for one in asked:
        answer = assay(*one)
        assert answer.code == 0, answer.err
        found.append(json.loads(answer.out))
        del found[-1]["made_by"]
    codes = [[one["float_ranking"] for one in answer["codes"]] for answer in found[:2]]
    assert codes[0] == codes[1]
    assert found[2] == found[3]
    ((one,),), ((other,),) = (answer["models"].values() for answer in found[4:])
    assert one["measures"] == other["measures"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("rank queries.npz all.npz -o r.txt", "'passages', 'questions'"),
        ("rank queries.npz all.npz:doc -o r.txt", "no array 'doc'. Name one of 'passages'"),
        ("eval all.npz -r truth.npz", "holds 'passages', 'questions'"),
        ("eval all.npz:nothing -r truth.npz", "no array 'nothing'. Name one of 'passages'"),
        ("eval run.npz -r all.npz", "FILE.npz:NAME"),
        ("eval missing.npz:scores -r truth.npz", "missing.npz"),
    ],
)
def test_what_is_there_is_told(assay, files, command, words):
    answer = assay(*command.split())
    assert answer.code in (2, 3, 5)
    assert words in answer.err


def test_a_file_is_never_written_over_one_of_its_arrays(assay, files):
    assert assay("convert", "all.npz:similarity", "all.npz").code != 0
