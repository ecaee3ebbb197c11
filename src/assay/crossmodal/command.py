"""Evaluate retrieval across modalities: labels, image–text pairs, zero-shot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand, note_in_context
from assay.cli.progress import progress_bar
from assay.cli.repeating import demo_option
from assay.cli.settings import Decorated, option
from assay.core.conventions import CHOICES
from assay.core.on_demand import OnDemand
from assay.crossmodal.plugin import PROTOCOLS
from assay.tables.table import Words

if TYPE_CHECKING:
    from assay.cli.output import Saving
    from assay.core import checks
    from assay.crossmodal import compat, evaluate, samples, tables
    from assay.crossmodal import demo as demo_files
    from assay.crossmodal.results import CrossmodalResult
    from assay.crossmodal.samples import Prototypes
else:
    checks = OnDemand("assay.core.checks")
    compat = OnDemand("assay.crossmodal.compat")
    demo_files = OnDemand("assay.crossmodal.demo")
    evaluate = OnDemand("assay.crossmodal.evaluate")
    samples = OnDemand("assay.crossmodal.samples")
    tables = OnDemand("assay.crossmodal.tables")


_FORMATS = output.offer_formats()
_SUMMARY = "summary"  # the layout of the source document


def _option(
    flags: str, help: str, metavar: str | None = None, **more: Any
) -> Callable[[Decorated], Decorated]:
    """Declare an option; a switch has no metavar, and a list says that it may be repeated."""
    if metavar is None and "type" not in more and "/" not in flags:
        more["is_flag"] = True
    again = " May be repeated." if more.get("multiple") else ""
    return option(*flags.split(), help=help + again, metavar=metavar, **more)


_input = partial(_option, section="Input")
_file = partial(_input, metavar="FILE", reads=True)
_files = partial(_input, multiple=True)
_key = partial(_input, help="Array name in FILE (.npz).", metavar="KEY")
_rule = partial(_option, section="Measures and conventions")
_model = partial(_option, section="Models")
_number = click.IntRange(min=1)
_writes: Any = {"type": options.output_file, "multiple": True, "writes": True}
_ties: Any = {"type": click.Choice(CHOICES["ties"]), "default": "order", "show_default": True}
_cuts: Any = {"type": int, "multiple": True, "default": (10, 50, 100), "show_default": True}
_checkpoint: Any = {"reads": True, "section": "Search"}
_style: Any = {"default": "sourish", "show_default": True}
_allow = "assay.models.specs:allow_"

_evaluation_options = options.add_options(
    _file("--sensor-embeddings", "Vectors of the sensors."),
    _key("--sensor-key"),
    _file("--text-embeddings", "Vectors of the texts."),
    _key("--text-key"),
    _files("--modality modalities", "Vectors of another modality.", "NAME=FILE"),
    _files("--modality-key modality_keys", "Array name in FILE (.npz).", "NAME=KEY"),
    _files("--labels", "Row labels (.npy, .npz, .json), by level.", "[LEVEL=]FILE", reads=True),
    _files("--labels-key labels_keys", "Array name of labels in FILE (.npz).", "[LEVEL=]KEY"),
    _files("--modality-labels", "Labels or pair ids of one modality.", "NAME=[LEVEL=]FILE"),
    _files("--modality-ids", "Sample ids of a modality, one per line.", "NAME=FILE"),
    _files("-r --qrels", "Judged pairs of a direction, as another level.", "A2B=FILE", reads=True),
    _files("--label-map label_maps", "Coarser level: JSON {label: coarser}.", "LEVEL=FILE"),
    _files("--drop-labels", "Labels to leave out.", "LABEL,..."),
    _rule("--directions", "Directions, such as text2sensor. [all]", "A2B...", multiple=True),
    _rule("--k-values", "Cutoffs.", "K...", **_cuts),
    options.measures_option("Measure instead of P@k. May be repeated."),
    _rule("--protocol", "Protocol of image-text papers.", type=click.Choice(list(PROTOCOLS))),
    _input("--folds", "With --protocol: number of galleries. [coco-1k: 5]", "N", type=_number),
    _model("--normalize/--no-normalize", "Cosine (default) or dot product.", default=None),
    options.metric_option("Similarity."),
    _option("--exclude-paired", "Exclude the paired item of a query.", section="Search"),
    _rule("--ties", "How tied items count.", **_ties),
    options.zero_option,
    options.mismatch_option,
    _rule("--depth", "Depth of the lists for MAP@R. [1000]", "N", type=_number),
    options.threads_option,
    _rule("--use-prototypes", "Label descriptions as queries."),
    _rule("--zero-shot", "Classify samples by the nearest label description."),
    _file("--metadata", "JSON with label_to_text_STYLE of each dataset."),
    _input("--dataset-name", "Dataset in the metadata.", "NAME"),
    _rule("--caption-style", "Caption style in the metadata.", "STYLE", **_style),
    _model(
        "--encoder", "Text model, such as wordllama or st:MODEL.", "SPEC", allow=f"{_allow}encoders"
    ),
    _option("--checkpoint", "Text tower, .pt or .safetensors.", "FILE", **_checkpoint),
    _model(
        "--text-encoder-factory factory",
        "Function that builds a text encoder from the checkpoint.",
        "MODULE:FACTORY",
        allow=f"{_allow}factories",
    ),
    _model("--device", "Device of the text model.", "NAME"),
    _file("--prototype-embeddings", "Ready-made prototype embeddings."),
    _key("--prototype-key"),
    _file("--prototype-labels", "Prototype labels, unless the .npz holds 'labels'."),
    _model("--truncate", "Divide prototype counts by min(K, items of the label)."),
)


@click.command("crossmodal", cls=MultiOptionCommand, verified=True)
@_evaluation_options
@_option(
    "--full",
    "All measures with interval, chance, ceiling, and per-label tables.",
    callback=note_in_context,
    section="Result",
)
@_rule("--confusion confusions", "Confusion of labels (.svg, .csv, .md, ...).", "FILE", **_writes)
@_rule("--confusion-k", "Cutoff of the confusion. [the smallest]", "K", type=_number)
@demo_option
@option(
    *("--format", "named"),
    type=click.Choice((*_FORMATS, _SUMMARY)),
    help="Layout of the result.",
    section="Result",
    aside=True,
)
@options.json_option
@options.signature_option
@options.write_option("Write the result to FILE (atomically); default: summary as JSON.")
@options.save_options("crossmodal")
def command(*, saving: Saving, demo: str | None, **params: Any) -> None:
    """Evaluate retrieval across modalities: labels, image–text pairs, zero-shot.

    Queries of one modality search another, or their own modality without themselves; with
    --use-prototypes, label descriptions search the items. Options may be written with underscores;
    --k-values, --directions and --labels take several values in a row.

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
        demo_files.show_demo(Path(demo))
        return
    as_summary = params["named"] == _SUMMARY
    whole = params["full"] or params["json_wanted"] or params["named"] not in (None, _SUMMARY)
    rich = whole or bool(params["measures"] or params["protocol"] or params["zero_shot"])
    named = None if as_summary else params["named"]
    layout = output.choose_format(named, params["json_wanted"], params["file"], known=_FORMATS)
    _refuse_contradictions(params, rich, layout)
    result = _evaluate(params, saving)
    saving.save(result.records(), *_list_inputs(params))
    for path in params["confusions"]:
        _write_confusion(result, path)
    if result.protocol or result.zero_shot:
        remarks = output.own_remarks(result, layout)
        output.emit(result, layout, params["file"], remarks=remarks)
    elif as_summary:
        output.narrate_all(result.remarks)
        _print_summary(result)
        output.log("Label-Recall@K divides by K: it is P@k, precision. --full has R@k, too.")
    elif rich:
        _emit_tables(result, layout, params["file"])
    else:
        _emit_tables(result, "text", None)
    if params["file"] and not rich:
        data = result if len(result) > 1 else next(iter(result.values()))
        compat.save_results(data, params["file"])
        output.log(f"written: {params['file']}")


# What says nothing in a mode, or contradicts it.
_NOT_WITH_PROTOCOL = (
    *("labels", "directions", "k_values", "label_maps", "drop_labels", "exclude_paired", "depth"),
    *("full", "truncate", "confusions", "confusion_k", "use_prototypes", "prototype_embeddings"),
    *("metadata", "encoder", "checkpoint", "zero_shot"),
)
_NOT_WITH_ZERO_SHOT = ("k_values", "truncate", "full", "qrels", "exclude_paired")


def _refuse_contradictions(params: dict[str, Any], rich: bool, layout: str) -> None:
    file = params["file"]
    for mode, excluded in (("protocol", _NOT_WITH_PROTOCOL), ("zero_shot", _NOT_WITH_ZERO_SHOT)):
        typed = [name for name in excluded if options.is_typed(name)]
        if params[mode] and typed:
            raise click.UsageError(
                f"{_option_of(mode)} and {_option_of(typed[0])} exclude each other."
            )
    if params["folds"] and not params["protocol"]:
        raise click.UsageError("--folds requires --protocol.")
    if not (params["labels"] or params["modality_labels"] or params["protocol"]):
        raise click.UsageError(
            "Missing option '--labels'. If row i matches in both modalities, pass --protocol pairs."
        )
    if params["labels"] and params["modality_labels"]:
        raise click.UsageError("--labels and --modality-labels exclude each other.")
    if file and not rich and layout != "json":
        raise click.UsageError(f"{file}: summaries are .json. Add --full for other formats.")
    for path in (file, *params["confusions"]):
        output.refuse_input(path, *_list_inputs(params))
    output.refuse_same_file(file, *params["confusions"])
    for path in params["confusions"]:
        if Path(path).suffix.lower() not in (".svg", ".csv", ".tsv", ".md", ".json"):
            raise click.UsageError(f"--confusion {path}: use .svg, .csv, .tsv, .md or .json.")
    for name in ("prototype_key", "prototype_labels"):
        if params[name] and not params["prototype_embeddings"]:
            raise click.UsageError(f"{_option_of(name)} requires --prototype-embeddings.")
    fixed = {True: "cosine", False: "dot"}.get(params["normalize"])
    if fixed and params["metric"] not in (None, fixed):
        raise click.UsageError("--normalize contradicts --metric. Pass one of them.")


def _list_inputs(params: dict[str, Any]) -> list[str]:
    """List every file that is read."""
    names = (
        *("sensor_embeddings", "text_embeddings", "metadata", "checkpoint"),
        *("prototype_embeddings", "prototype_labels"),
    )
    lists = ("modalities", "labels", "modality_labels", "modality_ids", "qrels", "label_maps")
    files = [params[name] for name in names]
    for entry in chain.from_iterable(params[name] for name in lists):
        files += [entry, entry.partition("=")[2], entry.rpartition("=")[2]]
    return [file for file in files if file]


def _option_of(name: str) -> str:
    declared = click.get_current_context().command.params
    return next(max(param.opts, key=len) for param in declared if param.name == name)


def _split(params: dict[str, Any], name: str) -> dict[str, str]:
    """Return the values of an option by the names before them."""
    return samples.split_names(params[name], _option_of(name))


def _evaluate(params: dict[str, Any], saving: Saving) -> CrossmodalResult:
    metric: Any = params["metric"] or ("dot" if params["normalize"] is False else "cosine")
    files, keys = _find_modality_files(params)
    modalities = samples.read_modalities(files, keys, _split(params, "modality_ids"))
    arguments: dict[str, Any] = {
        **_read_all_labels(params),
        "qrels": _split(params, "qrels"),
        "metric": metric,
        **{name: params[name] for name in ("measures", "ties", "zero", "threads")},
    }
    work: Any
    if params["protocol"]:
        work = evaluate.paired_retrieval
        arguments |= {"protocol": params["protocol"], "folds": params["folds"]}
        # In the order of --modality: images stand before texts.
        names = (*_split(params, "modalities"), *modalities)
        modalities = {name: modalities[name] for name in names}
    else:
        prototypes = _read_prototypes(params, metric, saving)
        arguments |= {
            "prototypes": prototypes,
            "drop_labels": [name for part in params["drop_labels"] for name in part.split(",")],
            "directions": params["directions"] or None,
            **{name: params[name] for name in ("depth", "allow_mismatch")},
        }
        if params["zero_shot"]:
            if prototypes is None:
                raise click.UsageError("--zero-shot requires label descriptions. Pass --metadata.")
            work = evaluate.zero_shot_classification
            arguments |= {"confusion_k": params["confusion_k"] or 1}
        else:
            work = evaluate.label_retrieval
            shared = ("exclude_paired", "truncate", "full", "confusion_k")
            arguments |= {name: params[name] for name in shared}
            named_only = params["measures"] and not options.is_typed("k_values")
            arguments["k_values"] = () if named_only else params["k_values"]
    with progress_bar("searching", saving.listener) as progress:
        result: CrossmodalResult = work(modalities, **arguments, progress=progress)
    if params["drop_labels"]:
        _narrate_absent(arguments)
    return result


def _read_all_labels(params: dict[str, Any]) -> dict[str, Any]:
    """Read the labels that all modalities share, or those of each."""
    maps = _split(params, "label_maps")
    if params["modality_labels"] or not params["labels"]:
        levels = samples.read_modality_labels(params["modality_labels"], maps)
        return {"modality_labels": levels or None}
    labels, keys = _split(params, "labels"), _split(params, "labels_keys")
    return {"labels": samples.read_labels(labels, keys, maps)}


def _narrate_absent(arguments: dict[str, Any]) -> None:
    """Warn of labels to drop that nothing has."""
    shared = "labels" in arguments
    sides = [arguments["labels"]] if shared else arguments["modality_labels"].values()
    named = [rows.values for levels in sides for rows in levels.values()]
    named += [arguments["prototypes"].labels] if arguments["prototypes"] else []
    present = {str(label) for labels in named for label in checks.check_labels(labels, "").tolist()}
    absent = [name for name in arguments["drop_labels"] if name not in present]
    if absent:
        output.log(f"--drop-labels: no sample has the label {', '.join(map(repr, absent))}")


def _find_modality_files(params: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return files and keys by modality."""
    files = {name: params[f"{name}_embeddings"] for name in ("sensor", "text")}
    keys = {name: params[f"{name}_key"] for name in ("sensor", "text")}
    more = _split(params, "modalities")
    for name in more:
        if files.get(name):
            raise click.UsageError(f"--modality {name} repeats --{name}-embeddings. Remove one.")
    keys |= _split(params, "modality_keys")
    paths = {name: path for name, path in (files | more).items() if path}
    return paths, {name: key for name, key in keys.items() if key}


def _read_prototypes(params: dict[str, Any], metric: str, saving: Saving) -> Prototypes | None:
    sources = ("metadata", "encoder", "checkpoint", "factory", "prototype_embeddings")
    if not params["use_prototypes"] and not any(params[name] for name in sources):
        return None
    named = {
        **{"embeddings": "prototype_embeddings", "key": "prototype_key"},
        **{"labels": "prototype_labels", "dataset": "dataset_name", "style": "caption_style"},
        **{name: name for name in ("metadata", "encoder", "checkpoint", "factory", "device")},
    }
    with progress_bar("encoding", saving.listener) as progress:
        prototypes = samples.read_prototypes(
            **{argument: params[name] for argument, name in named.items()},
            normalize=metric == "cosine",
            progress=progress,
        )
    return samples.map_prototypes(prototypes, _split(params, "label_maps"))


def _print_summary(result: CrossmodalResult) -> None:
    """Print the document's summary."""
    several = len(result) > 1
    for level, directions in result.items():
        output.write(compat.summary(directions, level=level if several else ""), None)


def _emit_tables(result: CrossmodalResult, layout: str, file: str | None) -> None:
    title = ""
    if layout == "text" and file is None:
        title = "95 % intervals over queries; micro: mean over queries, macro: mean over labels"
    # Without `table`, CSV has all tables.
    names = ("signature", "screen", "tables", "paper", "to_dict")
    methods = {name: getattr(result, name) for name in names}
    shape = SimpleNamespace(page=lambda: [Words(title, "verdict"), *result.page()[1:]], **methods)
    output.emit(shape, layout, file, remarks=result.remarks)


def _write_confusion(result: CrossmodalResult, path: str) -> None:
    directions = result.directions
    if Path(path).suffix.lower() == ".svg":
        output.write(tables.confusion_picture(directions), path)
        return
    pairs = []
    for part in directions:
        names = {"level": part.level, "direction": part.direction.name}
        pairs.append({**names, **part.confusion.to_dict()})
    content = tables.confusion_table(directions), {"confusion": pairs}
    table = output.TableResult(*content, signature=result.signature)
    output.emit(table, output.choose_format(None, False, path, known=_FORMATS), path)
