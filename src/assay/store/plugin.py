"""Declare what the store room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "store",
    commands=(
        CommandEntry(
            "runs",
            "Keep and show",
            "List, show, compare, tag, export and repeat the runs that --save stored.",
            "assay.store.command:command",
        ),
    ),
    hooks={"open_store": "assay.store:open", "write_records": "assay.store.files:write_records"},
    schemas="assay.store:schemas.json",
)
