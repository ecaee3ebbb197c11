"""`assay codes`: What is lost if vectors are compressed?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.walking import demo_option, walk
from assay.core.ids import Ids
from assay.core.progress import tell
from assay.errors import InputError, MismatchError
from assay.io.arrays import load_keyed, read_ids, read_vectors
from assay.search.engine import Codes, pack_codes
from assay.tasks.codes import HASHING, evaluate_codes
from assay.tasks.codes.demo import STEPS, write_demo

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.io.arrays import VectorFile
    from assay.tasks.codes import CodesReport

__all__ = ["command"]

_METHODS = ("sign", "gaussian", "itq", "int8", "float16")
_TIES = ("expected", "order", "best", "worst")


# The vectors, their ids, the judgments, and codes made elsewhere.
_file_options = options.add_options(
    click.option(
        "--embeddings",
        metavar="FILE",
        help="Vectors of the documents: .npy, or .npz with the array docs.",
    ),
    click.option("--embeddings-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--queries",
        metavar="FILE",
        help="Vectors of the queries. [the documents are the queries]",
    ),
    click.option("--queries-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--doc-ids",
        metavar="FILE",
        help="Ids of the documents, one a line, unless the .npz has doc_ids.",
    ),
    click.option("--query-ids", metavar="FILE", help="Ids of the queries, likewise."),
    click.option("-r", "--qrels", metavar="QRELS", help="Judgments, to score the codes against."),
    click.option(
        "--labels",
        metavar="FILE",
        help="Labels of the documents, instead of QRELS: .npy or .npz (labels), one a row, or 0 "
        "and 1 for each class; what shares a label is relevant.",
    ),
    click.option("--query-labels", metavar="FILE", help="Labels of the queries, likewise."),
    options.mismatch_option,
    click.option(
        "--codes",
        "codes",
        multiple=True,
        metavar="NAME=FILE",
        help="Codes of the documents, made elsewhere; a .npz may also hold those "
        "of the queries. May be repeated.",
    ),
    click.option(
        "--query-codes",
        multiple=True,
        metavar="NAME=FILE",
        help="Codes of the queries for the codes NAME.",
    ),
    click.option(
        "--packed",
        type=click.IntRange(min=1),
        metavar="BITS",
        help="These codes are packed, eight to a byte, and have BITS bits. [an array of 0 and 1]",
    ),
)


# Which codes are made, and how they are measured.
_code_options = options.add_options(
    click.option(
        "--bits",
        multiple=True,
        type=click.IntRange(min=1),
        default=(64, 128, 256, 512, 1024),
        show_default=True,
        metavar="N...",
        help="Lengths of the codes that gaussian and itq make.",
    ),
    click.option(
        "--method",
        "methods",
        multiple=True,
        metavar="NAME...",
        help="sign, gaussian, itq, int8, float16 [all of them; with --codes none]; int4, "
        "asymmetric, mrl:D, mrl:D+sign (or another), pq:M, rabitq:B.",
    ),
    click.option(
        "--k",
        "cutoffs",
        multiple=True,
        type=click.IntRange(min=1),
        default=(10, 50),
        show_default=True,
        metavar="K...",
        help="Cut-offs.",
    ),
    click.option(
        "--hashing",
        type=click.Choice(tuple(HASHING)),
        help="mAP by the rule of learning to hash, cut as on this collection, and precision and "
        "recall by Hamming radius; needs labels or QRELS.",
    ),
    click.option(
        "--rerank",
        type=click.IntRange(min=1),
        metavar="N",
        help="Rerank the first N documents of a binary code by the float vectors.",
    ),
    click.option(
        "--oversample",
        multiple=True,
        type=click.IntRange(min=1),
        metavar="N...",
        help="Show every code also with its first N times the largest K documents reranked by the "
        "float vectors.",
    ),
    options.metric_option("Similarity of the float vectors.", "cosine"),
    click.option(
        "--ties",
        type=click.Choice(_TIES),
        default="expected",
        show_default=True,
        help="How tied documents count.",
    ),
    click.option(
        "--p",
        "p",
        type=float,
        default=0.9,
        show_default=True,
        metavar="P",
        help="Persistence of RBO: 0.9 weights about ten ranks.",
    ),
    click.option(
        "--exclude-self/--keep-self",
        default=None,
        help="Whether an item may retrieve itself. [not where documents are the queries]",
    ),
    options.zero_option,
)


@click.command("codes", cls=MultiOptionCommand)
@_file_options
@_code_options
@options.level_option
@options.resamples_option
@options.seed_option_for("Random seed: of directions, samples and resamples.")
@options.threads_option
@click.option(
    "--chart",
    type=options.output_file,
    metavar="FILE.svg",
    help="Write the curve of quality over bytes per vector.",
)
@demo_option("vectors of Python's docstrings")
@options.result_options("text", "markdown", "latex", "csv", "tsv", "json")
@options.save_options("codes")
def command(
    *,
    saving: Saving,
    demo: str | None,
    chart: str | None,
    layout: str,
    file: str | None,
    **chosen: Any,
) -> None:
    """What is lost if vectors are compressed?

    Makes codes of the vectors (bits by sign, random directions or learned rotation; int8;
    float16), or takes codes made elsewhere, and measures how similar their ranking is to that of
    the float vectors, what they retrieve of the judged documents, and what they cost. --bits, --k
    and --method take several values in a row.

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
        write_demo(Path(demo))
        walk(Path(demo), STEPS, "codes")
        return
    if chosen["embeddings"] is None:
        raise click.UsageError("Missing option '--embeddings', the vectors; --demo DIR has some.")
    if chart is not None and not chart.lower().endswith(".svg"):
        raise click.UsageError(f"--chart writes SVG; {chart} should end in .svg.")
    names = ("embeddings", "queries", "doc_ids", "query_ids", "qrels", "labels", "query_labels")
    inputs = [chosen[name] for name in names]
    inputs += [path for _, path in _split_names(chosen)]
    for written in (file, chart):
        output.refuse_input(written, *inputs)
    output.refuse_same_file(file, chart)
    report = _evaluate(chosen)
    saving.save(report.records(), *inputs)
    if chart is not None:
        output.put(report.svg(), chart)
    output.emit(report, layout, file)


def _evaluate(chosen: dict[str, Any]) -> CodesReport:
    docs = read_vectors(chosen["embeddings"], "doc", key=chosen["embeddings_key"])
    queries = None
    if chosen["queries"] is not None:
        queries = read_vectors(chosen["queries"], "query", key=chosen["queries_key"])
    elif chosen["queries_key"] or chosen["query_ids"] or chosen["query_codes"]:
        raise click.UsageError("--queries-key, --query-ids and --query-codes need --queries.")
    methods = chosen["methods"] or (() if chosen["codes"] else _METHODS)
    same = (
        "metric",
        "ties",
        "p",
        "rerank",
        "hashing",
        "oversample",
        "zero",
        "exclude_self",
        "level",
        "resamples",
        "seed",
        "threads",
        "bits",
        "qrels",
        "allow_mismatch",
    )
    doc_ids = _read_ids(chosen["doc_ids"], docs, "doc", chosen["qrels"])
    query_ids = _read_ids(chosen["query_ids"], queries, "query", chosen["qrels"])
    return evaluate_codes(
        docs.vectors,
        None if queries is None else queries.vectors,
        methods=methods,
        codes=_read_all_codes(chosen, queries is None),
        k=chosen["cutoffs"],
        doc_ids=doc_ids,
        query_ids=query_ids,
        labels=_read_labels(chosen["labels"], "doc", doc_ids),
        query_labels=_read_labels(chosen["query_labels"], "query", query_ids),
        progress=tell,
        **{name: chosen[name] for name in same},
    )


def _read_ids(path: str | None, given: VectorFile | None, side: str, qrels: str | None) -> Any:
    """Ids from the text file, or beside the vectors; judgments name rows by their numbers."""
    if path is not None:
        return read_ids(path, side)
    if given is None or given.ids is not None or qrels is None:
        return None if given is None else given.ids
    return [str(row) for row in range(len(given.vectors))]


def _read_labels(path: str | None, side: str, known: Ids | None) -> Any:
    """Labels in the order of the vectors; ids beside them must be those of the vectors."""
    if path is None:
        return None
    labels, ids = load_keyed(path, usual=(f"{side}_labels", "labels"))
    if ids is not None and known is not None and Ids.of(ids, what=side) != known:
        raise MismatchError(f"{path}: the ids beside the labels are not those of the vectors.")
    return labels


def _split_names(chosen: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for text in (*chosen["codes"], *chosen["query_codes"]):
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise click.UsageError(f"Codes are given as NAME=FILE; found {text!r}.")
        found.append((name, path))
    return found


def _read_all_codes(chosen: dict[str, Any], own: bool) -> dict[str, Any]:
    """Codes by name: (documents, queries)."""
    n_docs = len(chosen["codes"])
    files = _split_names(chosen)
    of_docs, of_queries = dict(files[:n_docs]), dict(files[n_docs:])
    if len(of_docs) < n_docs or len(of_docs) + len(of_queries) < len(files):
        raise click.UsageError("Two codes have one name. Name each --codes once.")
    strange = sorted(set(of_queries) - set(of_docs))
    if strange:
        raise click.UsageError(f"--query-codes {strange[0]}=… has no --codes {strange[0]}=….")
    if not of_docs and chosen["packed"]:
        raise click.UsageError("--packed is about --codes; there are none.")
    return {
        name: _read_pair(path, of_queries.get(name), own, chosen["packed"])
        for name, path in of_docs.items()
    }


def _read_pair(docs: str, queries: str | None, own: bool, packed: int | None) -> Any:
    made = _read_codes(docs, "doc", packed)
    if own:
        return made
    if queries is None and not docs.lower().endswith(".npz"):
        raise click.UsageError(f"The codes {docs} need --query-codes for the queries.")
    return made, _read_codes(queries or docs, "query", packed)


def _read_codes(path: str, side: str, packed: int | None) -> Codes:
    array: Any = read_vectors(path, side).vectors
    try:
        return pack_codes(array) if packed is None else Codes(array, packed)
    except InputError as error:
        hint = "" if packed or array.dtype != "uint8" else " If they are packed, say --packed BITS."
        raise type(error)(f"{path}: {error}{hint}") from error
