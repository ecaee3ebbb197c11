"""Commands that read vectors or scores from a .npy file need no room for the file itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")

ROWS, COLUMNS, SOME = 19_500, 4096, 250
ALLOWANCE = 288 << 20

_LIMITED = """
import resource, sys
import numpy as np
import assay
from assay.cli.main import main
from assay.search.engine import rank
import assay.codes.evaluate, assay.crossmodal.evaluate, assay.prediction.models  # taken once

rank(np.ones((2, 3)), np.ones((2, 3)), 1, threads=2)
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[1]),) * 2)
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix larger than the allowance, and what the commands need beside it."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(1)
    some = rng.standard_normal((SOME, COLUMNS)).astype(np.float32)
    large = np.lib.format.open_memmap(folder / "large.npy", "w+", np.float32, (ROWS, COLUMNS))
    for start in range(0, ROWS, SOME):
        large[start : start + SOME] = np.roll(some, start // SOME, axis=1)
    large.flush()
    del large
    assert (folder / "large.npy").stat().st_size > ALLOWANCE
    np.save(folder / "small.npy", some[:20] + np.float32(0.1))
    np.save(folder / "labels.npy", np.arange(ROWS) % 9)
    np.save(folder / "small_labels.npy", np.arange(20) % 9)
    np.save(folder / "targets.npy", np.arange(ROWS) % COLUMNS)
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command under the limit.

    The limit counts addresses, and glibc reserves 128 MB of them for a thread that begins
    while another still ends, used or not: all threads share one arena here.
    """
    command = [sys.executable, "-c", _LIMITED, str(ALLOWANCE), *arguments]
    env = os.environ | {"MALLOC_ARENA_MAX": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


CODES = "codes --embeddings large.npy --queries small.npy --k 5 --threads 1 --method"
CROSSMODAL = (
    "crossmodal --text-embeddings large.npy --labels labels.npy --k-values 5 --threads 1 "
    "--prototype-embeddings small.npy --prototype-labels small_labels.npy"
)


@pytest.mark.parametrize(
    "command",
    [
        "rank small.npy large.npy -k 10 -o run.txt --threads 1",
        f"{CODES} sign",
        pytest.param(f"{CODES} int8 --metric dot", marks=pytest.mark.slow),
        pytest.param(f"{CODES} gaussian --bits 64 --rerank 20", marks=pytest.mark.slow),
        CROSSMODAL,
        pytest.param(f"{CROSSMODAL} --drop-labels 3", marks=pytest.mark.slow),
        "predict large.npy --targets targets.npy --threads 1",
    ],
)
def test_a_file_larger_than_the_memory_limit(command, folder):
    done = run(folder, *command.split())
    assert done.returncode == 0, done.stderr[-2000:]
