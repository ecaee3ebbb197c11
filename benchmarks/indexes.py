"""What search engines lose against exact search on one set of vectors, and what they gain.

    python benchmarks/indexes.py --data scifact
    python benchmarks/indexes.py --data 200x20000x64 --specs exact faiss:HNSW32

Prints the table of docs/indexes.md. `--pgvector URL` adds the three ways of pgvector. Engines that
are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys

from bench import sample

from assay import rank
from assay.errors import MissingPackageError
from assay.search.indexes import IndexReport, build_index, measure_index

SPECS = [
    "exact",
    "faiss:Flat",
    "faiss:HNSW32",
    "faiss:HNSW32?efSearch=64&efConstruction=200",
    "faiss:IVF64,Flat?nprobe=1",
    "faiss:IVF64,Flat?nprobe=8",
    "faiss:SQ8",
    "usearch",
    "usearch?dtype=i8",
    "lancedb",
    "lancedb:IVF_FLAT?num_partitions=64&nprobes=8",
    "lancedb:HNSW_SQ",
    "qdrant",
    "sqlite-vec",
]
PGVECTOR = ["", "index=hnsw", "index=ivfflat&lists=64&probes=8"]


def measured(specs: list[str], data: str, k: int, threads: int | None) -> list[IndexReport]:
    vectors = sample(data)
    exact = rank(vectors.queries, vectors.docs, k)
    reports = []
    for spec in specs:
        try:
            with build_index(spec, vectors.docs, threads=threads) as index:
                reports.append(measure_index(index, vectors.queries, k, exact=exact))
        except MissingPackageError as error:
            print(f"left out: {error}", file=sys.stderr)
    return reports


def row(report: IndexReport) -> str:
    size = report.memory_bytes or report.disk_bytes
    shown = "" if size is None else f"{size / 1e6:.1f} MB"
    spec = report.spec.split("postgresql://")[0] + ("URL" if "postgresql://" in report.spec else "")
    options = report.spec.rpartition("&index=")[2] if "&index=" in report.spec else ""
    return (
        f"| `{spec}{f'?index={options}' if options else ''}` | {report.recall:.3f} "
        f"| {report.overlap:.3f} | {report.build_seconds:.2f} s | {report.queries_per_second:,.0f} "
        f"| {report.latency_ms['p50']:.2f} / {report.latency_ms['p99']:.2f} ms | {shown} |"
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="scifact", help="scifact, or QUERIESxDOCSxDIMENSION")
    parser.add_argument("--specs", nargs="*", default=SPECS)
    parser.add_argument("--pgvector", metavar="URL")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true", help="print everything for a program")
    chosen = parser.parse_args(arguments)
    specs = list(chosen.specs)
    if chosen.pgvector:
        joint = "&" if "?" in chosen.pgvector else "?"
        specs += [f"pgvector:{chosen.pgvector}{joint}{one}".rstrip("?&") for one in PGVECTOR]
    reports = measured(specs, chosen.data, chosen.k, chosen.threads)
    if chosen.json:
        print(json.dumps([report.as_dict() for report in reports]))
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("| index | recall | overlap | build | queries/s | latency p50 / p99 | size |")
    print("|---|---|---|---|---|---|---|")
    for report in reports:
        print(row(report))


if __name__ == "__main__":
    main(sys.argv[1:])
