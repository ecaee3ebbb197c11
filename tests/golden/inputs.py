"""Small files for the recorded commands: the same bytes on every call, on every machine.

Nothing here comes from Assay, so that its own code can move without moving these files.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.models import bag

__all__ = ["make_inputs"]

QUERIES = [str(number) for number in range(301, 325)]
# Some documents bear the id of a query, for conventions that leave such a document out.
DOCS = [f"d{number:02}" for number in range(56)] + QUERIES[:4]
# How much of the truth a system hears, and to how many decimals its scores are rounded.
SYSTEMS = {"dense": (1.6, 6), "lexical": (1.2, 1), "coarse": (1.6, 0), "random": (0.0, 2)}
WORDS = [
    "river",
    "stone",
    "light",
    "engine",
    "garden",
    "winter",
    "market",
    "signal",
    "copper",
    "letter",
    "bridge",
    "salt",
    "window",
    "forest",
    "paper",
    "silver",
    "planet",
    "harbour",
    "music",
    "thunder",
    "ladder",
    "orange",
    "mirror",
    "pepper",
    "castle",
]


def make_inputs(folder: Path) -> None:
    """Write all files into a folder."""
    _retrieval(folder)
    _vectors(folder)
    _labels(folder)
    _predictions(folder)
    _codes(folder)
    _collection(folder)
    _scenes(folder)
    _patches(folder)


# Runs, judgments, groups


def _retrieval(folder: Path) -> None:
    rng = np.random.default_rng(11)
    shape = len(QUERIES), len(DOCS)
    truth = (rng.random(shape) < 0.15) * rng.choice([1, 1, 1, 2, 3], shape)
    truth[5] = 0  # a query without any relevant document
    noise = {name: rng.normal(size=truth.shape) for name in SYSTEMS}
    noise["coarse"] = noise["dense"]
    lists = {}
    for name, (signal, digits) in SYSTEMS.items():
        scores = np.round(signal * np.sign(truth) + noise[name], digits)
        lists[name] = _cut(scores, rng.integers(8, 30, len(QUERIES)))
        _write_run(folder / f"{name}.run", lists[name], name)
    # Queries 303 and 304 are missing, and a query that nobody judged is there.
    partial = {q: docs for q, docs in lists["dense"].items() if q not in ("303", "304")}
    _write_run(folder / "partial.run", {**partial, "999": lists["dense"]["301"]}, "partial")
    few = {q: docs for q, docs in lists["dense"].items() if q < "306"}
    _write_run(folder / "few.run", few, "few")
    zipped = gzip.compress((folder / "coarse.run").read_bytes(), mtime=0)
    (folder / "zipped.run.gz").write_bytes(zipped)
    _write_qrels(folder, rng, truth)
    _write_groups(folder)


def _cut(scores: NDArray[Any], lengths: Iterable[int]) -> dict[str, list[tuple[str, float]]]:
    """The best documents of each query; order within ties is by row."""
    return {
        query: [(DOCS[i], float(row[i])) for i in np.argsort(-row, kind="stable")[:n]]
        for query, row, n in zip(QUERIES, scores, lengths, strict=True)
    }


def _write_run(path: Path, lists: dict[str, list[tuple[str, float]]], tag: str) -> None:
    lines = [
        f"{query} Q0 {doc} {rank} {score!r} {tag}\n"
        for query, docs in lists.items()
        for rank, (doc, score) in enumerate(docs, 1)
    ]
    path.write_text("".join(lines))


def _write_qrels(folder: Path, rng: np.random.Generator, truth: NDArray[Any]) -> None:
    """Some documents are not judged; 400 and 401 are judged, and no run holds them."""
    judged = (truth > 0) | (rng.random(truth.shape) < 0.5)
    lines = [
        f"{QUERIES[row]} 0 {DOCS[column]} {truth[row, column]}\n"
        for row, column in zip(*np.nonzero(judged), strict=True)
    ]
    (folder / "complete.txt").write_text("".join(line for line in lines if line[:3] != "306"))
    more = ["400 0 d01 1\n", "400 0 d02 2\n", "401 0 d03 0\n", "301 0 d99 2\n"]
    (folder / "qrels.txt").write_text("".join([*lines, *more]))
    (folder / "qrels.txt.gz").write_bytes(gzip.compress("".join([*lines, *more]).encode(), mtime=0))
    (folder / "four.txt").write_text("".join(line for line in lines if line[:3] < "305"))


def _write_groups(folder: Path) -> None:
    rows = [
        f"{query}\tkind {row % 3}\t{'long' if row % 2 else 'short'}\tt{row % 9}\n"
        for row, query in enumerate([*QUERIES, "400", "401"])
    ]
    made = np.random.default_rng(9).random((3, 8, 9)).round(3)
    table = [f"s{s},t{t},q{q},{value}\n" for (s, t, q), value in np.ndenumerate(made)]
    (folder / "values.csv").write_text("system,task,query,value\n" + "".join(table))
    (folder / "groups.tsv").write_text("query\tkind\tlength\ttopic\n" + "".join(rows))


# Vectors


def _vectors(folder: Path) -> None:
    """Few different numbers, so that many scores tie."""
    rng = np.random.default_rng(12)
    queries = rng.integers(-2, 3, (10, 5)).astype(np.float32) + np.float32(0.5)
    docs = rng.integers(-2, 3, (48, 5)).astype(np.float32) + np.float32(0.5)
    np.save(folder / "q.npy", queries)
    np.save(folder / "d.npy", docs)
    np.save(folder / "d16.npy", docs.astype(np.float16))
    np.save(folder / "d8.npy", (2 * docs).astype(np.int8))
    for number in range(4):
        np.save(folder / f"s-{number}.npy", docs[number * 12 : number * 12 + 12])
    np.save(folder / "real-q.npy", rng.normal(size=(6, 7)))
    np.save(folder / "real-d.npy", rng.normal(size=(40, 7)))
    queries[2], docs[[3, 9]] = 0, 0
    np.save(folder / "qz.npy", queries)
    np.save(folder / "dz.npy", docs)
    (folder / "q.ids").write_text("".join(f"{query}\n" for query in QUERIES[:10]))
    (folder / "d.ids").write_text("".join(f"{doc}\n" for doc in [*QUERIES[:8], *DOCS[:40]]))
    judged = [
        f"{query} 0 {(7 * row + 5 * n) % 48} {n + 1}\n"
        for row, query in enumerate(QUERIES[:10])
        for n in range(3)
    ]
    (folder / "rank.qrels").write_text("".join(judged))
    np.savez(folder / "q.npz", embeddings=np.load(folder / "q.npy"), ids=np.array(QUERIES[:10]))


# Labels of two modalities


def _labels(folder: Path) -> None:
    rng = np.random.default_rng(13)
    numbers = rng.integers(0, 4, 36)
    numbers[7] = 4  # a label that nobody else has
    labels = np.array([f"l{number}" for number in numbers])
    centres = rng.normal(size=(5, 6))
    sensor = np.round(centres[numbers] + rng.normal(size=(36, 6)), 1).astype(np.float32)
    text = np.sign(centres[numbers] + rng.normal(size=(36, 6))).astype(np.float32)
    np.save(folder / "sensor.npy", sensor)
    np.save(folder / "text.npy", text)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "coarse.npy", (numbers < 2).astype(int))
    np.savez(folder / "data.npz", sensor_embeddings=sensor, text_embeddings=text, labels=labels)
    (folder / "map.json").write_text(json.dumps({f"l{i}": int(i < 2) for i in range(5)}))
    (folder / "both.json").write_text(
        json.dumps({"fine": labels.tolist(), "coarse": (numbers < 2).tolist()})
    )
    zero = sensor.copy()
    zero[[2, 11]] = 0
    np.save(folder / "zero.npy", zero)
    np.savez(
        folder / "proto.npz",
        embeddings=np.eye(6, dtype=np.float32)[:4],
        labels=np.array(["l0", "l1", "l2", "l9"]),
    )
    texts = {"l0": "river stone", "l1": ["winter market", "garden"], "l9": "nobody"}
    (folder / "meta.json").write_text(json.dumps({"milan": {"label_to_text_sourish": texts}}))
    rows = np.round(bag([" ".join(rng.choice(WORDS, 3)) for _ in range(36)]), 2)
    np.save(folder / "letters.npy", rows.astype(np.float32))
    _by_sample(folder, rng, sensor, labels)
    _captions(folder, sensor, labels)


def _by_sample(
    folder: Path, rng: np.random.Generator, sensor: NDArray[Any], labels: NDArray[Any]
) -> None:
    """The same rows in another order, with the ids of samples."""
    order = rng.permutation(36)
    np.savez(folder / "mixed.npz", embeddings=sensor[order], sample_ids=order)
    order = rng.permutation(36)
    np.savez(folder / "mixed-labels.npz", labels=labels[order], sample_ids=order)


def _captions(folder: Path, sensor: NDArray[Any], labels: NDArray[Any]) -> None:
    """Five texts for each row of the sensors, coarse ones that tie, and further positives."""
    rng = np.random.default_rng(18)
    texts = np.round(np.repeat(sensor, 5, axis=0) + rng.normal(size=(180, 6)))
    np.save(folder / "captions.npy", (texts + (texts == 0).all(1, keepdims=True)).astype("f4"))
    np.save(folder / "caption-labels.npy", np.repeat(labels, 5))
    judged = [(text, image) for text in range(0, 180, 7) for image in {text // 5, text % 36}]
    lines = [f"{text} 0 {image} 1\n" for text, image in judged]
    (folder / "captions.qrels").write_text("".join(lines))
    wide = {f"l{i}": f"wide{i % 2}" for i in (0, 1, 2, 3, 4, 9)}
    (folder / "wide-map.json").write_text(json.dumps(wide))


# Predictions


def _predictions(folder: Path) -> None:
    rng = np.random.default_rng(14)
    targets = rng.integers(0, 12, 60)
    for model, strength in (("a", 2.0), ("b", 1.2)):
        for seed in range(3):
            values = np.round(rng.normal(size=(60, 12)), 1).astype(np.float32)
            values[np.arange(60), targets] += np.float32(strength)
            np.savez(folder / f"{model}{seed}.npz", logits=values, targets=targets)
            if seed == 0:
                np.save(folder / f"{model}.npy", values)
    (folder / "repeat.npz").write_bytes((folder / "a1.npz").read_bytes())
    np.save(folder / "wide.npy", np.round(rng.normal(size=(60, 15)), 1))
    np.save(folder / "targets.npy", targets)
    np.save(folder / "train.npy", rng.integers(0, 12, 150))
    np.save(folder / "last.npy", rng.integers(0, 12, 60))
    rows = "".join(f"{i},u{i % 7}\n" for i in range(60))
    (folder / "users.csv").write_text(f"query,user\n{rows}")
    _candidates(folder, rng)
    _result_files(folder)


def _candidates(folder: Path, rng: np.random.Generator) -> None:
    """Lists of places; some name a place twice, some samples have no place before."""
    places = np.array(["home", "work", "gym", "shop", "park", "club"])
    lines = ["query_id\tuser\tground_truth\tlast\tone\ttwo\n"]
    for row in range(40):
        target, before = rng.choice(places, 2, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05])
        one = [target, *rng.choice(places, 3)] if row % 3 else list(rng.choice(places, 4))
        two = list(rng.permutation(places)[:4])
        cells = [
            f"s{row:02}",
            f"u{row % 6}",
            target,
            before if row % 9 else "",
            " ".join(one),
            " ".join(two),
        ]
        lines.append("\t".join(cells) + "\n")
    (folder / "lists.tsv").write_text("".join(lines))
    labels = rng.choice(places, 80)
    users = rng.integers(0, 6, 80)
    rows = [f"{place},u{user}\n" for place, user in zip(labels, users, strict=True)]
    (folder / "visits.csv").write_text("place,user\n" + "".join(rows))


def _result_files(folder: Path) -> None:
    """Results of another project: two models with seeds, a repeat, an empty and a wrong file."""
    good = {
        "correct@1": 30,
        "correct@3": 40,
        "correct@5": 55,
        "correct@10": 60,
        "rr": 42.0,
        "total": 100,
        "acc@1": 30.0,
        "acc@3": 40.0,
        "acc@5": 55.0,
        "acc@10": 60.0,
        "mrr": 42.0,
        "ndcg": 44.0,
        "f1": 0.212,
    }
    files = {
        "good/mhsa_1": good,
        "good/mhsa_2": {**good, "f1": 0.3, "mrr": 42.001},
        "good/mhsa_3": {**good, "f1": 0.25, "mrr": 41.999},
        "good/copy_1": {**good, "f1": 0.31},
        "good/copy_2": {**good, "f1": 0.31},
        "good/other_1": {"acc@1": 25.0, "acc@5": 50.5, "mrr": 36.25, "f1": 0.2},
        "good/other_2": {"acc@1": 26.5, "acc@5": 51.0, "mrr": 37.5, "f1": 0.22},
        "wrong/x": {**good, "correct@1": 20, "acc@10": 50.0},
    }
    for name, data in files.items():
        path = folder / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))


# Codes


def _codes(folder: Path) -> None:
    rng = np.random.default_rng(15)
    docs, queries = rng.normal(size=(50, 12)), rng.normal(size=(14, 12))
    ids = {"docs": [f"d{i}" for i in range(50)], "queries": [f"q{i}" for i in range(14)]}
    for side, array in (("docs", docs), ("queries", queries)):
        np.save(folder / f"codes-{side}.npy", array)
        np.save(folder / f"bits-{side}.npy", (array > 0).astype(np.int8))
        np.save(folder / f"packed-{side}.npy", np.packbits(array > 0, axis=1))
        (folder / f"codes-{side}.ids").write_text("".join(f"{one}\n" for one in ids[side]))
    np.savez(
        folder / "codes.npz",
        docs=docs,
        queries=queries,
        doc_ids=np.array(ids["docs"]),
        query_ids=np.array(ids["queries"]),
    )
    np.savez(folder / "bits.npz", docs=docs > 0, queries=queries > 0)
    zero = docs.copy()
    zero[[4, 20]] = 0
    np.save(folder / "codes-zero.npy", zero)
    near = np.argsort(-(queries @ docs.T), axis=1, kind="stable")[:, :3]
    lines = [f"q{i} 0 d{doc} {3 - n}\n" for i, row in enumerate(near) for n, doc in enumerate(row)]
    (folder / "codes.qrels").write_text("".join(lines))
    labels = np.random.default_rng(17).random((64, 4)) < 0.4
    np.savez(folder / "codes-labels.npz", doc_labels=labels[:50], query_labels=labels[50:])


# A collection of texts


def _collection(folder: Path) -> None:
    rng = np.random.default_rng(16)
    texts = [
        ". ".join(" ".join(rng.choice(WORDS, 6)) for _ in range(int(rng.integers(1, 5)))) + "."
        for _ in range(36)
    ]
    texts[35] = " "  # a document without any text
    docs = [
        {"_id": f"doc{i:02}", "title": text[:5] if i % 4 else "", "text": text}
        for i, text in enumerate(texts)
    ]
    targets = rng.choice(35, 18, replace=False)
    queries = [
        {"_id": f"t{i:02}", "text": " ".join([*texts[t].split()[1:4], str(rng.choice(WORDS))])}
        for i, t in enumerate(targets)
    ]
    made = folder / "made"
    (made / "qrels").mkdir(parents=True)
    (made / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in docs))
    (made / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    judged = [(f"t{i:02}", f"doc{t:02}", 1 + i % 2) for i, t in enumerate(targets)]
    judged += [(f"t{i:02}", f"doc{(t + 7) % 35:02}", 1) for i, t in enumerate(targets) if i % 3]
    rows = [f"{query}\t{doc}\t{grade}\n" for query, doc, grade in judged]
    (made / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    (folder / "kinds.csv").write_text(
        "query,kind\n" + "".join(f"t{i:02},k{i % 6}\n" for i in range(18))
    )
    chunks = [f"{query} 0 {doc}#1 1\n" for query, doc, _ in judged[:18]]
    (folder / "chunks.qrels").write_text("".join(chunks))
    words = {f"t{i:02}": [texts[t].split()[0], "nowhere"] for i, t in enumerate(targets) if i % 5}
    (folder / "answers.json").write_text(json.dumps(words))
    (folder / "bench.toml").write_text(_BENCH)
    notes = [f"{query} 0 {doc}.txt {grade}\n" for query, doc, grade in judged if doc < "doc20"]
    (folder / "notes.qrels").write_text("".join(notes))
    _notes(folder, docs, queries)


def _notes(folder: Path, docs: list[dict[str, str]], queries: list[dict[str, str]]) -> None:
    """The same texts as plain files and as shards."""
    (folder / "notes").mkdir()
    for one in docs[:20]:
        (folder / "notes" / f"{one['_id']}.txt").write_text(one["text"])
    (folder / "queries.tsv").write_text("".join(f"{q['_id']}\t{q['text']}\n" for q in queries))
    for number in range(3):
        lines = [json.dumps(one) + "\n" for one in docs[number * 10 : number * 10 + 10]]
        (folder / f"texts-{number}.jsonl").write_text("".join(lines))


_BENCH = """
name = "mine"
corpus = "made"
measures = ["nDCG@10", "RR"]
depth = 20

[[model]]
spec = "bm25"
settings = { k1 = 0.9 }

[[model]]
name = "letters"
spec = "py:tests.golden.models:bag"
query_prefix = "river "

[[fusion]]
name = "both"
of = ["bm25", "letters"]
method = "combsum"
weights = [0.4, 0.6]
"""


# Scenes


def _scenes(folder: Path) -> None:
    """Three scenes of three images: two from other views, one in other light."""
    for seed, name in enumerate(("i_dome", "v_wall", "v_yard")):
        rng = np.random.default_rng(seed)
        picture = _picture(rng, 180, 200)
        scene = folder / "scenes" / name
        scene.mkdir(parents=True)
        _write_pgm(scene / "1.pgm", picture)
        for k in (2, 3):
            light = name.startswith("i_")
            matrix = np.eye(3) if light else _homography(rng)
            image = picture * (0.9 - 0.15 * k) + 10 * k if light else _warped(picture, matrix)
            _write_pgm(scene / f"{k}.pgm", image + rng.normal(0, 2, image.shape))
            np.savetxt(scene / f"H_1_{k}", matrix)
    for name, text in _EXPERIMENTS.items():
        (folder / name).write_text(text)


def _picture(rng: np.random.Generator, height: int, width: int) -> NDArray[np.float64]:
    """Rectangles of random grey over one another."""
    picture = np.full((height, width), 128.0)
    for _ in range(160):
        y, x = rng.integers(0, height - 6), rng.integers(0, width - 6)
        h, w = rng.integers(5, 30, 2)
        picture[y : y + h, x : x + w] = rng.integers(0, 256)
    return picture


def _homography(rng: np.random.Generator) -> NDArray[np.float64]:
    """A small turn, shift and slant; few digits, so that the file holds it exactly."""
    matrix = np.eye(3) + np.round(rng.normal(0, 0.04, (3, 3)), 3)
    matrix[:2, 2] = rng.integers(-8, 9, 2)
    matrix[2] = [0.0002, -0.0001, 1.0]
    return matrix


def _warped(picture: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The picture as the homography shows it, by the nearest pixel."""
    height, width = picture.shape
    y, x = np.mgrid[:height, :width]
    points = np.linalg.inv(matrix) @ np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    columns, rows = np.rint(points[:2] / points[2]).astype(int)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    image = np.full(x.size, 128.0)
    image[inside] = picture[rows[inside], columns[inside]]
    return image.reshape(height, width)


def _write_pgm(path: Path, image: NDArray[np.float64]) -> None:
    grey = np.clip(np.rint(image), 0, 255).astype(np.uint8)
    path.write_bytes(f"P5\n{grey.shape[1]} {grey.shape[0]}\n255\n".encode() + grey.tobytes())


_KEYPOINTS = "{detector: orb, border: 20, strongest: 50}"
_EXPERIMENTS = {
    "whole.yaml": f"""
dataset: {{path: scenes}}
keypoints: {_KEYPOINTS}
descriptors: [ORB, SIFT]
evaluation: {{tau: [3, 1], resamples: 300, verification: {{scenes: 2}}, retrieval: true,
             image_retrieval: {{keypoints: 30}}}}
""",
    "rules.yaml": f"""
name: rules
dataset: {{path: scenes, scenes: [v_wall, v_yard]}}
keypoints: {_KEYPOINTS}
descriptors: [ORB, {{name: orb-9, type: ORB, options: {{patchSize: 9}}}}]
evaluation: {{tau: [2], ties: worst, one_to_one: true, symmetric: true, rule: program,
             resamples: 300, level: 0.9, seed: 4, verification: true, retrieval: true}}
""",
    "two.yaml": f"""
dataset: {{path: scenes}}
keypoints: {_KEYPOINTS}
descriptors: [ORB, {{name: own, type: SIFT, keypoints: {{detector: sift, border: 20}}}}]
evaluation: {{resamples: 300}}
""",
    "projected.yaml": """
dataset: {path: scenes}
keypoints: {source: project, detector: sift, border: 20, random: 30, seed: 3}
descriptors: [RootSIFT]
evaluation: {tau: [3], resamples: 300, ties: best}
""",
}


def _patches(folder: Path) -> None:
    """Rows of numbers, and of bits, for patches of two scenes."""
    rng = np.random.default_rng(17)
    for scene in ("v_a", "i_b"):
        for kind in ("floats", "bits"):
            (folder / kind / scene).mkdir(parents=True)
        reference = rng.normal(size=(16, 8))
        for key, noise in (("ref", 0.0), ("e1", 0.2), ("h1", 0.8), ("t1", 2.0)):
            rows = np.round(reference + noise * rng.normal(size=reference.shape), 2)
            np.savetxt(folder / "floats" / scene / f"{key}.csv", rows, delimiter=",")
            np.save(folder / "bits" / scene / f"{key}.npy", np.packbits(rows > 0, axis=1))

    _strips(folder, rng)
    _patch_tasks(folder)


def _patch_tasks(folder: Path) -> None:
    """A second descriptor of the same patches, and task files as HPatches' benchmark has them."""
    rng = np.random.default_rng(23)
    for path in sorted((folder / "floats").glob("*/*.csv")):
        rows = np.loadtxt(path, delimiter=",")
        copy = folder / "other-floats" / path.parent.name
        copy.mkdir(parents=True, exist_ok=True)
        noisy = np.round(rows + 0.5 * rng.normal(size=rows.shape), 2)
        np.savetxt(copy / path.name, noisy, delimiter=",")
    home, scenes = folder / "patch-tasks", ("v_a", "i_b")
    (home / "splits").mkdir(parents=True)
    listed = {"a": {"name": "a", "test": list(scenes), "train": []}}
    (home / "splits" / "splits.json").write_text(json.dumps(listed))
    lines: dict[str, list[str]] = {
        name: ["s1,t1,idx1,s2,t2,idx2"]
        for name in ("verif_pos", "verif_neg_intra", "verif_neg_inter")
    }
    for number in range(60):
        scene, other = scenes[number % 2], scenes[int(rng.integers(2))]
        one, two = rng.choice(16, 2, replace=False).tolist()
        lines["verif_pos"].append(f"{scene},0,{one},{scene},1,{one}")
        lines["verif_neg_intra"].append(f"{scene},0,{one},{scene},1,{two}")
        lines["verif_neg_inter"].append(f"{scene},0,{one},{other},1,{two}")
    lines["retr_queries"] = ["s,idx", *(f"{scene},{row}" for scene in scenes for row in range(4))]
    others = [f"{scene},{row}" for scene in scenes for row in range(4, 16)]
    lines["retr_distractors"] = ["s,idx", *others]
    for name, own in lines.items():
        (home / f"{name}_split-a.csv").write_text("\n".join([*own, ""]))


def _strips(folder: Path, rng: np.random.Generator) -> None:
    """Pictures of eight square patches, one above the other."""
    (folder / "strips" / "v_a").mkdir(parents=True)
    picture = _picture(rng, 160, 180)
    corners = rng.integers(0, 90, (8, 2))
    strip = np.vstack([picture[y : y + 65, x : x + 65] for x, y in corners])
    for name, noise in (("ref", 0.0), ("e1", 4.0), ("h1", 40.0)):
        _write_png(
            folder / "strips" / "v_a" / f"{name}.png", strip + noise * rng.normal(size=strip.shape)
        )


def _write_png(path: Path, image: NDArray[np.float64]) -> None:
    """Grey, eight bits, no filter."""
    grey = np.clip(np.rint(image), 0, 255).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    ends = (struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks)
    packed = (
        struct.pack(">I", len(body)) + kind + body + end
        for (kind, body), end in zip(chunks, ends, strict=True)
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
