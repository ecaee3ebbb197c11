"""Score predictions of one class per sample: Acc@k, MRR, nDCG, F1."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from assay.cli import options, output
from assay.cli.commands import MultiOptionCommand
from assay.cli.gating import gate_options
from assay.cli.progress import progress_bar
from assay.cli.repeating import demo_option, walk
from assay.cli.settings import argument, settings_of
from assay.prediction.request import PredictionRequest

if TYPE_CHECKING:
    from assay.cli.gating import Gate
    from assay.cli.output import Saving

_BOTH: Final = "before.npy mixed.npy -t targets.npy"
_TRAINED: Final = "--train train.npy --train-users train-modules.npy --users modules.npy"

# Questions, and the options of the commands that answer them on the demo's files.
_STEPS: Final = {
    title: [options.split()]
    for title, options in {
        "Two next-word models against simple baselines": (
            f"{_BOTH} {_TRAINED} --previous previous.npy"
        ),
        "Calibration of the probabilities": (
            "mixed.npy -t targets.npy --confidence --reliability reliability.svg"
        ),
        "Upper bound on accuracy": (
            f"mixed.npy -t targets.npy {_TRAINED} --previous previous.npy --predictability -k 1"
        ),
    }.items()
}
_UNIT = click.Choice(("percent", "fraction"))
_IMPORTING = {"unit": "--unit", "f1_unit": "--f1-unit"}
_CONFUSION_ENDINGS: Final = (".svg", ".csv", ".tsv", ".md", ".tex")
_SETTINGS = settings_of(PredictionRequest)


@click.command("predict", cls=MultiOptionCommand, verified=True)
@argument("files", nargs=-1, metavar="[NAME=]FILE...", reads=True)
@options.add_options(*(part.declare() for part in _SETTINGS.values() if part.option is not None))
@options.measures_option("Measure to print. May be repeated.")
@options.in_result(
    "--reliability FILE.svg",
    type=options.output_file,
    help="Reliability diagram (SVG).",
    writes=True,
)
@options.in_result(
    "--confusion FILE",
    type=options.output_file,
    help="Confusion matrix (.svg, .csv, .tsv, .md, .tex).",
    writes=True,
)
@options.in_input(
    "--results [NAME=]FILE",
    multiple=True,
    help="Result file (JSON) of a model and seed. May be repeated.",
    reads=True,
)
@options.in_input("--unit", type=_UNIT, help="Unit of the rates in --results. [percent]")
@options.in_input("--f1-unit", type=_UNIT, help="Unit of F1 in --results.")
@options.in_result(
    "--legacy-json", is_flag=True, help="Legacy JSON: percentages under the old keys."
)
@demo_option
@options.mismatch_option
@options.threads_option
@gate_options
@options.result_options()
@options.save_options("prediction")
def command(
    *,
    files: tuple[str, ...],
    results: tuple[str, ...],
    legacy_json: bool,
    reliability: str | None,
    confusion: str | None,
    layout: str,
    file: str | None,
    saving: Saving,
    gate: Gate,
    demo: str | None,
    **settings: Any,
) -> int:
    """Score predictions of one class per sample: Acc@k, MRR, nDCG, F1.

    Reads scores or logits of all classes, or candidate lists. Several files are several models,
    compared by sample; files with the same NAME are seeds of one model. The first table is in
    percent; all other tables and JSON hold fractions.

    \b
    Examples:
      assay predict logits.npy --targets labels.npy --train train.npy --histogram
      assay predict predictions.tsv --candidates top10 --candidates top10_wot --by user_id
      assay predict predictions.tsv --candidates top10 --train train.csv:location_id \\
          --train-users train.csv:user_id --users user_id --new-places
      assay predict logits.npy --targets labels.npy --confidence --reliability calibration.svg
      assay predict logits.npy --targets labels.npy --confusion confusion.svg
      assay predict a=a1.npz a=a2.npz a=a3.npz b=b1.npz b=b2.npz b=b3.npz
      assay predict --results mhsa=mhsa1.json --results mhsa=mhsa2.json --results mhsa=mhsa3.json \\
          --results lstm=lstm1.json --results lstm=lstm2.json --results lstm=lstm3.json
      assay predict predictions.tsv --candidates top10 --candidates top10_wot --users user_id \\
          --baseline top10_wot --fail-if-worse
    """
    if demo is not None:
        from assay.prediction.demo import write_demo

        write_demo(Path(demo))
        walk(Path(demo), _STEPS, "predict")
        return 0
    if legacy_json and (gate.wanted or (options.is_typed("named") and layout != "json")):
        other = "a gate" if gate.wanted else f"--format {layout}"
        raise click.UsageError(f"--legacy-json and {other} exclude each other.")
    importing = {name: settings.pop(name) for name in _IMPORTING}
    gate.refuse_without(settings["baseline"] is not None)
    if results:
        excluded = {
            "files of predictions": files,
            "--legacy-json": legacy_json,
            "a gate": gate.wanted,
        }
        if other := next((name for name, there in excluded.items() if there), ""):
            raise click.UsageError(f"--results and {other} exclude each other.")
        saving.refuse("--results has no values per sample")
        return _import(results, {**importing, "baseline": settings["baseline"]}, layout, file)
    if not files:
        raise click.UsageError("No input. Pass a file of predictions, or --results [NAME=]FILE.")
    if wrong := [option for name, option in _IMPORTING.items() if importing[name]]:
        raise click.UsageError(f"{' and '.join(wrong)} requires --results.")
    settings["confidence"] = settings["confidence"] or reliability is not None
    stated = {name: value for name, value in settings.items() if value is not None}
    request = PredictionRequest(files=files, **stated)
    for path in (file, reliability, confusion):
        output.refuse_input(path, *request.paths())
    output.refuse_same_file(file, reliability, confusion, gate.look_file)
    if confusion is not None and Path(confusion).suffix.lower() not in _CONFUSION_ENDINGS:
        raise click.UsageError(f"--confusion {confusion}: use {', '.join(_CONFUSION_ENDINGS)}.")
    from assay.prediction.models import evaluate_files

    bar = partial(progress_bar, listener=saving.listener)
    evaluated = evaluate_files(request, progress_bar=bar)
    if saving.wanted:
        saving.save(evaluated.records(), *request.paths())
    if reliability is not None:
        output.write(evaluated.diagnostics.reliability_picture(), reliability)
    if confusion is not None:
        output.write(evaluated.lay_out_confusion(Path(confusion).suffix.lower()), confusion)
    if legacy_json:
        from assay.prediction import compat

        output.narrate_all(evaluated.remarks)
        output.write(json.dumps(compat.legacy_json(evaluated.only_result()), indent=2), file)
        return 0
    evaluated = replace(evaluated, gate=gate.answer(evaluated, evaluated.paired))
    output.emit(evaluated, layout, file, remarks=output.own_remarks(evaluated, layout))
    return int(evaluated.gate.exit_code())


def _import(
    results: tuple[str, ...], importing: dict[str, Any], layout: str, file: str | None
) -> int:
    """Print result files as one table; contradictions in them make the exit code 1."""
    from assay.prediction.compat import import_results
    from assay.prediction.files import name_files

    paths: dict[str, list[str]] = {}
    for model, path in name_files(results):
        paths.setdefault(model, []).append(path)
        output.refuse_input(file, path)
    imported = import_results(paths, **importing)
    output.emit(imported, layout, file, remarks=output.own_remarks(imported, layout))
    if layout != "json" and (advice := imported.seeds().advice):
        output.log(advice)
    return 1 if imported.contradictions else 0
