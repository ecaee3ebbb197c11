"""Speed of exact search beside the matrix product and other packages, all measured in one run.

    python benchmarks/search.py --quick      a few minutes, small sizes
    python benchmarks/search.py              the sizes of docs/speed.md

The best k and the rank of one target, against numpy's matrix product alone (sgemm, the floor that
users know), faiss, torch, usearch and argsort. Ways take turns and the shortest time of each
counts. benchmarks/README.md says what each row includes.
"""

from __future__ import annotations

import sys

if sys.path and sys.path[0].endswith("benchmarks"):
    sys.path.append(sys.path.pop(0))  # last, or files here would hide standard modules

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from search_sample import Sample
from search_ways import FLOORS, PRODUCTS, TARGET_WAYS, TOP_WAYS, Way

WAYS: dict[str, dict[str, Way]] = {"top": TOP_WAYS, "target": TARGET_WAYS}
PEERS = ("faiss", "torch", "usearch")
PARTS = ("top", "order", "target", "growth")
TUNED_FAISS = "faiss knn, core type set"
TORCH_CHUNKS = ("torch, chunks 100 × 500k", "torch, chunks all × 50k")
AGREEMENT = 0.95  # of the documents found; float32 scores swap a few near the end of the list
PAUSE = 0.3  # seconds, until the threads of the way before have stopped waiting for more work

Result = dict[str, Any]


class Job(NamedTuple):
    """One row of a table: a way, what it searches in, and k."""

    kind: str
    name: str
    sample: Sample
    k: int = 0

    @property
    def way(self) -> Way:
        """How it is done."""
        return WAYS[self.kind][self.name]

    @property
    def flops(self) -> float:
        """What the product alone takes."""
        return 2.0 * self.sample.queries * self.sample.docs * self.sample.dims

    @property
    def bytes(self) -> float:
        """The least to move: all vectors once, and a number and a score for each result."""
        rows = self.sample.queries + self.sample.docs
        return 4.0 * rows * self.sample.dims + 16.0 * self.sample.queries * max(self.k, 1)


# Processes -------------------------------------------------------------------------------------


class Team:
    """A process for each package, and one more where the environment matters."""

    def __init__(self, core_type: str | None) -> None:
        self.core_type = core_type
        self.members: dict[tuple[str, str], subprocess.Popen[str]] = {}

    def ask(self, package: str, variant: str, *request: Any) -> Result | None:
        """The answer of a process, or None if that ended it."""
        member = self.members.get((package, variant)) or self._start(package, variant)
        try:
            print(json.dumps(request), file=member.stdin, flush=True)
            found: Result = json.loads(cast(IO[str], member.stdout).readline())
        except (BrokenPipeError, json.JSONDecodeError):
            del self.members[package, variant]
            return None
        return found

    def _start(self, package: str, variant: str) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
        if variant:
            env["OPENBLAS_CORETYPE"] = self.core_type or ""
        ways = Path(__file__).with_name("search_ways.py")
        member = subprocess.Popen(
            [sys.executable, "-P", str(ways)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.members[package, variant] = member
        return member

    def libraries(self) -> Result:
        """What each process has loaded."""
        asked = {" ".join(one).strip(): self.ask(*one, "libraries") for one in list(self.members)}
        return {name: found for name, found in asked.items() if found is not None}

    def close(self) -> None:
        """Let all processes end."""
        for member in self.members.values():
            member.communicate()


def guess_core_type() -> str | None:
    """The name that OpenBLAS has for a core like this one, by its instructions; x86 Linux only."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    for sign, name in (("avx512bw", "SkylakeX"), ("avx2", "Haswell")):
        if f" {sign} " in text:
            return "Zen" if name == "Haswell" and "AuthenticAMD" in text else name
    return None


# Measuring -------------------------------------------------------------------------------------


class Measured:
    """The shortest of the turns that a job had."""

    def __init__(self, job: Job) -> None:
        self.job, self.turns, self.spent, self.failed = job, 0, 0.0, False
        self.shortest, self.found, self.queries = np.inf, None, job.sample.queries

    def may_go_on(self, budget: float) -> bool:
        """Whether another turn of the same length stays within the budget; the first always is."""
        return not self.failed and self.spent + self.spent / max(self.turns, 1) <= budget

    def take_turn(self, team: Team) -> None:
        job = self.job
        reply = team.ask(job.way.package, job.way.variant, job.kind, job.name, job.sample, job.k)
        if reply is None:
            self.failed = True
            return
        self.turns += 1
        self.spent += reply["seconds"]
        self.shortest = min(self.shortest, reply["seconds"])
        self.found, self.queries = reply["found"], reply["queries"]
        time.sleep(PAUSE)

    @property
    def seconds(self) -> float:
        """For all queries, also where only some were searched for."""
        return float(self.shortest) * self.job.sample.queries / self.queries


def measure(team: Team, jobs: list[Job], options: argparse.Namespace) -> list[Measured]:
    """All jobs in turn, again and again."""
    measured = [Measured(job) for job in jobs]
    for job in {(job.kind, job.name): job for job in jobs}.values():  # imports, starts threads
        small = job.sample._replace(queries=64, docs=4096)
        team.ask(job.way.package, job.way.variant, job.kind, job.name, small, 10)
    for _ in range(options.repeats):
        for one in measured:
            if one.may_go_on(options.budget):
                one.take_turn(team)
    return measured


def table(title: str, measured: list[Measured], peaks: Result) -> Result:
    """Times and their ratios: to the product alone, and to assay at the same k."""
    done = [one for one in measured if one.turns]
    floor = min(one.seconds for one in done if one.job.name in FLOORS)
    ours = {one.job.k: one for one in done if one.job.name == "assay"}
    rows = [_row(one, floor, ours.get(one.job.k), peaks) for one in done]
    failed = [f"{one.job.name}, k = {one.job.k}" for one in measured if one.failed]
    return {"title": title, "rows": rows, "failed": failed}


def _row(one: Measured, floor: float, ours: Measured | None, peaks: Result) -> Result:
    job, seconds = one.job, one.seconds
    return {
        "way": job.name,
        "k": job.k or None,
        "seconds": seconds,
        "turns": one.turns,
        "of_queries": one.queries if one.queries < job.sample.queries else None,
        "to_sgemm": seconds / floor,
        "to_assay": seconds / ours.seconds if ours else None,
        "flops": job.flops / seconds,
        "of_flops_peak": job.flops / seconds / peaks["flops"],
        "bytes": job.bytes / seconds,
        "of_bytes_peak": job.bytes / seconds / peaks["bytes"],
        "agreement": agreement(one, ours),
    }


def agreement(one: Measured, ours: Measured | None) -> float | None:
    """The share of assay's documents that another way found too; or of its ranks, but for one."""
    if ours is None or one.found is None or ours.found is None:
        return None
    if one.job.kind == "target":
        share = float(np.mean(np.abs(np.subtract(one.found, ours.found)) <= 1))
    else:
        pairs = zip(one.found, ours.found, strict=False)  # a slice may have fewer
        share = float(np.mean([len(set(a) & set(b)) / len(set(b)) for a, b in pairs]))
    return share


# Parts -----------------------------------------------------------------------------------------


def usable(ways: dict[str, Way], team: Team, peers: list[str]) -> list[str]:
    """The ways whose packages are here."""
    return [
        name
        for name, way in ways.items()
        if way.package in ("numpy", "assay", *peers) and (not way.variant or team.core_type)
    ]


def top_jobs(names: list[str], sample: Sample, ks: list[int]) -> list[Job]:
    """The products once, and each way for each k."""
    usual = 100 if 100 in ks else ks[0]
    jobs = [Job("top", name, sample) for name in names if name in PRODUCTS]
    for k in ks:
        jobs += [
            Job("top", name, sample, k)
            for name in names
            if name not in PRODUCTS and (k == usual or not TOP_WAYS[name].one_k)
        ]
    return jobs


def top_parts(team: Team, options: argparse.Namespace, peaks: Result) -> Iterator[Result]:
    names = usable(TOP_WAYS, team, options.peers)
    for dims in options.dims:
        sample = Sample(options.queries, options.docs, dims)
        measured = measure(team, top_jobs(names, sample, options.k), options)
        yield table(f"Best k: {_size(sample)}", measured, peaks)


def order_parts(team: Team, options: argparse.Namespace, peaks: Result) -> Iterator[Result]:
    """Documents in bad orders, and few queries."""
    wanted = (*FLOORS, "assay", "assay, prepared", "faiss knn", TUNED_FAISS)
    names = [name for name in usable(TOP_WAYS, team, options.peers) if name in wanted]
    if TUNED_FAISS in names:
        names.remove("faiss knn")
    for queries in dict.fromkeys((min(256, options.queries), options.queries)):
        for order in ("random", "drifting", "ascending"):
            if order == "random" and queries == options.queries:
                continue  # done above
            sample = Sample(queries, options.docs, options.dims[0], order)
            measured = measure(team, top_jobs(names, sample, options.k), options)
            title = f"Order of documents: {order}, {_size(sample)}"
            yield table(title, measured, peaks) | {"note": entering_note(team, sample, options.k)}


def entering_note(team: Team, sample: Sample, ks: list[int]) -> str:
    """How bad an order is."""
    found = {k: team.ask("numpy", "", "entering", sample, k) for k in ks}
    shares = [f"{one['share']:.1%} (k = {k})" for k, one in found.items() if one]
    return f"{', '.join(shares)} of the documents are among the best k when they come"


def target_parts(team: Team, options: argparse.Namespace, peaks: Result) -> Iterator[Result]:
    names = usable(TARGET_WAYS, team, options.peers)
    for dims in options.dims:
        sample = Sample(options.queries, options.docs, dims)
        jobs = [Job("target", name, sample) for name in names]
        yield table(f"Rank of one target: {_size(sample)}", measure(team, jobs, options), peaks)


def growth_parts(team: Team, options: argparse.Namespace, peaks: Result) -> Iterator[Result]:
    """How time grows when one size doubles twice, beside the product alone."""
    base = Sample(options.queries // 4, options.docs // 4, options.dims[0] // 2)
    floor = next(iter(FLOORS))
    jobs = {}
    for what, factor in [("", 1)] + [(name, by) for name in "QNdk" for by in (2, 4)]:
        sample = base._replace(
            queries=base.queries * (factor if what == "Q" else 1),
            docs=base.docs * (factor if what == "N" else 1),
            dims=base.dims * (factor if what == "d" else 1),
        )
        k = 100 * (factor if what == "k" else 1)
        jobs[what, factor] = Job("top", "assay", sample, k), Job("top", floor, sample)
    each_once = dict.fromkeys(job for both in jobs.values() for job in both)
    measured = measure(team, list(each_once), options)
    done = {one.job: one for one in measured}
    rows = [_growth_row(done, jobs, key, peaks) for key in jobs]
    yield {"title": f"Growth from {_size(base)}, k = 100", "growth": rows}


def _growth_row(
    done: dict[Job, Measured], jobs: Any, key: tuple[str, int], peaks: Result
) -> Result:
    (ours, floor), (first, first_floor) = jobs[key], jobs["", 1]
    seconds, products = done[ours].seconds, done[floor].seconds
    return {
        "what": key[0],
        "factor": key[1],
        "seconds": seconds,
        "growth": seconds / done[first].seconds,
        "sgemm_growth": products / done[first_floor].seconds,
        "to_sgemm": seconds / products,
        "of_flops_peak": ours.flops / seconds / peaks["flops"],
    }


def _size(sample: Sample) -> str:
    return f"{sample.queries:,} × {sample.docs:,} × {sample.dims}"


# Telling ---------------------------------------------------------------------------------------


def aim(row: Result, title: str) -> str:
    """What was hoped for, where something was."""
    name, k = row["way"], row["k"] or 0
    if name in ("assay", "assay, prepared"):
        most = {"assay": (0.75, 1.1), "assay, prepared": (0.55, 0.8)}[name][k > 100]
        return f"≤ {most} sgemm" if title.startswith("Best k") else ""
    if not title.startswith("Best k"):
        return ""
    least = {"faiss knn": "1.3", TUNED_FAISS: "1.3"} | dict.fromkeys(TORCH_CHUNKS, "2")
    return f"≥ {least[name]} assay" if name in least else ""


def doubts(row: Result) -> str:
    """Said where a way does not find what assay finds."""
    share = row["agreement"]
    return "" if share is None or share >= AGREEMENT else f" FINDS {share:.1%} OF WHAT ASSAY DOES"


def show(part: Result) -> None:
    print(f"\n{part['title']}" + (f"; {part['note']}" if "note" in part else ""))
    if "growth" in part:
        _show_growth(part["growth"])
        return
    print(
        f"  {'':27}{'k':>5}{'seconds':>10}{'÷ sgemm':>9}{'÷ assay':>9}{'Gflop/s':>9}"
        f"{'of peak':>9}{'GB/s':>7}{'of peak':>9}{'turns':>7}  aim"
    )
    for row in part["rows"]:
        print(_line(row) + f"  {aim(row, part['title'])}{doubts(row)}")
    for name in part["failed"]:
        print(f"  {name}: its process ended, so it is left out")


def _line(row: Result) -> str:
    about = "≈" if row["of_queries"] else " "
    to_assay = f"{row['to_assay']:9.2f}" if row["to_assay"] else f"{'':9}"
    return (
        f"  {row['way']:27}{row['k'] or '':>5} {about}{row['seconds']:8.3f}{row['to_sgemm']:9.2f}"
        f"{to_assay}{row['flops'] / 1e9:9.1f}{row['of_flops_peak']:9.0%}"
        f"{row['bytes'] / 1e9:7.2f}{row['of_bytes_peak']:9.1%}{row['turns']:7}"
    )


def _show_growth(rows: list[Result]) -> None:
    print(f"  {'':8}{'seconds':>10}{'growth':>9}{'of sgemm':>10}{'÷ sgemm':>9}{'of peak':>9}")
    for row in rows:
        name = f"{row['what']} × {row['factor']}" if row["what"] else "base"
        print(
            f"  {name:8}{row['seconds']:10.3f}{row['growth']:9.2f}{row['sgemm_growth']:10.2f}"
            f"{row['to_sgemm']:9.2f}{row['of_flops_peak']:9.0%}"
        )


def machine(core_type: str | None) -> Result:
    packages = ("assay", "numpy", "torch", "faiss-cpu", "usearch")
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "core_type": core_type,
        "load": load(),
        "versions": {name: _version(name) for name in packages},
    }


def load() -> list[float]:
    return [round(one, 2) for one in os.getloadavg()]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0],
        epilog="Peers that are not installed are left out, and a line says which. "
        "pip install -e '.[bench]' installs all of them; best in a venv of its own.",
    )
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[384, 128])
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--budget",
        type=float,
        default=60,
        help="seconds that one row may take for all its repeats; each has at least one turn",
    )
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    parser.add_argument("--core-type", default=guess_core_type(), help="for OpenBLAS in faiss")
    parser.add_argument("--quick", action="store_true", help="500 × 20,000, three repeats")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(arguments)
    if options.quick:
        options.queries, options.docs, options.repeats = 500, 20_000, 3
    if options.queries < 4 or min(options.dims) < 2 or options.docs < 4 * max(400, *options.k):
        parser.error("sizes: at least 4 queries, 2 dims, and 4 × max(400, k) documents")
    return options


def measure_peaks(team: Team) -> Result:
    peaks = team.ask("numpy", "", "peaks")
    if peaks is None:
        raise SystemExit("The peaks of this machine could not be measured.")
    return peaks


def parts(team: Team, options: argparse.Namespace, peaks: Result) -> Iterator[Result]:
    makers = (top_parts, order_parts, target_parts, growth_parts)
    for name, make in zip(PARTS, makers, strict=True):
        if name in options.parts:
            yield from make(team, options, peaks)


def tell_first(report: Result) -> None:
    print(json.dumps(report["before"]))
    for peer in report["left_out"]:
        print(f"{peer} is not installed and left out.")
    flops, read = report["peaks"]["flops"] / 1e9, report["peaks"]["bytes"] / 1e9
    print(f"Peaks: {flops:.0f} Gflop/s (the fastest square sgemm), {read:.1f} GB/s read")


def main(arguments: list[str] | None = None) -> None:
    options = parse_arguments(arguments)
    missing = [peer for peer in options.peers if not find_spec(peer)]
    options.peers = [peer for peer in options.peers if peer not in missing]
    team = Team(options.core_type)
    before = machine(team.core_type)
    report: Result = {"before": before, "left_out": missing, "peaks": measure_peaks(team)}
    if not options.json:
        tell_first(report)
    report["parts"] = []
    for part in parts(team, options, report["peaks"]):
        report["parts"].append(part)
        if not options.json:
            show(part)
    report["libraries"], report["load_after"] = team.libraries(), load()
    team.close()
    last = {name: report[name] for name in ("libraries", "load_after")}
    print(json.dumps(report if options.json else last))


if __name__ == "__main__":
    main()
