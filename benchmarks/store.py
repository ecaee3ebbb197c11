"""How long the pages of the dashboard take over a large store.

    python benchmarks/store.py                      1,000 runs, 10 million values of queries
    python benchmarks/store.py --runs 50 --queries 200 --keep small.db

The store is made by direct writes (a bootstrap for each of 10,000 means would take longer than all
the rest); everything that pages read is there and looks like what `--save` writes. Pages are asked
for through the application as a browser would, without the network between; the first time and
again, since finished runs are kept once they were read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

MEASURES = (
    "nDCG@10",
    "AP",
    "RR",
    "P@10",
    "R@100",
    "Success@1",
    "Success@10",
    "nDCG@100",
    "P@5",
    "R@10",
)
DATASETS = ("scifact", "nfcorpus", "cranfield", "touche", "quora")
MODELS = ("tfidf", "bm25", "lsa", "dense-small", "splade", "dense-large", "colbert", "hybrid")
LIMIT = 0.15  # seconds


def make_store(place: Path, *, runs: int, queries: int, measures: int, seed: int = 0) -> None:
    """Write runs, in few transactions."""
    import assay.store
    from assay import Ids, Scores, parse_many, preset
    from assay.store import Aggregate, RunRecord, writing
    from assay.store.codec import pack_scores
    from assay.store.run import Payload, start_values

    rng = np.random.default_rng(seed)
    named = parse_many(MEASURES[:measures])
    ids = Ids.of([f"query-{i:06}" for i in range(queries)], "query")
    topics = np.asarray([f"topic {i % 12}" for i in range(queries)], np.str_)
    nothing = np.zeros((len(named), queries), bool)
    began = datetime.now(UTC) - timedelta(hours=7 * runs)

    def payload(model: int, number: int) -> Payload:
        skill = 0.35 + 0.05 * model + 0.02 * rng.standard_normal()
        values = np.clip(rng.normal(skill, 0.3, (len(named), queries)), 0, 1).round(4)
        scores = Scores(
            named,
            ids,
            values,
            tied=nothing,
            missing=nothing[0],
            conventions=preset("trec_eval"),
            groups={"topic": topics},
        )
        means, room = values.mean(axis=1), 1.96 * values.std(axis=1) / np.sqrt(queries)
        found = [
            Aggregate(
                str(one),
                float(m),
                value_skip=float(m),
                value_zero=float(m),
                low=float(m - r),
                high=float(m + r),
                level=0.95,
                method="t",
                chance=0.01,
                ceiling=1.0,
                n=queries,
            )
            for one, m, r in zip(named, means, room, strict=True)
        ]
        columns = {
            "n_queries": queries,
            "conventions": scores.conventions.signature(),
            "signature": scores.signature,
        }
        return Payload(tuple(pack_scores(scores)), tuple(found), columns)

    with assay.store.open(place) as store:
        for start in range(0, runs, 50):
            with store.database.writing() as connection:
                for number in range(start, min(start + 50, runs)):
                    model = number % len(MODELS)
                    record = RunRecord(
                        MODELS[model],
                        task="retrieval",
                        model=MODELS[model],
                        dataset=DATASETS[number // len(MODELS) % len(DATASETS)],
                        tags=["nightly"] if number % 3 == 0 else [],
                        config={"depth": 100, "measures": list(MEASURES[:measures])},
                        command=("eval", f"{MODELS[model]}.run", "-r", "qrels.txt", "--save"),
                    )
                    moment = (began + timedelta(hours=7 * number)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                    row = {**start_values(record), "created": moment}
                    run = writing.add_run(connection, row, record.tags)
                    writing.finish_run(connection, run, payload(model, number), seconds=3.5)


def ask(app: Any, address: str) -> tuple[int, bytes]:
    """One request to the application."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "server": ("localhost", 80),
        "client": None,
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


def pages(last: int) -> dict[str, str]:
    """Every page, with what makes it work hardest."""
    a, b = last, last - 40  # the same system and dataset, one round earlier
    step = max(1, min(40, last // 8 - 1))
    best = "&".join(f"run={last - step * i}" for i in range(8))
    return {
        "front page": "/",
        "runs": "/runs",
        "runs by dataset": "/runs?group=dataset",
        "runs by tag and mean": "/runs?group=tag&sort=nDCG%4010",
        "runs sorted by a measure": "/runs?measure=nDCG%4010&sort=value",
        "runs filtered, last part": "/runs?task=retrieval&tag=nightly&page=7",
        "runs named like": "/runs?named_like=dense",
        "leaderboard": "/leaderboard?dataset=scifact&measure=nDCG%4010",
        "leaderboard, all runs": "/leaderboard?dataset=scifact&of=all",
        "run": f"/run/{last}",
        "run, queries sorted": f"/run/{last - 1}?sort=AP&page=3",
        "comparison of two": f"/compare?run={a}&run={b}",
        "comparison of eight": f"/compare?{best}",
        "comparison, queries found": f"/compare?run={a}&run={b}&q=0007",
        "comparison in slices": f"/compare?run={a}&run={b}&slice=topic",
        "settings of eight": f"/diff?{best}&show=all",
        "query": f"/query?run={a}&run={b}&query=query-000007",
        "trends": "/trends?dataset=scifact&measure=nDCG%4010&name=bm25",
        "runs as JSON": "/runs.json",
        "comparison as JSON": f"/compare.json?run={a - 1}&run={b - 1}",
    }


def measure(place: Path, repeats: int) -> list[dict[str, Any]]:
    """Seconds of each page: the first time, and the median of those after."""
    from assay.web.app import StoreHandle, make_app

    source = StoreHandle(place)
    app = make_app(source)
    last = max(run.id for run in source.store().runs(limit=1))
    for address in ("/runs?page=2", f"/compare.json?run={last - 7}&run={last - 15}"):
        ask(app, address)  # what a server loads once: templates, packages, kernels
    found = []
    for name, address in pages(last).items():
        times, worked = [], []
        for _ in range(repeats + 1):
            began, before = time.perf_counter(), time.process_time()
            status, body = ask(app, address)
            times.append(time.perf_counter() - began)
            worked.append(time.process_time() - before)
            if status != 200:
                raise SystemExit(f"{address}: {status} {body[:300]!r}")
        found.append(
            {
                "page": name,
                "first": times[0],
                "first_cpu": worked[0],
                "again": float(np.median(times[1:])),
                "bytes": len(body),
            }
        )
    source.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--measures", type=int, default=10, choices=range(1, 11), metavar="1..10")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="keep the store here, or use the one that is")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = chosen.keep or Path(folder) / "store.db"
        began = time.perf_counter()
        if not place.exists():
            make_store(place, runs=chosen.runs, queries=chosen.queries, measures=chosen.measures)
        made = time.perf_counter() - began
        results = measure(place, chosen.repeats)
        size = place.stat().st_size
    values = chosen.runs * chosen.queries * chosen.measures
    if chosen.json:
        print(json.dumps({"runs": chosen.runs, "values": values, "bytes": size, "pages": results}))
        return 0
    print(
        f"{chosen.runs:,} runs, {values:,} values of queries, {size / 1e6:,.0f} MB, "
        f"made in {made:.0f} s\n"
    )
    print(f"{'page':<28}{'first':>9}{'its CPU':>9}{'again':>9}{'size':>9}")
    for one in results:
        late = "  over 150 ms" if max(one["first"], one["again"]) > LIMIT else ""
        print(
            f"{one['page']:<28}{1000 * one['first']:>6.0f} ms"
            f"{1000 * one['first_cpu']:>6.0f} ms{1000 * one['again']:>6.0f} ms"
            f"{one['bytes'] / 1000:>6.0f} kB{late}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
