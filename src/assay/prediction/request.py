"""Request of `assay predict`: each field is a setting and an option.

Nothing here needs numpy, so that `assay predict --help` is quick.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click

from assay.cli.settings import About
from assay.core.conventions import Conventions, preset
from assay.core.on_demand import OnDemand
from assay.errors import UsageError
from assay.prediction.plugin import SCORE_KINDS

if TYPE_CHECKING:
    from assay.core import checks
    from assay.io import columns
    from assay.prediction import files as prediction_files
else:
    checks = OnDemand("assay.core.checks")
    columns = OnDemand("assay.io.columns")
    prediction_files = OnDemand("assay.prediction.files")

_OF_CLASSES: Final = ("accuracy", "f1", "f1_macro", "f1_weighted", "f1_micro", "f1-score")
_RATES: Final = "Measures and conventions"
_OF_TRAINING: Final = "FILE[:COLUMN]"
_OF_SAMPLES: Final = "COLUMN|FILE[:COLUMN]"
_CUTS: Final[Any] = {"type": click.IntRange(min=1), "metavar": "K..."}

Text = str | None
Texts = tuple[str, ...]


def _setting(help: str, *flags: str, section: str = "Input", **option: Any) -> About:
    names = {"flags": flags} if flags else {}
    return About(help, option.pop("limits", {}), {"section": section, **names, **option})


def _file(help: str, metavar: str, *flags: str) -> About:
    return _setting(help, *flags, metavar=metavar, reads=True)


_column = partial(_setting, metavar="COLUMN")
_switch = partial(_setting, is_flag=True)
_rule = partial(_setting, section=_RATES)
_test = partial(_setting, section="Statistics")


@dataclass(frozen=True)
class PredictionRequest:
    """Prediction files, and what to compute from them.

    Args:
        files: `FILE` or `NAME=FILE`; the same name before several files makes them seeds of one
            model.
        targets: A .npy of true classes, for files that hold scores only.
        candidates: Columns or arrays with lists of candidates; several are several models.
        target: Column or array of the true classes.
        ids: Column of the sample ids.
        measures: Measures of the ranking.
        ks: Cutoffs of the accuracy.
        by: Columns of the table, or `FILE:COLUMN`, whose values group the samples.
        new_places: Group samples by whether the true class was in training.
        confidence: Look at the scores themselves: calibration, samples without a class.
        scores: "logits", "probabilities" or "similarities"; None decides from all rows.
        coordinates: CSV of class, lat, lon: look at errors in metres.
        predictability: Look at the entropy of the training labels.
        train: Training labels in order of time (`FILE` or `FILE:COLUMN`), for baselines.
        train_users: Users of the training labels.
        users: Users of the samples: intervals and tests draw whole users.
        previous: The class before each sample.
        history: Instead of `previous`: the list of all classes before each sample.
        n_classes: Size of the vocabulary, for lists.
        per_class: Show each class.
        histogram: Show the histogram of target ranks.
        ties: How tied scores count; None is the order of the classes.
        baseline: The model that the others are compared with; None compares all pairs.
        threads: Number of threads.
        allow_mismatch: Accept classes or users that are written differently.

    Raises:
        UsageError: An option has no effect without another, or contradicts it.

    Example:
        request = PredictionRequest(("net=a.npz", "net=b.npz"), ks=(1, 5), train="train.npy")
    """

    files: Annotated[Texts, "Prediction files."]
    targets: Annotated[Text, _file("True classes (.npy).", "FILE", "-t", "--targets")] = None
    candidates: Annotated[Texts, _column("Columns of candidate lists, one per model.")] = ()
    target: Annotated[Text, _column("Column or array of the true classes.")] = None
    ids: Annotated[Text, _column("Column of the sample ids.", "--id", "ids")] = None
    measures: Annotated[Texts, "Measures of the ranking."] = ()
    ks: Annotated[tuple[int, ...], _rule("Cutoffs [1 3 5 10].", "-k", "ks", **_CUTS)] = ()
    by: Annotated[Texts, _test("Groups of samples.", metavar=_OF_SAMPLES, reads=True)] = ()
    new_places: Annotated[
        bool, _switch("Group samples by whether training contains the class.")
    ] = False
    confidence: Annotated[bool, _switch("Calibration and detection.", section=_RATES)] = False
    scores: Annotated[
        Literal["logits", "probabilities", "similarities"] | None,
        _rule("Type of scores for --confidence. [from the data]"),
    ] = None
    coordinates: Annotated[Text, _file("CSV with class, lat, lon: errors in metres.", "FILE")] = (
        None
    )
    predictability: Annotated[
        bool, _switch("Entropy of the training labels, bound on Acc@1.", section=_RATES)
    ] = False
    train: Annotated[Text, _file("Training labels in chronological order.", _OF_TRAINING)] = None
    train_users: Annotated[Text, _file("Users of the training labels.", _OF_TRAINING)] = None
    users: Annotated[Text, _file("Users of the samples (clusters).", _OF_SAMPLES)] = None
    previous: Annotated[
        Text, _file("Column of the previous class of each sample.", _OF_SAMPLES)
    ] = None
    history: Annotated[
        Text, _file("Column of all earlier classes of each sample.", _OF_SAMPLES)
    ] = None
    n_classes: Annotated[
        int | None,
        _setting("Size of the vocabulary, for lists.", limits={"minimum": 1}, metavar="N"),
    ] = None
    per_class: Annotated[bool, _switch("Table of every class.", section="Result")] = False
    histogram: Annotated[bool, _switch("Histogram of target ranks.", section="Result")] = False
    ties: Annotated[
        Literal["order", "expected", "best", "worst"] | None, _rule("How tied scores count.")
    ] = None
    baseline: Annotated[
        Text, _test("Baseline model of the comparison.", "-b", "--baseline", metavar="MODEL")
    ] = None
    threads: Annotated[int | None, "Number of threads."] = None
    allow_mismatch: Annotated[bool, "Continue despite mismatched ids (1 vs 01)."] = False

    def __post_init__(self) -> None:
        """Refuse options without effect, and measures that are always reported."""
        for name in self.measures:
            if re.split(r"[(@]", name)[0].lower() in _OF_CLASSES:
                raise UsageError(f"-m {name}: class measures are always reported. Omit it.")
        for name in ("train_users", "previous", "history", "new_places", "predictability"):
            if getattr(self, name) and not self.train:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} requires --train.")
        if self.scores is not None:
            checks.check_choice(self.scores, SCORE_KINDS, "scores")
        if self.scores and not self.confidence:
            raise UsageError("--scores requires --confidence.")
        if self.previous and self.history:
            raise UsageError("--previous and --history exclude each other.")

    @property
    def rules(self) -> Conventions:
        """The conventions of next-location prediction, with other ties where these are given."""
        return preset("next_location").replace(ties=self.ties)

    def named_files(self) -> list[tuple[str, str]]:
        """Return (model, path) of each file; without a name the file's own is taken."""
        return prediction_files.name_files(self.files)

    def paths(self) -> list[str | None]:
        """Return all files that are read."""
        sources = (self.train, self.train_users, self.users, self.previous, self.history, *self.by)
        return [
            *(path for _, path in self.named_files()),
            self.targets,
            self.coordinates,
            *(None if source is None else columns.split_column(source)[0] for source in sources),
        ]
