"""`assay crossmodal`: Label retrieval across modalities: do neighbours carry the same label?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.options import MultiOptionCommand
from assay.cli.progress import progress_bar
from assay.compat.label_retrieval import save_results, summary
from assay.core.checks import check_labels
from assay.core.conventions import CHOICES
from assay.scoring.scores import signature_of
from assay.tables.page import Page, Words
from assay.tasks.crossmodal.evaluate import label_retrieval
from assay.tasks.crossmodal.inputs import (
    read_labels,
    read_modalities,
    read_prototypes,
    split_names,
)
from assay.tasks.crossmodal.tables import confusion_picture, confusion_table

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.tables.table import Table
    from assay.tasks.crossmodal.evaluate import LabelRetrievalResult
    from assay.tasks.crossmodal.results import DirectionResult
    from assay.tasks.crossmodal.samples import Prototypes

__all__ = ["command"]

_FORMATS = ("text", "markdown", "csv", "tsv", "json")


# The files with embeddings and labels, and which part of them is used.
_input_options = options.add_options(
    click.option("--sensor-embeddings", metavar="FILE", help="Vectors of the sensors."),
    click.option("--sensor-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option("--text-embeddings", metavar="FILE", help="Vectors of the texts."),
    click.option("--text-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--modality",
        "modalities",
        multiple=True,
        metavar="NAME=FILE",
        help="Vectors of any other modality. May be repeated.",
    ),
    click.option(
        "--modality-key",
        "modality_keys",
        multiple=True,
        metavar="NAME=KEY",
        help="Its array, where FILE is a .npz.",
    ),
    click.option(
        "--labels",
        multiple=True,
        required=True,
        metavar="[LEVEL=]FILE",
        help="A label for each row: .npy, .npz or .json. Several levels may be "
        "named: --labels l1=a.npy --labels l2=b.npy.",
    ),
    click.option(
        "--labels-key",
        "labels_keys",
        multiple=True,
        metavar="[LEVEL=]KEY",
        help="Their array, where FILE is a .npz.",
    ),
    click.option(
        "--label-map",
        "label_maps",
        multiple=True,
        metavar="LEVEL=FILE",
        help="A further level made from the first by JSON {label: coarser}.",
    ),
    click.option(
        "--drop-labels",
        multiple=True,
        metavar="LABEL,...",
        help="Leave out samples (and prototypes) with these labels.",
    ),
)


# Where prototypes come from.
_prototype_options = options.add_options(
    click.option("--use-prototypes", is_flag=True, help="Label descriptions are the queries."),
    click.option(
        "--metadata",
        metavar="FILE",
        help="JSON with the fields label_to_text_STYLE of each dataset.",
    ),
    click.option("--dataset-name", metavar="NAME", help="Dataset in the metadata."),
    click.option(
        "--caption-style",
        default="sourish",
        show_default=True,
        metavar="STYLE",
        help="Caption style in the metadata.",
    ),
    click.option(
        "--encoder",
        metavar="SPEC",
        help="Text model: wordllama, st:MODEL, model2vec:MODEL or py:MODULE:FUNCTION.",
    ),
    click.option(
        "--checkpoint",
        metavar="FILE",
        help="Text tower of a trained model, .pt or .safetensors.",
    ),
    click.option(
        "--text-encoder-factory",
        "factory",
        metavar="MODULE:FACTORY",
        help="Function that makes a text encoder of the checkpoint.",
    ),
    click.option("--device", metavar="NAME", help="Device of the text model."),
    click.option(
        "--prototype-embeddings", metavar="FILE", help="Embeddings of ready-made prototypes."
    ),
    click.option("--prototype-key", metavar="KEY", help="Their array, where FILE is a .npz."),
    click.option(
        "--prototype-labels",
        metavar="FILE",
        help="Their labels, unless the .npz holds them as 'labels'.",
    ),
    click.option(
        "--truncate",
        is_flag=True,
        help="Divide by min(K, items of the label) in prototype directions.",
    ),
)


# What is searched, and how it is counted.
_search_options = options.add_options(
    click.option(
        "--directions",
        multiple=True,
        metavar="A2B...",
        help="Such as text2sensor sensor2sensor prototype2text. "
        "[from each modality to each other, or from prototypes]",
    ),
    click.option(
        "--k-values",
        multiple=True,
        type=int,
        default=(10, 50, 100),
        show_default=True,
        metavar="K...",
        help="Cut-offs.",
    ),
    click.option(
        "--normalize/--no-normalize", default=None, help="Cosine (default) or dot product."
    ),
    options.metric_option("Similarity."),
    click.option(
        "--exclude-paired",
        is_flag=True,
        help="Exclude the paired item of a sample in the other modality.",
    ),
    click.option(
        "--ties",
        type=click.Choice(CHOICES["ties"]),
        default="order",
        show_default=True,
        help="How tied items count.",
    ),
    options.zero_option,
    options.mismatch_option,
    click.option(
        "--depth",
        type=click.IntRange(min=1),
        metavar="N",
        help="Depth of the lists for MAP@R. [1000]",
    ),
    options.threads_option,
)


@click.command("crossmodal", cls=MultiOptionCommand)
@_input_options
@_search_options
@_prototype_options
@click.option(
    "--full",
    is_flag=True,
    help="Also P@k, R@k, nDCG@k, MAP@R with interval, chance, ceiling; and each label.",
)
@click.option(
    "--confusion",
    "confusions",
    type=options.output_file,
    multiple=True,
    metavar="FILE",
    help="Write the confusion matrix of labels: heat map (.svg) or table (.csv, "
    ".tsv, .md, .json). May be repeated.",
)
@click.option(
    "--confusion-k",
    type=click.IntRange(min=1),
    metavar="K",
    help="Cut-off of the confusion matrix. [the smallest cut-off]",
)
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@click.option(
    "-o",
    "--output",
    "file",
    type=options.output_file,
    metavar="FILE",
    help="Write the summary as JSON; with --full, --json or --format that result.",
)
@options.save_options("crossmodal")
def command(*, saving: Saving, **chosen: Any) -> None:
    """Label retrieval across modalities: do neighbours carry the same label?

    Queries of one modality search another, or their own without finding themselves; or
    descriptions of labels (prototypes) search the items. Options may be written with underscores,
    and --k-values, --directions and --labels take several values in a row.

    \b
    Examples:
      assay crossmodal --sensor-embeddings s.npy --text-embeddings t.npy --labels l.npy --full
      assay crossmodal --modality image=x.npz --modality text=y.npz --labels fine=x.npz \\
          --directions image2text image2image --k-values 1 10 --confusion map.svg
      assay crossmodal --sensor-embeddings s.npy --labels l.npy --use-prototypes \\
          --metadata meta.json --dataset-name milan --encoder wordllama -o results.json
    """
    rich = chosen["full"] or chosen["json_wanted"] or chosen["named"] is not None
    layout = output.choose_format(
        chosen["named"], chosen["json_wanted"], chosen["file"], known=_FORMATS
    )
    _refuse_contradictions(chosen, rich, layout)
    results = _evaluate(chosen, saving)
    saving.save(results.records(), *_list_inputs(chosen))
    output.narrate_all(results.remarks)
    for path in chosen["confusions"]:
        _write_confusion(results.directions, path)
    if rich:
        _emit_tables(results, layout, chosen["file"])
    else:
        _print_summary(results, chosen["file"])
        output.narrate("Label-Recall@K divides by K: it is P@k, precision. --full has R@k, too.")


def _refuse_contradictions(chosen: dict[str, Any], rich: bool, layout: str) -> None:
    file = chosen["file"]
    if file and not rich and layout != "json":
        raise click.UsageError(f"{file}: the summary is saved as .json; other formats need --full.")
    for path in (file, *chosen["confusions"]):
        output.refuse_input(path, *_list_inputs(chosen))
    output.refuse_same_file(file, *chosen["confusions"])
    for path in chosen["confusions"]:
        if Path(path).suffix.lower() not in (".svg", ".csv", ".tsv", ".md", ".json"):
            raise click.UsageError(f"--confusion {path}: use .svg, .csv, .tsv, .md or .json.")
    if not chosen["prototype_embeddings"]:
        for name in ("prototype_key", "prototype_labels"):
            if chosen[name]:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} goes with --prototype-embeddings: give them.")
    fixed = {True: "cosine", False: "dot"}.get(chosen["normalize"])
    if fixed and chosen["metric"] not in (None, fixed):
        raise click.UsageError("--normalize and --metric say different things; give one of them.")


def _list_inputs(chosen: dict[str, Any]) -> list[str]:
    """Every file that is read."""
    names = (
        "sensor_embeddings",
        "text_embeddings",
        "metadata",
        "checkpoint",
        "prototype_embeddings",
        "prototype_labels",
    )
    lists = ("modalities", "labels", "label_maps")
    found = [chosen[name] for name in names if chosen[name]]
    return found + [
        part
        for name in lists
        for entry in chosen[name]
        for part in (entry, entry.partition("=")[2])
        if part
    ]


def _evaluate(chosen: dict[str, Any], saving: Saving) -> LabelRetrievalResult:
    metric: Any = chosen["metric"] or ("dot" if chosen["normalize"] is False else "cosine")
    files, keys = _find_modality_files(chosen)
    modalities = read_modalities(files, keys)
    labels = read_labels(
        split_names(chosen["labels"], "--labels"),
        split_names(chosen["labels_keys"], "--labels-key"),
        split_names(chosen["label_maps"], "--label-map"),
    )
    prototypes = _read_prototypes(chosen, metric, saving)
    dropped = [name for part in chosen["drop_labels"] for name in part.split(",")]
    with progress_bar("searching", saving.listener) as progress:
        results = label_retrieval(
            modalities,
            labels,
            directions=chosen["directions"] or None,
            k_values=chosen["k_values"],
            prototypes=prototypes,
            drop_labels=dropped,
            exclude_paired=chosen["exclude_paired"],
            metric=metric,
            ties=chosen["ties"],
            truncate=chosen["truncate"],
            full=chosen["full"],
            depth=chosen["depth"],
            confusion_k=chosen["confusion_k"],
            zero=chosen["zero"],
            threads=chosen["threads"],
            allow_mismatch=chosen["allow_mismatch"],
            progress=progress,
        )
    if dropped:
        named = [rows.values for rows in labels.values()]
        _narrate_absent(dropped, named + ([prototypes.labels] if prototypes else []))
    return results


def _narrate_absent(dropped: list[str], named: list[Any]) -> None:
    """A misspelt label drops nothing."""
    found = {str(label) for labels in named for label in set(check_labels(labels, "").tolist())}
    absent = [name for name in dropped if name not in found]
    if absent:
        output.narrate(f"--drop-labels: nothing has the label {', '.join(map(repr, absent))}")


def _find_modality_files(chosen: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Files and keys by modality; `sensor` and `text` have options of their own."""
    files = {name: chosen[f"{name}_embeddings"] for name in ("sensor", "text")}
    keys = {name: chosen[f"{name}_key"] for name in ("sensor", "text")}
    more = split_names(chosen["modalities"], "--modality")
    for name in more:
        if files.get(name):
            raise click.UsageError(f"--modality {name} and --{name}-embeddings are the same.")
    keys |= split_names(chosen["modality_keys"], "--modality-key")
    given = {name: path for name, path in (files | more).items() if path}
    return given, {name: key for name, key in keys.items() if key}


def _read_prototypes(chosen: dict[str, Any], metric: str, saving: Saving) -> Prototypes | None:
    sources = ("metadata", "encoder", "checkpoint", "factory", "prototype_embeddings")
    if not chosen["use_prototypes"] and not any(chosen[name] for name in sources):
        return None
    with progress_bar("encoding", saving.listener) as progress:
        return read_prototypes(
            embeddings=chosen["prototype_embeddings"],
            key=chosen["prototype_key"],
            labels=chosen["prototype_labels"],
            metadata=chosen["metadata"],
            dataset=chosen["dataset_name"],
            style=chosen["caption_style"],
            encoder=chosen["encoder"],
            checkpoint=chosen["checkpoint"],
            factory=chosen["factory"],
            device=chosen["device"],
            normalize=metric == "cosine",
            progress=progress,
        )


def _print_summary(results: LabelRetrievalResult, file: str | None) -> None:
    """The document's summary on stdout, and its JSON in a file where one is named."""
    several = len(results) > 1
    for level, found in results.items():
        output.put(summary(found, level=level if several else ""), None)
    if file:
        save_results(results if several else next(iter(results.values())), file)
        output.narrate(f"written: {file}")


@dataclass(frozen=True)
class _LabelTables:
    """The tables of all levels and directions."""

    results: LabelRetrievalResult
    title: str

    @property
    def signature(self) -> str:
        return self.results.signature

    def tables(self) -> list[Table]:
        return self.results.tables()

    def page(self) -> Page:
        below = Words(self.signature, "signature")
        return [Words(self.title, "verdict"), *self.tables(), below]

    def to_dict(self) -> dict[str, Any]:
        return self.results.to_dict()


def _emit_tables(results: LabelRetrievalResult, layout: str, file: str | None) -> None:
    title = ""
    if layout == "text" and file is None:
        _print_summary(results, None)
        title = "95 % intervals over queries; micro: mean over queries, macro: mean over labels"
    output.emit(_LabelTables(results, title), layout, file)


def _write_confusion(found: list[DirectionResult], path: str) -> None:
    if Path(path).suffix.lower() == ".svg":
        output.put(confusion_picture(found), path)
        return
    pairs = [
        {"level": one.level, "direction": one.direction.name, **one.confusion.to_dict()}
        for one in found
    ]
    signature = signature_of([one.scores for one in found])
    result = output.TableResult(confusion_table(found), {"confusion": pairs}, signature=signature)
    output.emit(result, output.choose_format(None, False, path, known=_FORMATS), path)
