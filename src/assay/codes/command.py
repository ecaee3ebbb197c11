"""Measure what compressed vectors lose."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.repeating import demo_option, walk
from assay.cli.settings import option
from assay.codes import settings as choices
from assay.core.on_demand import OnDemand
from assay.core.work import tell
from assay.errors import InputError, MismatchError

if TYPE_CHECKING:
    from assay.cli.output import Saving
    from assay.codes import CodesReport, evaluate
    from assay.core.ids import Ids
    from assay.io import arrays
    from assay.io.arrays import VectorFile
    from assay.search import engine
    from assay.search.engine import Codes
else:
    evaluate = OnDemand("assay.codes.evaluate")
    arrays = OnDemand("assay.io.arrays")
    engine = OnDemand("assay.search.engine")


# The vectors, their ids, the judgments: what is read by the name of its option.
_FILES = ("embeddings", "queries", "doc_ids", "query_ids", "qrels", "labels", "query_labels")
# Other options that say what to read; the rest goes to `evaluate_codes` under its own name.
_ABOUT_FILES = ("embeddings_key", "queries_key", "codes", "query_codes", "packed")
_MEASURES = "Measures and conventions"
_NUMBER = click.IntRange(min=1)


def _option(
    names: str, metavar: str, help: str, section: str = "Models", **more: Any
) -> Callable[[Any], Any]:
    """Declare an option that takes a value; with its default, if any."""
    display = {"show_default": True} if "default" in more else {}
    return option(*names.split(), metavar=metavar, help=help, section=section, **display, **more)


def _file_option(names: str, help: str, metavar: str = "FILE") -> Callable[[Any], Any]:
    return _option(names, metavar, help, "Input", reads=True)


def _key_option(name: str) -> Callable[[Any], Any]:
    return _option(name, "KEY", "Array name in FILE (.npz).", "Input")


_file_options = options.add_options(
    _file_option("--embeddings", "Document vectors: .npy, or .npz with array docs."),
    _key_option("--embeddings-key"),
    _file_option("--queries", "Query vectors. [the documents]"),
    _key_option("--queries-key"),
    _file_option("--doc-ids", "Document ids, one per line. [doc_ids of the .npz]"),
    _file_option("--query-ids", "Query ids, one per line. [query_ids of the .npz]"),
    _file_option("-r --qrels", "Judgments, to score the codes.", "QRELS"),
    _file_option("--labels", "Document labels instead of QRELS; equal labels are relevant."),
    _file_option("--query-labels", "Query labels, in the same form."),
    options.mismatch_option,
    _option(
        "--codes",
        "NAME=FILE",
        "Ready-made document codes. May be repeated.",
        multiple=True,
    ),
    _option("--query-codes", "NAME=FILE", "Query codes of NAME.", multiple=True),
    _option(
        "--packed",
        "BITS",
        "Length in bits of packed codes. [unpacked 0/1 arrays]",
        "Input",
        type=_NUMBER,
    ),
)
_BITS_HELP = "Lengths of gaussian and itq codes."
_CUTS = {"multiple": True, "default": choices.CUTOFFS, "type": _NUMBER}
_RERANK_HELP = "Number of documents to rerank by float vectors."
_RBO_HELP = "Persistence of RBO (0.9: about ten ranks)."

# Which codes are made, and how they are measured.
_code_options = options.add_options(
    _option("--bits", "N...", _BITS_HELP, multiple=True, default=choices.BITS, type=_NUMBER),
    _option(
        "--method methods", "NAME...", "Codes to make. [the first five]", type=str, multiple=True
    ),
    _option("--k cutoffs", "K...", "Cutoffs.", _MEASURES, **_CUTS),
    option(
        "--hashing",
        choices=tuple(choices.HASHING),
        help="Learning-to-hash protocol of this collection.",
        section=_MEASURES,
    ),
    _option("--rerank", "N", _RERANK_HELP, type=_NUMBER),
    _option(
        "--oversample",
        "N...",
        "Factors N: rerank the first N·K documents.",
        type=_NUMBER,
        multiple=True,
    ),
    _option(
        "--train",
        "SHARE|FILE",
        "Training vectors: share of the documents, or FILE. [half]",
        reads=True,
    ),
    options.metric_option("Similarity of the float vectors.", choices.METRICS[0]),
    option(
        "--ties",
        choices=choices.TIES,
        shown=choices.TIES[0],
        help="How tied documents count.",
        section=_MEASURES,
    ),
    _option("--p", "P", _RBO_HELP, type=float, default=choices.PERSISTENCE),
    options.in_search(
        "--exclude-self/--keep-self",
        default=None,
        help="Self-retrieval of items. [drop where documents are queries]",
    ),
    options.zero_option,
)


@click.command("codes", cls=MultiOptionCommand, verified=True)
@_file_options
@_code_options
@options.level_option
@options.resamples_option
@options.seed_option_for("Random seed.")
@options.threads_option
@options.in_result(
    "--chart FILE.svg",
    type=options.output_file,
    help="Curve of quality over bytes per vector (SVG).",
    writes=True,
)
@demo_option
@options.result_options()
@options.save_options("codes")
def command(
    *,
    saving: Saving,
    demo: str | None,
    chart: str | None,
    layout: str,
    file: str | None,
    **params: Any,
) -> None:
    """Measure what compressed vectors lose.

    Makes codes of the vectors, or takes ready-made ones. Measures how similar their ranking is to
    that of the float vectors, how well they retrieve judged documents, and what they cost. --bits,
    --k and --method take several values in a row.

    Codes: sign, gaussian, itq, int8, float16 (the default five); int4, asymmetric, mrl:D,
    mrl:D+METHOD, pq:M, rabitq:B.

    \b
    Examples:
      assay codes --embeddings docs.npy --bits 64 128 256 --k 10
      assay codes --embeddings docs.npy --queries queries.npy --qrels qrels.tsv \\
          --doc-ids docs.txt --query-ids queries.txt --k 10 50 --chart curve.svg
      assay codes --embeddings docs.npy --queries queries.npy --method itq --rerank 100
      assay codes --embeddings docs.npy --queries queries.npy --labels modules.npy \\
          --query-labels query-modules.npy --hashing nuswide --method itq --bits 16 32 64
      assay codes --embeddings docs.npy --queries queries.npy --method sign asymmetric \\
          int4 mrl:64 mrl:64+sign pq:32 rabitq:1 rabitq:4 --oversample 2 4 10
      assay codes --embeddings docs.npy --queries queries.npy --packed 128 \\
          --codes mine=doc-codes.npy --query-codes mine=query-codes.npy --json
    """
    if demo is not None:
        from assay.codes.demo import STEPS, write_demo

        write_demo(Path(demo))
        walk(Path(demo), STEPS, "codes")
        return
    if params["embeddings"] is None:
        raise click.UsageError("Missing option '--embeddings'. Write examples with --demo DIR.")
    if chart is not None and not chart.lower().endswith(".svg"):
        raise click.UsageError(f"--chart writes SVG. Rename {chart} to .svg.")
    inputs = [params[name] for name in _FILES]
    train = params["train"]  # a number, or the name of a file
    with suppress(TypeError, ValueError):
        params["train"] = float(train)
    inputs += [params["train"]] if params["train"] is train else []
    inputs += [path for _, path in _split_names(params)]
    for written in (file, chart):
        output.refuse_input(written, *inputs)
    output.refuse_same_file(file, chart)
    if isinstance(params["train"], str):
        params["train"] = arrays.read_vectors(train, "doc").vectors
    report = _evaluate(params)
    saving.save(report.records(), *inputs)
    if chart is not None:
        output.write(report.svg(), chart)
    output.emit(report, layout, file)


def _evaluate(params: dict[str, Any]) -> CodesReport:
    docs = arrays.read_vectors(params["embeddings"], "doc", key=params["embeddings_key"])
    queries = None
    if params["queries"] is not None:
        queries = arrays.read_vectors(params["queries"], "query", key=params["queries_key"])
    elif params["queries_key"] or params["query_ids"] or params["query_codes"]:
        raise click.UsageError("--queries-key, --query-ids and --query-codes need --queries.")
    methods = params["methods"] or (() if params["codes"] else tuple(choices.METHODS))
    read = {*_FILES, *_ABOUT_FILES, "methods", "cutoffs"}
    settings = {name: value for name, value in params.items() if name not in read}
    doc_ids = _read_ids(params["doc_ids"], docs, "doc", params["qrels"])
    query_ids = _read_ids(params["query_ids"], queries, "query", params["qrels"])
    return evaluate.evaluate_codes(
        docs.vectors,
        None if queries is None else queries.vectors,
        methods=methods,
        codes=_read_all_codes(params, queries is None),
        k=params["cutoffs"],
        qrels=params["qrels"],
        doc_ids=doc_ids,
        query_ids=query_ids,
        labels=_read_labels(params["labels"], "doc", doc_ids),
        query_labels=_read_labels(params["query_labels"], "query", query_ids),
        progress=tell,
        **settings,
    )


def _read_ids(path: str | None, file: VectorFile | None, side: str, qrels: str | None) -> Any:
    """Read ids from the text file, or beside the vectors.

    Judgments name rows without ids by their numbers.
    """
    if path is not None:
        return arrays.read_ids(path, side)
    if file is None or file.ids is not None or qrels is None:
        return None if file is None else file.ids
    return [str(row) for row in range(len(file.vectors))]


def _read_labels(path: str | None, side: str, vector_ids: Ids | None) -> Any:
    """Return labels in the order of the vectors; ids beside them must be those of the vectors."""
    from assay.core.ids import Ids

    if path is None:
        return None
    labels, ids = arrays.load_keyed(path, usual=(f"{side}_labels", "labels"))
    if ids is not None and vector_ids is not None and Ids.of(ids, what=side) != vector_ids:
        raise MismatchError(f"{path}: ids of labels and vectors differ. Align them.")
    return labels


def _split_names(params: dict[str, Any]) -> list[tuple[str, str]]:
    files = []
    for text in (*params["codes"], *params["query_codes"]):
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise click.UsageError(f"Cannot read the codes {text!r}. Write NAME=FILE.")
        files.append((name, path))
    return files


def _read_all_codes(params: dict[str, Any], same: bool) -> dict[str, Any]:
    """Return codes by name: (documents, queries)."""
    n_docs = len(params["codes"])
    files = _split_names(params)
    of_docs, of_queries = dict(files[:n_docs]), dict(files[n_docs:])
    if len(of_docs) < n_docs or len(of_docs) + len(of_queries) < len(files):
        raise click.UsageError("Two codes share a name. Rename one.")
    strange = sorted(set(of_queries) - set(of_docs))
    if strange:
        raise click.UsageError(f"--query-codes {strange[0]} has no --codes {strange[0]}. Add it.")
    if not of_docs and params["packed"]:
        raise click.UsageError("--packed requires --codes.")
    return {
        name: _read_pair(path, of_queries.get(name), same, params["packed"])
        for name, path in of_docs.items()
    }


def _read_pair(docs: str, queries: str | None, same: bool, packed: int | None) -> Any:
    doc_codes = _read_codes(docs, "doc", packed)
    if same:
        return doc_codes
    if queries is None and not docs.lower().endswith(".npz"):
        raise click.UsageError(f"The codes {docs} need query codes. Pass --query-codes.")
    return doc_codes, _read_codes(queries or docs, "query", packed)


def _read_codes(path: str, side: str, packed: int | None) -> Codes:
    array: Any = arrays.read_vectors(path, side).vectors
    try:
        return engine.pack_codes(array) if packed is None else engine.Codes(array, packed)
    except InputError as error:
        hint = "" if packed or array.dtype != "uint8" else " Pass --packed BITS for packed codes."
        raise type(error)(f"{path}: {error}{hint}") from error
