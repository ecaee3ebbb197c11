"""The ten headline figures: what Assay does and what it is measured against, at two sizes.

`guard.py` measures them small and compares with stored ones; `table.py` measures them at full size
for README. Seconds are those of the processor, of all threads together: they hardly change when
others use the machine too. Both sides of a figure take turns, and the shortest time of each counts.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle threads of a product would count as work

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from runs import MEASURES, PYTREC_MEASURES, Sample, read_bytes, write_files

Work = Callable[[], Any]
BOUND = 0.15  # a ratio that moves by more than this is told


class Headline(NamedTuple):
    """A figure: `make(size)` gives Assay's work and that of what it is measured against."""

    name: str
    words: str  # what is done; {size} is how much
    against: str
    small: int
    full: int
    make: Callable[[int], tuple[Work, Work]]
    needs: str = ""  # a package


class Timing(NamedTuple):
    """Processor seconds of both sides of a figure."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How long the other side takes in units of Assay's time."""
        return self.theirs / self.ours


def _dictionaries(queries: int) -> tuple[Work, Work]:
    import assay

    run, qrels = Sample(queries).as_dicts()
    return lambda: assay.evaluate(run, qrels, MEASURES).mean(), _pytrec(run, qrels)


def _pytrec(run: Any, qrels: Any) -> Work:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(qrels, PYTREC_MEASURES)
    return lambda: evaluator.evaluate(run)


def _arrays(queries: int) -> tuple[Work, Work]:
    from runs import assay_array_tasks

    sample = Sample(queries)
    ours = assay_array_tasks(sample)["assay: from arrays, judgments too"].work
    return ours, _pytrec(*sample.as_dicts())


def _table(kind: str, theirs: str) -> Callable[[int], tuple[Work, Work]]:
    def make(queries: int) -> tuple[Work, Work]:
        from runs import table_tasks

        tasks = table_tasks(Sample(queries), ["ir_measures"])
        return tasks[f"assay: {kind}"].work, tasks[f"ir_measures: {theirs}"].work

    return make


def _file(lines: int) -> tuple[Work, Work]:
    import assay

    folder = Path(tempfile.gettempdir()) / "assay-bench"
    run, qrels = map(str, write_files(folder, lines))
    return lambda: assay.evaluate(run, qrels, MEASURES).mean(), lambda: read_bytes(run, qrels)


def _vectors(docs: int, columns: int = 384, queries: int = 500) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    made = (rng.standard_normal((n, columns), dtype=np.float32) for n in (queries, docs))
    left, right = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in made)
    return left, right


def _search(prepared: bool) -> Callable[[int], tuple[Work, Work]]:
    def make(docs: int) -> tuple[Work, Work]:
        import assay

        queries, corpus = _vectors(docs)
        given = assay.prepare(corpus, threads=1) if prepared else corpus
        return lambda: assay.rank(queries, given, 100, threads=1), lambda: queries @ corpus.T

    return make


def _codes(docs: int, queries: int = 100) -> tuple[Work, Work]:
    import assay
    from assay.search.engine import Codes

    rng = np.random.default_rng(1)
    left, right = (rng.integers(0, 256, (n, 32), dtype=np.uint8) for n in (queries, docs))
    ours = [Codes(one, 256) for one in (left, right)]
    words = right.view(np.uint64)
    one = left[0].view(np.uint64)

    def count() -> Any:
        return [np.bitwise_count(words ^ one).sum(axis=1) for _ in range(queries)]

    return lambda: assay.rank_codes(*ours, 100, threads=1), count


def _randomisation(queries: int, resamples: int = 10_000) -> tuple[Work, Work]:
    from assay.stats import paired_test

    rng = np.random.default_rng(1)
    a, b = rng.random((2, queries))
    difference = a - b

    def flip() -> Any:
        return [
            (rng.integers(0, 2, (1000, queries), dtype=np.int8) * 2.0 - 1.0) @ difference
            for _ in range(resamples // 1000)
        ]

    return lambda: paired_test(a, b, resamples=resamples), flip


def _start_up(times: int) -> tuple[Work, Work]:
    folder = Path(tempfile.mkdtemp())
    (folder / "run.txt").write_text("q1 Q0 a 1 2.0 t\nq1 Q0 b 2 1.0 t\nq2 Q0 c 1 0.5 t\n")
    (folder / "qrels.txt").write_text("q1 0 a 1\nq2 0 c 2\n")
    ours = ["-m", "assay", "eval", str(folder / "run.txt"), "-r", str(folder / "qrels.txt")]
    return lambda: _python(times, ours), lambda: _python(times, ["-c", "import numpy"])


def _python(times: int, arguments: list[str]) -> None:
    left_out = ("PYTHONDONTWRITEBYTECODE", "OPENBLAS_NUM_THREADS")  # as a user starts it
    variables = {name: value for name, value in os.environ.items() if name not in left_out}
    for _ in range(times):
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=variables)


_FIVE = "P@10, R@100, RR, AP, nDCG@10 of {size:,} queries × 100 results"
HEADLINES = (
    Headline(
        "arrays", f"{_FIVE} from arrays", "pytrec_eval", 5000, 100_000, _arrays, "pytrec_eval"
    ),
    Headline(
        "dictionaries",
        f"{_FIVE} from dictionaries",
        "pytrec_eval",
        5000,
        10_000,
        _dictionaries,
        "pytrec_eval",
    ),
    Headline(
        "tuples",
        f"{_FIVE} from tuples",
        "ir_measures, its own tuples",
        2000,
        3000,
        _table("tuples", "named tuples"),
        "ir_measures",
    ),
    Headline(
        "frames",
        f"{_FIVE} from data frames of pandas",
        "ir_measures",
        2000,
        3000,
        _table("pandas", "pandas"),
        "ir_measures",
    ),
    Headline(
        "file",
        "the same from a TREC file of {size:,} lines",
        "a bare read",
        1_000_000,
        10**7,
        _file,
    ),
    Headline(
        "search",
        "exact top 100 of {size:,} vectors, d = 384, 500 queries",
        "numpy's bare product",
        50_000,
        200_000,
        _search(False),
    ),
    Headline(
        "prepared search",
        "the same over a corpus that was prepared",
        "numpy's bare product",
        50_000,
        200_000,
        _search(True),
    ),
    Headline(
        "codes",
        "top 100 of {size:,} codes of 256 bits, 100 queries",
        "distances alone in numpy",
        300_000,
        1_000_000,
        _codes,
    ),
    Headline(
        "randomisation",
        "10,000 resamples of the differences of {size:,} queries",
        "signs and products in numpy",
        2000,
        10_000,
        _randomisation,
    ),
    Headline("start-up", "`assay eval` of a small file", "`import numpy`", 3, 1, _start_up),
)


def seconds_of(work: Work) -> float:
    """Processor seconds of this process and of those that it waited for."""
    before = _used()
    work()
    return _used() - before


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(headline: Headline, size: int, repeats: int) -> Timing:
    """The shortest time of each side of a figure."""
    sides = headline.make(size)
    with _without_collections():
        times = [[seconds_of(side) for side in sides] for _ in range(repeats)]
    return Timing(*map(min, zip(*times, strict=True)))


@contextmanager
def _without_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()  # it would walk through millions of entries of ours
    try:
        yield
    finally:
        gc.enable()


def measure_apart(headline: Headline, size: int, repeats: int) -> Timing:
    """The same in a process of its own, whose memory nothing else has used."""
    done = subprocess.run(
        [sys.executable, __file__, headline.name, str(size), str(repeats)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return Timing(*json.loads(done.stdout.splitlines()[-1]))


def measurable() -> list[Headline]:
    """The figures whose packages are installed."""
    return [one for one in HEADLINES if not one.needs or find_spec(one.needs)]


if __name__ == "__main__":
    name, size, repeats = sys.argv[1:]
    wanted = next(one for one in HEADLINES if one.name == name)
    print(json.dumps(measure(wanted, int(size), int(repeats))))
