"""Made-up images and captions, classes and prompts, to see paired retrieval at work."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.cli.repeating import walk

N_IMAGES, N_TEST, N_CLASSES, CAPTIONS, SIZE, SEED = 200, 40, 8, 5, 24, 18
_CLASSES: Final = ("beach", "bicycle", "cat", "kitchen", "market", "snow", "street", "train")

_PAIRS: Final = "--modality image=images.npy --modality text=texts.npy --protocol pairs"
_CLASSES_OF: Final = "--labels classes.npy --prototype-embeddings prompts.npz"
_SIDES: Final = "--modality test=test.npy --modality train=images.npy --modality-labels"

# Questions, and the options of the commands that answer them on the demo's files.
STEPS: Final = {
    title: [options.split()]
    for title, options in {
        "Image-text retrieval in both directions, as papers report it": _PAIRS,
        "Mean over four galleries, as LaTeX": f"{_PAIRS} --folds 4 --format latex",
        "With extra positives: captions that also fit other images": (
            f"{_PAIRS} -r text2image=positives.txt -m MAP@R"
        ),
        "Zero-shot classification: the nearest class of each image": (
            f"--modality image=images.npy {_CLASSES_OF} --zero-shot"
        ),
        "Label retrieval from test to training images": (
            f"{_SIDES} test=test-classes.npy train=classes.npy --directions test2train"
            " -m RR -m MAP@R"
        ),
    }.items()
}


def show_demo(folder: Path) -> None:
    """Write the demo's files, and walk through commands on them."""
    write_demo(folder)
    walk(folder, STEPS, "crossmodal")


def write_demo(folder: Path, *, seed: int = SEED) -> None:
    """Write 200 images of 8 classes, with captions and prompts.

    Scores are coarse, so that some of them tie. `positives.txt` judges the captions of the first
    40 images: the pair, and each image that is nearly the same.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N_CLASSES, SIZE))
    numbers = rng.integers(N_CLASSES, size=N_IMAGES + N_TEST)
    scenes = 0.8 * centres[numbers] + rng.normal(size=(len(numbers), SIZE))
    texts = np.repeat(scenes[:N_IMAGES], CAPTIONS, axis=0)
    texts += 2.2 * rng.normal(size=texts.shape)
    prompts = np.repeat(centres, 3, axis=0) + 0.6 * rng.normal(size=(3 * N_CLASSES, SIZE))
    names = np.array(_CLASSES)
    arrays = {
        "images": np.round(scenes[:N_IMAGES]).astype(np.float32),
        "test": np.round(scenes[N_IMAGES:]).astype(np.float32),
        "texts": np.round(texts).astype(np.float32),
        "classes": names[numbers[:N_IMAGES]],
        "test-classes": names[numbers[N_IMAGES:]],
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.savez(folder / "prompts.npz", embeddings=prompts, labels=np.repeat(names, 3))
    (folder / "positives.txt").write_text(
        "\n".join(_judge_captions(scenes[:N_IMAGES])) + "\n", "utf-8"
    )


def _judge_captions(scenes: Floats) -> list[str]:
    """Return qrels of captions: their image and the two nearest ones."""
    lines = []
    for image, scene in enumerate(scenes[:40]):
        near = np.argsort(((scenes - scene) ** 2).sum(axis=1), kind="stable")[:3]
        lines += [
            f"{CAPTIONS * image + caption} 0 {other} 1"
            for caption in range(CAPTIONS)
            for other in near
        ]
    return lines


_N_SAMPLES, _N_ACTIVITIES = 240, 12


def write_files(folder: Path, rng: np.random.Generator) -> None:
    """Write the demo's files, and activities as sensors and texts show them."""
    write_demo(folder)
    labels = rng.integers(_N_ACTIVITIES, size=_N_SAMPLES)
    centres = rng.normal(size=(_N_ACTIVITIES, 16))
    for name, noise in (("sensor", 2.0), ("text", 1.0)):
        vectors = centres[labels] + noise * rng.normal(size=(_N_SAMPLES, 16))
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))
    np.save(folder / "labels.npy", labels)
