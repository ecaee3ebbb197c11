"""`assay predict`: Score predictions of one class per sample: Acc@k, MRR, nDCG, F1."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.progress import progress_bar
from assay.cli.walking import demo_option, walk
from assay.compat.next_location import legacy_json as legacy_data
from assay.errors import UsageError
from assay.tasks.prediction.demo import STEPS, write_demo
from assay.tasks.prediction.imports import import_results
from assay.tasks.prediction.models import PredictionRequest, evaluate_files

if TYPE_CHECKING:
    from assay.cli.saving import Saving
    from assay.tasks.prediction.imported import ImportedResults

__all__ = ["command"]

_FORMATS = ("text", "markdown", "latex", "csv", "tsv", "json")
_IMPORTING = {
    "unit": "--unit",
    "f1_unit": "--f1-unit",
    "pattern": "--pattern",
    "split": "--split",
    "baseline": "--baseline",
    "pairs": "--pair",
}


@click.command("predict", cls=MultiOptionCommand)
@click.argument("files", nargs=-1, metavar="[NAME=]FILE...")
@click.option("-t", "--targets", metavar="FILE", help="True classes (.npy) of a .npy of scores.")
@click.option(
    "--candidates",
    multiple=True,
    metavar="COLUMN",
    help="The files hold lists of candidates in this column; several columns are several models.",
)
@click.option("--target", metavar="COLUMN", help="Column or array of the true classes.")
@click.option("--id", "ids", metavar="COLUMN", help="Column of the sample ids.")
@options.measures_option("A measure. May be repeated.")
@click.option(
    "-k",
    "ks",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="K...",
    help="Cut-offs. [1 3 5 10]",
)
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Group samples by a column of the table, or FILE:COLUMN. May be repeated.",
)
@click.option("--new-places", is_flag=True, help="Group samples by whether training has the class.")
@click.option(
    "--confidence",
    is_flag=True,
    help="Calibration (ECE, Brier, NLL), and detection of samples without a class.",
)
@click.option(
    "--reliability",
    type=options.output_file,
    metavar="FILE.svg",
    help="Draw accuracy over confidence.",
)
@click.option(
    "--coordinates",
    metavar="FILE",
    help="CSV with class, lat, lon: errors in metres.",
)
@click.option(
    "--predictability",
    is_flag=True,
    help="Entropy of the training labels, and the bound on Acc@1 by Song et al.",
)
@click.option(
    "--train", metavar="FILE[:COLUMN]", help="Training labels in order of time, for baselines."
)
@click.option("--train-users", metavar="FILE[:COLUMN]", help="Users of the training labels.")
@click.option("--users", metavar="COLUMN|FILE[:COLUMN]", help="Users of the samples.")
@click.option(
    "--previous",
    metavar="COLUMN|FILE[:COLUMN]",
    help="The class before each sample, for baselines.",
)
@click.option(
    "--history",
    metavar="COLUMN|FILE[:COLUMN]",
    help="Instead: all classes before each sample, the latest last.",
)
@click.option(
    "--n-classes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of the vocabulary, for lists.",
)
@click.option("--per-class", is_flag=True, help="Show each class.")
@click.option("--histogram", is_flag=True, help="Show the histogram of target ranks.")
@click.option(
    "--ties",
    type=click.Choice(_TIES := ("order", "expected", "best", "worst")),
    help="How tied scores count.",
)
@click.option("--results", metavar="FOLDER", help="Import a folder of result JSON files instead.")
@click.option(
    "--unit", type=click.Choice(("percent", "fraction")), help="Unit where no value shows it."
)
@click.option("--f1-unit", type=click.Choice(("percent", "fraction")), help="The same for F1.")
@click.option(
    "--pattern",
    multiple=True,
    metavar="GLOB",
    help="Only results whose path ends like this: 'test_*.json', '{model}_{seed}/{split}.json'.",
)
@click.option("--split", type=click.Choice(("test", "val", "train")), help="Only these results.")
@click.option("-b", "--baseline", metavar="MODEL", help="Compare results with this model only.")
@click.option(
    "--pair", "pairs", nargs=2, multiple=True, metavar="A B", help="Compare these results only."
)
@click.option("--legacy-json", is_flag=True, help="Print the old JSON: percentages under old keys.")
@demo_option("words of Python's docstrings, and predictions of them,")
@options.mismatch_option
@options.threads_option
@click.option("--format", "named", type=click.Choice(_FORMATS), help="Layout of the result.")
@options.json_option
@options.full_option
@options.signature_option
@options.output_option
@options.save_options("prediction")
def command(
    *,
    files: tuple[str, ...],
    results: str | None,
    legacy_json: bool,
    reliability: str | None,
    named: str | None,
    json_wanted: bool,
    file: str | None,
    saving: Saving,
    demo: str | None,
    **chosen: Any,
) -> int:
    """Score predictions of one class per sample: Acc@k, MRR, nDCG, F1.

    Scores or logits of all classes, or lists of candidates. Several files are several models,
    compared sample by sample; the same NAME in front of several files makes them seeds of one
    model. Fractions are printed, never percent, but for --legacy-json.

    \b
    Examples:
      assay predict logits.npy --targets labels.npy --train train.npy --histogram
      assay predict predictions.tsv --candidates top10 --candidates top10_wot --by user_id
      assay predict predictions.tsv --candidates top10 --train train.csv:location_id \\
          --train-users train.csv:user_id --users user_id --new-places
      assay predict logits.npy --targets labels.npy --confidence --reliability calibration.svg
      assay predict a=a1.npz a=a2.npz a=a3.npz b=b1.npz b=b2.npz b=b3.npz
      assay predict --results outputs/ --split test --baseline mhsa
    """
    if demo is not None:
        write_demo(Path(demo))
        walk(Path(demo), STEPS, "predict")
        return 0
    if legacy_json and named not in (None, "json"):
        raise click.UsageError(f"--legacy-json and --format {named} exclude each other.")
    layout = output.choose_format(
        "json" if legacy_json else named, json_wanted, file, known=_FORMATS
    )
    importing = {name: chosen.pop(name) for name in _IMPORTING}
    if results is not None:
        _refuse_both(files, legacy_json)
        _refuse_result_file(file, results)
        output.note_inputs(results)
        saving.refuse("--results holds means without the values of every sample")
        return _emit_import(import_results(results, **importing), layout, file)
    if not files:
        raise click.UsageError("Give a file of predictions, or --results FOLDER.")
    if wrong := [option for name, option in _IMPORTING.items() if importing[name]]:
        raise click.UsageError(f"{' and '.join(wrong)}: only for --results FOLDER.")
    chosen["confidence"] |= reliability is not None
    request = PredictionRequest(files=files, **chosen)
    for path in (file, reliability):
        output.refuse_input(path, *request.paths())
    output.refuse_same_file(file, reliability)
    bar = partial(progress_bar, listener=saving.listener)
    found = evaluate_files(request, progress_bar=bar)
    saving.save(found.records(), *request.paths())
    if reliability is not None:
        output.put(found.further.reliability_picture(), reliability)
    if legacy_json:
        output.narrate_all(found.remarks)
        output.put(json.dumps(legacy_data(found.only_result()), indent=2), file)
    else:
        output.emit(found, layout, file, remarks=output.own_remarks(found, layout))
    return 0


def _refuse_both(files: tuple[str, ...], legacy_json: bool) -> None:
    if files:
        raise click.UsageError("--results takes a folder and no files beside it.")
    if legacy_json:
        raise click.UsageError("--legacy-json is for predictions, not for --results.")


def _refuse_result_file(file: str | None, folder: str) -> None:
    """The table would replace a result, or be read as one the next time."""
    inside = file and Path(folder).resolve() in Path(file).resolve().parents
    if file and inside and Path(file).suffix.lower() == ".json":
        raise UsageError(
            f"{file} lies in {folder}, whose .json files are all read as results. Write it "
            "elsewhere."
        )


def _emit_import(found: ImportedResults, layout: str, file: str | None) -> int:
    output.emit(found, layout, file, remarks=output.own_remarks(found, layout))
    if layout != "json" and (advice := found.seeds().advice):
        output.narrate(advice)
    return 1 if found.contradictions or found.unreadable else 0
