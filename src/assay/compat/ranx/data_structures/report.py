"""Report: the means of several runs, and which differences are significant."""

from __future__ import annotations

import json
from typing import Any, Final

from assay.io.lines import build_frame
from assay.io.streams import atomic_write
from assay.tables.table import latex_text

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
    """What `compare` found."""

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
