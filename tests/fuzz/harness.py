"""Runs mutated files through their readers; what broke one is told with the bytes to repeat it."""

from __future__ import annotations

import base64
import random
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.mutations import mutate
from tests.fuzz.seeds import SEEDS, write_partners
from tests.fuzz.targets import TARGETS, Target, try_target


class Failure(NamedTuple):
    """A file that made a reader raise what it may not."""

    name: str
    target: str
    error: str
    data: bytes

    def __str__(self) -> str:
        shown = base64.b85encode(self.data[:3000]).decode()
        return f"{self.name} through {self.target}: {self.error}\n  b85: {shown}"


def cases(seed: int) -> Iterator[tuple[str, bytes, random.Random]]:
    """Mutated files of all formats in turn, without end; the same for the same seed."""
    sound = {name: build() for name, build in SEEDS.items()}
    number = 0
    while True:
        for name, data in sound.items():
            chance = random.Random(f"{seed} {number}")
            yield name, mutate(data, chance), chance
            number += 1


def try_file(
    name: str, data: bytes, folder: Path, targets: tuple[Target, ...]
) -> Iterator[Failure]:
    """The readers that raise what they may not."""
    path = folder / name
    path.write_bytes(data)
    for target in targets:
        try:
            try_target(target, path)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {str(error)[:400]} at {place.filename}:{place.lineno}"
            yield Failure(name, target.__name__, words, data)
    path.unlink()


def fuzz(folder: Path, *, seed: int, files: int, seconds: float = 1e9) -> tuple[int, list[Failure]]:
    """Try so many files, or as many as the time allows: how many calls, and what failed."""
    write_partners(folder)
    found: list[Failure] = []
    end, calls = time.monotonic() + seconds, 0
    told = time.monotonic()
    for number, (name, data, chance) in enumerate(cases(seed)):
        if number >= files or time.monotonic() > end:
            break
        every = TARGETS[name]
        # Commands take longest: one reader of each file is enough to see all of them in time.
        targets = every if seconds < 1e9 else (chance.choice(every),)
        here = folder / name.replace(".", "_")
        here.mkdir(exist_ok=True)
        if not (here / "sound-qrels.trec").exists():
            write_partners(here)
        found += try_file(name, data, here, targets)
        calls += len(targets)
        if seconds < 1e9 and time.monotonic() > told + 60:  # the long run
            told = time.monotonic()
            print(f"{calls:,} calls, {len(found)} failures", file=sys.stderr, flush=True)
    return calls, found
