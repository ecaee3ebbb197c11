"""`assay crossmodal`: Label retrieval across modalities: do neighbours carry the same label?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.crossmodal.choices import input_options, prototype_options, search_options
from assay.cli.progress import progress_bar
from assay.cli.walking import demo_option, walk
from assay.compat.label_retrieval import save_results, summary
from assay.core.checks import check_labels
from assay.scoring.scores import signature_of
from assay.tables.page import Page, Words
from assay.tasks.crossmodal.demo import STEPS, write_demo
from assay.tasks.crossmodal.evaluate import LabelRetrievalResult, label_retrieval
from assay.tasks.crossmodal.inputs import (
    map_prototypes,
    read_labels,
    read_modalities,
    read_modality_labels,
    read_prototypes,
    split_names,
)
from assay.tasks.crossmodal.pair_results import PairedResult
from assay.tasks.crossmodal.pairs import paired_retrieval
from assay.tasks.crossmodal.tables import confusion_picture, confusion_table
from assay.tasks.crossmodal.zero_shot import ZeroShotResult, zero_shot_classification

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.tables.table import Table
    from assay.tasks.crossmodal.results import DirectionResult
    from assay.tasks.crossmodal.samples import Prototypes

__all__ = ["command"]

_FORMATS = ("text", "markdown", "latex", "csv", "tsv", "json")


@click.command("crossmodal", cls=MultiOptionCommand)
@input_options
@search_options
@prototype_options
@click.option(
    "--full",
    is_flag=True,
    callback=options.note_in_context,
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
@demo_option("made-up images and captions")
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.signature_option
@options.write_option("Write the summary as JSON; with --full, --json or --format that result.")
@options.save_options("crossmodal")
def command(*, saving: Saving, demo: str | None, **chosen: Any) -> None:
    """Label retrieval across modalities: do neighbours carry the same label?

    Queries of one modality search another, or their own without finding themselves; or
    descriptions of labels (prototypes) search the items. Options may be written with underscores,
    and --k-values, --directions and --labels take several values in a row.

    \b
    Examples:
      assay crossmodal --sensor-embeddings sensor.npy --text-embeddings text.npy \\
          --labels labels.npy --full
      assay crossmodal --modality image=sensor.npy --modality text=text.npy --labels labels.npy \\
          --directions image2text image2image --k-values 1 10 --confusion map.svg
      assay crossmodal --modality image=images.npy --labels classes.npy --use-prototypes \\
          --prototype-embeddings prompts.npz --dataset-name demo -o results.json
      assay crossmodal --modality image=images.npy --modality text=texts.npy --protocol pairs
      assay crossmodal --modality test=test.npy --modality train=images.npy --modality-labels \\
          test=test-classes.npy train=classes.npy --directions test2train -m RR -m MAP@R
    """
    if demo is not None:
        write_demo(Path(demo))
        walk(Path(demo), STEPS, "crossmodal")
        return
    whole = chosen["full"] or chosen["json_wanted"] or chosen["named"] is not None
    rich = whole or bool(chosen["measures"] or chosen["protocol"] or chosen["zero_shot"])
    layout = output.choose_format(
        chosen["named"], chosen["json_wanted"], chosen["file"], known=_FORMATS
    )
    _refuse_contradictions(chosen, rich, layout)
    results = _evaluate(chosen, saving)
    saving.save(results.records(), *_list_inputs(chosen))
    for path in chosen["confusions"]:
        if not isinstance(results, PairedResult):
            _write_confusion(results.directions, path)
    if not isinstance(results, LabelRetrievalResult):
        remarks = output.own_remarks(results, layout)
        output.emit(results, layout, chosen["file"], remarks=remarks)
    elif rich:
        _emit_tables(results, layout, chosen["file"])
    else:
        output.narrate_all(results.remarks)
        _print_summary(results, chosen["file"])
        output.narrate("Label-Recall@K divides by K: it is P@k, precision. --full has R@k, too.")


def _refuse_contradictions(chosen: dict[str, Any], rich: bool, layout: str) -> None:
    file = chosen["file"]
    _refuse_other_modes(chosen)
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
    lists = ("modalities", "labels", "modality_labels", "modality_ids", "qrels", "label_maps")
    found = [chosen[name] for name in names if chosen[name]]
    return found + [
        part
        for name in lists
        for entry in chosen[name]
        for part in (entry, entry.partition("=")[2], entry.rpartition("=")[2])
        if part
    ]


# What says nothing in a mode, or contradicts it.
_NOT_WITH_PROTOCOL = (
    *("labels", "directions", "k_values", "label_maps", "drop_labels", "exclude_paired", "depth"),
    *("full", "truncate", "confusions", "confusion_k", "use_prototypes", "prototype_embeddings"),
    *("metadata", "encoder", "checkpoint", "zero_shot"),
)
_NOT_WITH_ZERO_SHOT = ("k_values", "truncate", "full", "qrels", "exclude_paired")


def _refuse_other_modes(chosen: dict[str, Any]) -> None:
    for mode, others in (("protocol", _NOT_WITH_PROTOCOL), ("zero_shot", _NOT_WITH_ZERO_SHOT)):
        typed = [name for name in others if options.is_typed(name)]
        if chosen[mode] and typed:
            raise click.UsageError(
                f"{_option_of(mode)} and {_option_of(typed[0])} exclude each other."
            )
    if chosen["folds"] and not chosen["protocol"]:
        raise click.UsageError("--folds goes with --protocol: give it.")
    if not (chosen["labels"] or chosen["modality_labels"] or chosen["protocol"]):
        raise click.UsageError("Missing option '--labels'.")
    if chosen["labels"] and chosen["modality_labels"]:
        raise click.UsageError(
            "--labels are of all modalities, --modality-labels of one: give one."
        )


def _option_of(name: str) -> str:
    return next(
        max(one.opts, key=len)
        for one in click.get_current_context().command.params
        if one.name == name
    )


def _evaluate(
    chosen: dict[str, Any], saving: Saving
) -> LabelRetrievalResult | ZeroShotResult | PairedResult:
    metric: Any = chosen["metric"] or ("dot" if chosen["normalize"] is False else "cosine")
    files, keys = _find_modality_files(chosen)
    modalities = read_modalities(files, keys, split_names(chosen["modality_ids"], "--modality-ids"))
    inputs: dict[str, Any] = {
        **_read_all_labels(chosen),
        "qrels": split_names(chosen["qrels"], "--qrels"),
        "metric": metric,
        **{name: chosen[name] for name in ("measures", "ties", "zero", "threads")},
    }
    if chosen["protocol"]:
        inputs |= {"protocol": chosen["protocol"], "folds": chosen["folds"]}
        with progress_bar("searching", saving.listener) as progress:
            return paired_retrieval(_as_typed(chosen, modalities), **inputs, progress=progress)
    prototypes = _read_prototypes(chosen, metric, saving)
    dropped = [name for part in chosen["drop_labels"] for name in part.split(",")]
    inputs |= {
        "prototypes": prototypes,
        "drop_labels": dropped,
        "directions": chosen["directions"] or None,
        **{name: chosen[name] for name in ("depth", "allow_mismatch")},
    }
    with progress_bar("searching", saving.listener) as progress:
        results = _search(chosen, modalities, inputs | {"progress": progress})
    if dropped:
        _narrate_absent(dropped, inputs, prototypes)
    return results


def _as_typed(chosen: dict[str, Any], modalities: dict[str, Any]) -> dict[str, Any]:
    """The modalities in the order of --modality: images stand before texts."""
    typed = split_names(chosen["modalities"], "--modality")
    return {name: modalities[name] for name in dict.fromkeys([*typed, *modalities])}


def _search(
    chosen: dict[str, Any], modalities: dict[str, Any], inputs: dict[str, Any]
) -> LabelRetrievalResult | ZeroShotResult:
    if chosen["zero_shot"]:
        if inputs["prototypes"] is None:
            raise click.UsageError(
                "--zero-shot needs descriptions of labels: --metadata or others."
            )
        if chosen["confusion_k"]:
            inputs["confusion_k"] = chosen["confusion_k"]
        return zero_shot_classification(modalities, **inputs)
    named_only = chosen["measures"] and not options.is_typed("k_values")
    same = ("exclude_paired", "truncate", "full", "confusion_k")
    return label_retrieval(
        modalities,
        **inputs,
        k_values=() if named_only else chosen["k_values"],
        **{name: chosen[name] for name in same},
    )


def _read_all_labels(chosen: dict[str, Any]) -> dict[str, Any]:
    """Labels that all modalities share, or those of each."""
    maps = split_names(chosen["label_maps"], "--label-map")
    if chosen["modality_labels"] or not chosen["labels"]:
        own = read_modality_labels(chosen["modality_labels"], maps)
        return {"modality_labels": own or None}
    labels = split_names(chosen["labels"], "--labels")
    keys = split_names(chosen["labels_keys"], "--labels-key")
    return {"labels": read_labels(labels, keys, maps)}


def _narrate_absent(
    dropped: list[str], inputs: dict[str, Any], prototypes: Prototypes | None
) -> None:
    """A misspelt label drops nothing."""
    sides = [inputs["labels"]] if "labels" in inputs else inputs["modality_labels"].values()
    named = [rows.values for levels in sides for rows in levels.values()]
    named += [prototypes.labels] if prototypes else []
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
        found = read_prototypes(
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
    return map_prototypes(found, split_names(chosen["label_maps"], "--label-map"))


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
    summed_up = any(one.headlines for one in results.directions)
    if layout == "text" and file is None and summed_up:
        _print_summary(results, None)
    if layout == "text" and file is None:
        title = "95 % intervals over queries; micro: mean over queries, macro: mean over labels"
    output.emit(_LabelTables(results, title), layout, file, remarks=results.remarks)


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
