"""Files for every command that the documentation prints: small, and the same each time.

Texts and their vectors are some of Python's own docstrings; the rest is drawn by a seed: runs,
images with captions, predicted places, and scenes of textured planes.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.io.collections import Collection, write_collection
from assay.io.writers import write_delimited
from assay.tasks.codes.demo import write_vectors
from assay.tasks.crossmodal.demo import write_demo as write_pairs
from assay.tasks.demo import SEED, DemoFiles, stdlib_collection, write_demo

__all__ = ["write_files"]

N_DOCS, N_QUERIES, N_NOTES, N_SAMPLES, N_CLASSES, N_USERS = 300, 60, 12, 240, 12, 8
_QUERY: Final = "q:textwrap.dedent"  # one that examples may name
_SCENES: Final = ("i_lamp", "v_graf", "v_wall")
_EXPERIMENT: Final = """\
name: experiment
dataset: {path: scenes}
keypoints: {detector: orb, border: 20, strongest: 60}
descriptors: [SIFT, ORB]
evaluation: {tau: [3, 1]}
"""
_BENCH: Final = """\
name = "docstrings"
corpus = "docs.jsonl"
queries = "queries.jsonl"
qrels = "qrels.tsv"
measures = ["nDCG@10", "R@100"]

[[model]]
spec = "bm25"

[[model]]
spec = "tfidf"
"""


def write_files(folder: Path) -> DemoFiles:
    """Write the files into a folder, and tell where the runs are."""
    files = write_demo(folder)
    rng = np.random.default_rng(SEED)
    texts = _some(stdlib_collection())
    _write_texts(folder, texts)
    write_vectors(folder, texts)
    _write_shards(folder)
    _write_codes(folder)
    write_pairs(folder)
    _write_slices(folder)
    labels = _write_labelled(folder, rng)
    _write_places(folder, labels, rng)
    _write_results(folder, rng)
    _write_scenes(folder, rng)
    _write_tasks(folder, rng)
    return files


def _some(whole: Collection) -> Collection:
    """Some queries, the documents that answer them, and documents beside these."""
    targets = [whole.qrels.doc_ids[doc] for doc in whole.qrels.docs.tolist()]
    asked = sorted(range(len(targets)), key=lambda at: whole.query_ids[at] != _QUERY)[:N_QUERIES]
    answers = {targets[at] for at in asked}
    docs = sorted(range(len(whole.doc_ids)), key=lambda at: whole.doc_ids[at] not in answers)
    docs = sorted(docs[:N_DOCS])
    query_ids = Ids.of([whole.query_ids[at] for at in asked], what="query")
    doc_ids = Ids.of([whole.doc_ids[at] for at in docs], what="doc")
    answered = [targets[at] for at in asked]
    return Collection(
        doc_ids=doc_ids,
        doc_texts=[whole.doc_texts[at] for at in docs],
        query_ids=query_ids,
        query_texts=[whole.query_texts[at] for at in asked],
        qrels=Judgments.from_targets(answered, query_ids=query_ids, doc_ids=doc_ids),
        name=whole.name,
    )


def _write_texts(folder: Path, texts: Collection) -> None:
    """Documents and queries in files of their own, and some as notes in a folder."""
    written = write_collection(texts, folder)
    corpus = written.corpus.rename(folder / "docs.jsonl").read_text("utf-8").splitlines(True)
    written.qrels.rename(folder / "qrels.tsv")
    written.qrels.parent.rmdir()
    for number, lines in enumerate((corpus[::2], corpus[1::2])):
        (folder / f"corpus-{number}.jsonl").write_text("".join(lines), "utf-8")
    asked = dict(zip((str(one)[2:] for one in texts.query_ids), texts.query_texts, strict=True))
    (folder / "notes").mkdir(exist_ok=True)
    named = [name for name in map(str, texts.doc_ids) if name in asked][:N_NOTES]
    for name in named:
        (folder / "notes" / f"{name}.md").write_text(texts.text_of(name), "utf-8")
    judged = [[asked[name], [f"{name}.md"]] for name in named]
    (folder / "eval.json").write_text(json.dumps(judged, indent=1), "utf-8")
    (folder / "bench.toml").write_text(_BENCH, "utf-8")


def _write_shards(folder: Path) -> None:
    """The vectors of the documents in two files, and the manifest that names them."""
    docs = np.load(folder / "docs.npy")
    shards = [f"docs-{number}.npy" for number in range(2)]
    for name, rows in zip(shards, np.array_split(docs, 2), strict=True):
        np.save(folder / name, rows)
    manifest = {"shards": [{"path": name} for name in shards]}
    (folder / "shards.json").write_text(json.dumps(manifest), "utf-8")


def _write_codes(folder: Path) -> None:
    """A bit of each dimension, eight in a byte, as another program would leave its codes."""
    for vectors, codes in (("docs", "doc-codes"), ("queries", "query-codes")):
        bits = np.load(folder / f"{vectors}.npy") > 0
        np.save(folder / f"{codes}.npy", np.packbits(bits, axis=1))


def _write_slices(folder: Path) -> None:
    rows = [(f"q{at:02}", "short" if at % 2 else "long") for at in range(50)]
    write_delimited([("query", "kind"), *rows], folder / "kinds.tsv", "\t")


def _write_labelled(folder: Path, rng: np.random.Generator) -> Ints:
    """Activities as sensors and texts show them, and as three seeds of two models predict them."""
    labels = rng.integers(N_CLASSES, size=N_SAMPLES)
    centres = rng.normal(size=(N_CLASSES, 16))
    for name, noise in (("sensor", 2.0), ("text", 1.0)):
        vectors = centres[labels] + noise * rng.normal(size=(N_SAMPLES, 16))
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))
    for model, signal in (("a", 1.5), ("b", 1.2)):
        for seed in (1, 2, 3):
            np.savez(
                folder / f"{model}{seed}.npz", scores=_logits(labels, signal, rng), targets=labels
            )
    np.save(folder / "logits.npy", _logits(labels, 1.5, rng))
    np.save(folder / "labels.npy", labels)
    np.save(folder / "train.npy", rng.integers(N_CLASSES, size=2 * N_SAMPLES))
    return labels


def _logits(labels: Ints, signal: float, rng: np.random.Generator) -> NDArray[np.float32]:
    return (signal * np.eye(N_CLASSES)[labels] + rng.normal(size=(len(labels), N_CLASSES))).astype(
        np.float32
    )


def _write_places(folder: Path, labels: Ints, rng: np.random.Generator) -> None:
    """Lists of predicted places, where the places are, and who was where before."""
    ranked = {
        name: Ranking.from_scores(_logits(labels, signal, rng))
        .first(10)
        .docs.reshape(-1, 10)
        .tolist()
        for name, signal in (("top10", 2.0), ("top10_wot", 1.5))
    }
    users = rng.integers(N_USERS, size=(3, N_SAMPLES)).tolist()
    rows = [
        (
            user,
            at % 24,
            at % 7,
            *(" ".join(map(str, lists[at])) for lists in ranked.values()),
            place,
        )
        for at, (user, place) in enumerate(zip(users[0], labels.tolist(), strict=True))
    ]
    head = ("user_id", "hour", "weekday", *ranked, "target")
    write_delimited([head, *rows], folder / "predictions.tsv", "\t")
    places = [(at, 52 + at / 100, 13 + at * at % 7 / 50) for at in range(N_CLASSES)]
    write_delimited([("location_id", "lat", "lon"), *places], folder / "places.csv", ",")
    visits = zip(users[1], rng.integers(N_CLASSES - 2, size=N_SAMPLES).tolist(), strict=True)
    write_delimited([("user_id", "location_id"), *visits], folder / "train.csv", ",")


def _write_results(folder: Path, rng: np.random.Generator) -> None:
    """Result files of two models with three seeds each, as training scripts leave them."""
    (folder / "outputs").mkdir(exist_ok=True)
    for model, level in (("mhsa", 40), ("lstm", 36)):
        for seed in range(3):
            first = level + float(rng.normal())
            found = {"acc@1": first, "acc@5": first + 25, "acc@10": first + 35, "mrr": first + 12}
            path = folder / "outputs" / f"{model}_seed{seed}_test.json"
            path.write_text(json.dumps({**found, "total": 1000}), "utf-8")


def _write_tasks(folder: Path, rng: np.random.Generator) -> None:
    """Two systems on six tasks: a table of queries, and results as mteb leaves them."""
    rows = []
    for system, level in (("large", 0.6), ("small", 0.5)):
        home = folder / "results" / system / "1"
        home.mkdir(parents=True, exist_ok=True)
        for task in map("task-{}".format, range(6)):
            values = rng.normal(level, 0.1, size=20).clip(0, 1).round(4).tolist()
            rows += [(system, task, f"q{at:02}", value) for at, value in enumerate(values)]
            subset = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": values[0]}
            found = {"task_name": task, "scores": {"test": [subset]}}
            (home / f"{task}.json").write_text(json.dumps(found), "utf-8")
    write_delimited([("system", "task", "query", "value"), *rows], folder / "values.csv", ",")


def _write_scenes(folder: Path, rng: np.random.Generator) -> None:
    """Planes seen from beside (`v_…`) or in other light (`i_…`), and patches of them."""
    for name in _SCENES:
        plane, home = _texture(rng), folder / "scenes" / name
        home.mkdir(parents=True, exist_ok=True)
        for image in (1, 2, 3):
            light, aside = (1 - 0.2 * image, 0) if name[0] == "i" else (1.0, 9 * (image - 1))
            _write_png(home / f"{image}.png", light * plane[:, aside : aside + 280])
            if image > 1:
                np.savetxt(home / f"H_1_{image}", [[1, 0, -aside], [0, 1, 0], [0, 0, 1]], "%g")
        _write_patches(folder, name, plane, rng)
    (folder / "experiment.yaml").write_text(_EXPERIMENT, "utf-8")


def _write_patches(
    folder: Path, scene: str, plane: Floats, rng: np.random.Generator, side: int = 65, n: int = 12
) -> None:
    """Strips of patches, and two descriptors of them; farther from `ref` in e1, h1 and t1."""
    strip = plane[: n // 4 * side, : 4 * side].reshape(n // 4, side, 4, side).swapaxes(1, 2)
    points = rng.normal(size=(n, 16))
    for level, name in enumerate(("ref", "e1", "h1", "t1")):
        (folder / "hpatches" / scene).mkdir(parents=True, exist_ok=True)
        noise = 25 * level * rng.normal(size=(n * side, side))
        _write_png(folder / "hpatches" / scene / f"{name}.png", strip.reshape(-1, side) + noise)
        for descriptor, blur in (("sift", 0.8), ("orb", 1.2)):
            home = folder / "descriptors" / descriptor / scene
            home.mkdir(parents=True, exist_ok=True)
            rows = points + blur * level * rng.normal(size=points.shape)
            np.savetxt(home / f"{name}.csv", rows, "%.4f", delimiter=",")


def _texture(rng: np.random.Generator, height: int = 200, width: int = 300) -> Floats:
    """Squares of random grey on four scales."""
    layers = [
        np.kron(rng.random((-(-height // size), -(-width // size))), np.ones((size, size)))
        for size in (5, 10, 20, 50)
    ]
    grey: Floats = 64.0 * np.sum([layer[:height, :width] for layer in layers], axis=0)
    return grey


def _write_png(path: Path, grey: NDArray[Any]) -> None:
    """An image of 8 bits, without the packages that read it later."""
    pixels = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
    height, width = pixels.shape
    lines = np.pad(pixels, ((0, 0), (1, 0))).tobytes()  # each after a 0: no filter
    chunks = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0),
        b"IDAT": zlib.compress(lines),
        b"IEND": b"",
    }
    framed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(framed))
