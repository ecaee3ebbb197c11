"""A small sound file of every format, built in code; the files that stand beside it as well."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

QUERIES: Final = ("q1", "q2", "q3")
DOCS: Final = ("d1", "d2", "d3", "d4")
PAIRS: Final = [
    (q, d, (i * 7 + j * 3) % 5) for i, q in enumerate(QUERIES) for j, d in enumerate(DOCS)
]


def trec_run() -> bytes:
    return "".join(f"{q} Q0 {d} {n} {v / 4} tag\n" for n, (q, d, v) in enumerate(PAIRS)).encode()


def trec_qrels() -> bytes:
    return "".join(f"{q} 0 {d} {v % 3 - 1}\n" for q, d, v in PAIRS).encode()


def delimited(delimiter: str, value: str = "score") -> bytes:
    rows = [("query", "doc", value), *((q, d, str(v / 4)) for q, d, v in PAIRS)]
    return "".join(delimiter.join(row) + "\n" for row in rows).encode()


def json_run() -> bytes:
    return json.dumps({q: {d: v / 4 for p, d, v in PAIRS if p == q} for q in QUERIES}).encode()


def json_records() -> bytes:
    return json.dumps([{"query": q, "doc": d, "score": v / 4} for q, d, v in PAIRS]).encode()


def json_lines() -> bytes:
    lines = (json.dumps({"query": q, "doc": d, "score": v / 4}) for q, d, v in PAIRS)
    return "".join(f"{line}\n" for line in lines).encode()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npz_run() -> bytes:
    docs = np.array([[0, 1, 2], [2, 1, -1]])
    return npz(docs=docs, scores=docs / 4, query_ids=np.array(["a", "b"]), n_docs=np.int64(9))


def npz_qrels() -> bytes:
    return npz(queries=np.array([0, 0, 1]), docs=np.array([1, 2, 2]), grades=np.array([1, 2, 0]))


def npz_targets() -> bytes:
    return npz(targets=np.array([1, -1, 2]), n_docs=np.int64(5))


def npz_labels() -> bytes:
    return npz(query_labels=np.array(["x", "y"]), doc_labels=np.array(["x", "y", "x"]))


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(12, dtype=np.float32).reshape(3, 4))
    return buffer.getvalue()


def parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries, docs, values = zip(*PAIRS, strict=True)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"query": queries, "doc": docs, "score": values}), buffer)
    return buffer.getvalue()


def safetensors() -> bytes:
    rows = np.arange(12, dtype="<f4").reshape(4, 3)
    entry = {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, rows.nbytes]}
    header = json.dumps({"docs": entry, "__metadata__": {"by": "x"}}).encode()
    return struct.pack("<Q", len(header)) + header + rows.tobytes()


def yaml_experiment() -> bytes:
    return (
        b"dataset:\n  path: demo\nkeypoints:\n  source: detect\n  strongest: 20\n"
        b"descriptors:\n  - sift\n  - name: other\n    type: orb\nevaluation:\n  tau: [3.0, 5.0]\n"
    )


def toml_bench() -> bytes:
    return (
        b'corpus = "corpus.jsonl"\nqueries = "queries.jsonl"\nqrels = "qrels.tsv"\n'
        b'measures = ["nDCG@10", "R@5"]\nchunk = "sentences:2:1"\ndepth = 10\n'
        b'[[model]]\nname = "a"\nspec = "bm25"\n[model.settings]\nk1 = 1.2\n'
        b'[[model]]\nname = "b"\nspec = "tfidf"\n'
        b'[[fusion]]\nof = ["a", "b"]\nweights = [0.5, 0.5]\n'
    )


def homography() -> bytes:
    return b"1.0 0.1 5.0\n0.0 1.1 -3.5\n0.0001 0.0 1.0\n"


def homography_xml() -> bytes:
    data = b"1 0 5 0 1 -3 0 0 1"
    return (
        b'<?xml version="1.0"?><opencv_storage><H type_id="opencv-matrix"><rows>3</rows>'
        b"<cols>3</cols><dt>d</dt><data>" + data + b"</data></H></opencv_storage>"
    )


def keypoints() -> bytes:
    return b"id,x,y,size,angle,response,octave\n0,1.5,2.5,3,90,0.5,1\n1,4,5,3,-1,0.1,2\n"


def task_csv() -> bytes:
    rows = [f"{s},{t},{n},0.{n}{len(s)}" for s in ("bm25", "dense") for t in "xy" for n in range(3)]
    return ("system,task,query,value\n" + "\n".join(rows) + "\n").encode()


def mteb_json() -> bytes:
    scores = [{"hf_subset": "en", "languages": ["eng-Latn"], "main_score": 0.5}]
    return json.dumps(
        {"task_name": "STS", "mteb_version": "1.14.2", "scores": {"test": scores}}
    ).encode()


def result_json() -> bytes:
    rates = {"acc@1": 25.0, "acc@5": 50.0, "mrr": 30.5, "correct@1": 3, "total": 12}
    return json.dumps({"dataset": "d", **rates}).encode()


def manifest() -> bytes:
    return json.dumps({"shards": [{"path": "docs.npy", "rows": 3}, "more.npy"]}).encode()


def job() -> bytes:
    shards = [{"path": "docs.npy", "rows": 3, "sha256": "0" * 64}]
    return json.dumps({"schema": 1, "k": 5, "shards": shards}).encode()


def started() -> bytes:
    return b"0 0\n0 1\n1 0\n"


def part() -> bytes:
    from assay.io.checkpoint import pack_part

    return pack_part({"rows": np.arange(4)}, {"fingerprint": "f", "notes": {"seconds": 1.5}})


def groups() -> bytes:
    return b"query,scene\nq1,a\nq2,b\nq3,a\n"


def texts() -> bytes:
    return (
        b'{"_id": "d1", "title": "One", "text": "First words."}\n{"_id": "d2", "text": "More."}\n'
    )


def labels_json() -> bytes:
    return json.dumps([["q1", ["d1", "d2"]], ["q2", ["d3"]]]).encode()


def predictions_csv() -> bytes:
    return b'user,target,top10\nu1,3,[3 4 5]\nu2,4,"5, 4"\nu1,5,7 8\n'


def predictions_lines() -> bytes:
    return b'{"target": 1, "top10": [1, 2]}\n{"target": 2, "top10": ["a", 2]}\n'


def predictions_npz() -> bytes:
    return npz(scores=np.arange(12.0).reshape(3, 4), targets=np.array([1, 3, 0]))


def vectors_npz() -> bytes:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    return npz(docs=rows, queries=rows[:2], doc_ids=np.array(list("abcd")))


def patches() -> bytes:
    return b"1,2,3\n4,5,6\n7,8,10\n"


def categories() -> bytes:
    return b"scene,category\nv_a,viewpoint\ni_b,illumination\n"


def looks() -> bytes:
    return b'{"looks_version": 1, "gates": {"abc": ["d", "e"]}}'


def labels_of_samples() -> bytes:
    return b'{"fine": ["a", "b", "a"], "coarse": {"s1": 1, "s2": 2}}'


def written_by(*words: str, name: str) -> Callable[[], bytes]:
    """What commands write into the file `name`, in a folder with the partners."""

    def build() -> bytes:
        from assay.cli.main import main

        with tempfile.TemporaryDirectory() as folder:
            write_partners(Path(folder))
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
                contextlib.chdir(folder),
            ):
                for command in words:
                    if main(command.split()) != 0:
                        raise ValueError(f"the seed {name} could not be made by: {command}")
                return (Path(folder) / name).read_bytes()

    return build


def zst_run() -> bytes:
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return zstd.compress(trec_run())


def headed_run() -> bytes:
    head = "# ir_metadata.start\n# schema_version: 0.1\n# actor:\n#   team: x\n# ir_metadata.end\n"
    return head.encode() + trec_run()


def ir_metadata() -> bytes:
    return (
        b"actor:\n  name: A\n  email: [a@b.c]\nresearch goal:\n  publication:\n"
        b"    arxiv: 2021.1\nmethod:\n  retrieval:\n    - name: bm25\n      b: 0.4\n"
    )


def label_map() -> bytes:
    return b'{"a": "A", "b": "A", "1": 2}'


def slices() -> bytes:
    return b"query\tkind\nq1\tlong\nq2\tshort\nq3\tlong\n"


def id_lines() -> bytes:
    return b"a\nb\nc\n"


def codes_npz() -> bytes:
    return npz(codes=np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], np.uint8))


def answers_csv() -> bytes:
    return b"q1\t['a word', 'other']\nq2\t[\"more\"]\nq3\tplain text\n"


def answers_json() -> bytes:
    return b'{"q1": ["a word"], "q2": {"text": ["b"], "answer_start": [3]}, "q3": "c"}'


def answers_lines() -> bytes:
    return b'{"id": "q1", "answers": ["a"]}\n{"question": "q2", "answers": "b"}\n'


def model_card() -> bytes:
    return (
        b"---\nlicense: mit\nmodel-index:\n- name: m\n  results:\n  - task:\n      type: t\n"
        b"    dataset:\n      type: a/b\n      name: B\n      args:\n        signature: s\n"
        b"    metrics:\n    - type: ndcg_at_10\n      value: 0.5\n---\n# Model\n"
    )


def baseline() -> bytes:
    from assay.scoring.evaluate import evaluate
    from assay.scoring.score_data import save_scores

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "baseline.json"
        run, judged = {"q1": {"d1": 1.0, "d2": 0.5}}, {"q1": {"d2": 1}}
        save_scores(evaluate(run, judged, ["nDCG@3", "AP"]), file)
        return file.read_bytes()


def splits() -> bytes:
    return b'{"a": {"test": ["v_a"], "train": ["i_b"]}, "full": {"test": ["v_a", "i_b"]}}'


def captions() -> bytes:
    return b'{"data": {"label_to_text_plain": {"a": "An A.", "b": ["A B.", "The B."]}}}'


EVAL: Final = "eval sound-run.trec -r sound-qrels.trec -m nDCG@3 -m AP"
SEEDS: Final[dict[str, Callable[[], bytes]]] = {
    "run.trec": trec_run,
    "run.trec.gz": lambda: gzip.compress(trec_run(), mtime=0),
    "qrels.trec": trec_qrels,
    "run.csv": lambda: delimited(","),
    "run.tsv": lambda: delimited("\t"),
    "qrels.csv": lambda: delimited(",", "grade"),
    "run.json": json_run,
    "records.json": json_records,
    "run.jsonl": json_lines,
    "run.npz": npz_run,
    "qrels.npz": npz_qrels,
    "targets.npz": npz_targets,
    "labels.npz": npz_labels,
    "scores.npy": npy,
    "run.parquet": parquet,
    "docs.safetensors": safetensors,
    "experiment.yaml": yaml_experiment,
    "bench.toml": toml_bench,
    "homography.txt": homography,
    "homography.xml": homography_xml,
    "keypoints.csv": keypoints,
    "tasks.csv": task_csv,
    "mteb.json": mteb_json,
    "result.json": result_json,
    "manifest.json": manifest,
    "job.json": job,
    "started": started,
    "a.part": part,
    "groups.csv": groups,
    "texts.jsonl": texts,
    "pairs.json": labels_json,
    "predictions.csv": predictions_csv,
    "predictions.jsonl": predictions_lines,
    "predictions.npz": predictions_npz,
    "vectors.npz": vectors_npz,
    "ref.csv": patches,
    "categories.csv": categories,
    "looks.json": looks,
    "levels.json": labels_of_samples,
    "run.trec.zst": zst_run,
    "headed.run": headed_run,
    "scores.json": written_by(f"{EVAL} --json -o scores.json", name="scores.json"),
    "runs.json": written_by(
        f"{EVAL} --save --store s.db", "runs export 1 --store s.db -o runs.json", name="runs.json"
    ),
    "docs.prepared": written_by(
        "rank docs.npy docs.npy --prepare docs.prepared -o run.txt", name="docs.prepared"
    ),
    "metadata.yaml": ir_metadata,
    "map.json": label_map,
    "kinds.tsv": slices,
    "ids.txt": id_lines,
    "codes.npz": codes_npz,
    "answers.csv": answers_csv,
    "answers.json": answers_json,
    "answers.jsonl": answers_lines,
    "card.md": model_card,
    "splits.json": splits,
    "captions.json": captions,
    "categories.json": lambda: b'{"v_a": "viewpoint", "i_b": "illumination"}',
    "baseline.json": baseline,
}


def write_partners(folder: Path) -> None:
    """The sound files that a mutated one is read together with."""
    for name in ("run.trec", "qrels.trec", "run.npz", "scores.npy", "targets.npz"):
        (folder / f"sound-{name}").write_bytes(SEEDS[name]())
    (folder / "other-run.trec").write_bytes(trec_run().replace(b"d1", b"d9"))
    (folder / "labels.json").write_bytes(b'["a", "b", "a"]')
    for name in ("docs.npy", "more.npy"):
        (folder / name).write_bytes(npy())
