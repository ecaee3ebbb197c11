"""Input that does not belong together, or is probably not what was meant.

Two sets of ids that are joined (judged and retrieved documents, queries of two files, classes of
candidates and targets) do not fit, and are refused, if

- none of the ids is on the other side, or fewer than a tenth of either side; or
- ids that differ only in zero padding, case, a prefix, … make up a tenth or more of those that
  have a partner, be it an equal or such a near one.

A poor system, a run of few topics and unjudged queries are none of these: their ids are equal
where they are on both sides. What is only odd stands as a remark beside the numbers, a sentence
each: scores that rank nothing, a run that is a copy of the judgments, judgments that look like a
run.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice, takewhile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of, rows_of
from assay.core.checks import name_few
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.errors import MismatchError

_GO_ON: Final = "continue with --allow-mismatch (allow_mismatch=True)"
_LEAST_SHARE: Final = 0.1
_LOOKED_AT: Final = 1000  # ids without a partner; more of them tell nothing new
_MOST_COMPARED: Final = 100_000
_SAMPLE: Final = 5000  # ids of the other side, to know what they look like
_LOOKS: Final = 500  # of each side, to compare how they are written
_ZEROS: Final = re.compile(r"(?<!\d)0+(?=\d)")
_POINT: Final = re.compile(r"(?<=\d)\.0+$")
_BETWEEN: Final = re.compile(r"[;|,]")
_FEWEST: Final = 2  # a single id has no shared prefix, and one near pair may be an accident
_FEWEST_WITHOUT_PREFIX: Final = 5  # a1 and b1 may be two documents


def check_match(
    ids: Ids,
    there: Ids,
    what: str,
    place: str,
    *,
    allow: bool = False,
    matched: NDArray[np.bool_] | None = None,
    none: bool = True,
    either: bool = False,
    prefixes: bool = True,
    some: Iterable[object] | None = None,
) -> tuple[str, ...]:
    """Refuse ids that do not fit; with `allow` return the reason as a remark.

    `what` names the ids ("judged queries"), `place` the other side ("the run"); `matched`
    says which are there, if that is known. Unless `none`, no common id at all is fine, and with
    `either` a tenth of one of the sides must be on the other. Without `prefixes`, another prefix
    makes another id. `some` ids of the other side may tell what they look like.

    >>> check_match(Ids.of(["1", "2"]), Ids.of(["01", "02"]), "judged queries", "the run", allow=1)
    ("2 of 2 judged queries missing from the run appear there under an id that differs in zero
    padding ('1' and '01', '2' and '02')",)
    """
    matched = ids.match(there) >= 0 if matched is None else matched
    n_matched = int(matched.sum())
    if n_matched in (len(ids), len(there)):
        return ()
    some = _spread(there, _SAMPLE) if some is None else some
    if looks_alike(ids, matched, some):
        near = None
    else:
        near = _near(ids, there, matched, _FEWEST_WITHOUT_PREFIX if prefixes else _LOOKED_AT + 1)
    if near is not None:
        problem = f"{near[0]} {what} missing from {place} appear there under {near[1]}"
        return _refuse(problem, "Write the ids alike, or", allow=allow)
    few = either and n_matched < _LEAST_SHARE * min(len(ids), len(there))
    if few or (none and not n_matched):
        problem = (
            f"{n_matched or 'none'} of the {len(ids):,} {what} {'are' if n_matched else 'is'} in "
            f"{place} (missing: {name_few(ids.take(np.flatnonzero(~matched)), 3)}; present: "
            f"{name_few(there, 3)})"
        )
        return _refuse(problem, "Check both files; if they belong together,", allow=allow)
    return ()


def check_own_ids(queries: Ids, docs: Ids, *, allow: bool = False) -> tuple[str, ...]:
    """Refuse queries whose own documents, to be excluded, have ids that nearly match.

    Queries that are no documents are fine, and so is another prefix: q1 is not d1.
    """
    what, place = "queries to be excluded as documents", "the documents"
    return check_match(queries, docs, what, place, allow=allow, none=False, prefixes=False)


def check_labels_match(
    ids: Iterable[object], there: Iterable[object], what: str, place: str, **rules: Any
) -> tuple[str, ...]:
    """Return `check_match` of labels, each once, which may hold white space."""
    return check_match(_pack_labels(ids), _pack_labels(there), what, place, **rules)


def _pack_labels(labels: Iterable[object]) -> Ids:
    coded = [str(label).encode(errors="replace") for label in labels]
    blob = np.frombuffer(b"".join(coded), np.uint8)
    return Ids.from_utf8(blob, offsets_of(np.array([len(text) for text in coded], np.int64)))


def _refuse(problem: str, cure: str, *, allow: bool) -> tuple[str, ...]:
    """Raise the problem with its cure, or return it as a remark."""
    if not allow:
        raise MismatchError(f"{problem[0].upper()}{problem[1:]}. {cure} {_GO_ON}.")
    return (problem,)


def looks_alike(ids: Ids, matched: NDArray[np.bool_], some: Iterable[object]) -> bool:
    """Tell whether ids certainly fit: enough are there, and the others look alike."""
    absent = np.flatnonzero(~matched)
    if len(ids) - len(absent) < _LEAST_SHARE * len(ids):
        return False
    texts = list(map(str, islice(some, _SAMPLE)))
    lacking = _spread(ids.take(absent), _LOOKED_AT)
    return not (_looks_other(lacking, texts) or _is_written_otherwise(ids, texts))


def _near(
    ids: Ids, there: Ids, matched: NDArray[np.bool_], by_prefix: int
) -> tuple[str, str] | None:
    """Return the share of unmatched ids that have a near one, and how these differ.

    Fewer than `by_prefix` pairs that differ in a prefix do not count.
    """
    n_matched, absent = int(matched.sum()), np.flatnonzero(~matched)
    lacking = _spread(ids.take(absent), _LOOKED_AT)
    samples = _spread(ids, _SAMPLE), _spread(there, _SAMPLE)
    free = there.take(np.flatnonzero(there.match(ids) < 0))
    some = _spread(free, _MOST_COMPARED)
    differences = {
        how: pairs
        for how, pairs in near_misses(lacking, some, whole=samples).items()
        if len(pairs) >= by_prefix or "prefix" not in how
    }
    n_near = sum(map(len, differences.values()))
    like_all = n_near * len(absent) / len(lacking) * len(free) / max(len(some), 1)
    too_few = n_near < min(_FEWEST, len(ids)) or not n_near
    if too_few or like_all < _LEAST_SHARE * (like_all + n_matched):
        return None
    how, pairs = max(differences.items(), key=lambda item: len(item[1]))
    examples = ", ".join(f"{ours!r} and {theirs!r}" for ours, theirs in pairs[:3])
    about = f"about {100 * min(like_all / len(absent), 1):.0f} % of the"
    count = (
        f"{n_near:,} of {len(lacking):,}" if some is free and len(lacking) == len(absent) else about
    )
    return count, f"an id that differs {how} ({examples})"


def _spread(ids: Ids, most: int) -> Ids:
    """Return some of the ids, from first to last; all, if there are few."""
    if len(ids) <= most:
        return ids
    return ids.take(np.linspace(0, len(ids) - 1, most).astype(np.int64))


def _looks_other(lacking: Ids, there: Iterable[str]) -> bool:
    """Tell whether many unmatched ids have a length or characters unknown there."""
    unknown = Counter(map(_look, map(str, lacking)))
    left, many = len(lacking), 2 * _LEAST_SHARE * len(lacking)
    for look in map(_look, there):
        left -= unknown.pop(look, 0)
        if left < many:
            return False
    return left >= many


def _is_written_otherwise(ids: Ids, there: list[str]) -> bool:
    """Tell whether ids there have zero padding or characters that no id here has.

    Their lengths may well be others: unjudged documents have numbers of their own.
    """
    some = there[:: len(there) // _LOOKS + 1]
    looks = {_look(text)[1:] for text in map(str, _spread(ids, _LOOKS))}
    other = [text for text in some if _look(text)[1:] not in looks]
    return len(other) >= _LEAST_SHARE * len(some)


_SHAPES: Final = str.maketrans(
    dict.fromkeys("123456789", "9")
    | dict.fromkeys(string.ascii_lowercase, "a")
    | dict.fromkeys(string.ascii_uppercase, "A")
)


def _look(text: str) -> tuple[int, bool, str]:
    return _look_of(text.translate(_SHAPES))


@lru_cache(10_000)
def _look_of(shape: str) -> tuple[int, bool, str]:
    """Return length, zero padding and kinds of characters; 9 stands for every digit but 0."""
    zeros = "0" in shape and _ZEROS.search(shape) is not None
    return len(shape), zeros, "".join(sorted(set(shape.replace("9", "0"))))


def describe_near(absent: Iterable[object], there: Iterable[object]) -> str:
    """Return how ids there differ from the missing ones, one pair of each kind.

    >>> describe_near(["q1", "q2"], ["Q1", "Q2"])
    " 'q1' and 'Q1' differ in upper and lower case."
    """
    near = near_misses(absent, there).items()
    return "".join(f" {a!r} and {b!r} differ {how}." for how, ((a, b), *_) in near)


def near_misses(
    judged: Iterable[object],
    ranked: Iterable[object],
    *,
    whole: tuple[Iterable[object], Iterable[object]] | None = None,
) -> dict[str, list[tuple[str, str]]]:
    """Return pairs of a judged and a ranked id by their kind of difference, each id once.

    Give ids that found no partner; `whole` are all ids of both sides (or many of them), which tell
    what a prefix is.

    >>> near_misses(Ids.of(["CACM-950"]), Ids.of(["CACM-0950"]))
    {'in zero padding': [('CACM-950', 'CACM-0950')]}
    """
    left = {str(value) for value in judged}
    right = {str(value) for value in ranked}
    every = (left, right) if whole is None else tuple({str(id) for id in ids} for ids in whole)
    misses: dict[str, list[tuple[str, str]]] = {}
    text = "\n".join(chain(left, right))
    kinds = possible_kinds(text) if left.isdisjoint(right) else set(PLAIN_FORMS)
    for difference, plain in _plain_forms(kinds, *every).items():
        pairs = _pair_ids(left, right, plain)
        if pairs:
            misses[difference] = pairs
            left -= {ours for ours, _ in pairs}
    lists = _pair_lists(left, right) if _BETWEEN.search(text) else []
    return {**misses, "in being a list of ids": lists} if lists else misses


PlainForm = Callable[[str, bool], str]


_QUOTES: Final = "'\"\u00a0\u2007\u202f\ufeff"
PLAIN_FORMS: Final[dict[str, PlainForm]] = {
    "in zero padding": lambda text, _: _ZEROS.sub("", text),
    "in upper and lower case": lambda text, _: text.casefold(),
    "in the form of accented characters (NFC, NFD)": lambda text, _: unicodedata.normalize(
        "NFC", text
    ),
    "in quotes or white space": lambda text, _: text.strip(_QUOTES),
    "in a decimal point": lambda text, _: _POINT.sub("", text),
}


def possible_kinds(text: str) -> set[str]:
    """Return the kinds of difference that ids with these characters can have."""
    quoted = any(mark in text for mark in _QUOTES)
    can_be = ("0" in text, text != text.casefold(), not text.isascii(), quoted, "." in text)
    return {kind for kind, can in zip(PLAIN_FORMS, can_be, strict=True) if can}


def _plain_forms(kinds: set[str], left: set[str], right: set[str]) -> dict[str, PlainForm]:
    """Return, for each kind of difference, the function that removes it from an id."""
    forms = {kind: form for kind, form in PLAIN_FORMS.items() if kind in kinds}
    ends = [_shared_ends(ids) for ids in (right, left)]
    if ends[0] != ends[1]:
        forms["in a prefix or suffix"] = lambda text, ours: text.removeprefix(
            ends[ours][0]
        ).removesuffix(ends[ours][1])
    single = tuple(forms.values())

    def without_all(text: str, ours: bool) -> str:
        for plain in reversed(single):  # the prefix first
            text = plain(text, ours)
        return text

    if len(forms) < 2:
        return forms
    return {**forms, "in more than one of prefix, case, zero padding and quotes": without_all}


def _shared_ends(ids: set[str]) -> tuple[str, str]:
    """Return the prefix and the suffix that all ids share, without cutting a number apart."""
    if len(ids) < _FEWEST:
        return "", ""
    prefix = _shared_start(ids).rstrip("0123456789")
    rest = {text[len(prefix) :][::-1] for text in ids}
    return prefix, _shared_start(rest)[::-1].lstrip("0123456789")


def _shared_start(ids: set[str]) -> str:
    first, last = min(ids), max(ids)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(left for left, _ in same)


def _pair_ids(left: set[str], right: set[str], plain: PlainForm) -> list[tuple[str, str]]:
    """Return judged ids whose plain form is that of exactly one ranked id."""
    by_form: dict[str, str] = {}
    doubtful: set[str] = set()
    plain_ids = {plain(text, True) for text in left}
    for text in right:
        form = plain(text, False)
        if form in plain_ids:
            doubtful |= {form} if form in by_form else set()
            by_form[form] = text
    pairs = ((text, plain(text, True)) for text in left)
    return sorted(
        (text, by_form[form]) for text, form in pairs if form in by_form and form not in doubtful
    )


def _pair_lists(left: set[str], right: set[str]) -> list[tuple[str, str]]:
    """Pair lists such as `a;b` with an id that they hold, on either side."""
    of_parts = {part: text for text in sorted(right) for part in _parts(text)}
    pairs = {text: of_parts[text] for text in sorted(left) if text in of_parts}
    for text in sorted(left - pairs.keys()):
        parts_there = [part for part in _parts(text) if part in right]
        if parts_there:
            pairs[text] = parts_there[0]
    return list(pairs.items())


def _parts(text: str) -> list[str]:
    """Return the ids of a list that stands for one id; none where it does not look like a list."""
    parts = [part.strip() for part in _BETWEEN.split(text)]
    return parts if len(parts) > 1 else []


# Rankings and judgments


CONSTANT: Final = "every query gives all its documents the same score: ties alone decide the order"
CUT_BY_ROW: Final = (
    "the search cut ties by row number, not by document id: search with keep_ties=True"
)
_COPY: Final = "the run may be a copy of the judgments"
_SWAPPED: Final = "run and judgments may be swapped"
_A_RUN: Final = "the judgments may be a run"
_SEEN: Final = 5000  # documents of the run that tell what ids look like there
_GRADES: Final = (-2, 10)  # between these, whole numbers are what judges give
_SCALE: Final = 20  # scales of grades have fewer values
_FEW: Final = 10  # below so many queries, documents or judgments, chance explains a lot


def check_queries(
    ranked: Ids, judgments: Judgments, to_judged: Ints, *, allow: bool
) -> tuple[str, ...]:
    """Refuse a run of other queries than were judged, unless that is allowed."""
    is_found = np.zeros(judgments.n_queries, bool)
    is_found[to_judged[to_judged >= 0]] = True
    return check_match(
        judgments.query_ids,
        ranked,
        "judged queries",
        "the run",
        allow=allow,
        matched=is_found,
        either=True,
    )


def check_docs(
    ranking: Ranking, qrels: Qrels, is_found: NDArray[np.bool_], n_common: int, *, allow: bool
) -> tuple[str, ...]:
    """Refuse a run of other documents than were judged, unless that is allowed.

    One query may well miss all that was judged for it; that many miss everything that was judged
    for any of them is no accident.
    """
    judged, there = qrels.doc_ids, ranking.doc_ids
    problem = check_match(
        judged,
        there,
        "judged documents",
        "the run",
        allow=allow,
        matched=is_found,
        none=n_common >= _FEW and min(len(judged), len(there)) >= _FEW,
        some=_docs_of_some_rows(ranking),
    )
    if problem or is_found.any() or not len(judged) or not len(there):
        return problem
    return (f"none of the {len(judged):,} judged documents is in the run: all of it is unjudged",)


def _docs_of_some_rows(ranking: Ranking) -> Iterator[str | int]:
    """Yield ids from rows here and there; mostly the first few of them tell enough."""
    step = step_over_rows(len(ranking.given_docs))
    begins, ends = ranking.offsets[:-1:step].tolist(), ranking.offsets[1::step].tolist()
    rows = [ranking.given_docs[begin:end] for begin, end in zip(begins, ends, strict=True)]
    yield from ranking.doc_ids.take(
        np.concatenate([ranking.given_docs[:0], *rows])[:_SEEN]
    ).to_list()


def step_over_rows(n_results: int) -> int:
    """Return the step between rows with which some thousand documents are seen."""
    return n_results // _SEEN + 1


def odd_scores(
    lengths: Ints, offsets: Ints, grade: Floats, scores: Callable[[], Floats]
) -> Iterator[str]:
    """Yield a remark on scores that are the grades of the documents.

    Row q of the run has `lengths[q]` documents, of which those at `offsets[q]:offsets[q+1]` of
    `grade` and `scores` are judged.
    """
    n_ranked = int(lengths[offsets[1:] > offsets[:-1]].sum())
    if _FEW <= len(grade) == n_ranked and (scores() == grade).all() and (grade != grade[0]).any():
        yield f"every score is the grade of its document: {_COPY}"


def constant_scores(ranking: Ranking) -> Iterator[str]:
    """Yield a remark on scores that rank nothing."""
    scores, starts = ranking.given_scores, ranking.offsets[:-1]
    first = starts[ranking.lengths > 1][:1]
    if not len(first) or scores[first[0]] != scores[first[0] + 1]:
        return
    rows = rows_of(ranking.offsets)
    if (scores == scores[starts[rows]]).all():
        yield CONSTANT


def cut_by_row(ranking: Ranking, placed: Ranking, queries: Ids) -> Iterator[str]:
    """Yield a remark on ties that a search cut, whose documents have ids that it did not go by.

    `placed` is the ranking under the conventions; ties below their depth decide nothing.
    """
    if ranking.settings.get("cut") != "row" or ranking.doc_ids.numbered:
        return
    if ranking.tie_split is not None and placed.tie_split is not None:
        cut = np.flatnonzero(ranking.tie_split & placed.tie_split)
        if (ranking.query_ids.take(cut).match(queries) >= 0).any():
            yield CUT_BY_ROW


def fractions_among(grades: Floats) -> Floats:
    """Return the fractions among grades, where they may be scores."""
    positive = grades[grades > 0]
    broken = positive[positive != np.rint(positive)]
    few = 2 * len(broken) <= len(positive) or len(np.unique(broken[:1000])) < _FEW
    return np.zeros(0) if few else np.asarray(broken)


def mostly_fractions(grades: Floats) -> Floats:
    """Return the distinct fractions among grades, where more than a scale has.

    Judges repeat the few grades of a scale (0.25, 0.5, 0.75); scores hardly repeat.
    """
    broken = grades[grades != np.rint(grades)]
    seen = broken[:_SEEN]
    distinct = np.unique(seen) if 2 * len(broken) > len(grades) else np.zeros(0)
    scale = len(distinct) < _SCALE and 2 * len(distinct) <= len(seen)
    return np.zeros(0) if scale or len(distinct) <= 2 else distinct


def refuse_swapped(ranking: Ranking, qrels: Qrels, *, allow: bool) -> None:
    """Refuse grades that are as scores are, of a run whose scores are as grades are."""
    fractions = np.zeros(0) if allow or qrels.whole else mostly_fractions(qrels.grades)
    if not len(fractions):
        return
    values = np.unique(ranking.given_scores[:_SEEN])
    whole = (values == np.rint(values)).all() and len(values) < len(fractions)
    if whole and len(values) and _GRADES[0] <= values[0] and values[-1] <= _GRADES[1]:
        raise MismatchError(
            "Run and judgments (qrels) seem to be swapped: most grades are fractions, such as "
            f"{fractions[0]:g}, and the scores of the run are {name_few(values.tolist())}. Swap "
            "the files, or continue with --allow-mismatch (allow_mismatch=True)."
        )


def odd_grades(ranking: Ranking, qrels: Qrels) -> Iterator[str]:
    """Yield a remark on grades that look like scores."""
    broken = np.zeros(0) if qrels.whole else fractions_among(qrels.grades)
    if not len(broken):
        return
    scores = ranking.given_scores[:1000]
    text = f"most grades are fractional, such as {broken[0]:g}"
    if (scores == np.rint(scores)).all():
        yield f"{text}, and no score is: {_SWAPPED}"
    else:
        yield f"{text}, as scores are: {_A_RUN}"


def are_odd_files(remark: str) -> bool:
    """Tell whether a remark says that a file may be another one than was meant."""
    return remark.endswith((_COPY, _SWAPPED, _A_RUN))
