"""Speed of evaluating runs, beside other packages, all measured in one run.

    python benchmarks/runs.py --quick        a minute, small sizes
    python benchmarks/runs.py                the sizes of docs/speed.md

P@10, R@100, RR, AP and nDCG@10 are computed from arrays and dictionaries in memory, and from a
TREC file. Repeats are interleaved and the shortest time of each counts. Every timing runs in a
process of its own that this one starts, so that its peak memory is its own. Packages that are
not installed are left out. benchmarks/README.md says what each timing includes.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MEASURES = ["P@10", "R@100", "RR", "AP", "nDCG@10"]
PYTREC_NAMES = ["P_10", "recall_100", "recip_rank", "map", "ndcg_cut_10"]
PYTREC_MEASURES = {"P.10", "recall.100", "recip_rank", "map", "ndcg_cut.10"}
RANX_NAMES = ["precision@10", "recall@100", "mrr", "map", "ndcg@10"]
PLACES = 100
N_DOCS = 1_000_000
SEED = 3
AGREEMENT = 1e-9

Result = dict[str, Any]


class Task(NamedTuple):
    """What is timed, and how the means are read from what it returns, which is not timed."""

    work: Callable[[], Any]
    means: Callable[[Any], list[float]]


# Data ------------------------------------------------------------------------------------------


class Sample:
    """A run of unsorted results and 10 to 20 graded judgments per query, half of them retrieved.

    Scores of a query are distinct in float32, too: pytrec_eval compares them so, and random float64
    ones tie there once in some thousand queries, where it has another order.
    """

    def __init__(self, queries: int, *, n_docs: int = N_DOCS) -> None:
        rng = np.random.default_rng(SEED)
        self.queries, self.n_docs = queries, n_docs
        # Steps between 1 and n_docs / places, so that no document comes twice.
        steps = rng.integers(1, n_docs // PLACES, (queries, PLACES))
        self.docs = rng.permuted(np.cumsum(steps, axis=1), axis=1)
        places = np.cumsum(rng.integers(1, 2**24 // PLACES, (queries, PLACES)), axis=1)
        self.scores = rng.permuted(places, axis=1) / 2**24
        counts = rng.integers(10, 21, queries)
        row = np.repeat(np.arange(queries), counts)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        anywhere = rng.integers(0, n_docs, len(row))
        doc = np.where(nth < counts[row] // 2, self.docs[row, nth], anywhere)
        pairs = np.unique(row * n_docs + doc)
        self.judged_row, self.judged_doc = pairs // n_docs, pairs % n_docs
        self.grades = rng.integers(0, 4, len(pairs)).astype(np.float64)
        self.grades[np.flatnonzero(np.diff(self.judged_row, prepend=-1))] = 1.0  # never none

    def as_dicts(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
        """{query: {doc: score}} and {query: {doc: grade}}, as the other packages want them."""
        names = [f"doc{number:08d}" for number in range(self.n_docs)]
        queries = [f"q{number:07d}" for number in range(self.queries)]
        run = {
            query: dict(zip([names[doc] for doc in docs], scores, strict=True))
            for query, docs, scores in zip(
                queries, self.docs.tolist(), self.scores.tolist(), strict=True
            )
        }
        qrels: dict[str, dict[str, int]] = {query: {} for query in queries}
        for row, doc, grade in zip(
            self.judged_row.tolist(), self.judged_doc.tolist(), self.grades.tolist(), strict=True
        ):
            qrels[queries[row]][names[doc]] = int(grade)
        return run, qrels


def write_files(folder: Path, lines: int) -> tuple[Path, Path]:
    """A run file of that many lines in rank order, and its qrels; made once and kept."""
    queries = max(1, lines // PLACES)
    run, qrels = (folder / f"{what}-{queries}-seed{SEED}.trec" for what in ("run", "qrels"))
    if not (run.exists() and qrels.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        sample = Sample(queries)
        sample.scores = -np.sort(-sample.scores, axis=1)
        _write(qrels, _qrels_text(sample))
        _write(run, _run_text(sample))
    return run, qrels


def _write(path: Path, blocks: Iterator[bytes]) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.writelines(blocks)
    part.replace(path)


def _run_text(sample: Sample, block: int = 10_000) -> Iterator[bytes]:
    rank = np.arange(1, PLACES + 1)
    for start in range(0, sample.queries, block):
        docs = sample.docs[start : start + block]
        row = np.repeat(np.arange(start, start + len(docs)), PLACES)
        score = (sample.scores[start : start + block] * 1e9).astype(np.int64)
        yield _lines(
            "q",
            _digits(row, 7),
            " Q0 doc",
            _digits(docs.ravel(), 8),
            " ",
            _digits(np.tile(rank, len(docs)), 3),
            " 0.",
            _digits(score.ravel(), 9),
            " run\n",
        )


def _qrels_text(sample: Sample) -> Iterator[bytes]:
    grade = _digits(sample.grades.astype(np.int64), 1)
    yield _lines(
        "q",
        _digits(sample.judged_row, 7),
        " 0 doc",
        _digits(sample.judged_doc, 8),
        " ",
        grade,
        "\n",
    )


def _digits(numbers: NDArray[Any], width: int) -> NDArray[Any]:
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _lines(*columns: str | NDArray[Any]) -> bytes:
    """Lines of one width: text that all of them share, between columns of digits."""
    count = next(len(column) for column in columns if not isinstance(column, str))
    blocks = [
        np.tile(np.frombuffer(column.encode(), np.uint8), (count, 1))
        if isinstance(column, str)
        else column
        for column in columns
    ]
    return np.hstack(blocks).tobytes()


# What is timed in memory -----------------------------------------------------------------------


def memory_tasks(sample: Sample, peers: list[str]) -> dict[str, Task]:
    """Tasks by name; what a task is given ready-made is made here."""
    run, qrels = sample.as_dicts()
    tasks = {**assay_array_tasks(sample), "assay: from dicts": assay_dict_task(run, qrels)}
    for package, (name, make) in MEMORY_PEERS.items():
        if package in peers:
            tasks[name] = make(run, qrels)
    gc.collect()
    gc.freeze()  # or the collector would walk through millions of dictionary entries of ours
    return tasks


def assay_array_tasks(sample: Sample) -> dict[str, Task]:
    import assay
    from assay.core.ids import Ids

    rules = assay.Conventions.parse("trec_eval").replace(tiebreak="index")

    def ranking() -> Any:
        return assay.Ranking.from_arrays(sample.docs, sample.scores, n_docs=sample.n_docs)

    def judgments() -> Any:
        return assay.Judgments.from_pairs(
            Ids.count(sample.queries),
            Ids.count(sample.n_docs),
            sample.judged_row,
            sample.judged_doc,
            sample.grades,
        )

    def evaluate(ranking: Any, judgments: Any) -> Any:
        return assay.evaluate(ranking, judgments, MEASURES, conventions=rules).mean()

    ranked, judged = ranking(), judgments()
    return {
        "assay: from arrays, judgments ready": Task(lambda: evaluate(ranking(), judged), _in_order),
        "assay: from arrays, judgments too": Task(
            lambda: evaluate(ranking(), judgments()), _in_order
        ),
        "assay: ranking and judgments ready": Task(lambda: evaluate(ranked, judged), _in_order),
    }


def assay_dict_task(run: Any, qrels: Any) -> Task:
    import assay

    return Task(lambda: assay.evaluate(run, qrels, MEASURES).mean(), _in_order)


def _in_order(mean: Any) -> list[float]:
    return [mean[name] for name in MEASURES]


def pytrec_task(run: Any, qrels: Any) -> Task:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(qrels, PYTREC_MEASURES)
    return Task(lambda: evaluator.evaluate(run), _pytrec_means)


def _pytrec_means(rows: dict[str, dict[str, float]]) -> list[float]:
    return [sum(row[name] for row in rows.values()) / len(rows) for name in PYTREC_NAMES]


def ir_measures_task(run: Any, qrels: Any) -> Task:
    import ir_measures
    from ir_measures import AP, RR, P, R, nDCG

    wanted = [P @ 10, R @ 100, RR, AP, nDCG @ 10]
    evaluator = ir_measures.evaluator(wanted, qrels)
    return Task(lambda: evaluator.calc_aggregate(run), lambda found: [found[one] for one in wanted])


def ranx_task(run: Any, qrels: Any) -> Task:
    import ranx

    ready = ranx.Qrels(qrels), ranx.Run(run)
    ranx.evaluate(*ready, RANX_NAMES)  # compiled from here on
    return Task(lambda: ranx.evaluate(*ready, RANX_NAMES), _ranx_means)


def _ranx_means(found: dict[str, Any]) -> list[float]:
    return [float(found[name]) for name in RANX_NAMES]


MEMORY_PEERS: dict[str, tuple[str, Callable[[Any, Any], Task]]] = {
    "pytrec_eval": ("pytrec_eval: evaluator, dicts ready", pytrec_task),
    "ir_measures": ("ir_measures: evaluator, dicts ready", ir_measures_task),
    "ranx": ("ranx: warm; Qrels, Run ready", ranx_task),
}


def table_tasks(sample: Sample, peers: list[str]) -> dict[str, Task]:
    """The same work from data frames and tuples, judgments included; nobody gets dictionaries."""
    import assay

    run, qrels = (_columns(data) for data in sample.as_dicts())
    makers = {"tuples": lambda columns: list(zip(*columns, strict=True))}
    for package in ("pandas", "polars", "pyarrow"):
        if find_spec(package):
            makers[package] = partial(_frame, package)
    given = {name: (make(run), make(qrels)) for name, make in makers.items()}
    tasks = {f"assay: {name}": _evaluation(assay.evaluate, *data) for name, data in given.items()}
    if "ir_measures" in peers:
        tasks |= ir_measures_table_tasks(given)
    if "ranx" in peers and "pandas" in given:
        tasks["ranx: warm; pandas"] = ranx_table_task(*given["pandas"])
    gc.collect()
    gc.freeze()
    return tasks


def _columns(rows: dict[str, dict[str, Any]]) -> list[list[Any]]:
    return [
        [query for query, row in rows.items() for _ in row],
        [doc for row in rows.values() for doc in row],
        [value for row in rows.values() for value in row.values()],
    ]


def _frame(package: str, columns: list[list[Any]]) -> Any:
    value = "score" if isinstance(columns[2][0], float) else "relevance"
    named = dict(zip(("query_id", "doc_id", value), columns, strict=True))
    module = importlib.import_module(package)
    return module.table(named) if package == "pyarrow" else module.DataFrame(named)


def _evaluation(evaluate: Callable[..., Any], run: Any, qrels: Any) -> Task:
    return Task(lambda: evaluate(run, qrels, MEASURES).mean(), _in_order)


def ir_measures_table_tasks(given: dict[str, tuple[Any, Any]]) -> dict[str, Task]:
    import ir_measures
    from ir_measures import AP, RR, P, Qrel, R, ScoredDoc, nDCG

    wanted = [P @ 10, R @ 100, RR, AP, nDCG @ 10]
    run, qrels = given["tuples"]
    named = [ScoredDoc(*line) for line in run], [Qrel(*line) for line in qrels]
    data = {"named tuples": named, **{name: given[name] for name in given.keys() & {"pandas"}}}

    def task(run: Any, qrels: Any) -> Task:
        return Task(
            lambda: ir_measures.calc_aggregate(wanted, qrels, run),
            lambda found: [found[one] for one in wanted],
        )

    return {f"ir_measures: {name}": task(*pair) for name, pair in data.items()}


def ranx_table_task(run: Any, qrels: Any) -> Task:
    import ranx

    names = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
    run, qrels = (one.astype(dict.fromkeys(names.values(), object)) for one in (run, qrels))

    def work() -> Any:
        judged = ranx.Qrels.from_df(qrels, **names, score_col="relevance")
        return ranx.evaluate(judged, ranx.Run.from_df(run, **names, score_col="score"), RANX_NAMES)

    work()  # compiled from here on
    return Task(work, _ranx_means)


def time_memory(queries: int, repeats: int, peers: list[str]) -> list[Result]:
    """All tasks in turn, again and again; the shortest time of each."""
    return _time_in_turn(memory_tasks(Sample(queries), peers), repeats)


def time_tables(queries: int, repeats: int, peers: list[str]) -> list[Result]:
    """The same for data frames and tuples."""
    return _time_in_turn(table_tasks(Sample(queries), peers), repeats)


def _time_in_turn(tasks: dict[str, Task], repeats: int) -> list[Result]:
    seconds = dict.fromkeys(tasks, np.inf)
    means = {}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            found = task.work()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
            means[name] = task.means(found)
            del found  # freeing it is not the next one's work
    return [{"name": n, "seconds": seconds[n], "means": means[n]} for n in tasks]


def time_ranx_cold(queries: int) -> list[Result]:
    """What the first call of a process costs, with nothing compiled before."""
    import ranx

    run, qrels = Sample(queries).as_dicts()
    start = time.perf_counter()
    ready = ranx.Qrels(qrels), ranx.Run(run)
    made = time.perf_counter()
    found = ranx.evaluate(*ready, RANX_NAMES)
    done = time.perf_counter()
    return [
        {"name": "ranx: making Qrels and Run, cold", "seconds": made - start, "means": []},
        {"name": "ranx: first evaluate, cold", "seconds": done - made, "means": _ranx_means(found)},
    ]


# What is timed from files ----------------------------------------------------------------------


def read_bytes(run: str, qrels: str) -> list[float]:
    """The floor: every byte of both files, and nothing done with it."""
    buffer = bytearray(4 << 20)
    for path in (run, qrels):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return []


def assay_files(run: str, qrels: str) -> list[float]:
    import assay

    return _in_order(assay.evaluate(run, qrels, MEASURES).mean())


def pytrec_files(run: str, qrels: str) -> list[float]:
    import pytrec_eval

    with open(qrels) as file:
        judged = pytrec_eval.parse_qrel(file)
    with open(run) as file:
        ranked = pytrec_eval.parse_run(file)
    return _pytrec_means(pytrec_eval.RelevanceEvaluator(judged, PYTREC_MEASURES).evaluate(ranked))


def ranx_files(run: str, qrels: str) -> list[float]:
    import ranx

    judged, ranked = ranx.Qrels.from_file(qrels, kind="trec"), ranx.Run.from_file(run, kind="trec")
    return _ranx_means(ranx.evaluate(judged, ranked, RANX_NAMES))


def polars_files(run: str, qrels: str) -> list[float]:
    """Reading and joining only; no measure is computed."""
    import polars

    def read(path: str, names: list[str], used: list[int]) -> Any:
        return polars.read_csv(
            path, separator=" ", has_header=False, new_columns=names, columns=used
        )

    judged = read(qrels, ["q", "iter", "d", "grade"], [0, 2, 3])
    ranked = read(run, ["q", "q0", "d", "rank", "score", "tag"], [0, 2, 4])
    ranked.join(judged, on=["q", "d"], how="inner")
    return []


FILE_TASKS: dict[str, tuple[str | None, str, Callable[[str, str], list[float]]]] = {
    "bytes": (None, "reading the bytes (the floor)", read_bytes),
    "assay": ("assay", "assay: evaluate(path, path)", assay_files),
    "polars": ("polars", "polars: read and join only", polars_files),
    "pytrec_eval": ("pytrec_eval", "pytrec_eval: parse and evaluate", pytrec_files),
    "ranx": ("ranx", "ranx: from_file and evaluate", ranx_files),
}


def time_file(task: str, run: str, qrels: str) -> list[Result]:
    """One task in this fresh process: seconds without its import, and peak memory with it."""
    package, name, work = FILE_TASKS[task]
    if package:
        __import__(package)
    start = time.perf_counter()
    means = work(run, qrels)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return [{"name": name, "seconds": seconds, "peak_gb": peak, "means": means}]


# Running and telling ---------------------------------------------------------------------------


def in_process(*child: object) -> list[Result]:
    """Run this script as a child that prints its results as JSON.

    A child's peak memory begins with its parent's size, so this process stays small.
    """
    with tempfile.TemporaryDirectory() as nothing_compiled:
        done = subprocess.run(
            # -P: no file beside this one may be taken for a module that somebody imports.
            [sys.executable, "-P", __file__, "--child", *map(str, child)],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            env={**os.environ, "NUMBA_CACHE_DIR": nothing_compiled},
        )
    found: list[Result] = json.loads(done.stdout.splitlines()[-1])
    return found


def child_main(arguments: list[str]) -> None:
    kind, *rest = arguments
    if kind == "memory":
        results = time_memory(int(rest[0]), int(rest[1]), rest[2:])
    elif kind == "tables":
        results = time_tables(int(rest[0]), int(rest[1]), rest[2:])
    elif kind == "write":
        results = [{"paths": [str(path) for path in write_files(Path(rest[0]), int(rest[1]))]}]
    elif kind == "ranx-cold":
        results = time_ranx_cold(int(rest[0]))
    else:
        results = time_file(*rest)
    print(json.dumps(results))


def memory_part(queries: int, repeats: int, peers: list[str], cold: bool) -> Result:
    results = in_process("memory", queries, repeats, *peers)
    if cold and "ranx" in peers:
        results += in_process("ranx-cold", queries)
    title = f"In memory: {queries:,} queries × {PLACES} results"
    return _part(title, results, "assay: from arrays, judgments ready")


def table_part(queries: int, repeats: int, peers: list[str]) -> Result:
    results = in_process("tables", queries, min(repeats, 5), *peers)
    title = f"Data frames and tuples: {queries:,} queries × {PLACES} results"
    return _part(title, results, "assay: tuples")


def file_part(lines: int, repeats: int, peers: list[str], folder: Path) -> Result:
    paths = [Path(path) for path in in_process("write", folder, lines)[0]["paths"]]
    size = sum(path.stat().st_size for path in paths)
    best: dict[str, Result] = {}
    for turn in range(repeats):
        for task in ("bytes", "assay", *(p for p in peers if p in FILE_TASKS)):
            if turn and task == "ranx":  # so slow that once must do
                continue
            (result,) = in_process("file", task, *paths)
            if task not in best or result["seconds"] < best[task]["seconds"]:
                best[task] = result
    floor = best["bytes"]["seconds"]
    for result in best.values():
        result["floors"] = result["seconds"] / floor
    title = f"From files: a run of {lines:,} lines and its qrels, {size / 1e6:.0f} MB"
    return _part(title, list(best.values()), FILE_TASKS["assay"][1])


def _part(title: str, results: list[Result], reference: str) -> Result:
    """Ratios against assay; and all who tell means must tell the same ones."""
    ours = next(result for result in results if result["name"] == reference)
    for result in results:
        result["ratio"] = result["seconds"] / ours["seconds"]
        if result["means"] and not np.allclose(result["means"], ours["means"], atol=AGREEMENT):
            raise SystemExit(f"{result['name']}: {result['means']}; assay: {ours['means']}.")
    return {"title": title, "results": results}


def machine() -> Result:
    packages = ("assay", "numpy", "pytrec_eval-terrier", "ir_measures", "ranx", "polars")
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def show(part: Result) -> None:
    print(f"\n{part['title']}\n{'':40}{'seconds':>10}{'÷ assay':>10}", end="")
    floors = "floors" in part["results"][0]
    print(f"{'÷ floor':>10}{'peak GB':>10}" if floors else "")
    for result in part["results"]:
        line = f"  {result['name']:38}{result['seconds']:10.4f}{result['ratio']:10.2f}"
        print(line + (f"{result['floors']:10.1f}{result['peak_gb']:10.2f}" if floors else ""))


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    known = ["pytrec_eval", "ir_measures", "ranx", "polars"]
    parser.add_argument("--queries", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--lines", type=int, default=10_000_000, help="of the file; 0 for none")
    parser.add_argument("--repeats", type=int, default=5, help="in memory; from files at most 3")
    parser.add_argument("--peers", nargs="*", default=known, choices=known)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "assay-bench")
    parser.add_argument("--quick", action="store_true", help="1,000 queries and 100,000 lines")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        options.queries, options.lines = [1_000], 100_000
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    if options.child:
        child_main(options.child)
        return
    peers = [peer for peer in options.peers if find_spec(peer)]
    report: Result = {"before": machine(), "parts": []}
    if not options.json:
        print(json.dumps(report["before"]))
    for part in parts(options, peers):
        report["parts"].append(part)
        if not options.json:
            show(part)
    report["after"] = machine()
    print(json.dumps(report if options.json else {"load after": report["after"]["load"]}))


def parts(options: argparse.Namespace, peers: list[str]) -> Iterator[Result]:
    for number, queries in enumerate(options.queries):
        yield memory_part(queries, options.repeats, peers, cold=number == 0)
    if options.queries:
        yield table_part(min(options.queries), options.repeats, peers)
    if options.lines:
        yield file_part(options.lines, min(options.repeats, 3), peers, options.cache)


if __name__ == "__main__":
    main()
