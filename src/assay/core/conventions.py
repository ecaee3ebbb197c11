"""Conventions: the choices that make two libraries print two numbers for the same ranking.

A `Conventions` value holds all of them, has a preset for each system it reproduces, and prints
itself as a signature that can be read back. `Settings` are what else made a number, such as the
metric of a search: texts by name, which travel with a ranking to its hits and scores, and stand in
the signature as `key:value` parts after the conventions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack
from urllib.parse import quote

from assay.core.text import did_you_mean
from assay.errors import ConventionError

if TYPE_CHECKING:
    from assay.core.ids import Ids


CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "ties": ("order", "expected", "best", "worst", "midrank-up"),
    "tiebreak": ("id-descending", "id-ascending", "index"),
    "scores": ("float64", "float32"),
    "gain": ("linear", "exp"),
    "ideal": ("judged", "retrieved"),
    "ap": ("R", "min", "hits", "k"),
    "recall": ("R", "min"),
    "iprec": ("round", "ceil"),
    "empty": ("skip", "zero", "error"),
    "missing": ("zero", "skip", "error"),
    "self": ("keep", "exclude"),
    "unjudged": ("nonrelevant", "condensed", "bounds"),
}

# Names of presets until version 0.1; they are still read, and printed under the new name.
OLD_PRESETS: Final[dict[str, str]] = {
    "document_000": "label_retrieval",
    "document_001": "next_location",
    "document_002": "binary_codes",
    "document_003": "keypoints",
    "document_003_program": "keypoints_program",
    "document_004": "model_bench",
}

_KEYS: Final = ("preset", *CHOICES, "depth")


class Choices(TypedDict, total=False):
    """Single conventions as keywords; None leaves a choice as it is."""

    ties: Literal["order", "expected", "best", "worst", "midrank-up"] | None
    tiebreak: Literal["id-descending", "id-ascending", "index"] | None
    scores: Literal["float64", "float32"] | None
    gain: Literal["linear", "exp"] | None
    ideal: Literal["judged", "retrieved"] | None
    ap: Literal["R", "min", "hits", "k"] | None
    recall: Literal["R", "min"] | None
    iprec: Literal["round", "ceil"] | None
    empty: Literal["skip", "zero", "error"] | None
    missing: Literal["zero", "skip", "error"] | None
    self_match: Literal["keep", "exclude"] | None
    unjudged: Literal["nonrelevant", "condensed", "bounds"] | None
    depth: int | None


# Where the signature of a result goes on beyond the conventions, with any other keys.
_RESULT_PARTS: Final = ("version:", "engine:", "search:")


@dataclass(frozen=True)
class Conventions:
    """All choices behind a number; frozen, and equal when every choice is equal.

    `ties`: how tied documents count: in the order of the list, by the exact expectation over all
    orders, the best or worst order, or each relevant document at its expected rank rounded up.
    `tiebreak`: which of two documents with equal scores comes first in the list.
    `scores`: the precision in which two scores are compared.
    `gain`, `ideal`: the gain of a grade in nDCG, and whose gains make up the ideal.
    `ap`: the denominator of average precision: R, min(k, R), the hits, or k. `recall`: that
    of recall, R or min(k, R).
    `iprec`: how a recall level becomes a number of documents.
    `empty`: queries without a relevant document. `missing`: judged queries not in the run.
    `self_match`: whether a document with the query's own id may be retrieved.
    `unjudged`: retrieved documents that nobody judged: not relevant, left out before ranks are
    given, or not relevant with the least and largest values that their judgments could give.
    `depth`: how many documents of each row count (0 = all).

    >>> Conventions(ties="expected").signature()
    'preset:custom|ties:expected|tiebreak:id-descending|scores:float64|gain:linear|ideal:judged|ap:R|recall:R|iprec:round|empty:skip|missing:zero|self:keep|depth:all'
    """

    ties: str = "order"
    tiebreak: str = "id-descending"
    scores: str = "float64"
    gain: str = "linear"
    ideal: str = "judged"
    ap: str = "R"
    recall: str = "R"
    iprec: str = "round"
    empty: str = "skip"
    missing: str = "zero"
    self_match: str = field(default="keep", metadata={"key": "self"})
    unjudged: str = "nonrelevant"
    depth: int = 0
    preset: str = field(default="custom", compare=False)

    def __post_init__(self) -> None:
        """Refuse unknown choices; give an old preset its present name."""
        for name, choices in CHOICES.items():
            value = getattr(self, _attribute(name))
            if not isinstance(value, str) or value not in choices:
                raise ConventionError(_unknown(f"value for {name}", value, choices))
        if self.unjudged == "bounds" and self.ties not in ("order", "expected"):
            raise ConventionError(
                "Bounds over unjudged documents support ties order and expected only, found "
                f"{self.ties!r}. Choose one of the two."
            )
        if not isinstance(self.preset, str) or not re.fullmatch(r"\w+\*?", self.preset):
            raise ConventionError(f"Invalid preset {self.preset!r}. Use letters, digits and _.")
        object.__setattr__(self, "preset", _new_name(self.preset))
        if isinstance(self.depth, bool) or not isinstance(self.depth, int) or self.depth < 0:
            raise ConventionError(
                f"depth must be a whole number ≥ 0 (0 means all), found {self.depth!r}."
            )

    def replace(self, **changes: Any) -> Conventions:
        """Return the conventions with some choices changed; None leaves a choice as it is.

        >>> preset("beir").replace(ties="expected").preset
        'beir*'
        """
        new = {key: value for key, value in changes.items() if value is not None}
        if not new:
            return self
        for key in new:
            if key not in _FIELDS:
                raise ConventionError(_unknown("convention", key, sorted(_FIELDS)))
        current = {key: getattr(self, key) for key in new}
        if all(type(current[key]) is type(new[key]) and current[key] == new[key] for key in new):
            return self
        changed = replace(self, **new)
        if changed == self or "preset" in new or self.preset == "custom":
            return changed
        return replace(changed, preset=self.preset.rstrip("*") + "*")

    def signature(self) -> str:
        """Return every choice as `key:value`, joined by `|`; `Conventions.parse` reads it back.

        `unjudged` is left out where it is nonrelevant.
        """
        return "|".join(f"{key}:{value}" for key, value in self.parts().items())

    def parts(self) -> dict[str, str]:
        """Return every choice by its key in the signature."""
        choices = {key: getattr(self, _attribute(key)) for key in CHOICES}
        if self.unjudged == "nonrelevant":  # as everywhere: signatures from before it was a choice
            del choices["unjudged"]
        return {"preset": self.preset, **choices, "depth": str(self.depth or "all")}

    @classmethod
    def parse(cls, signature: str) -> Conventions:
        """Read a signature back, or take the name of a preset.

        A part that is left out is as in the preset that the signature names.

        >>> Conventions.parse(preset("ranx").signature()) == preset("ranx")
        True
        >>> Conventions.parse("preset:beir|ties:expected").ties
        'expected'
        """
        if not isinstance(signature, str):
            raise ConventionError(
                f"Cannot read conventions {signature!r}. Pass a preset or signature."
            )
        if ":" not in signature:
            return preset(signature)
        parts = signature.split("|")  # the signature of a result adds others at its end
        of_result = (at for at, part in enumerate(parts) if part.startswith(_RESULT_PARTS))
        end = next(of_result, len(parts))
        parts = parts[:end] + [part for part in parts[end:] if part.partition(":")[0] in _KEYS]
        choices = dict(_parse_part(part) for part in parts)
        if len(choices) < len(parts):
            raise ConventionError(f"The signature {signature!r} repeats a part. Remove one.")
        name = choices.pop("preset", "custom").rstrip("*")
        return (cls() if name == "custom" else preset(name)).replace(**choices)

    def __str__(self) -> str:
        """Return the signature."""
        return self.signature()


_FIELDS: Final = frozenset(item.name for item in fields(Conventions))


def _new_name(name: str) -> str:
    """Return the present name of a preset; a * says that a choice was changed."""
    bare = name.rstrip("*")
    return OLD_PRESETS.get(bare, bare) + name[len(bare) :]


def _attribute(key: str) -> str:
    return "self_match" if key == "self" else key


def _parse_part(part: str) -> tuple[str, Any]:
    key, colon, value = part.partition(":")
    if not colon or key not in _KEYS:
        raise ConventionError(_unknown("part of a signature", key, _KEYS))
    if key != "depth":
        return _attribute(key), value
    if value == "all":
        return key, 0
    if not value.isdecimal() or len(value) > 18:
        raise ConventionError(f"depth in a signature must be 'all' or a number, found {value!r}.")
    return key, int(value)


def _unknown(what: str, name: object, names: list[str] | tuple[str, ...]) -> str:
    hint = did_you_mean(str(name), names, most=3, cutoff=0.5)
    return f"Unknown {what}: {name!r}. Known: {', '.join(names)}.{hint}"


def _presets() -> dict[str, Conventions]:
    base = Conventions(empty="zero")
    pytrec = replace(base, scores="float32", iprec="ceil", missing="skip")
    rows = Conventions(tiebreak="index")
    table = {
        "trec_eval": base,
        "trec_eval_9": replace(base, scores="float32", iprec="ceil"),
        "pytrec_eval": pytrec,
        "beir": replace(pytrec, self_match="exclude"),
        "mteb": pytrec,
        "sentence_transformers": Conventions(tiebreak="id-ascending", ap="min"),
        "ranx": replace(rows, iprec="ceil", empty="zero", missing="error"),
        "torchmetrics": replace(rows, scores="float32", ap="hits", empty="zero"),
        "sklearn": replace(rows, ties="expected", empty="zero"),
        "label_retrieval": rows,
        "next_location": rows,
        "binary_codes": replace(rows, empty="zero"),
        "hashing": replace(rows, ap="hits", empty="zero"),
        "keypoints": replace(rows, ties="best"),
        "keypoints_program": replace(rows, ties="midrank-up"),
        "model_bench": replace(rows, empty="zero"),
    }
    return {name: replace(value, preset=name) for name, value in table.items()}


PRESETS: Final[dict[str, Conventions]] = _presets()

# What each preset reproduces, and what stands behind the claim.
PRESET_NOTES: Final[dict[str, str]] = {
    "trec_eval": "trec_eval 10.0 with -c: tested to the printed digits against its own test files.",
    "trec_eval_9": "trec_eval 9: scores rounded to float32, recall levels rounded up; tested "
    "through pytrec_eval, which is built from it.",
    "pytrec_eval": "pytrec-eval-terrier 0.5.11, tested to 1e-12: trec_eval 9, and judged queries "
    "that are not in the run are left out.",
    "beir": "beir 2.2.0, tested: its nDCG, MAP, Recall and P come from pytrec_eval after the "
    "query's own id is dropped. Its MRR, R_cap and accuracy break ties by insertion order instead "
    "and divide by all judged queries.",
    "mteb": "mteb 2.26.24, tested: pytrec_eval for all but MRR, which compares scores in float64 "
    "(equal as long as float32 makes no new ties).",
    "sentence_transformers": "The information retrieval evaluator of sentence-transformers 6.2.0, "
    "tested: ties by id ascending, MAP over min(k, R), every judged document counts alike, "
    "queries without a relevant document left out.",
    "ranx": "ranx 0.3.21, tested on rows without ties and, as Run objects, on tied rows of up to "
    "15 documents. It sorts longer rows by an unstable sort and plain dicts backwards, so their "
    "order under ties is not defined; its RBP is graded without a limit.",
    "torchmetrics": "torchmetrics 1.9.0, tested on positive scores without ties: it counts a "
    "document with a score of 0 or less as not retrieved, and its order under ties is "
    "torch.topk's. Its nDCG takes the expectation over ties: use ties=expected for it.",
    "sklearn": "ndcg_score of scikit-learn 1.9, tested: the expectation over tied documents. Its "
    "label ranking average precision equals AP only where nothing ties.",
    "label_retrieval": "Label-aware retrieval metrics: rows by index, empty queries left out. "
    "There is no program to test against.",
    "next_location": "Next-place prediction: rows by index. There is no program to test against; "
    "its listing sorts with torch.argsort, whose order under ties is not defined.",
    "binary_codes": "Codes and neighbours: ties to the lower index, empty queries count 0. There "
    "is no program to test against.",
    "hashing": "Learning to hash, CalcTopMap of the public code: AP over the relevant documents "
    "among the first R, a query without one counts 0, ties to the lower index. Tested against the "
    "rule; the code's own argsort does not define an order among ties.",
    "keypoints": "Keypoint matching by the formula: a target's rank is 1 + how many score above "
    "it. There is no program to test against.",
    "keypoints_program": "Keypoint matching by the program: 1 + how many score above + half of "
    "those that tie, rounded up. Tested against the numbers of that rule only.",
    "model_bench": "Bench of two text models: rows by index, empty queries count 0. There is no "
    "program to test against; its listing reverses an unstable sort, so its ties have no defined "
    "order.",
}


def preset(name: str) -> Conventions:
    """Return the conventions of a known system; `docs/conventions.md` describes each.

    Args:
        name: The name of a preset, such as "trec_eval" or "beir".

    Returns:
        The conventions.

    Raises:
        ConventionError: There is no such preset; the message names the nearest.

    Example:
        >>> preset("sentence_transformers").ap
        'min'
    """
    current_name = _new_name(name) if isinstance(name, str) else ""
    if current_name not in PRESETS:
        raise ConventionError(_unknown("preset", name, sorted(PRESETS)))
    return PRESETS[current_name]


def check_keywords(function: Callable[..., Any], choices: Mapping[str, Any]) -> None:
    """Refuse keywords that are no conventions: they are mistyped ones of the function."""
    odd = [key for key in choices if key not in Choices.__annotations__]
    if odd:
        from inspect import signature  # only for messages

        keywords = [*signature(function).parameters, *Choices.__annotations__]
        hint = did_you_mean(odd[0], keywords) or f" It takes {', '.join(keywords)}."
        raise ConventionError(f"{function.__name__} has no keyword {odd[0]!r}.{hint}")


def as_conventions(conventions: str | Conventions, **choices: Unpack[Choices]) -> Conventions:
    """Return conventions from a value, preset or signature, with single choices changed.

    >>> as_conventions("beir", ties="expected") == preset("beir").replace(ties="expected")
    True
    """
    rules = conventions if isinstance(conventions, Conventions) else Conventions.parse(conventions)
    return rules.replace(**choices) if choices else rules


# Settings


Settings = Mapping[str, str]

_LONGEST: Final = 120
_DIGITS: Final = 8


def as_settings(**values: Any) -> dict[str, str]:
    """Return settings as texts; None and False, which change nothing, are left out.

    >>> as_settings(metric="dot", zero=None, keep_ties=True, weights=(1.0, 0.5))
    {'metric': 'dot', 'keep_ties': 'yes', 'weights': '1,0.5'}
    """
    return {key: _text(value) for key, value in values.items() if not _is_nothing(value)}


def _is_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, tuple | list) and not value)


def _text(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, (str, int)):  # soon: to ask for a Mapping takes longer
        return str(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(value[key])}" for key in sorted(value))
    if isinstance(value, tuple | list):
        return ",".join(map(_text, value))
    return str(value)


def setting_parts(settings: Settings) -> list[str]:
    """Return each setting as `key:value`, safe between bars; a long value ends in its digest.

    >>> setting_parts({"model": "a|b", "metric": "dot"})
    ['model:a%7Cb', 'metric:dot']
    """
    return [f"{key}:{_escape(value)}" for key, value in settings.items()]


def _escape(value: str) -> str:
    """Escape white space, bars and unprintable characters with `%`."""
    safe = "".join(
        character
        if character.isprintable() and character not in "%| "
        else quote(character, "", errors="surrogatepass")
        for character in value[: _LONGEST + 1]
    )
    if len(value) <= _LONGEST:
        return safe
    return f"{safe}…{_digest(value.encode('utf-8', 'surrogatepass'))}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def join_settings(systems: Iterable[Settings]) -> dict[str, str]:
    """Return the settings of several systems in one; where they differ, each system's in turn.

    >>> join_settings([{"metric": "dot", "k": "5"}, {"metric": "dot", "k": "9"}])
    {'metric': 'dot', 'k': '5;9'}
    """
    records = list(systems)
    keys = dict.fromkeys(key for record in records for key in record)
    values = {key: [record.get(key, "-") for record in records] for key in keys}
    return {key: ";".join(all_ if len(set(all_)) > 1 else all_[:1]) for key, all_ in values.items()}


def query_digest(ids: Ids) -> str:
    """Return the number of queries, and a digest of their ids in any order.

    Rows that are only numbered are resampled in the order of numbers, not of ids, which it says.

    >>> from assay.core.ids import Ids
    >>> query_digest(Ids.of(["1", "2"])) == query_digest(Ids.of([2, 1]))
    True
    """
    texts = ids.as_text()
    blob, offsets = texts.take(texts.order()).utf8
    digest = _digest(offsets.astype("<i8").tobytes() + blob.tobytes())
    return f"{len(ids)}-{digest}{'-numbered' if ids.numbered else ''}"


def pair_digest(pairs: Any) -> str:
    """Return the number of different pairs, and a digest of them in any order.

    >>> pair_digest([(0, 7), (0, 5)]) == pair_digest([[0, 5], [0, 7], [0, 7]])
    True
    """
    import numpy as np  # conventions are read before a command needs it

    different = np.unique(np.asarray(pairs).reshape(-1, 2), axis=0)
    lines = "\n".join(f"{left}\t{right}" for left, right in different.tolist())
    return f"{len(different)}-{_digest(lines.encode('utf-8', 'surrogatepass'))}"
