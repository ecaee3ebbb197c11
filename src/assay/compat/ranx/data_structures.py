"""Qrels, Run and Report, as ranx keeps them.

Lists are {query: {document: number}} by query id and descending number; documents with equal
numbers stay in the order in which they came.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Final, NoReturn, Self

import numpy as np

from assay.arrays import Floats
from assay.compat import pytrec_eval
from assay.errors import FormatError, need
from assay.io.lines import build_frame
from assay.io.plain_data import parse_json
from assay.io.streams import atomic_write, read_lines, read_text
from assay.native.tie_order import rank_order
from assay.tables.table import latex_text

_KINDS = {"txt": "trec", "parq": "parquet"}


def get_file_kind(path: str, kind: str | None = None) -> str:
    """Return the kind of a file, by default by its ending."""
    ending = os.path.splitext(path)[1][1:]
    file_kind = kind or _KINDS.get(ending, ending)
    if file_kind not in ("json", "trec", "lz4", "gz", "parquet"):
        raise AssertionError(f"{path}: unknown kind. Use json, trec, gz, parquet or lz4.")
    return file_kind


def sort_docs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Sort documents by descending number; equal ones stay as they came."""
    order = rank_order(np.array([number for _, number in items], np.float64))
    return dict(items[place] for place in order)


def _refuse_lz4(path: str) -> None:
    raise NotImplementedError(f"{path}: lz4 is not supported. Use .json, .trec or .parquet.")


class DocumentLists:
    """Lists of documents with numbers, one for each query."""

    NUMBER: ClassVar[type[int] | type[float]] = float
    TREC_LINE: ClassVar[str] = "{query} Q0 {doc} {rank} {number} {name}\n"

    def __init__(
        self, lists: Mapping[str, Mapping[str, float]] | None = None, name: str | None = None
    ) -> None:
        self._lists: dict[str, dict[str, Any]] = {}
        self.name, self.sorted = name, False
        if lists is not None:
            self.add_multi(lists, lists.values(), (docs.values() for docs in lists.values()))

    def keys(self) -> Any:
        """Return the ids of the queries."""
        return self._lists.keys()

    def add_score(self, q_id: str, doc_id: str, score: float) -> None:
        """Set the number of one document."""
        self._lists.setdefault(q_id, {})[doc_id] = self.NUMBER(score)
        self.sorted = False

    def add(self, q_id: str, doc_ids: Sequence[str], scores: Sequence[float]) -> None:
        """Set the documents of one query."""
        self.add_multi([q_id], [doc_ids], [scores])

    def add_multi(
        self,
        q_ids: Iterable[str],
        doc_ids: Iterable[Iterable[str]] = (),
        scores: Iterable[Iterable[float]] = (),
    ) -> None:
        """Set the documents of several queries."""
        for query, docs, numbers in zip(q_ids, doc_ids, scores, strict=True):
            self._lists[query] = dict(zip(docs, map(self.NUMBER, numbers), strict=True))
        self.sort()

    def sort(self) -> None:
        """Order queries by id, and the documents of each by descending number."""
        self._lists = {
            query: sort_docs(list(self._lists[query].items())) for query in sorted(self._lists)
        }
        self.sorted = True

    def in_order(self) -> dict[str, dict[str, Any]]:
        """Return the lists, sorted."""
        if not self.sorted:
            self.sort()
        return self._lists

    def get_query_ids(self) -> list[str]:
        """Return the ids of the queries."""
        return list(self._lists)

    def get_doc_ids_and_scores(self) -> list[dict[str, Any]]:
        """Return the documents and numbers of each query."""
        return list(self._lists.values())

    def to_typed_list(self) -> list[Floats]:
        """Return an array of (hash of id, number) for each query."""
        return [
            np.array([(hash(doc), number) for doc, number in docs.items()], float).reshape(-1, 2)
            for docs in self.in_order().values()
        ]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return a copy as plain dicts."""
        return {query: dict(docs) for query, docs in self._lists.items()}

    def to_dataframe(self) -> Any:
        """Return a pandas data frame with the columns q_id, doc_id and score."""
        columns: dict[str, list[Any]] = {"q_id": [], "doc_id": [], "score": []}
        for query, docs in self._lists.items():
            columns["q_id"] += [query] * len(docs)
            columns["doc_id"] += docs
            columns["score"] += docs.values()
        return build_frame(columns, "pandas")

    def save(self, path: str, kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        file_kind = get_file_kind(path, kind)
        lists = self.in_order()
        if file_kind == "parquet":
            self.to_dataframe().to_parquet(path, index=False)
            return
        if file_kind == "lz4":
            _refuse_lz4(path)
        if file_kind == "json":
            text = json.dumps(lists, indent=2, ensure_ascii=False)
        else:
            text = "".join(
                self.TREC_LINE.format(query=query, doc=doc, rank=rank, number=n, name=self.name)
                for query, docs in lists.items()
                for rank, (doc, n) in enumerate(docs.items(), 1)
            )
        with atomic_write(path) as file:
            file.write(gzip.compress(text.encode()) if file_kind == "gz" else text.encode())

    @classmethod
    def from_dict(cls, d: Mapping[str, Mapping[str, float]], name: str | None = None) -> Self:
        """Make lists of {query: {document: number}}."""
        return cls(d, name)

    @classmethod
    def from_file(cls, path: str, kind: str | None = None, name: str | None = None) -> Self:
        """Read a file of JSON or of TREC's layout, by its ending."""
        file_kind = get_file_kind(path, kind)
        if file_kind == "lz4":
            _refuse_lz4(path)
        if file_kind == "parquet":
            return cls.from_parquet(path, name=name)
        if file_kind == "json":
            return cls(parse_json(read_text(path), path), name)
        try:
            return cls._from_lines(read_lines(path), name)
        except FormatError as error:
            if str(path) in str(error):
                raise
            raise FormatError(f"{path}: {error}") from None

    @classmethod
    def _from_lines(cls, lines: Iterator[str], name: str | None) -> Self:
        parse = pytrec_eval.parse_qrel if cls.NUMBER is int else pytrec_eval.parse_run
        return cls(parse(lines), name)

    @classmethod
    def from_df(
        cls,
        df: Any,
        q_id_col: str = "q_id",
        doc_id_col: str = "doc_id",
        score_col: str = "score",
        name: str | None = None,
    ) -> Self:
        """Read a data frame whose columns of ids hold text."""
        lists: dict[str, dict[str, Any]] = {}
        columns = [df[column].to_list() for column in (q_id_col, doc_id_col, score_col)]
        for query, doc, number in zip(*columns, strict=True):
            if not isinstance(query, str) or not isinstance(doc, str):
                raise AssertionError(f"Ids {query!r} and {doc!r} are not text. Pass text.")
            lists.setdefault(query, {})[doc] = number
        return cls(lists, name)

    @classmethod
    def from_parquet(
        cls,
        path: str,
        q_id_col: str = "q_id",
        doc_id_col: str = "doc_id",
        score_col: str = "score",
        pd_kwargs: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Read a Parquet file with pandas."""
        frame = need("pandas", "a run of Parquet", "pandas").read_parquet(path, **(pd_kwargs or {}))
        return cls.from_df(frame, q_id_col, doc_id_col, score_col, name)

    @property
    def size(self) -> int:
        """The number of queries."""
        return len(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    def __getitem__(self, q_id: str) -> dict[str, Any]:
        return dict(self._lists[q_id])

    def __repr__(self) -> str:
        return repr(self._lists)


class Qrels(DocumentLists):
    """Grades of documents, whole numbers."""

    NUMBER: ClassVar = int
    TREC_LINE: ClassVar = "{query} 0 {doc} {number}\n"

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """{query: {document: grade}}."""
        return self._lists

    def set_relevance_level(self, rel_lvl: int = 1) -> None:
        """Lower all grades so that this one becomes 1."""
        for docs in self._lists.values():
            docs.update({doc: grade - (rel_lvl - 1) for doc, grade in docs.items()})

    def save(self, path: str = "qrels.json", kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        super().save(path, kind)

    @classmethod
    def from_ir_datasets(cls, dataset_id: str) -> Self:
        """Return the judgments of a collection of the package ir_datasets."""
        package = need("ir_datasets", f"The collection {dataset_id!r}", "ir")
        return cls(package.load(dataset_id).qrels_dict(), dataset_id)


class Run(DocumentLists):
    """Scores of documents, and the values that `evaluate` found."""

    def __init__(
        self, run: Mapping[str, Mapping[str, float]] | None = None, name: str | None = None
    ) -> None:
        super().__init__(run, name)
        self.metadata: dict[str, Any] = {}
        self.scores: dict[str, dict[str, Any]] = defaultdict(dict)
        self.mean_scores: dict[str, Any] = {}
        self.std_scores: dict[str, Any] = {}

    @property
    def run(self) -> dict[str, dict[str, float]]:
        """{query: {document: score}}."""
        return self._lists

    def make_comparable(self, qrels: Qrels) -> Run:
        """Give the run exactly the judged queries, empty where it lacks one."""
        self._lists = {query: self._lists.get(query, {}) for query in qrels.get_query_ids()}
        self.sort()
        return self

    def save(self, path: str = "run.json", kind: str | None = None) -> None:
        """Write JSON, TREC's layout (gzipped for .gz) or Parquet, by the ending."""
        super().save(path, kind)

    @classmethod
    def _from_lines(cls, lines: Iterator[str], name: str | None) -> Self:
        first = next(lines, "")
        tag = first.split()[-1] if first.strip() else None
        return super()._from_lines(chain([first] if first else [], lines), name or tag)

    @classmethod
    def from_ranxhub(cls, id: str) -> NoReturn:
        """Raise UsageError: not provided."""
        raise NotImplementedError(
            f"{id}: ranxhub is not supported. Download the run, then call Run.from_file."
        )


_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_RAISED: Final = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ۹ʳˢᵗᵘᵛʷˣʸᶻ"
_LABELS: Final = {
    **{"hits": "Hits", "hit_rate": "Hit Rate", "precision": "P", "recall": "Recall", "f1": "F1"},
    **{"r-precision": "R-Prec", "mrr": "MRR", "map": "MAP", "dcg": "DCG", "ndcg": "NDCG"},
    **{"dcg_burges": "DCG Burges", "ndcg_burges": "NDCG Burges", "bpref": "BPref"},
}
_TESTS: Final = {
    "fisher": "Fisher's randomization test",
    "student": "paired Student's t-test",
    "tukey": "Tukey's HSD test",
}


def metric_label(metric: str) -> str:
    """Return the name of a metric in tables: `map@100-l2` is MAP@100-l2."""
    name = max((label for label in _LABELS if metric.startswith(label)), key=len, default="")
    return _LABELS[name] + metric[len(name) :] if name else metric.upper()


class SystemPairs(dict[frozenset[str], Any]):
    """Values of pairs of systems, whatever their order."""

    def __getitem__(self, pair: Any) -> Any:
        return super().__getitem__(frozenset(pair))


class Report:
    """Result of `compare`."""

    def __init__(
        self,
        model_names: list[str],
        results: dict[str, dict[str, float]],
        comparisons: SystemPairs,
        metrics: list[str],
        max_p: float,
        win_tie_loss: dict[tuple[str, str], dict[str, dict[str, int]]],
        rounding_digits: int = 3,
        show_percentages: bool = False,
        stat_test: str = "student",
    ) -> None:
        self.model_names, self.results, self.comparisons = model_names, results, comparisons
        self.metrics, self.max_p, self.win_tie_loss = metrics, max_p, win_tie_loss
        self.rounding_digits, self.show_percentages = rounding_digits, show_percentages
        self.stat_test = stat_test

    def format_score(self, score: float) -> str:
        """Format the score, or its percentage."""
        if self.show_percentages:
            return f"{100 * score:.{max(0, self.rounding_digits - 2)}f}"
        return f"{score:.{self.rounding_digits}f}"

    def get_metric_label(self, m: str) -> str:
        """Return the name of a metric in tables."""
        return metric_label(m)

    def get_stat_test_label(self, stat_test: str) -> str:
        """Return the name of a test in captions."""
        return _TESTS[stat_test]

    def _beaten(self, model: str, metric: str) -> list[int]:
        """Return the places of systems that are significantly worse."""
        return [
            place
            for place, other in enumerate(self.model_names)
            if other != model
            and self.comparisons[model, other][metric]["significant"]
            and self.results[model][metric] > self.results[other][metric]
        ]

    def to_table(self) -> str:
        """Return plain text; raised letters name the systems that are significantly worse."""
        names = ["#", "Model", *map(metric_label, self.metrics)]
        grid = [[f"{name}  " for name in names]]
        for letter, model in zip(_LETTERS, self.model_names, strict=False):
            cells = [
                self.format_score(self.results[model][metric])
                + "".join(_RAISED[place] for place in self._beaten(model, metric))
                for metric in self.metrics
            ]
            grid.append([letter, model, *cells])
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        grid.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in grid
        )

    def to_latex(self) -> str:
        """Return a LaTeX table with booktabs, the best values in bold."""
        head = ["\\#", "Model", *(latex_text(metric_label(metric)) for metric in self.metrics)]
        rows = [
            " & ".join([letter, latex_text(model), *self._latex_cells(model)]) + r" \\"
            for letter, model in zip(_LETTERS, self.model_names, strict=False)
        ]
        test = self.get_stat_test_label(self.stat_test)
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\caption{{Means over the queries, the best in bold. Letters name the systems "
                rf"that are significantly worse ({test}, $p \leq {self.max_p}$).}}",
                rf"\begin{{tabular}}{{ll{'r' * len(self.metrics)}}}",
                r"\toprule",
                " & ".join(head) + r" \\",
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                r"\label{tab:results}",
                r"\end{table}",
            ]
        )

    def _latex_cells(self, model: str) -> list[str]:
        cells = []
        for metric in self.metrics:
            best = max(self.results[other][metric] for other in self.model_names)
            printed = self.format_score(self.results[model][metric])
            text = rf"\textbf{{{printed}}}" if printed == self.format_score(best) else printed
            letters = "".join(_LETTERS[place] for place in self._beaten(model, metric))
            cells.append(f"{text}$^{{{letters}}}$" if letters else text)
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Return means, p-values and wins, ties and losses as plain data."""
        data: dict[str, Any] = {
            "stat_test": self.stat_test,
            "metrics": self.metrics,
            "model_names": self.model_names,
        }
        for model in self.model_names:
            rivals = [other for other in self.model_names if other != model]
            data[model] = {
                "scores": self.results[model],
                "comparisons": {
                    other: {m: self.comparisons[model, other][m]["p_value"] for m in self.metrics}
                    for other in rivals
                },
                "win_tie_loss": {other: self.win_tie_loss[model, other] for other in rivals},
            }
        return data

    def to_dataframe(self) -> Any:
        """Return a pandas data frame of the means."""
        columns: dict[str, Any] = {"model_names": self.model_names}
        for metric in self.metrics:
            columns[metric] = [self.results[model][metric] for model in self.model_names]
        return build_frame(columns, "pandas")

    def save(self, path: str) -> None:
        """Write `to_dict` as JSON."""
        with atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), indent=4).encode())

    def print_results(self) -> None:
        """Print the means as JSON."""
        print(json.dumps(self.results, indent=4))

    def __repr__(self) -> str:
        return self.to_table()
