"""Declare the search plugin."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "search",
    commands=(
        CommandEntry(
            "diff",
            "Evaluate",
            "Show what changed between two runs, without judgments.",
            "assay.search.diff_command:command",
            False,
        ),
        CommandEntry(
            "fuse",
            "Search",
            "Fuse several runs into one by reciprocal ranks or scores.",
            "assay.search.fuse_command:command",
        ),
    ),
    hooks={
        "dashboard_views": "assay.search.diff:show_stored",
        "report_sections": "assay.search.diff:show_records",
    },
    schemas="assay.search:schemas.json",
    demo_files="assay.search.demo:write_files",
)
