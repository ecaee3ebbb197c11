"""Scores for readers: what a mean hides, in sentences.

trec_eval's own layout: a name, a query or `all`, and a value with four digits.

Measures stand in trec_eval's order, whatever the order of the request, and carry its names; one
that trec_eval does not have comes last, under its own name.

Scores as plain data, JSON or tables in files, and back: the same bits, ids and groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.arrays import or_none
from assay.core.checks import name_few
from assay.core.conventions import CHOICES, Conventions
from assay.core.ids import Ids, IntegerIds
from assay.core.text import Remark, format_share, guard_formula
from assay.errors import AssayError, FormatError, StorageError, UsageError
from assay.io import writers
from assay.io.fingerprints import fingerprint_of
from assay.io.json_text import parse_json
from assay.io.streams import FilePath, read_text
from assay.measures import GROUPS, Measure, parse
from assay.measures.registry import Value, format_value
from assay.scoring.scores import Scores


def disclosures(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """Return a sentence for each thing that a mean alone would hide; `chance` by measure if known.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 1, "b": 1, "c": 0}}
    >>> list(disclosures(evaluate(run, {"q": {"a": 1}}, "RR")))
    ['100% of queries have a value that depends on ties (ties: order)']
    """
    yield from scores.remarks
    for describe in (_missing, _extra, _empty, tied_remark):
        remark = describe(scores)
        if remark:
            yield remark
    yield from limit_remarks(scores, chance)


def limit_remarks(scores: Scores, chance: Mapping[str, float] | None = None) -> Iterator[str]:
    """Warn of cutoffs beyond the collection and of means that chance reaches or beats."""
    n_docs = int(scores.settings.get("n_docs", 0))
    deep = [str(m) for m in scores.measures if isinstance(m.cutoff, int) and m.cutoff > n_docs > 0]
    if deep:
        words = f"{', '.join(deep)}: k is beyond the {n_docs} there are to find"
        yield Remark(words, f"k beyond the {n_docs} there are")
    sure = [name for name, value in (chance or {}).items() if value > 1 - 1e-12]
    if sure:
        words = f"{', '.join(sure)}: chance is 100 %, any order is right, so this tells nothing"
        yield Remark(words, f"chance of {sure[0]} is 100 %")
    yield from _below_chance(scores, chance or {})
    unknown = [m for m in scores.measures if math.isnan((chance or {}).get(str(m), 0.0))]
    hard = [str(m) for m in unknown if not m.is_order_free and np.isfinite(scores[m]).any()]
    if hard:
        words = f"chance of {', '.join(hard)} is not computed: the exact value would take too long"
        yield Remark(words, "chance not computed")


def _below_chance(scores: Scores, chance: Mapping[str, float]) -> Iterator[str]:
    means = scores.mean() if chance else {}
    low = {
        str(m): chance[str(m)]
        for m in scores.measures
        if is_below_chance(m, means.get(str(m), 1.0), chance.get(str(m), 0.0))
    }
    if low:
        below = [f"{name} ({means[name]:.4f}, chance {value:.4f})" for name, value in low.items()]
        words = f"below chance, worse than a random order: {', '.join(below)}"
        yield Remark(words, f"below chance on {next(iter(low))}")


def is_below_chance(measure: Measure, mean: float, chance: float) -> bool:
    """Return whether a random order is better than this mean, by more than rounding."""
    if measure.definition.high != 1.0 or measure.name == "Unjudged":
        return False
    return mean < chance * (1 - 1e-9)


def zero_remark(policy: str, n_queries: int, n_docs: int, what: str = "documents") -> str:
    """Return what became of vectors of zeros under cosine; empty where there are none."""
    dropped = policy == "drop"
    parts = [
        f"{n_queries} of the queries, to which " + ("nothing is found" if dropped else "all tie")
    ]
    parts += [f"{n_docs} of the {what}, " + ("never found" if dropped else "always last")]
    some = [part for part, n in zip(parts, (n_queries, n_docs), strict=True) if n]
    return f"vectors of zeros (zero: {policy}): {'; '.join(some)}" if some else ""


def _missing(scores: Scores) -> str:
    ids = scores.query_ids.take(scores.missing.nonzero()[0])
    if not len(ids):
        return ""
    fate = "left out" if scores.conventions.missing == "skip" else "counted as 0"
    number = _queries(len(ids))
    words = f"{number} judged but not in the run, {fate}: {name_few(ids)}"
    return Remark(words, f"{number} not in the run, {fate}")


def _extra(scores: Scores) -> str:
    if not len(scores.extra):
        return ""
    number = _queries(len(scores.extra))
    words = f"{number} in the run but not judged, left out: {name_few(scores.extra)}"
    return Remark(words, f"{number} not judged, left out")


def _empty(scores: Scores) -> str:
    counts = scores.mean().counts
    number = max((c.empty for c in counts.values()), default=0)
    if not number:
        return ""
    fate = "counted as 0" if scores.conventions.empty == "zero" else "left out"
    return f"{_queries(number)} without a relevant document, {fate}"


def tied_remark(scores: Scores, what: str = "queries") -> str:
    """Return how many of the queries depend on the order of documents with equal scores, if any."""
    number, total = int(scores.tied.any(axis=0).sum()), len(scores.query_ids)
    if not number:
        return ""
    share = format_share(number, total, what)
    verb = "has" if share.startswith("1 of") else "have"
    words = f"{share} {verb} a value that depends on ties (ties: {scores.conventions.ties})"
    return Remark(words, "values depend on ties")


def _queries(number: int) -> str:
    return "1 query" if number == 1 else f"{number} queries"


_NAME_WIDTH: Final = 22

# The defaults of trec_eval; giving them as parameters of a measure does not change its name.
_PLAIN: Final[dict[str, Value]] = {
    "cap": False,
    "over": "R",
    "gain": "linear",
    "ideal": "judged",
    "iprec": "round",
}

# Names that depend on which parameters are set: (measure, parameters, has a cut-off).
_TEMPLATES: Final[dict[tuple[str, tuple[str, ...], bool], str]] = {
    ("AP", (), False): "map",
    ("nDCG", (), False): "ndcg",
    ("nDCG", ("gains",), False): "ndcg_{gains}",
    ("R", ("cap",), True): "relative_P_{k}",
    ("SetR", ("cap",), False): "set_relative_P",
    ("Rprec", ("mult",), False): "Rprec_mult_{mult:.2f}",
    ("iAP", ("levels",), False): "11pt_avg_{levels}",
    ("RBP", ("graded", "p"), False): "rbp",
}
_RBP: Final = (("graded", True), ("p", 0.9))


def trec_name(measure: Measure) -> str:
    """trec_eval's name of a measure, or the canonical name where it has none.

    >>> trec_name(parse("nDCG@10")), trec_name(parse("AP(rel=2)")), trec_name(parse("ERR@20"))
    ('ndcg_cut_10', 'map', 'ERR@20')
    """
    bare = _without_rel(measure)
    template = _template(bare)
    if template is None:
        return str(bare)
    params = dict(bare.params)
    return template.format(
        k=bare.cutoff,
        level=f"{bare.cutoff:.2f}" if isinstance(bare.cutoff, int | float) else "",
        mult=params.get("mult"),
        gains=format_value(params.get("gains", ())).replace(":", "=").replace("/", ","),
        levels=_levels(params.get("levels", ())),
    )


def _levels(levels: Value) -> str:
    """Recall levels the way trec_eval's manual writes them: .25,.5,.75."""
    numbers = levels if isinstance(levels, tuple) else (levels,)
    return ",".join(f"{number:g}".removeprefix("0") or "0" for number in numbers)


def _without_rel(measure: Measure) -> Measure:
    params = tuple(
        (key, value)
        for key, value in measure.params
        if key != "rel" and _PLAIN.get(key, None) != value
    )
    return Measure(measure.name, params, measure.cutoff)


def _template(bare: Measure) -> str | None:
    if bare.name == "RBP" and bare.params != _RBP:
        return None
    has_cutoff = bare.cutoff is not None
    keys = tuple(key for key, _ in bare.params)
    special = _TEMPLATES.get((bare.name, keys, has_cutoff))
    if special is not None:
        return special
    plain = bare.definition.trec
    if keys or plain is None or ("{" in plain) != has_cutoff:
        return None
    return plain


def in_trec_order(measures: tuple[Measure, ...]) -> list[tuple[str, int]]:
    """(trec_eval's name, number of the measure), in the order in which trec_eval prints them.

    Where multiples of R are requested, trec_eval prints R-precision among them once more.
    """
    templates = [_template(parse(name)) for name in GROUPS["all_trec"]]
    place = {template: i for i, template in reversed(list(enumerate(templates)))}
    place[_TEMPLATES["nDCG", ("gains",), False]] = place["ndcg"]
    place[_TEMPLATES["iAP", ("levels",), False]] = place["11pt_avg"]
    rows = [(*_place(measure, place), trec_name(measure), i) for i, measure in enumerate(measures)]
    multiples = place[_TEMPLATES["Rprec", ("mult",), False]]
    if any(row[0] == multiples for row in rows):
        plain = [row for row in rows if row[2] == "Rprec"]
        rows += [(multiples, 1.0, "Rprec_mult_1.00", row[3]) for row in plain]
    return [(name, i) for _, _, name, i in sorted(rows, key=lambda row: row[:2])]


def _place(measure: Measure, place: dict[str | None, int]) -> tuple[int, float]:
    bare = _without_rel(measure)
    template = _template(bare)
    if template is None:
        return len(place) + len(GROUPS["all_trec"]), 0.0
    size = dict(bare.params).get("mult", bare.cutoff)
    number = float(size) if isinstance(size, int | float) else 0.0
    return place.get(template, len(GROUPS["all_trec"])), number


class TrecColumn(NamedTuple):
    """One measure as it is printed: a value for each query and one for all; None: no such line."""

    name: str
    values: Sequence[str] | None
    summary: str | None


def trec_lines(
    query_ids: Ids, columns: Sequence[TrecColumn], *, per_query: bool, summary: bool = True
) -> str:
    """Return the lines of columns: query by query, then the summary."""
    listed = [(name, values) for name, values, _ in columns if values is not None and per_query]
    lines = [
        _line(name, str(query), values[row])
        for row, query in enumerate(query_ids)
        for name, values in listed
    ]
    ends = [(name, total) for name, _, total in columns if total is not None and summary]
    return "\n".join([*lines, *(_line(name, "all", total) for name, total in ends)])


def trec_layout(
    scores: Scores, *, run_id: str = "", per_query: bool = False, header: bool = True
) -> str:
    """Return the scores as trec_eval 10.0 prints them.

    `header` adds the lines runid and num_q.
    """
    rels = {dict(m.params).get("rel", 1) for m in scores.measures if "rel" in m.definition.params}
    if len(rels) > 1:
        raise UsageError(
            "trec_eval's layout has one relevance threshold for all measures, found rel = "
            f"{', '.join(format_value(value) for value in sorted(rels, key=str))}. Use --rel for "
            "all of them, or another format."
        )
    used = np.flatnonzero(~scores.missing | (scores.conventions.missing != "skip"))
    top = [("runid", run_id), ("num_q", str(len(used)))] if header else []
    columns = [TrecColumn(name, None, value) for name, value in top]
    means = list(scores.mean().values())
    for name, i in in_trec_order(scores.measures):
        values = [_value(scores, i, value) for value in scores.values[i, used].tolist()]
        # Geometric means have no value of their own for a single query.
        alone = None if _aggregate(scores, i) == "geometric" else values
        columns.append(TrecColumn(name, alone, _value(scores, i, means[i])))
    return trec_lines(scores.query_ids.take(used), columns, per_query=per_query)


def _aggregate(scores: Scores, number: int) -> str:
    return scores.measures[number].definition.aggregate


def _value(scores: Scores, number: int, value: float) -> str:
    if math.isnan(value) and scores.conventions.empty == "zero":
        value = 0.0
    return f"{value:.0f}" if _aggregate(scores, number) == "sum" else f"{value:6.4f}"


def _line(name: str, query: str, value: str) -> str:
    return f"{name:<{_NAME_WIDTH}}\t{query}\t{value}"


_NUMBERED: Final = "numbered"
_LAYOUT: Final = "assay scores 1"


def save_scores(scores: Scores, path: FilePath) -> None:
    """Write all of the scores as JSON, a line for each part, for `load_scores`."""
    writers.write_text(path, [scores_to_text(scores)])


def scores_to_text(scores: Scores, test: str = "") -> str:
    """Return the text of a file of scores; `test` names the test whose baseline it is."""
    writers.require_kind(scores, Scores, "save_scores")
    data = {
        "layout": _LAYOUT,
        **({"test": test} if test else {}),
        "signature": scores.signature,
        "conventions": scores.conventions.signature(),
        "search": scores.search,
        **scores_to_data(scores),
    }
    whole = {**data, "digest": fingerprint_of(data)}
    lines = [f"{writers.to_json(key)}: {writers.to_json(value)}" for key, value in whole.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_scores(path: FilePath) -> Scores:
    """Return the scores that `save_scores` wrote; a file that was changed since is refused."""
    return load_baseline(path)[0]


def load_baseline(path: FilePath) -> tuple[Scores, str]:
    """Return the scores of a file, and the test whose baseline they are (empty: of none)."""
    data = parse_json(read_text(path), str(path))
    if not isinstance(data, dict) or data.get("layout") != _LAYOUT:
        raise FormatError(f"{path} holds no scores: its layout is not {_LAYOUT!r}.")
    if data.pop("digest", None) != fingerprint_of(data):
        raise FormatError(f"{path} does not match its digest: it was changed after it was written.")
    try:
        scores = scores_from_data(data, data["conventions"], str(path))
        return replace(scores, search=data["search"]), str(data.get("test", ""))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, AssayError):
            raise
        raise FormatError(f"{path} cannot be read as scores: {error}.") from None


def baseline_test(path: FilePath) -> str | None:
    """Return the test whose baseline a file is; None where there is no sound file."""
    try:
        return load_baseline(path)[1]
    except (FormatError, StorageError):
        return None


def scores_to_data(scores: Scores) -> dict[str, Any]:
    """Return plain data with every digit of every value.

    Conventions and search are kept beside it.
    """
    names = list(map(str, scores.measures))
    return {
        "measures": names,
        "id_kind": id_kind(scores.query_ids),
        "queries": scores.query_ids.to_list(),
        "values": [[or_none(v) for v in row] for row in scores.values.tolist()],
        "tied": [np.flatnonzero(row).tolist() for row in scores.tied],
        "missing": np.flatnonzero(scores.missing).tolist(),
        "extra_kind": id_kind(scores.extra),
        "extra": scores.extra.to_list(),
        "groups": {name: column.tolist() for name, column in scores.groups.items()},
        "settings": dict(scores.settings),
        "remarks": list(scores.remarks),
    }


def scores_from_data(data: Mapping[str, Any], conventions: str, where: str) -> Scores:
    """Return the scores of plain data, checked; `where` is for messages."""
    n = len(data["queries"])
    shape = (len(data["measures"]), n)
    values = np.array([[np.nan if v is None else v for v in row] for row in data["values"]], float)
    if values.reshape(-1).shape != (shape[0] * n,) or len(data["tied"]) != shape[0]:
        raise FormatError(f"{where}: {shape[0]} measures × {n} queries need as many values.")
    tied = np.zeros(shape, bool)
    for number, places in enumerate(data["tied"]):
        tied[number] = _mark(places, n, where)
    groups = {
        name: np.asarray([require_text(group, where) for group in column], np.str_)
        for name, column in data["groups"].items()
    }
    if any(len(column) != n for column in groups.values()):
        raise FormatError(f"{where}: a group column does not have a group for each query.")
    settings = data.get("settings", {}).items()
    scores = Scores(
        measures=tuple(parse(name) for name in data["measures"]),
        query_ids=_ids(data["queries"], data["id_kind"], where),
        values=values.reshape(shape),
        tied=tied,
        missing=_mark(data["missing"], n, where),
        conventions=conventions_of(conventions),
        extra=_ids(data["extra"], data["extra_kind"], where),
        groups=groups,
        settings={key: require_text(value, f"{where}, settings") for key, value in settings},
        remarks=tuple(require_text(text, f"{where}, remarks") for text in data.get("remarks", [])),
    )
    pair = scores.query_ids.first_duplicate()
    if pair is not None:
        raise FormatError(f"{where}: query {scores.query_ids[pair[0]]!r} occurs twice.")
    if np.isinf(scores.values).any():
        raise FormatError(f"{where}: a value is infinite.")
    return Scores.merge(scores) if n else scores  # in the order of query ids


def _ids(values: list[Any], kind: str, where: str) -> Ids:
    if kind in (_NUMBERED, "integer"):
        return ids_of_kind(values, kind)
    return ids_of_kind(
        [require_text(identifier, f"{where}, a query id") for identifier in values], "text"
    )


def _mark(places: list[int], n: int, where: str) -> Any:
    marks = np.zeros(n, bool)
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < n:
            raise FormatError(f"{where}: there is no query at position {place!r:.60}.")
        marks[place] = True
    return marks


def require_text(value: Any, where: str) -> str:
    """Return the value, if it is a text."""
    if not isinstance(value, str):
        raise FormatError(f"{where} is not a text but {value!r:.60}.")
    return value


def id_kind(ids: Ids) -> str:
    """Return the kind of query ids: text, integer, or numbered (rows without ids)."""
    return _NUMBERED if ids.numbered else ids.kind


def ids_of_kind(values: Sequence[Any] | NDArray[Any], kind: str) -> Ids:
    """Query ids of a kind that `id_kind` tells."""
    if kind in (_NUMBERED, "integer"):
        numbers = np.asarray(values, np.int64)
        # Version 0.1 did not say which integers are numbers of rows: those in the order of rows.
        old = len(numbers) > 10 and np.array_equal(numbers, np.arange(len(numbers)))
        numbered = kind == _NUMBERED or old
        return IntegerIds(numbers, numbered=True) if numbered else Ids.of(numbers, "query")
    if not len(values):
        return Ids.from_utf8(np.zeros(0, np.uint8), np.zeros(1, np.int64))  # none, but of text
    return Ids.of(values, "query")


def conventions_of(signature: str) -> Conventions:
    """Return the conventions of a signature, also where its preset has a user's own name.

    >>> mine = Conventions(preset="mine", depth=7)
    >>> conventions_of(mine.signature()) == mine
    True
    """
    parts = dict(part.split(":", 1) for part in signature.split("|") if ":" in part)
    choices = {key: parts[key] for key in (*CHOICES, "preset") if key in parts}
    if "self" in choices:
        choices["self_match"] = choices.pop("self")
    depth = parts.get("depth", "all")
    return Conventions(**choices, depth=0 if depth == "all" else int(depth))


def write_scores(scores: Scores, path: FilePath, *, format: str | None = None) -> None:
    """Write scores to a file: a row per query, or all of it as json.

    Undefined values are empty cells, or null.

    Args:
        scores: The scores.
        path: The file to write.
        format: csv, tsv, json, jsonl or parquet; by default that of the ending.

    Raises:
        UsageError: The format is unknown.

    Example:
        write_scores(assay.evaluate("bm25.run", "qrels.txt"), "scores.csv")
    """
    writers.require_kind(scores, Scores, "write_scores")
    chosen_format = writers.choose_format(path, format, ("csv", "tsv", "json", "jsonl", "parquet"))
    if chosen_format == "json":
        writers.write_text(path, [writers.to_json(scores.to_dict()), "\n"])
        return
    if chosen_format == "parquet":
        writers.need_parquet()
        table = scores.to_frame("pyarrow")
        writers.write_parquet(table.replace_schema_metadata({"signature": scores.signature}), path)
        return
    names = ["query", *scores.groups, *map(str, scores.measures)]
    groups = [column.tolist() for column in scores.groups.values()]
    values = [[or_none(value) for value in column] for column in scores.values.tolist()]
    rows = map(list, zip(scores.query_ids.to_list(), *groups, *values, strict=True))
    if chosen_format == "jsonl":
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        writers.write_text(path, (f"{writers.to_json(item)}\n" for item in objects))
    else:
        # A spreadsheet takes no guarded cell for a formula.
        guarded = (
            [guard_formula(cell) if isinstance(cell, str) else cell for cell in row]
            for row in chain([names], rows)
        )
        writers.write_delimited(guarded, path, writers.DELIMITERS[chosen_format])
