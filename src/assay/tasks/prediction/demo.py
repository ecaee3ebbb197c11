"""Words of Python's own docstrings, each predicted from the one before, as places are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.io.collections import Collection
from assay.tasks.demo import stdlib_collection

__all__ = ["STEPS", "write_demo"]

N_CLASSES, N_SAMPLES, N_USERS = 60, 2000, 40

_BOTH: Final = "before.npy mixed.npy -t targets.npy"
_TRAINED: Final = "--train train.npy --train-users train-modules.npy --users modules.npy"

# Questions, and the options of the commands that answer them on the demo's files.
STEPS: Final = {
    title: [options.split()]
    for title, options in {
        "Two models that predict the next word, beside what needs no model": (
            f"{_BOTH} {_TRAINED} --previous previous.npy"
        ),
        "Are probabilities what they say?": (
            "mixed.npy -t targets.npy --confidence --reliability reliability.svg"
        ),
        "How predictable are these words at all?": (
            f"mixed.npy -t targets.npy {_TRAINED} --previous previous.npy --predictability -k 1"
        ),
    }.items()
}


def write_demo(folder: Path, collection: Collection | None = None) -> None:
    """Write two models' logits of the next word, its class, and what they were trained on.

    A module is a user: the frequent words of its docstrings are where it goes, one after the
    other; the last fifth of them is to be predicted. `before` knows the word before, `mixed` also
    how often each word stands in that module.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users, words = _walks(stdlib_collection() if collection is None else collection)
    lengths = np.bincount(users)
    late = np.concatenate([np.arange(length) >= 0.8 * length for length in lengths])
    previous = np.roll(words, 1)
    test = np.flatnonzero(late)[:: max(1, int(late.sum()) // N_SAMPLES)][:N_SAMPLES]
    early = np.flatnonzero(~late[1:] & (users[1:] == users[:-1])) + 1
    often = _count(words[~late], np.zeros_like(words[~late]), 1)[0]
    after = _count(words[early], previous[early], N_CLASSES)
    there = _count(words[~late], users[~late], int(users.max()) + 1)
    before = _log_shares(after[previous[test]], often)
    own = _log_shares(there[users[test]], often) - _log_shares(often[None], often)
    arrays = {
        "before": before,
        "mixed": before + own,
        "targets": words[test],
        "modules": users[test],
        "previous": previous[test],
        "train": words[~late],
        "train-modules": users[~late],
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array.astype(np.float32 if array.ndim == 2 else np.int64))


def _walks(collection: Collection) -> tuple[Ints, Ints]:
    """For each module the frequent words of its docstrings, in the order of their names."""
    by_module: dict[str, list[str]] = {}
    for name, text in sorted(zip(map(str, collection.doc_ids), collection.doc_texts, strict=True)):
        found = by_module.setdefault(name.partition(".")[0], [])
        found += re.findall(r"[a-z]+", text.lower())
    sizes = Counter({name: len(found) for name, found in by_module.items()})
    longest = [name for name, _ in sizes.most_common(N_USERS)]
    counts = Counter(word for name in longest for word in by_module[name])
    known = {word: at for at, (word, _) in enumerate(counts.most_common(N_CLASSES))}
    walks = [[known[word] for word in by_module[name] if word in known] for name in longest]
    users = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    return users, np.array([word for walk in walks for word in walk], np.int64)


def _count(words: Ints, given: Ints, n_given: int) -> Floats:
    """How often each word stands where something is given."""
    counts = np.bincount(given * N_CLASSES + words, minlength=n_given * N_CLASSES)
    return counts.reshape(n_given, N_CLASSES).astype(np.float64)


def _log_shares(counts: Floats, often: Floats) -> Floats:
    """Shares as logits; what was seldom seen leans on how often words stand anywhere."""
    leaning = counts + 10 * (often + 1) / (often + 1).sum()
    logits: Floats = np.log(leaning / leaning.sum(axis=1, keepdims=True))
    return logits
