"""Score predictions of one class per sample: Acc@k, MRR, nDCG, F1."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.progress import progress_bar
from assay.cli.repeating import demo_option, walk
from assay.cli.settings import argument, option
from assay.core.on_demand import OnDemand
from assay.prediction.plugin import SCORE_KINDS

if TYPE_CHECKING:
    from assay.cli.output import Saving
    from assay.prediction import compat, models
    from assay.prediction import demo as demo_files
    from assay.prediction import files as prediction_files
else:
    compat = OnDemand("assay.prediction.compat")
    demo_files = OnDemand("assay.prediction.demo")
    models = OnDemand("assay.prediction.models")
    prediction_files = OnDemand("assay.prediction.files")

_BOTH: Final = "before.npy mixed.npy -t targets.npy"
_TRAINED: Final = "--train train.npy --train-users train-modules.npy --users modules.npy"

# Questions, and the options of the commands that answer them on the demo's files.
_STEPS: Final = {
    title: [options.split()]
    for title, options in {
        "Two models that predict the next word, beside what needs no model": (
            f"{_BOTH} {_TRAINED} --previous previous.npy"
        ),
        "Are probabilities what they say?": (
            "mixed.npy -t targets.npy --confidence --reliability reliability.svg"
        ),
        "How predictable are these words at all?": (
            f"mixed.npy -t targets.npy {_TRAINED} --previous previous.npy --predictability -k 1"
        ),
    }.items()
}
_input = partial(option, section="Input")
_input_file = partial(option, section="Input", reads=True)
_measuring = partial(option, section="Measures and conventions")
_showing = partial(option, section="Result")
_UNIT = click.Choice(("percent", "fraction"))
_IMPORTING = {"unit": "--unit", "f1_unit": "--f1-unit", "baseline": "--baseline"}


@click.command("predict", cls=MultiOptionCommand, verified=True)
@argument("files", nargs=-1, metavar="[NAME=]FILE...", reads=True)
@_input_file("-t", "--targets", metavar="FILE", help="True classes (.npy) of a .npy of scores.")
@_input(
    "--candidates",
    multiple=True,
    metavar="COLUMN",
    help="The files hold lists of candidates in this column; several columns are several models.",
)
@_input("--target", metavar="COLUMN", help="Column or array of the true classes.")
@_input("--id", "ids", metavar="COLUMN", help="Column of the sample ids.")
@options.measures_option("A measure. May be repeated.")
@_measuring(
    "-k",
    "ks",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="K...",
    help="Cut-offs. [1 3 5 10]",
)
@option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Group samples by a column of the table, or FILE:COLUMN. May be repeated.",
    section="Statistics",
    reads=True,
)
@_input("--new-places", is_flag=True, help="Group samples by whether training has the class.")
@_measuring(
    "--confidence",
    is_flag=True,
    help="Calibration (ECE, Brier, NLL), and detection of samples without a class.",
)
@_measuring(
    "--scores",
    type=click.Choice(SCORE_KINDS),
    help="What --confidence takes scores as. [decided from all rows]",
)
@_showing(
    "--reliability",
    type=options.output_file,
    metavar="FILE.svg",
    help="Draw accuracy over confidence.",
    writes=True,
)
@_input_file("--coordinates", metavar="FILE", help="CSV with class, lat, lon: errors in metres.")
@_measuring(
    "--predictability",
    is_flag=True,
    help="Entropy of the training labels, and the bound on Acc@1 by Song et al.",
)
@_input_file(
    "--train", metavar="FILE[:COLUMN]", help="Training labels in order of time, for baselines."
)
@_input_file("--train-users", metavar="FILE[:COLUMN]", help="Users of the training labels.")
@_input_file("--users", metavar="COLUMN|FILE[:COLUMN]", help="Users of the samples.")
@_input_file(
    "--previous",
    metavar="COLUMN|FILE[:COLUMN]",
    help="The class before each sample, for baselines.",
)
@_input_file(
    "--history",
    metavar="COLUMN|FILE[:COLUMN]",
    help="Instead: all classes before each sample, the latest last.",
)
@_input(
    "--n-classes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of the vocabulary, for lists.",
)
@_showing("--per-class", is_flag=True, help="Show each class.")
@_showing("--histogram", is_flag=True, help="Show the histogram of target ranks.")
@_measuring(
    "--ties",
    type=click.Choice(("order", "expected", "best", "worst")),
    help="How tied scores count.",
)
@_input_file(
    "--results",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Result file (JSON) of a model instead; repeat for seeds and models.",
)
@_measuring("--unit", type=_UNIT, help="Unit of the rates in --results. [percent]")
@_measuring("--f1-unit", type=_UNIT, help="Unit of F1 in --results. [that of the rates]")
@option(
    "-b",
    "--baseline",
    metavar="MODEL",
    help="Compare the models of --results with this one only.",
    section="Statistics",
)
@_showing("--legacy-json", is_flag=True, help="Print the old JSON: percentages under old keys.")
@demo_option("words of Python's docstrings, and predictions of them,")
@options.mismatch_option
@options.threads_option
@options.result_options()
@options.save_options("prediction")
def command(
    *,
    files: tuple[str, ...],
    results: tuple[str, ...],
    legacy_json: bool,
    reliability: str | None,
    layout: str,
    file: str | None,
    saving: Saving,
    demo: str | None,
    **settings: Any,
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
      assay predict --results mhsa=mhsa1.json --results mhsa=mhsa2.json --results mhsa=mhsa3.json \\
          --results lstm=lstm1.json --results lstm=lstm2.json --results lstm=lstm3.json
    """
    if demo is not None:
        demo_files.write_demo(Path(demo))
        walk(Path(demo), _STEPS, "predict")
        return 0
    if legacy_json and options.is_typed("named") and layout != "json":
        raise click.UsageError(f"--legacy-json and --format {layout} exclude each other.")
    importing = {name: settings.pop(name) for name in _IMPORTING}
    if results:
        if files or legacy_json:
            other = "files of predictions" if files else "--legacy-json"
            raise click.UsageError(f"--results and {other} exclude each other.")
        saving.refuse("--results holds means without the values of every sample")
        return _import(results, importing, layout, file)
    if not files:
        raise click.UsageError("Give a file of predictions, or --results [NAME=]FILE.")
    if wrong := [option for name, option in _IMPORTING.items() if importing[name]]:
        raise click.UsageError(f"{' and '.join(wrong)}: only for --results.")
    settings["confidence"] |= reliability is not None
    request = models.PredictionRequest(files=files, **settings)
    for path in (file, reliability):
        output.refuse_input(path, *request.paths())
    output.refuse_same_file(file, reliability)
    bar = partial(progress_bar, listener=saving.listener)
    evaluated = models.evaluate_files(request, progress_bar=bar)
    saving.save(evaluated.records(), *request.paths())
    if reliability is not None:
        output.write(evaluated.diagnostics.reliability_picture(), reliability)
    if legacy_json:
        output.narrate_all(evaluated.remarks)
        output.write(json.dumps(compat.legacy_json(evaluated.only_result()), indent=2), file)
    else:
        output.emit(evaluated, layout, file, remarks=output.own_remarks(evaluated, layout))
    return 0


def _import(
    results: tuple[str, ...], importing: dict[str, Any], layout: str, file: str | None
) -> int:
    """Print result files as one table; contradictions in them make the exit code 1."""
    paths: dict[str, list[str]] = {}
    for model, path in prediction_files.name_files(results):
        paths.setdefault(model, []).append(path)
        output.refuse_input(file, path)
    imported = compat.import_results(paths, **importing)
    output.emit(imported, layout, file, remarks=output.own_remarks(imported, layout))
    if layout != "json" and (advice := imported.seeds().advice):
        output.log(advice)
    return 1 if imported.contradictions else 0
