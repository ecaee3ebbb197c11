"""Declare what the judging room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "judging",
    commands=(
        CommandEntry(
            "queries",
            "Judge",
            "Make queries from a log, from documents, or by a model.",
            "assay.judging.command:queries_command",
            multiplies=False,
        ),
        CommandEntry(
            "pool",
            "Judge",
            "Choose the pairs of query and document to label.",
            "assay.judging.command:pool_command",
            multiplies=False,
        ),
        CommandEntry(
            "label",
            "Judge",
            "Label the pairs of a pool, on a local page or in the terminal.",
            "assay.judging.command:label_command",
            multiplies=False,
        ),
        CommandEntry(
            "judge",
            "Judge",
            "Let a model label the pairs of a pool.",
            "assay.judging.command:judge_command",
            multiplies=False,
        ),
        CommandEntry(
            "agreement",
            "Judge",
            "Measure how labellers agree, and whether a judge favours a system.",
            "assay.judging.command:agreement_command",
        ),
    ),
    hooks={"estimate_labels": "assay.judging.command:estimate_labels"},
    schemas="assay.judging:schemas.json",
    demo_files="assay.judging.demo:write_files",
)
