"""Print what trec_eval prints, by its own flags."""

from __future__ import annotations

from typing import Any, Final

import click

from assay import __version__
from assay.cli import output
from assay.cli.commands import Command
from assay.cli.options import Decorator
from assay.cli.settings import argument, option

# Flags of trec_eval that are understood where they change nothing.
_ONLY: Final = {"-R": "qrels", "-T": "trec_results"}


def _refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    flag = parameter.opts[0]
    if value is not None and value != _ONLY.get(flag):
        exception = f" but for {flag} {_ONLY[flag]}" if flag in _ONLY else ""
        raise click.UsageError(f"{flag} of trec_eval is not supported{exception}.", context)


def _print_version(context: click.Context, _: click.Parameter, version: bool) -> None:
    if version:
        output.log(f"assay {__version__}, with the numbers of trec_eval 10.0")
        context.exit()


def _hidden(flag: str, name: str) -> Decorator[Any]:
    return option(flag, name, hidden=True, expose_value=False, callback=_refuse)


@click.command("trec_eval", cls=Command)
@argument("qrels", reads=True)
@argument("run", reads=True)
@option(
    *("-q", "--query_eval_wanted", "per_query"),
    is_flag=True,
    help="Print every query.",
    section="Result",
)
@option(
    *("-m", "--measure", "measures"),
    multiple=True,
    default=("official",),
    metavar="NAME[.PARAMS]",
    help="Measure by trec_eval's name, such as ndcg_cut.5,10. [official] May be repeated.",
)
@option(
    *("-c", "--complete_rel_info_wanted", "complete"),
    is_flag=True,
    help="Score judged queries without results as 0.",
)
@option(
    *("-l", "--level_for_rel", "level"),
    type=int,
    default=1,
    metavar="N",
    help="Lowest relevant grade. [1]",
    section="Statistics",
)
@option("-n", "--nosummary", "no_summary", is_flag=True, help="Omit the means over queries.")
@option(
    *("-M", "--Max_retrieved_per_topic", "depth"),
    type=click.IntRange(min=1),
    metavar="N",
    help="Evaluate the first N documents of each query.",
    section="Measures and conventions",
)
@option(
    "-J", "--Judged_docs_only", "judged_only", is_flag=True, help="Remove unjudged documents first."
)
@option(
    *("-N", "--Number_docs_in_coll", "n_docs"),
    type=click.IntRange(min=0),
    default=0,
    hidden=True,
    help="Collection size, for utility.",
    section="Input",
)
@option(
    *("-v", "--version"),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    hidden=True,
)
@_hidden("-R", "rel_info_format")
@_hidden("-T", "results_format")
@_hidden("-D", "debug_level")
@_hidden("-Z", "zscore")
def command(
    *, qrels: str, run: str, measures: tuple[str, ...], no_summary: bool, **flags: Any
) -> None:
    """Print what trec_eval prints, by its own flags.

    Output equals trec_eval 10.0 to the byte. QRELS come first. Preference measures, -D and -Z are
    missing; 'assay eval' has other conventions and formats.

    \b
    Examples:
      assay trec_eval qrels.txt dense.run
      assay trec_eval -q -c -m ndcg_cut.5,10 -m map qrels.txt dense.run
      assay trec_eval -l 2 -m all_trec qrels.txt - < coarse.run
    """
    from assay.compat.trec_eval import trec_eval

    text = trec_eval(qrels, run, measures, summary=not no_summary, tell=output.log, **flags)
    if text:
        output.write(text, None)
