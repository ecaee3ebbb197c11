"""Declare what the search room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "search",
    commands=(
        CommandEntry(
            "fuse",
            "Search",
            "Fuse several runs into one by reciprocal ranks or scores.",
            "assay.search.fuse_command:command",
        ),
    ),
    demo_files="assay.search.demo:write_files",
)
