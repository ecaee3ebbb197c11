"""`assay eval` (Evaluate): Score one or several runs against judgments."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli import options, output
from assay.cli.commands import Command
from assay.cli.settings import argument
from assay.plugins import find_hook
from assay.tables.table import Page, Words

if TYPE_CHECKING:
    from assay.cli.output import Saving
    from assay.core.conventions import Conventions
    from assay.runs.record import RunRecord
    from assay.tables.table import Table


@click.command("eval", cls=Command, verified=True)
@argument("runs", nargs=-1, required=True, metavar="RUN...", reads=True)
@options.measures_option("Measure or group; 'assay measures' lists them. May be repeated.")
@options.in_result("-q", "--per-query", is_flag=True, help="One row per query.")
@options.in_statistics(
    "--by FILE[:COLUMN]", help="Means by group, from a file of query and group.", reads=True
)
@options.conventions_options
@options.rel_option
@options.mismatch_option
@options.in_measures(
    "--chance",
    "chance_wanted",
    is_flag=True,
    help="Scores of a random and a perfect order; needs --n-docs.",
)
@options.in_input("--n-docs N", least=1, help="Size of the collection, for --chance.")
@options.in_result("--percent", is_flag=True, help="Print percentages (text and Markdown only).")
@options.result_options(also=("trec", "model-card"))
@options.save_options("retrieval")
@options.label_options(means=True)
def command(
    *,
    runs: tuple[str, ...],
    qrels: str,
    queries: str | None,
    measures: tuple[str, ...],
    per_query: bool,
    by: str | None,
    rules: Conventions,
    rel: float | None,
    allow_mismatch: bool,
    chance_wanted: bool,
    n_docs: int | None,
    percent: bool,
    layout: str,
    file: str | None,
    saving: Saving,
) -> None:
    """Score one or several runs against judgments.

    Results go to stdout, warnings (missing queries, ties) to stderr. Several runs share one
    table, one row per run.

    \b
    Examples:
      assay eval dense.run --qrels qrels.txt
      assay eval dense.run lexical.run -r qrels.txt -m nDCG@10 -m AP
      assay eval dense.run -r qrels.txt -q --format csv -o per-query.csv
      assay eval dense.run -r qrels.txt --by kinds.tsv:kind --ties expected
      assay eval dense.run -r qrels.txt -m official --format trec
      assay eval dense.run -r qrels.txt -m nDCG@10 --format model-card -o README.md
      assay eval *.run -r qrels.txt --save --dataset demo
    """
    several, as_json = len(runs) > 1, layout == "json"
    contradictions = {
        "--percent is for text, Markdown and LaTeX. Omit it with other formats.": percent
        and layout not in ("text", "markdown", "latex"),
        "--format trec shows one run, no groups, no chance. Choose another.": layout == "trec"
        and (several or by or chance_wanted),
        "--format model-card shows the means of one run. Name one run.": layout == "model-card"
        and (several or by or per_query),
        "--by and --per-query make two tables. Choose one, or add --json.": by
        and per_query
        and not as_json,
        "--chance requires --n-docs, the number of documents in the collection.": chance_wanted
        and n_docs is None,
        "--n-docs requires --chance.": n_docs is not None and not chance_wanted,
        "--chance excludes --by and --per-query.": chance_wanted
        and (by or per_query)
        and not as_json,
    }
    for message in (words for words, holds in contradictions.items() if holds):
        raise click.UsageError(message)
    output.refuse_input(file, *runs, qrels, queries, options.group_file(by))
    from assay.measures import parse_many
    from assay.runs.run_files import group_records, score_run_files

    names = measures or (("official",) if layout == "trec" else ("default",))
    parsed = options.apply_threshold(parse_many(names), rel)
    records = score_run_files(
        runs,
        qrels,
        parsed,
        conventions=rules,
        n_docs=n_docs,
        allow_mismatch=allow_mismatch,
        queries=queries,
    )
    column = None
    if by is not None:
        records, column = group_records(records, by)
    saving.save(records, options.group_file(by))
    output.emit(
        _Evaluation(
            records, qrels, queries, names, column, per_query, percent, brief=layout == "text"
        ),
        layout,
        file,
        remarks=output.remarks_on(records),
    )
    if layout == "trec":
        output.log(records[0].scored().signature)


@dataclass(frozen=True)
class _Evaluation:
    """Scored runs as they are to be shown; `brief` shows one run measure by measure."""

    records: list[RunRecord]
    qrels: str
    queries: str | None
    measures: tuple[str, ...]  # as they were named
    by: str | None
    per_query: bool
    percent: bool
    brief: bool

    @property
    def signature(self) -> str:
        from assay.scoring.scores import signature_of

        return signature_of([record.scored() for record in self.records], {"by": self.by})

    def table(self) -> Table:
        from assay.runs import record as tables

        if self.per_query:
            return tables.query_table(self.records, self.percent)
        if self.by is not None:
            return tables.group_table(self.records, self.by, self.percent)
        if len(self.records) == 1 and self.brief:
            return tables.measure_table(self.records[0], self.percent)
        return tables.run_table(self.records, self.percent, brief=self.brief)

    def page(self) -> Page:
        from assay.runs.record import title

        heading = title(self.records, self.percent) if self.brief else ""
        page: Page = [Words(heading, "verdict"), self.table(), Words(self.signature, "signature")]
        return [*page, Words(self._next_step(), "next")]

    def paper(self) -> Page:
        """Return the means with caption, label and notes; other tables as they are."""
        from assay.comparison.paper import paper_page

        if self.per_query or self.by is not None:
            return self.page()
        # What stands behind a mean differs: by the run where missing queries are left out.
        means = [run.scored().mean() for run in self.records]
        sizes = sorted({each.n for mean in means for each in mean.counts.values()})
        n = " to ".join(f"{size:,}" for size in dict.fromkeys((sizes[0], sizes[-1])))
        n += " query" if sizes == [1] else " queries"
        table, note = self.table(), f"n = {n}. No differences were tested."
        table = replace(
            table,
            caption=f"Means over {n}{', in percent' if self.percent else ''}.",
            label="tab:eval",
            notes=tuple(filter(None, (note, table.note))),
        )
        return paper_page(table, self.page())

    def _next_step(self) -> str:
        if len(self.records) < 2 or self.per_query or self.by is not None:
            return ""
        files = [str(run.provenance["file"]) for run in self.records]
        words = ["assay", "compare", *files, "-r", self.qrels]
        words += [] if self.queries is None else ["--queries", self.queries]
        return f"Which is better? {shlex.join(words)}"

    def trec(self) -> str:
        from assay.scoring.output import trec_layout

        record = self.records[0]
        header = any(name.strip().lower() in ("official", "all_trec") for name in self.measures)
        run_id = record.provenance["tag"] or record.name
        return trec_layout(record.scored(), run_id=run_id, per_query=self.per_query, header=header)

    def model_card(self) -> str:
        from assay.io.streams import unique_names

        named = [record.replace(dataset=unique_names([self.qrels])[0]) for record in self.records]
        return str(find_hook("model_card")(named)).rstrip()

    def to_dict(self) -> dict[str, Any]:
        runs = [_run_data(record, self.by, per_query=self.per_query) for record in self.records]
        return {"signature": self.signature, "qrels": self.qrels, "runs": runs}


def _run_data(record: RunRecord, by: str | None, *, per_query: bool) -> dict[str, Any]:
    from assay.arrays import numbers_or_none
    from assay.runs.record import mean_intervals
    from assay.scoring.output import disclosures
    from assay.stats.choices import CONFIDENCE

    data = record.scored().to_dict(per_query=per_query)
    del data["schema_version"], data["signature"]
    for key, means in (("chance", record.chance_means()), ("ceiling", record.ceiling_means())):
        if means is not None:
            data[key] = numbers_or_none(means)
    data["intervals"] = {
        name: {"low": low, "high": high, "level": CONFIDENCE}
        for name, (low, high) in mean_intervals(record.scored()).items()
    }
    if by is not None:
        macro = record.scored().mean(by=by)
        data["by"] = {
            "column": by,
            "average": macro.average,
            "measures": numbers_or_none(macro),
            "groups": {name: numbers_or_none(values) for name, values in macro.groups.items()},
            "sizes": macro.sizes,
        }
    data["remarks"] = list(disclosures(record.scored(), record.chance_means()))
    path, tag = record.provenance["file"], record.provenance["tag"] or record.name
    return {"name": record.name, "path": path, "tag": tag, **data}
