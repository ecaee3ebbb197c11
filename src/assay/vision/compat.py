"""The workbench's own names: its container of results, its wide row and its metadata.

Add results of images and queries to an `ExperimentMetrics` one by one, merge containers, and
compute the means at the end. Sums are exact, so the order of adding and merging changes
nothing. A mean of nothing is NaN. `wide_row` has the workbench's columns; its `key=value;`
metadata reads back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from assay.core import checks
from assay.core.conventions import preset
from assay.core.text import is_decimal, parse_number, parse_whole
from assay.errors import FormatError, UsageError, ValueRangeError
from assay.scoring.evaluate import score
from assay.search.engine import target_ranks_from_scores
from assay.vision.ground_truth import match_truth
from assay.vision.keypoints import as_key

if TYPE_CHECKING:
    from assay.vision.result import DescriptorResult


__all__ = ["ExperimentMetrics", "QueryAPResult", "TrueAveragePrecision", "compute_query_ap"]
_NO_BOUNDS = (2**31, 2**31)


@dataclass(frozen=True)
class QueryAPResult:
    """One query: AP and rank of its true match; without one, `has_potential_match` is False.

    A query whose descriptor failed has a true match and AP 0; its rank is 0.
    """

    ap: float = 0.0
    rank_of_true_match: int = -1
    has_potential_match: bool = False
    total_candidates: int = 0


def compute_query_ap(
    query: Any,
    homography: Any,
    targets: Any,
    distances: Any,
    *,
    tau: float = 3.0,
    ties: str = "expected",
    target_shape: tuple[int, int] = _NO_BOUNDS,
) -> QueryAPResult:
    """Return AP and rank of one keypoint's true match.

    It is the target nearest to where H takes the keypoint (x, y). `distances` are those of
    descriptors, one for each target (x, y). `ties` is best for the document's formula, midrank-up
    for its program.

    >>> H = [[1, 0, 10], [0, 1, 0], [0, 0, 1]]
    >>> compute_query_ap([5, 5], H, [[15, 6], [40, 5]], [0.7, 0.2])
    QueryAPResult(ap=0.5, rank_of_true_match=2, has_potential_match=True, total_candidates=2)
    """
    truth = match_truth([query], targets, homography, tau=tau, target_shape=target_shape)
    scores = -checks.plain_array(distances, "distances").reshape(1, -1)
    checks.check_lengths(distances=scores.shape[1], targets=len(targets))
    if truth.target[0] < 0:
        return QueryAPResult(total_candidates=len(targets))
    ranks = target_ranks_from_scores(scores, truth.target)
    rules = preset("keypoints").replace(ties=ties)
    ap = float(score(ranks.hits(), "AP", conventions=rules)["AP"][0])
    return QueryAPResult(ap, int(ranks.rank[0]), True, len(targets))


@dataclass
class ExperimentMetrics:
    """Results of an experiment as they come in; `calculate_mean_precision` fills in the means.

    `precision_at_k` and `recall_at_k` are Success@k: with one true match per query, neither is
    precision. `mean_precision` is over images, `legacy_macro_precision_by_scene` over scenes.

    >>> metrics = ExperimentMetrics()
    >>> metrics.add_query_ap("v_wall", QueryAPResult(0.5, 2, True))
    >>> metrics.add_query_ap("v_wall", QueryAPResult())
    >>> metrics.calculate_mean_precision()
    >>> metrics.true_map_micro, metrics.true_map_micro_including_zeros
    (0.5, 0.25)
    """

    mean_precision: float = math.nan
    legacy_macro_precision_by_scene: float = math.nan
    true_map_micro: float = math.nan
    true_map_macro_by_scene: float = math.nan
    true_map_micro_including_zeros: float = math.nan
    true_map_macro_by_scene_including_zeros: float = math.nan
    viewpoint_map: float = math.nan
    illumination_map: float = math.nan
    precision_at_1: float = math.nan
    precision_at_5: float = math.nan
    precision_at_10: float = math.nan
    recall_at_1: float = math.nan
    recall_at_5: float = math.nan
    recall_at_10: float = math.nan
    total_matches: int = 0
    total_keypoints: int = 0
    total_images_processed: int = 0
    total_queries_processed: int = 0
    total_queries_excluded: int = 0
    precisions_per_image: list[float] = field(default_factory=list)
    per_scene_precisions: dict[str, list[float]] = field(default_factory=dict)
    per_scene_matches: Counter[str] = field(default_factory=Counter)
    per_scene_keypoints: Counter[str] = field(default_factory=Counter)
    per_scene_image_count: Counter[str] = field(default_factory=Counter)
    ap_per_query: list[float] = field(default_factory=list)
    per_scene_ap: dict[str, list[float]] = field(default_factory=dict)
    per_scene_excluded: Counter[str] = field(default_factory=Counter)
    ranks_per_query: list[int] = field(default_factory=list)
    processing_time_ms: float = 0.0
    success: bool = True
    error_message: str = ""

    @classmethod
    def create_error(cls, message: str) -> ExperimentMetrics:
        """Return a container for an experiment that failed."""
        return cls(success=False, error_message=str(message))

    def add_image_result(self, scene: str, precision: float, matches: int, keypoints: int) -> None:
        """Add one image: its share of right matches, and its counts."""
        if not 0 <= precision <= 1:
            raise ValueRangeError(f"precision is {precision!r}. Pass 0 to 1.")
        if matches < 0 or keypoints < 0:
            raise ValueRangeError(
                f"matches and keypoints must be counts. Found {matches} and {keypoints}."
            )
        self.precisions_per_image.append(float(precision))
        self.per_scene_precisions.setdefault(scene, []).append(float(precision))
        self.total_matches += matches
        self.total_keypoints += keypoints
        self.total_images_processed += 1
        self.per_scene_matches[scene] += matches
        self.per_scene_keypoints[scene] += keypoints
        self.per_scene_image_count[scene] += 1

    def add_query_ap(self, scene: str, result: QueryAPResult) -> None:
        """Add one query; without a true match it counts as excluded."""
        checks.require(result, QueryAPResult, "result", "a QueryAPResult")
        if not result.has_potential_match:
            self.total_queries_excluded += 1
            self.per_scene_excluded[scene] += 1
            self.ranks_per_query.append(-1)
            return
        if not 0 <= result.ap <= 1:
            raise ValueRangeError(f"ap is {result.ap!r}. Pass 0 to 1.")
        self.ap_per_query.append(result.ap)
        self.per_scene_ap.setdefault(scene, []).append(result.ap)
        self.ranks_per_query.append(result.rank_of_true_match)
        self.total_queries_processed += 1

    def merge(self, other: ExperimentMetrics) -> None:
        """Add everything that another container holds; one failure makes the whole a failure."""
        checks.require(other, ExperimentMetrics, "other", "an ExperimentMetrics")
        if other is self:
            raise UsageError("A container would count twice. Merge different containers.")
        for name, theirs in vars(other).items():
            ours = getattr(self, name)
            if isinstance(theirs, list):
                ours.extend(theirs)
            elif isinstance(theirs, Counter):
                ours.update(theirs)
            elif isinstance(theirs, dict):
                for scene, values in theirs.items():
                    ours.setdefault(scene, []).extend(values)
            elif name.startswith("total_") or name == "processing_time_ms":
                setattr(self, name, ours + theirs)
        if not other.success:
            self.success = False
            self.error_message = "; ".join(filter(None, (self.error_message, other.error_message)))

    def calculate_mean_precision(self) -> None:
        """Compute all means of the added results."""
        self.mean_precision = _mean(self.precisions_per_image)
        self.legacy_macro_precision_by_scene = _mean(map(_mean, self.per_scene_precisions.values()))
        self.true_map_micro = _mean(self.ap_per_query)
        self.true_map_macro_by_scene = _mean(map(_mean, self.per_scene_ap.values()))
        self.true_map_micro_including_zeros = _mean(self.ap_per_query, self.total_queries_excluded)
        self.true_map_macro_by_scene_including_zeros = _mean(
            _mean(self.per_scene_ap.get(scene, []), self.per_scene_excluded[scene])
            for scene in self._queried
        )
        for category, start in (("viewpoint", "v_"), ("illumination", "i_")):
            scenes = (name for name in self.per_scene_ap if name.startswith(start))
            setattr(self, f"{category}_map", _mean(_mean(self.per_scene_ap[s]) for s in scenes))
        ranks = [rank for rank in self.ranks_per_query if rank >= 0]
        for k in _CUTS:
            share = _mean([float(0 < rank <= k) for rank in ranks])
            setattr(self, f"precision_at_{k}", share)
            setattr(self, f"recall_at_{k}", share)

    @property
    def _queried(self) -> list[str]:
        return sorted({*self.per_scene_ap, *self.per_scene_excluded})

    def scene_average_precision(self, scene: str) -> float:
        """Return the mean precision of a scene's images.

        A scene without images is refused.
        """
        if scene not in self.per_scene_precisions:
            scenes = checks.name_few(sorted(self.per_scene_precisions))
            raise UsageError(f"Unknown scene {scene!r}. Known: {scenes or 'none'}.")
        return _mean(self.per_scene_precisions[scene])

    @property
    def scene_names(self) -> list[str]:
        """All scenes of which an image or a query was added, in order."""
        return sorted({*self.per_scene_precisions, *self._queried})

    def getSceneNames(self) -> list[str]:  # noqa: N802
        """Return `scene_names`, by the document's name."""
        return self.scene_names

    # The document's other names.
    addImageResult = add_image_result  # noqa: N815
    addQueryAP = add_query_ap  # noqa: N815
    calculateMeanPrecision = calculate_mean_precision  # noqa: N815
    createError = create_error  # noqa: N815
    getSceneAveragePrecision = scene_average_precision  # noqa: N815


class TrueAveragePrecision:
    """The document's name for what computes one query."""

    QueryAPResult = QueryAPResult
    computeQueryAP = staticmethod(compute_query_ap)  # noqa: N815


def _mean(values: Iterable[float], zeros: int = 0) -> float:
    """Return the mean with `zeros` more zeros, rounded once; NaN without any."""
    numbers = list(values)
    count = len(numbers) + zeros
    return math.fsum(numbers) / count if count else math.nan


# Columns that are always there, as in the view of a store: what changes in HPatches and Oxford.
CATEGORIES: Final = ("viewpoint", "illumination", "blur", "compression", "zoom")
_CUTS: Final = (1, 5, 10)


def wide_row(result: DescriptorResult, *, rule: str = "authors") -> dict[str, Any]:
    """Return one row with the workbench's columns; NaN where not computed.

    `true_map_…` are AP with one true match per query, `precision_at_k` and `recall_at_k` are
    Success@k, columns of a category and `mean_average_precision` are means over scenes, as in the
    workbench's own rows; all others over keypoints unless their name says scene. Verification and
    retrieval are those of the program of Bojanić et al.

    Args:
        result: The result of a descriptor.
        rule: "authors", or how ternary labels judge verification and retrieval: "paper" or
            "program".

    Returns:
        Values by column, as fractions.

    Example:
        wide_row(result)["true_map_micro"]
    """
    skip, macro = result.mean(empty="skip"), result.mean(by="scene", empty="skip")["AP"]
    row: dict[str, Any] = {
        "descriptor": result.name,
        "keypoint_set": result.keypoints,
        "tau": result.tau,
        "true_map_micro": skip["AP"],
        "true_map_macro": macro,
        "true_map_macro_by_scene": macro,
        "true_map_micro_including_zeros": result.mean(empty="zero")["AP"],
        "true_map_macro_by_scene_including_zeros": result.mean(by="scene", empty="zero")["AP"],
        "mean_average_precision": macro,
    }
    categories = sorted({*CATEGORIES, *result.category_names})
    for category in categories:
        row[f"{category}_map"] = result.category_mean(category)
        row[f"{category}_map_including_zeros"] = result.category_mean(category, empty="zero")
    for task in ("verification", "retrieval"):
        pooled = result.task(task)
        columns = {f"keypoint_{task}_ap": None, **{f"{task}_{c}_ap": c for c in categories}}
        for column, part in columns.items():
            row[column] = math.nan if pooled is None else pooled.mean(rule, category=part)
    pooled = result.task("retrieval")
    labels = {"+1": "true_positives", "0": "hard_negatives", "-1": "distractors"}
    counts = dict.fromkeys(labels, 0) if pooled is None else pooled.counts()
    row |= {f"retrieval_num_{labels[label]}": count for label, count in counts.items()}
    row["image_matching_map"] = _mean_ap(result.matching)
    row["image_retrieval_map"] = _mean_ap(result.image_retrieval)
    for k in _CUTS:
        row[f"precision_at_{k}"] = row[f"recall_at_{k}"] = skip.get(f"Success@{k}", math.nan)
    legacy = "Success@1" in map(str, result.measures)
    for column, by in (("mean_precision", None), ("legacy_macro_precision_by_scene", "scene")):
        row[column] = result.legacy.mean(by=by)["Success@1"] if legacy else math.nan
    row |= {
        "total_queries_processed": result.n_queries - result.n_excluded,
        "total_queries_excluded": result.n_excluded,
        "total_queries_failed": result.n_failed,
        "processing_time_ms": 1000 * math.fsum(result.timings.values()),
    }
    return row


def _mean_ap(scores: Any) -> float:
    return math.nan if scores is None else float(scores.mean(empty="skip")["AP"])


def row_with_metadata(result: DescriptorResult, *, rule: str = "authors") -> dict[str, Any]:
    """Return the wide row with its metadata as the last column."""
    row = wide_row(result, rule=rule)
    pairs = [
        f"{as_key(key)}={value!r};"
        for key, value in {**row, **_scene_values(result)}.items()
        if not isinstance(value, str) and not math.isnan(value)
    ]
    return {**row, "metadata": "".join(pairs)}


def metadata_text(result: DescriptorResult, *, rule: str = "authors") -> str:
    """Return all numbers, those of scenes too, as `key=value;`.

    Args:
        result: The result of a descriptor.
        rule: As for `wide_row`.

    Returns:
        The text; undefined numbers are left out.

    Example:
        metadata_text(result)[:20]
    """
    return str(row_with_metadata(result, rule=rule)["metadata"])


def _scene_values(result: DescriptorResult) -> dict[str, float]:
    """Return the means and counts of each scene.

    They suffice to compute every mean of AP again.
    """
    numbers: dict[str, float] = {}
    for row in result.scene_rows():
        scene = row["scene"]
        numbers |= {
            f"{scene}_true_map": row["AP"],
            f"{scene}_true_map_with_zeros": row["AP_including_zeros"],
            f"{scene}_query_count": row["with_truth"],
            f"{scene}_excluded_count": row["excluded"],
        }
    return numbers


def read_metadata(text: str, place: str = "metadata") -> dict[str, float | int | str]:
    """Read `key=value;` back: numbers where possible, else text.

    Args:
        text: The text; line breaks do not matter.
        place: Where it stands, for messages.

    Returns:
        Values by key.

    Raises:
        FormatError: If a part has no key, or a key appears twice.

    >>> read_metadata("true_map_micro=0.3724;total_queries_processed=215939;")
    {'true_map_micro': 0.3724, 'total_queries_processed': 215939}
    """
    metadata: dict[str, float | int | str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise FormatError(f"{place}: {part[:60]!r} is not key=value. Write key=value.")
        name = unquote(key.strip())
        if name in metadata:
            raise FormatError(f"{place}: the key {name!r} appears twice. Keep one.")
        metadata[name] = _value(value.strip(), f"{place}: {name}")
    return metadata


def _value(text: str, place: str) -> float | int | str:
    whole, number = parse_whole(text), parse_number(text)
    if number is None and is_decimal(text):
        raise FormatError(f"{place} is {text[:40]!r}, beyond the range of a float. Lower it.")
    return unquote(text) if number is None else number if whole is None else whole
