"""Help on one screen: commands and options in groups, for `--help` and for a bare group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

__all__ = ["Command", "CommandGroup", "write_commands"]

# Sections of options in the order in which they are shown, and the parameters of each.
_SECTIONS: Final[Mapping[str, str]] = {
    "Input": """
        corpus queries qrels split name chunk fold judged labels query_labels doc_ids query_ids
        embeddings embeddings_key queries_key packed text_embeddings text_key sensor_embeddings
        sensor_key labels_keys modalities modality_ids modality_keys modality_labels metadata
        prototype_embeddings prototype_key prototype_labels label_maps drop_labels dataset_name
        demo targets train users train_users history previous coordinates new_places candidates
        n_classes target results pattern pairs ids only languages units strongest folder folds
        allow_mismatch n_docs groups saved kind source_format answers tasks config
        """,
    "Models": """
        model fusion rerank index query_prefix doc_prefix max_length normalize dimensions base_url
        revision dtype trust_remote_code batch_size device cache no_cache encoder factory
        descriptors descriptor matchers estimator codes methods method bits p oversample
        query_codes truncate rrf_k weights spec prices
        """,
    "Search": """
        k metric keep_ties exclude_self exclude_paired zero engine query_block prepare
        recall_of sample dry_run checkpoint threads inlier force fresh work
        """,
    "Measures and conventions": """
        measures measure ks k_values cutoffs conventions ties empty missing depth rel hashing
        protocol directions caption_style use_prototypes zero_shot confusions confusion_k
        unit f1_unit chance_wanted confidence predictability query places
        """,
    "Statistics": """
        baseline test correction level interval resamples seed margin by slices
        sensitivity_wanted n_differences
        """,
    "Gate": "conditions fail_if_worse look look_file",
    "Machines": "where workers in_flight timings",
    "Trust": "allow_code allow_endpoints",
    "Result": """
        runs per_query per_class percent full signature quiet named json_wanted csv_wanted file
        target_format title html figures formats chart histogram reliability legacy_json per_scene
        ranks wide show show_to
        """,
    "Store": "save store dataset tag tags task status since until limit",
}
_SECTION_OF: Final = {name: title for title, names in _SECTIONS.items() for name in names.split()}
_FEW: Final = 11  # options that need no groups


def _write_options(params: Iterable[click.Parameter], context: click.Context, to: Any) -> None:
    """The options of a command under the titles of their sections; few stand in one list."""
    shown = [(one, row) for one in params if (row := one.get_help_record(context)) is not None]
    grouped: dict[str, list[tuple[str, str]]] = {title: [] for title in _SECTIONS}
    for parameter, row in shown:
        few = len(shown) <= _FEW
        title = "Options" if few else _SECTION_OF.get(parameter.name or "", "Other")
        grouped.setdefault(title, []).append(row)
    for title, rows in grouped.items():
        if rows:
            with to.section(title):
                to.write_dl(rows)


class Command(click.Command):
    """A command whose options stand in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, in groups."""
        _write_options(self.get_params(ctx), ctx, formatter)


def write_commands(groups: Mapping[str, Mapping[str, str]], to: click.HelpFormatter) -> None:
    """Commands under the titles of their groups, in one column of names."""
    width = max((len(name) for rows in groups.values() for name in rows), default=0)
    for title, rows in groups.items():
        if rows:
            with to.section(title):
                to.write_dl([(name.ljust(width), words) for name, words in rows.items()])


class CommandGroup(click.Group):
    """A group of such commands; its bare name prints its help."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the group, or print its help where nothing was typed."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)
