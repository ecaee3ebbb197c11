"""The report of an experiment: tables, comparison, remarks, plain data, and pictures of a pair."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.errors import InputError, MismatchError, UsageError
from assay.runs.record import RunRecord
from assay.scoring.output import tied_remark
from assay.scoring.scores import signature_of
from assay.search.engine import Codes, rank, target_ranks
from assay.tables.page import Page, Words
from assay.tables.table import Table
from assay.tasks.descriptors import tables
from assay.tasks.descriptors.compare import CategorySummary, compare_descriptors, summarize
from assay.tasks.descriptors.distances import hamming_nearest, hamming_target_ranks
from assay.tasks.descriptors.pr_curves import PRCurve
from assay.tasks.descriptors.ranks import choose_metric
from assay.tasks.descriptors.run import ExperimentResult
from assay.tasks.descriptors.tables import result_data
from assay.tasks.vision.drawing import draw_pair
from assay.tasks.vision.pair import make_pair

if TYPE_CHECKING:
    from assay.comparison.compare import Comparison
    from assay.tasks.descriptors.experiment import DescriptorSettings
    from assay.tasks.vision.scenes import Scene

__all__ = ["ExperimentReport", "draw_matches", "find_pair"]

_MOST_NOTES: Final = 3


@dataclass(frozen=True, eq=False)
class ExperimentReport:
    """An experiment's result as tables, a page and plain data.

    With `force` descriptors on different keypoints are compared by the means of their scenes;
    `per_scene`, `ranks` and `timings` add tables.
    """

    found: ExperimentResult
    force: bool = False
    per_scene: bool = False
    ranks: bool = False
    timings: bool = False

    @property
    def rule(self) -> str:
        """Which label 0 counts as wrong."""
        return self.found.experiment.evaluation.rule

    @property
    def signature(self) -> str:
        """The conventions and the settings of all descriptors, listed where they differ."""
        how = self.found.experiment.evaluation
        tasks = {name: getattr(how, name) for name in ("verification", "retrieval")}
        drawn = {
            name: f"{one.scenes},{one.keypoints},{one.seed}" for name, one in tasks.items() if one
        }
        if how.image_retrieval is not None:
            one = how.image_retrieval
            drawn["image_retrieval"] = f"{one.keypoints},{one.ratio:g},{one.seed}"
        chosen = {name: getattr(how, name) for name in ("rule", "level", "resamples", "seed")}
        return signature_of([one.scores for one in self.found.headline], {**chosen, **drawn})

    @cached_property
    def summaries(self) -> list[CategorySummary]:
        """Descriptors × categories, for the first tolerance."""
        return self.summaries_at(self.found.experiment.evaluation.tau[0])

    def summaries_at(self, tau: float) -> list[CategorySummary]:
        """Descriptors × categories for one tolerance."""
        how = self.found.experiment.evaluation.resampling
        return [row for one in self.found.at(tau) for row in summarize(one, **how)]

    @cached_property
    def curves(self) -> list[PRCurve]:
        """Precision over recall of image matching and of verification, for the first tolerance."""
        return [curve for one in self.found.headline for curve in one.curves]

    @cached_property
    def comparison(self) -> Comparison | None:
        """How descriptors compare on AP; None for one, or where they must not be compared."""
        if len(self.found.headline) < 2:
            return None
        how = self.found.experiment.evaluation
        try:
            return compare_descriptors(
                self.found.headline,
                force=self.force,
                level=round(1 - how.level, 12),  # 0.05, not 0.050000000000000044
                resamples=how.resamples,
                seed=how.seed,
            )
        except MismatchError:
            return None

    @cached_property
    def remarks(self) -> list[str]:
        """What a reader of the numbers should know, a line each."""
        found = self.found
        lines = [f"scenes evaluated: {found.n_computed}, reused: {found.n_reused}"]
        lines += found.notes[:_MOST_NOTES]
        if len(found.notes) > _MOST_NOTES:
            lines.append(f"… and {len(found.notes) - _MOST_NOTES} more such notes")
        lines += [
            f"{one.name}: {one.n_failed} of {one.n_queries - one.n_excluded} queries failed, as "
            "their keypoint or its true match could not be described; they count 0"
            for one in found.headline
            if one.n_failed
        ]
        for name, failure in found.failures:
            lines.append(f"FAILED {name} {failure.scene} {failure.pair}: {failure.reason}")
        if self.comparison is None and len(found.headline) > 1:
            lines.append(self._why_not_compared())
        if self.force and self._sets > 1:
            lines.append("comparison forced: scene means on different keypoints")
        tied = ((one.name, tied_remark(one.scores, "keypoints")) for one in found.headline)
        return lines + [f"{name}: {remark}" for name, remark in tied if remark]

    @property
    def _sets(self) -> int:
        return len({one.query_set for one in self.found.headline})

    def _why_not_compared(self) -> str:
        try:
            compare_descriptors(self.found.headline)
        except MismatchError as error:
            return f"not compared: {error} (--force)"
        return ""

    def tables(self) -> list[Table]:
        """The summary by category, the tasks and every further table that was chosen."""
        found = [tables.category_table(self.summaries)]
        headline = self.found.headline
        how = self.found.experiment.evaluation.resampling
        tasks = tables.task_table(headline, self.rule, how)
        found += [tasks] if tasks is not None else []
        found += [tables.scene_table(headline)] if self.per_scene else []
        found += [tables.rank_table(headline)] if self.ranks else []
        costs = [(one.name, one.timings, one.cost) for one in headline]
        return [*found, tables.timing_table(costs)] if self.timings else found

    def table(self) -> Table:
        """Descriptors × categories with every digit, for programs."""
        return tables.category_data(self.summaries)

    def records(self) -> list[RunRecord]:
        """A record for each descriptor and tolerance."""
        return self.found.records(rule=self.rule)

    def page(self) -> Page:
        """Tables with words between them, for people."""
        how = self.found.experiment.evaluation
        page: Page = [Words(f"τ = {how.tau[0]:g} px; keypoints: {self._keypoints()}")]
        first, *rest = self.tables()
        page.append(first)
        if self.comparison is not None:
            page += [Words(words, "verdict") for words in self.comparison.verdicts.values()]
            page += [Words(words, "remark") for words in self.comparison.remarks]
            page.append(self.comparison.pair_table())
        page += rest
        for tau in how.tau[1:]:
            page += [Words(f"τ = {tau:g} px"), tables.category_table(self.summaries_at(tau))]
        page += [Words(line, "remark") for line in self.remarks]
        return [*page, Words(self.signature, "signature")]

    def _keypoints(self) -> str:
        return "; ".join(dict.fromkeys(one.keypoints for one in self.found.headline))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = self.found
        return {
            "signature": self.signature,
            "experiment": found.experiment.to_dict(),
            "results": [
                result_data(
                    one,
                    self.summaries_at(one.tau),
                    rule=self.rule,
                    resampling=found.experiment.evaluation.resampling,
                )
                for one in found.results
            ],
            "curves": [one.to_dict() for one in self.curves],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
            "computed": found.n_computed,
            "reused": found.n_reused,
            "failed": found.n_failed,
            "remarks": self.remarks,
        }


def find_pair(scenes: Sequence[Scene], text: str) -> tuple[Scene, int]:
    """The scene and the number of the second image of a pair such as `v_wall/1-4`."""
    name, slash, numbers = text.rpartition("/")
    known = {scene.name: scene for scene in scenes}
    number = numbers.removeprefix("1-")
    if not slash or name not in known or not number.isdecimal():
        raise UsageError(
            f"--show takes a pair such as {scenes[0].name}/1-2; found {text!r}. Scenes: "
            f"{', '.join(known)}."
        )
    if int(number) not in known[name].pairs:
        raise UsageError(f"Scene {name!r} has no pair 1-{number}.")
    return known[name], int(number)


def draw_matches(found: ExperimentResult, pair: str, folder: str) -> Iterator[str]:
    """Draw a pair such as v_wall/1-4 by every descriptor; gives a line on each picture.

    Keypoints and descriptors of the pair are computed again.
    """
    scene, k = find_pair(found.scenes, pair)
    for descriptor in found.experiment.descriptors:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in descriptor.name)
        path = os.path.join(folder, f"{scene.name}-1-{k}-{name}.png")
        try:
            _draw(found, scene, k, descriptor, path)
        except InputError as error:  # the pair is listed as failed, too
            yield f"no picture of {pair} by {descriptor.name}: {error}"
        else:
            yield f"wrote {path}"


def _draw(
    found: ExperimentResult, scene: Scene, k: int, descriptor: DescriptorSettings, path: str
) -> None:
    how = found.experiment.evaluation
    data = make_pair(
        scene,
        k,
        keypoints=descriptor.keypoints or found.experiment.keypoints,
        descriptor=descriptor.type,
        options=descriptor.options,
        taus=how.tau,
        one_to_one=how.one_to_one,
        symmetric=how.symmetric,
    )
    metric = choose_metric(descriptor.metric, data.kind, f"The descriptor {descriptor.name!r}")
    ranks, nearest = _ranks_of(data, metric)
    draw_pair(scene, data, path, ranks=ranks, found=nearest)


def _ranks_of(data: Any, metric: Any) -> tuple[Any, Any]:
    """The rank of each true match, and which target is the nearest."""
    left, right, target = data.query_vectors, data.target_vectors, data.truth.target
    has = np.flatnonzero(target >= 0)
    ranks = np.zeros(len(target), np.int64)
    if isinstance(left, Codes):
        nearest = hamming_nearest(left.packed, right.packed)[0]
        ranks[has] = hamming_target_ranks(left.packed[has], right.packed, target[has]).rank
        return ranks, nearest
    ranks = target_ranks(left, right, target, metric=metric).rank
    return ranks, rank(left, right, 1, metric=metric).docs
