"""ranx's evaluate and compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.compat.ranx.data_structures import Qrels, Report, Run
from assay.compat.ranx.data_structures.lists import sort_docs
from assay.compat.ranx.data_structures.report import SystemPairs
from assay.compat.ranx.metrics import as_lists, score_queries
from assay.stats import paired_test, tukey_hsd

_TESTS = {"student": "t", "fisher": "randomisation"}


def evaluate(
    qrels: Any,
    run: Any,
    metrics: str | Sequence[str],
    return_mean: bool = True,
    return_std: bool = False,
    threads: int = 0,
    save_results_in_run: bool = True,
    make_comparable: bool = False,
) -> Any:
    """Return the mean of each metric, or the values of queries.

    `qrels` and `run` are a Qrels and a Run, dicts, or arrays of (document, number) rows; `threads`
    is not used.
    """
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if make_comparable and isinstance(run, Run) and isinstance(qrels, Qrels):
        run.make_comparable(qrels)
    grades, lists = _lists(qrels, ranked=False), _lists(run, ranked=True)
    if grades.keys() != lists.keys():
        raise AssertionError(
            "The queries of qrels and run do not match. make_comparable=True leaves out what is "
            "not judged and counts as empty what is not in the run."
        )
    values = score_queries(grades, lists, names)
    if isinstance(run, Run) and save_results_in_run:
        _keep_in_run(run, values, list(grades), return_mean and return_std)
    results = values if not return_mean else {m: _mean(v, return_std) for m, v in values.items()}
    return results[names[0]] if len(names) == 1 else results


def _lists(data: Any, *, ranked: bool) -> Mapping[str, Mapping[str, float]]:
    """Return {query: {document: number}}; ranx reverses ties of plain dicts."""
    if isinstance(data, Qrels | Run):
        return data.in_order()
    if not isinstance(data, Mapping):
        return as_lists(data, ranked=ranked)
    return {query: sort_docs(list(docs.items())[::-1]) for query, docs in data.items()}


def _mean(values: Floats, with_std: bool) -> Any:
    return {"mean": np.mean(values), "std": np.std(values)} if with_std else np.mean(values)


def _keep_in_run(run: Run, values: dict[str, Floats], queries: list[str], with_std: bool) -> None:
    for metric, of_queries in values.items():
        run.mean_scores[metric] = np.mean(of_queries)
        if with_std:
            run.std_scores[metric] = np.std(of_queries)
        run.scores[metric] |= dict(zip(queries, of_queries, strict=True))


def compare(
    qrels: Qrels,
    runs: Sequence[Run],
    metrics: str | Sequence[str],
    stat_test: str = "student",
    n_permutations: int = 1000,
    max_p: float = 0.01,
    random_seed: int = 42,
    threads: int = 0,
    rounding_digits: int = 3,
    show_percentages: bool = False,
    make_comparable: bool = False,
) -> Report:
    """Compare the means of several runs, with a test of every pair.

    Student's test is ranx's. Fisher's tries all permutations where there are few, and draws others
    than ranx; Tukey's is the randomised one, which knows that the systems share their queries.
    """
    if stat_test not in (*_TESTS, "tukey"):
        raise NotImplementedError(f"There is no test {stat_test!r}; use student, fisher or tukey.")
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    values: dict[str, dict[str, Floats]] = {}
    for place, run in enumerate(runs, 1):
        of_run = evaluate(qrels, run, names, False, make_comparable=make_comparable)
        values[run.name or f"run_{place}"] = of_run if len(names) > 1 else {names[0]: of_run}
    pairs = [(a, b) for a in values for b in values if a != b]
    comparisons = SystemPairs({frozenset(pair): {} for pair in pairs})
    for metric in names:
        scores = {model: of_run[metric] for model, of_run in values.items()}
        for pair, p in _test_pairs(scores, stat_test, n_permutations, random_seed).items():
            comparisons[pair][metric] = {"p_value": p, "significant": p <= max_p}
    return Report(
        list(values),
        {model: {m: float(np.mean(of_run[m])) for m in names} for model, of_run in values.items()},
        comparisons,
        names,
        max_p,
        {(a, b): {m: _win_tie_loss(values[a][m], values[b][m]) for m in names} for a, b in pairs},
        rounding_digits,
        show_percentages,
        stat_test,
    )


def _test_pairs(
    scores: dict[str, Floats], test: str, resamples: int, seed: int
) -> dict[tuple[str, str], float]:
    """Return the p-value of each pair of systems."""
    models = list(scores)
    places = [(i, j) for i in range(len(models)) for j in range(i)]
    if test == "tukey" and places:
        table = tukey_hsd(list(scores.values()), resamples=max(resamples, 10_000), seed=seed).p
        return {(models[i], models[j]): float(table[i, j]) for i, j in places}
    p_values = {}
    for i, j in places:
        pair = models[i], models[j]
        left, right = scores[pair[0]], scores[pair[1]]
        p_values[pair] = paired_test(
            left, right, method=_TESTS[test], resamples=resamples, seed=seed
        ).p
    return p_values


def _win_tie_loss(left: Floats, right: Floats) -> dict[str, int]:
    return {
        "W": int((left > right).sum()),
        "T": int((left == right).sum()),
        "L": int((left < right).sum()),
    }
