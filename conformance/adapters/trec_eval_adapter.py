"""The program trec_eval, if it is on the PATH; it prints four decimals."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from conformance_run import TREC_EVAL, UnsupportedError

NAMES = {
    "P": "P.{k}",
    "R": "recall.{k}",
    "Success": "success.{k}",
    "RR": "recip_rank",
    "AP": "map",
    "Rprec": "Rprec",
    "nDCG": "ndcg",
    "bpref": "bpref",
    "iprec": "iprec_at_recall.{recall}",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
}
CUT = {"AP": "map_cut.{k}", "nDCG": "ndcg_cut.{k}"}


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    """Values and mean of a case, by `trec_eval -q -c -m NAME`."""
    program = shutil.which("trec_eval")
    measure = case["measure"]
    known = CUT if "k" in measure and measure["name"] in CUT else NAMES
    if program is None:
        raise UnsupportedError("trec_eval is not on the PATH")
    if any(case["conventions"][name] != own for name, own in TREC_EVAL.items()):
        raise UnsupportedError("another convention")
    if measure["name"] not in known or ("k" in measure and "{k}" not in known[measure["name"]]):
        raise UnsupportedError(f"no such measure: {measure}")
    with tempfile.TemporaryDirectory() as folder:
        files = _write(case, Path(folder))
        name = known[measure["name"]].format(**measure)
        options = ["-q", "-c", "-l", str(measure.get("rel", 1)), "-m", name]
        done = subprocess.run(
            [program, *options, *files], capture_output=True, text=True, check=True
        )
    rows = [line.split() for line in done.stdout.splitlines()]
    values = {query: float(value) for _, query, value in rows}
    return {"mean": values.pop("all", None), "per_query": values, "digits": 4}


def _write(case: dict[str, Any], folder: Path) -> list[str]:
    qrels = [f"{q} 0 {d} {g}\n" for q, grades in case["qrels"].items() for d, g in grades.items()]
    run = [f"{q} Q0 {d} 1 {s!r} x\n" for q, rows in case["run"].items() for d, s in rows]
    (folder / "qrels").write_text("".join(qrels), "utf-8")
    (folder / "run").write_text("".join(run), "utf-8")
    return [str(folder / "qrels"), str(folder / "run")]
