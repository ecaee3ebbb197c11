"""Predictions for `assay predict --demo` and for the commands of the documentation.

`write_demo` predicts words of Python's own docstrings, each from the one before, as places are;
`write_files` writes made-up activities, places and result files.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints
from assay.core.ranking import Ranking
from assay.io.collections import Collection
from assay.io.writers import write_delimited
from assay.search.demo_texts import stdlib_collection

N_CLASSES, N_SAMPLES, N_USERS = 60, 2000, 40


def write_demo(folder: Path, collection: Collection | None = None) -> None:
    """Write two models' logits of the next word, its class, and what they were trained on.

    A module is a user: the frequent words of its docstrings are where it goes, one after the
    other; the last fifth of them is to be predicted. `before` knows the word before, `mixed` also
    how often each word stands in that module.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users, words = _read_walks(stdlib_collection() if collection is None else collection)
    lengths = np.bincount(users)
    late = np.concatenate([np.arange(length) >= 0.8 * length for length in lengths])
    previous = np.roll(words, 1)
    test = np.flatnonzero(late)[:: max(1, int(late.sum()) // N_SAMPLES)][:N_SAMPLES]
    early = np.flatnonzero(~late[1:] & (users[1:] == users[:-1])) + 1
    often = _count(words[~late], np.zeros_like(words[~late]), 1)[0]
    after = _count(words[early], previous[early], N_CLASSES)
    there = _count(words[~late], users[~late], int(users.max()) + 1)
    before = _smooth_shares(after[previous[test]], often)
    in_module = _smooth_shares(there[users[test]], often) - _smooth_shares(often[None], often)
    arrays = {
        "before": before,
        "mixed": before + in_module,
        "targets": words[test],
        "modules": users[test],
        "previous": previous[test],
        "train": words[~late],
        "train-modules": users[~late],
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array.astype(np.float32 if array.ndim == 2 else np.int64))


def _read_walks(collection: Collection) -> tuple[Ints, Ints]:
    """Return users and words: the frequent words of each module's docstrings."""
    by_module: dict[str, list[str]] = {}
    for name, text in sorted(zip(map(str, collection.doc_ids), collection.doc_texts, strict=True)):
        module_words = by_module.setdefault(name.partition(".")[0], [])
        module_words += re.findall(r"[a-z]+", text.lower())
    sizes = Counter({name: len(module_words) for name, module_words in by_module.items()})
    longest = [name for name, _ in sizes.most_common(N_USERS)]
    counts = Counter(word for name in longest for word in by_module[name])
    numbers = {word: at for at, (word, _) in enumerate(counts.most_common(N_CLASSES))}
    walks = [[numbers[word] for word in by_module[name] if word in numbers] for name in longest]
    users = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    return users, np.array([word for walk in walks for word in walk], np.int64)


def _count(words: Ints, context: Ints, n_contexts: int) -> Floats:
    """Count each word in each context."""
    counts = np.bincount(context * N_CLASSES + words, minlength=n_contexts * N_CLASSES)
    return counts.reshape(n_contexts, N_CLASSES).astype(np.float64)


def _smooth_shares(counts: Floats, often: Floats) -> Floats:
    """Return shares as logits, smoothed by how often words stand anywhere."""
    leaning = counts + 10 * (often + 1) / (often + 1).sum()
    logits: Floats = np.log(leaning / leaning.sum(axis=1, keepdims=True))
    return logits


_SAMPLES, _CLASSES, _USERS = 240, 12, 8


def write_files(folder: Path, rng: np.random.Generator) -> None:
    """Write predictions of three seeds of two models, lists of places, and result files."""
    file = folder / "labels.npy"
    labels = np.load(file) if file.exists() else rng.integers(_CLASSES, size=_SAMPLES)
    np.save(file, labels)
    for model, signal in (("a", 1.5), ("b", 1.2)):
        for seed in (1, 2, 3):
            scores = _draw_logits(labels, signal, rng)
            np.savez(folder / f"{model}{seed}.npz", scores=scores, targets=labels)
    np.save(folder / "logits.npy", _draw_logits(labels, 1.5, rng))
    np.save(folder / "train.npy", rng.integers(_CLASSES, size=2 * _SAMPLES))
    _write_places(folder, labels, rng)
    _write_results(folder, rng)


def _draw_logits(labels: Ints, signal: float, rng: np.random.Generator) -> NDArray[np.float32]:
    logits = signal * np.eye(_CLASSES)[labels] + rng.normal(size=(len(labels), _CLASSES))
    return logits.astype(np.float32)


def _write_places(folder: Path, labels: Ints, rng: np.random.Generator) -> None:
    """Write lists of predicted places, their coordinates, and earlier visits."""
    ranked = {}
    for name, signal in (("top10", 2.0), ("top10_wot", 1.5)):
        first = Ranking.from_scores(_draw_logits(labels, signal, rng)).first(10)
        ranked[name] = [" ".join(map(str, row)) for row in first.docs.reshape(-1, 10).tolist()]
    users = rng.integers(_USERS, size=(3, _SAMPLES)).tolist()
    columns = zip(users[0], *ranked.values(), labels.tolist(), strict=True)
    rows = [(user, at % 24, at % 7, *places) for at, (user, *places) in enumerate(columns)]
    head = ("user_id", "hour", "weekday", *ranked, "target")
    write_delimited([head, *rows], folder / "predictions.tsv", "\t")
    places = [(at, 52 + at / 100, 13 + at * at % 7 / 50) for at in range(_CLASSES)]
    write_delimited([("location_id", "lat", "lon"), *places], folder / "places.csv", ",")
    visits = zip(users[1], rng.integers(_CLASSES - 2, size=_SAMPLES).tolist(), strict=True)
    write_delimited([("user_id", "location_id"), *visits], folder / "train.csv", ",")


def _write_results(folder: Path, rng: np.random.Generator) -> None:
    """Write result files of two models with three seeds each, alone and as a tree of datasets."""
    for model, level in (("mhsa", 40), ("lstm", 36)):
        for seed in (1, 2, 3):
            first = level + float(rng.normal())
            for dataset, lead in (("geolife", 0), ("diy", 16)):
                rates = {"acc@1": 0, "acc@5": 25, "acc@10": 35, "mrr": 12}
                result = {key: first + lead + more for key, more in rates.items()}
                text = json.dumps({**result, "total": 1000})
                path = folder / "outputs" / dataset / f"{model}_seed{seed}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
                if dataset == "geolife":
                    (folder / f"{model}{seed}.json").write_text(text, "utf-8")
