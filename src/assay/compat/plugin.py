"""Declare what the compat room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "compat",
    commands=(
        CommandEntry(
            "trec_eval",
            "Tools",
            "Print what trec_eval prints, by its own flags.",
            "assay.compat.command:command",
            multiplies=False,
        ),
    ),
)
