"""The five jobs of the README beside scripts for other tools: lines, commands and seconds.

    python benchmarks/jobs.py --peers PYTHON [--data FOLDER]

PYTHON is an interpreter with ranx, ir_measures, pytrec_eval, SciPy, bm25s, wordllama and mlflow.
FOLDER holds runs and judgments of TREC 2003 Robust; without it the demo's runs are compared. The
other scripts are the shortest that answer the question, at most 100 characters a line.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RAG = """
import csv
from pathlib import Path
import bm25s
import numpy as np
import wordllama
from ranx import Qrels, Run, compare
files = sorted(Path("notes").rglob("*.md"))
ids = [file.relative_to("notes").as_posix() for file in files]
texts = [file.read_text("utf-8") for file in files]
qrels, questions = {}, {}
for row in csv.DictReader(open("questions.csv", encoding="utf-8", newline="")):
    query = questions.setdefault(row["question"], f"q{len(questions)}")
    qrels.setdefault(query, {})[row["relevant_doc"]] = 1
index = bm25s.BM25()
index.index(bm25s.tokenize(texts, stopwords="en"))
words = bm25s.tokenize(list(questions), stopwords="en")
found, scores = index.retrieve(words, k=min(100, len(ids)))
lexical = {}
for query, row, row_scores in zip(questions.values(), found, scores):
    lexical[query] = {ids[d]: float(s) for d, s in zip(row, row_scores)}
folder = Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
cosines = model.embed(list(questions), norm=True) @ model.embed(texts, norm=True).T
dense = {}
for query, row in zip(questions.values(), cosines):
    dense[query] = {ids[d]: float(row[d]) for d in np.argsort(-row)[:100]}
runs = [Run(lexical, name="bm25"), Run(dense, name="wordllama")]
print(compare(Qrels(qrels), runs, ["ndcg@10"]))
"""
PAPER = """
from glob import glob
from ranx import Qrels, Run, compare
qrels = Qrels.from_file("qrels.txt", kind="trec")
runs = [Run.from_file(file, kind="trec") for file in sorted(glob("*.run"))]
report = compare(qrels, runs, ["ndcg@10", "map"])
open("ranx.tex", "w").write(report.to_latex())
"""
NOTEBOOK = """
import csv
import ir_measures
import numpy as np
from ir_measures import R, nDCG
queries, docs = np.load("queries.npy"), np.load("docs.npy")
query_ids, doc_ids = open("queries.txt").read().split(), open("docs.txt").read().split()
queries /= np.linalg.norm(queries, axis=1, keepdims=True)
docs /= np.linalg.norm(docs, axis=1, keepdims=True)
scores = queries @ docs.T
run, qrels = {}, {}
for query, row in zip(query_ids, scores):
    run[query] = {doc_ids[doc]: float(row[doc]) for doc in np.argsort(-row)[:100]}
for row in csv.DictReader(open("qrels.tsv"), delimiter="\\t"):
    qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
print(ir_measures.calc_aggregate([nDCG @ 10, R @ 100], qrels, run))
"""
GATE = """
import sys
import numpy as np
import pytrec_eval
from scipy.stats import ttest_rel
with open("qrels.txt") as file:
    qrels = pytrec_eval.parse_qrel(file)
evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"})
values = []
for name in ("dense.run", "lexical.run"):
    with open(name) as file:
        scores = evaluator.evaluate(pytrec_eval.parse_run(file))
    values.append([scores[query]["ndcg_cut_10"] for query in sorted(qrels)])
new, old = map(np.array, values)
sys.exit(bool(new.mean() < old.mean() and ttest_rel(new, old).pvalue < 0.05))
"""
MONTHS = """
from glob import glob
import mlflow
import pytrec_eval
with open("qrels.txt") as file:
    qrels = pytrec_eval.parse_qrel(file)
evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map"})
mlflow.set_experiment("demo")
for name in sorted(glob("*.run")):
    with open(name) as file:
        scores = evaluator.evaluate(pytrec_eval.parse_run(file))
    with mlflow.start_run(run_name=name):
        for measure in ("ndcg_cut_10", "map"):
            values = [one[measure] for one in scores.values()]
            mlflow.log_metric(measure, sum(values) / len(values))
"""
PEERS = (RAG, PAPER, NOTEBOOK, GATE, MONTHS)


def jobs() -> dict[str, str]:
    """Return what the README prints for each job: commands, or lines of Python."""
    text = (
        (ROOT / "README.md").read_text("utf-8").partition("## Five jobs")[2].partition("\n## ")[0]
    )
    parts = re.split(r"^### (.*)\n", text, flags=re.M)
    code = {
        name: re.search(r"```(?:console|python)\n(.*?)```", part, re.S)
        for name, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {name: block[1].replace("\n\n", "\n") for name, block in code.items() if block}


def time_it(argv: list[str] | str, folder: Path) -> float:
    """Return the seconds that a command takes in a folder."""
    start = time.perf_counter()
    shell = isinstance(argv, str)
    # What Numba compiles is kept beside the files, so that the first try compiles.
    env = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "ASSAY_CACHE": str(folder / "cache"),
    }
    subprocess.run(argv, cwd=folder, shell=shell, check=True, capture_output=True, env=env)
    return time.perf_counter() - start


def time_job(text: str, python: str, folder: Path) -> list[float]:
    """Return the seconds of a first and a second try; servers are not started."""
    if not text.startswith("$ "):
        return [time_it([python, "-c", text], folder) for _ in range(2)]
    assay = f"{Path(python).parent}/assay"
    lines = [line[2:].replace("assay", assay, 1) for line in text.splitlines()]
    return [
        sum(time_it(line, folder) for line in lines if "stays up" not in line) for _ in range(2)
    ]


def prepare(folder: Path, data: Path | None) -> Path:
    """Write the demo's files, and a folder of the TREC runs with a fused one; return that."""
    time_it([sys.executable, "-m", "assay", "demo", "--files", str(folder)], ROOT)
    if data is None:
        return folder
    trec = folder / "trec"
    trec.mkdir()
    for packed in data.glob("*.gz"):
        name = packed.name.removeprefix("input.").removesuffix(".gz")
        target = "qrels.txt" if name.endswith(".txt") else f"{name}.run"
        with gzip.open(packed) as source, (trec / target).open("wb") as file:
            shutil.copyfileobj(source, file)
    fuse = ["fuse", "MU03rob01.run", "pircRBa1.run", "-o", "fused.run"]
    time_it([sys.executable, "-m", "assay", *fuse], trec)
    return trec


def main() -> None:
    """Print a row for each job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", required=True, help="Interpreter with the other tools.")
    parser.add_argument("--data", type=Path, help="Folder of TREC 2003 Robust.")
    options = parser.parse_args()
    print(f"{'job':40} lines, first try, second try: assay · others")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        trec = prepare(folder, options.data)
        for (name, text), peer in zip(jobs().items(), PEERS, strict=True):
            where = trec if peer is PAPER else folder
            cells = []
            for code, python in ((text, sys.executable), (peer.lstrip(), options.peers)):
                first, second = time_job(code, python, where)
                cells.append(f"{len(code.splitlines()):3} {first:6.1f} s {second:6.1f} s")
            print(f"{name:40} {' · '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
