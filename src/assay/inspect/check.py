"""check: what is wrong or suspicious in a run and its judgments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from assay.arrays import rows_of
from assay.core.conventions import Choices, Conventions, as_conventions, check_keywords
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Qrels
from assay.core.mismatches import are_odd_files, near_misses
from assay.core.ranking import Ranking
from assay.core.text import format_percent, format_share
from assay.errors import UsageError
from assay.io import formats
from assay.measures import Measure, MeasuresLike, parse_many
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores
from assay.tables.table import Shown, Words, html_page

_EXAMPLES = 5
_CUTOFFS = (5, 10, 100)
_DEFAULT_REL = 1
_EXTREMES = ("worst", "best")


@dataclass(frozen=True)
class Finding:
    """One thing found: an error or a warning changes numbers, a note does not.

    `count` of `total` things are concerned; `effect` says what it does to the numbers.
    """

    severity: str
    code: str
    message: str
    effect: str
    count: int
    total: int
    examples: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share of the things that are concerned."""
        return self.count / self.total if self.total else 0.0

    def __str__(self) -> str:
        """Describe the finding with a few examples."""
        examples = f": {', '.join(self.examples)}" if self.examples else ""
        more = " and more" if self.count > len(self.examples) > 0 else ""
        return f"{self.severity}: {self.message}{examples}{more}. {self.effect}".rstrip()


@dataclass(frozen=True, repr=False)
class CheckReport(Shown):
    """All findings, the gravest first, and the signature of the means that they name."""

    findings: tuple[Finding, ...]
    signature: str = ""

    @property
    def changes_numbers(self) -> bool:
        """Whether any finding would change a number."""
        return any(finding.severity != "note" for finding in self.findings)

    def __getitem__(self, code: str) -> Finding:
        """Return the finding of this code."""
        for finding in self.findings:
            if finding.code == code:
                return finding
        raise KeyError(code)

    def __contains__(self, code: object) -> bool:
        """Tell whether there is a finding of this code."""
        return any(finding.code == code for finding in self.findings)

    def __str__(self) -> str:
        """Return a line for each finding, then the signature."""
        if not self.findings:
            return "Nothing found."
        return "\n".join(filter(None, (*map(str, self.findings), self.signature)))

    def _repr_html_(self) -> str:
        findings = [Words(str(finding)) for finding in self.findings] or [Words(str(self))]
        return html_page([*findings, Words(self.signature, "signature")])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        rows = [{**asdict(finding), "share": finding.share} for finding in self.findings]
        signed = {"signature": self.signature} if self.signature else {}
        return {**signed, "changes_numbers": self.changes_numbers, "findings": rows}


def check(
    run: formats.RunLike,
    qrels: formats.QrelsLike,
    *,
    measures: MeasuresLike = "default",
    conventions: str | Conventions = "trec_eval",
    queries: str | os.PathLike[str] | None = None,
    **choices: Unpack[Choices],
) -> CheckReport:
    """List what is wrong or suspicious in a run and its judgments.

    Args:
        run: What `evaluate` takes: a path, a dictionary, tuples, a data frame, a `Ranking`.
        qrels: Likewise, the judgments.
        measures: The measures to check for: ties and short lists are judged by them.
        conventions: A preset's name, a signature or a value.
        queries: A file with ids and texts of the queries, where run or judgments have their texts.
        **choices: Single conventions, such as `ties="expected"`.

    Returns:
        The findings, the gravest first.

    Raises:
        InputError: The input cannot be read at all.
        UsageError: The judgments are labels.

    Example:
        >>> run, qrels = {"q1": {"a": 1.0, "b": 1.0}}, {"q1": {"b": 1}, "q2": {"a": 1}}
        >>> report = check(run, qrels, measures="RR")
        >>> for finding in report.findings:
        ...     print(finding.severity, finding.code, finding.count)
        error missing-queries 1
        warning constant-scores 1
        warning ties 1
        note equal-scores 2
        note unjudged 1
    """
    check_keywords(check, choices)
    rules = _without_refusals(as_conventions(conventions, **choices))
    questions = formats.read_questions(queries)
    ranking, lines = formats.as_ranking_and_lines(run, rules, questions)
    judgments = formats.as_judgments(qrels, questions)
    if not isinstance(judgments, Qrels):
        raise UsageError("check takes judgments of pairs (qrels), not labels.")
    findings = [
        *(_about_columns(lines) if lines is not None else ()),
        *_about_ids(ranking, judgments),
        *_about_grades(judgments),
        *_about_equal_scores(ranking),
        *_about_constant_scores(ranking),
    ]
    signature = ""
    if (ranking.query_ids.match(judgments.query_ids) >= 0).any():
        hits = judge(ranking, judgments, conventions=rules, allow_mismatch=True)
        scores = score(hits, parse_many(measures), conventions=rules)
        signature = scores.signature
        findings += _about_hits(hits, scores)
    order_of = {"error": 0, "warning": 1, "note": 2}
    ordered = sorted(findings, key=lambda finding: order_of[finding.severity])
    return CheckReport(tuple(ordered), signature)


def _without_refusals(rules: Conventions) -> Conventions:
    """Return conventions that report missing and empty queries and never refuse them."""
    return rules.replace(
        missing="zero" if rules.missing == "error" else None,
        empty="skip" if rules.empty == "error" else None,
    )


def _find_ids(
    severity: str, code: str, message: str, effect: str, ids: Ids, total: int
) -> Iterator[Finding]:
    """Yield a finding about ids, if there are any, with a few as examples."""
    if len(ids):
        examples = tuple(repr(ids[i]) for i in range(min(_EXAMPLES, len(ids))))
        yield Finding(severity, code, message, effect, len(ids), total, examples)


def _plural(count: int, noun: str) -> str:
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else many}"


def _about_columns(lines: formats.RunLines) -> Iterator[Finding]:
    """Yield what only the text of a TREC run tells: rank column, further columns."""
    findings = (
        (
            "warning",
            "rank-column",
            lines.rank_disagreements,
            "where the rank column contradicts the score",
            "The score decides, as in trec_eval; a tool that goes by the rank gives other numbers.",
        ),
        (
            "note",
            "rank-unreadable",
            lines.rank_unreadable,
            "without a number in the rank column",
            "The column is not used.",
        ),
        (
            "note",
            "extra-columns",
            lines.overlong,
            "with more than six columns",
            "What follows the sixth column is not used.",
        ),
    )
    for severity, code, count, words, effect in findings:
        if count:
            message = f"{_plural(count, 'line')} {words}"
            yield Finding(severity, code, message, effect, count, len(lines.values))


def _about_ids(ranking: Ranking, qrels: Qrels) -> Iterator[Finding]:
    missing = _absent(qrels.query_ids, ranking.query_ids)
    extra = _absent(ranking.query_ids, qrels.query_ids)
    message = f"{_plural(len(missing), 'judged query')} not in the run"
    effect = "Each counts 0 (missing: zero) or is left out (missing: skip)."
    if len(missing) == qrels.n_queries:
        message, effect = (
            "no judged query is in the run",
            "Check that these are the right files.",
        )
    yield from _find_ids("error", "missing-queries", message, effect, missing, qrels.n_queries)
    message = f"{_plural(len(extra), 'query')} of the run not judged"
    effect = "They are left out."
    yield from _find_ids("note", "extra-queries", message, effect, extra, ranking.n_queries)
    yield from _about_near_ids("query", missing, extra, qrels.query_ids)
    unseen = _absent(qrels.doc_ids, ranking.doc_ids)
    unjudged = _absent(ranking.doc_ids, qrels.doc_ids)
    n_docs = len(qrels.doc_ids)
    yield from _find_ids(
        "error" if len(unseen) == n_docs else "note",
        "unseen-docs",
        f"{_plural(len(unseen), 'judged document')} of {n_docs} "
        f"({format_percent(len(unseen) / max(n_docs, 1))}) in no list of the run",
        "They count as not retrieved, whether or not the collection holds them.",
        unseen,
        n_docs,
    )
    yield from _about_near_ids("document", unseen, unjudged, qrels.doc_ids)


def _absent(ids: Ids, other: Ids) -> Ids:
    return ids.take(np.flatnonzero(ids.match(other) < 0))


def _about_near_ids(what: str, judged: Ids, ranked: Ids, whole: Ids) -> Iterator[Finding]:
    for difference, pairs in near_misses(judged, ranked).items():
        examples = tuple(f"{ours!r} and {theirs!r}" for ours, theirs in pairs[:_EXAMPLES])
        yield Finding(
            "error",
            f"near-{what}-ids",
            f"{_plural(len(pairs), f'judged {what}')} whose id differs from one of the run only "
            f"{difference}",
            "They do not match, so they count as not retrieved. Write the ids alike.",
            len(pairs),
            len(whole),
            examples,
        )


def _about_grades(qrels: Qrels) -> Iterator[Finding]:
    grades, total = qrels.grades, len(qrels.grades)
    for remark in qrels.remarks:
        effect = "Name the columns query_id, doc_id and relevance if they mean something else."
        yield Finding("note", "columns", remark, effect, total, total)
    if qrels.repeated:
        yield Finding(
            "note",
            "repeated-judgments",
            f"{_plural(qrels.repeated, 'judgment')} given more than once",
            "Each counts once.",
            qrels.repeated,
            total + qrels.repeated,
        )
    below = (grades > 0) & (grades < _DEFAULT_REL)
    if below.any():
        yield Finding(
            "warning",
            "grades-below-threshold",
            f"{_plural(int(below.sum()), 'judgment')} with a grade above 0 and below "
            f"{_DEFAULT_REL}, the smallest relevant grade",
            "They count for nDCG but not for P, R, AP or RR. Set rel= (--rel) to the smallest "
            "grade that is relevant.",
            int(below.sum()),
            total,
            _pairs(qrels, below),
        )
    if (grades < 0).any():
        yield Finding(
            "note",
            "negative-grades",
            f"{_plural(int((grades < 0).sum()), 'judgment')} with a negative grade",
            "In the pool but passed over: neither relevant nor judged not relevant.",
            int((grades < 0).sum()),
            total,
            _pairs(qrels, grades < 0),
        )
    relevant = np.bincount(
        rows_of(qrels.offsets)[grades >= _DEFAULT_REL], minlength=qrels.n_queries
    )
    empty = qrels.query_ids.take(np.flatnonzero(relevant == 0))
    message = f"{_plural(len(empty), 'query')} without a relevant document"
    effect = "Each counts 0 (empty: zero) or is left out (empty: skip); both are published."
    yield from _find_ids("warning", "empty-queries", message, effect, empty, qrels.n_queries)


def _pairs(qrels: Qrels, which: NDArray[np.bool_]) -> tuple[str, ...]:
    places = np.flatnonzero(which)[:_EXAMPLES]
    row = rows_of(qrels.offsets)
    return tuple(
        f"{qrels.grades[i]:g} (query {qrels.query_ids[int(row[i])]!r}, "
        f"document {qrels.doc_ids[int(qrels.docs[i])]!r})"
        for i in places
    )


def _about_equal_scores(ranking: Ranking) -> Iterator[Finding]:
    """Yield how many results share their score with another one of the same query."""
    row = rows_of(ranking.offsets)
    equal = (ranking.scores[1:] == ranking.scores[:-1]) & (row[1:] == row[:-1])
    tied = np.zeros(len(row), bool)
    tied[1:] |= equal
    tied[:-1] |= equal
    if tied.any():
        queries = int((np.bincount(row[tied], minlength=ranking.n_queries) > 0).sum())
        yield Finding(
            "note",
            "equal-scores",
            f"{format_share(int(tied.sum()), len(tied), 'results')} of the run, in "
            f"{_plural(queries, 'query')}, share their score with another one",
            f"The tie-break ({ranking.tiebreak}) decides their order.",
            int(tied.sum()),
            len(row),
        )


def _about_constant_scores(ranking: Ranking) -> Iterator[Finding]:
    """Yield queries whose documents all have one score: they were not ranked."""
    several = np.flatnonzero(ranking.lengths > 1)
    first = ranking.scores[ranking.offsets[:-1][several]]
    last = ranking.scores[ranking.offsets[1:][several] - 1]
    constant = ranking.query_ids.take(several[first == last])
    message = f"{_plural(len(constant), 'query')} whose documents all have the same score"
    effect = "Nothing is ranked there: the ids decide the order. Use ties: expected."
    yield from _find_ids("warning", "constant-scores", message, effect, constant, ranking.n_queries)


def _about_hits(hits: Hits, scores: Scores) -> Iterator[Finding]:
    for remark in filter(are_odd_files, hits.remarks):
        effect = "Numbers are meaningless then. Check the files and their order."
        yield Finding("warning", "odd-files", remark, effect, hits.n_queries, hits.n_queries)
    present = hits.select(np.flatnonzero(~hits.missing))
    yield from _about_ties(hits, scores)
    yield from _about_depth(present, scores.measures)
    yield from _about_unjudged(present, scores.conventions)


def _about_ties(hits: Hits, scores: Scores) -> Iterator[Finding]:
    """Yield how far the order of tied documents can move the mean that `evaluate` gives."""
    rules, measures = scores.conventions, scores.measures
    dependent = np.flatnonzero(scores.tied.any(axis=0))
    if not len(dependent):
        return
    touched = [str(m) for m, tied in zip(scores.measures, scores.tied, strict=True) if tied.any()]
    low, high = (score(hits, measures, conventions=rules.replace(ties=t)).mean() for t in _EXTREMES)
    is_split = hits.tie_split is not None and bool(hits.tie_split.any())
    widest = max(touched, key=lambda name: high[name] - low[name])
    yield from _find_ids(
        "warning",
        "ties",
        f"{_plural(len(dependent), 'query')} ({format_percent(len(dependent) / hits.n_queries)}) "
        "with a value that depends on the order of equal scores",
        f"It touches {', '.join(touched)}; the mean of {widest} is {scores.mean()[widest]:.6g} and "
        f"can be {'at least ' if is_split else ''}from {low[widest]:.6g} to {high[widest]:.6g}. "
        + (
            "The list is cut inside a tie."
            if is_split
            else "Use ties: expected for the mean of all."
        ),
        hits.query_ids.take(dependent),
        hits.n_queries,
    )


def _about_depth(hits: Hits, measures: tuple[Measure, ...]) -> Iterator[Finding]:
    cutoffs = sorted({m.cutoff for m in measures if isinstance(m.cutoff, int)})
    for k in cutoffs:
        short = np.flatnonzero(hits.n_ret < k)
        if len(short):
            shortest = int(hits.n_ret[short].min())
            yield from _find_ids(
                "warning",
                f"short-lists-{k}",
                f"{_plural(len(short), 'query')} with fewer than {k} documents "
                f"(the shortest list has {shortest})",
                f"Measures at {k} still divide by {k}, so a longer list could score higher.",
                hits.query_ids.take(short),
                hits.n_queries,
            )


def _about_unjudged(hits: Hits, rules: Conventions) -> Iterator[Finding]:
    if hits.exhaustive:
        return
    scores = score(hits, [f"Judged@{k}" for k in _CUTOFFS], conventions=rules.replace(empty="skip"))
    shares = {k: 1.0 - value for k, value in zip(_CUTOFFS, scores.mean().values(), strict=True)}
    if not any(share > 0 for share in shares.values()):
        return
    listed = ", ".join(f"{format_percent(share)} of the first {k}" for k, share in shares.items())
    concerned = int((scores.values[-1] < 1).sum())
    yield Finding(
        "note",
        "unjudged",
        f"documents without a judgment: {listed}",
        "They count as not relevant; bpref and Judged@k tell how much that matters.",
        concerned,
        hits.n_queries,
    )
