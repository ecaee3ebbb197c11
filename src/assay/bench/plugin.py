"""Declare the bench plugin."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "bench",
    commands=(
        CommandEntry(
            "bench",
            "Tasks",
            "Compare text models and search systems on your data.",
            "assay.bench.command:command",
        ),
        CommandEntry(
            "demo",
            "Tools",
            "Compare five text search systems on Python's own documentation.",
            "assay.bench.demo:command",
        ),
    ),
    hooks={
        "explain_systems": "assay.bench.command:explain_systems",
        "score_system": "assay.bench.evaluate:score_system",
    },
    schemas="assay.bench:schemas.json",
    configs={"bench": "assay.bench.settings:SCHEMA"},
    demo_files="assay.bench.demo:write_files",
    measures="assay.bench.spans:register_measures",
)
