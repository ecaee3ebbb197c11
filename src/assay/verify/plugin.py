"""Declare what the verify room offers to the rest of the house."""

from assay.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    "verify",
    commands=(
        CommandEntry(
            "verify",
            "Evaluate",
            "Recompute a stored result and tell whether it is the same.",
            "assay.verify.command:command",
        ),
    ),
    schemas="assay.verify:schemas.json",
)
