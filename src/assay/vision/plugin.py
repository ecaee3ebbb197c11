"""Declare the vision plugin."""

from assay.plugins import CommandEntry, Plugin

_ABOUT = "Evaluate image descriptors on scenes with known homographies."

PLUGIN = Plugin(
    "vision",
    commands=(CommandEntry("descriptors", "Tasks", _ABOUT, "assay.vision.command:command"),),
    hooks={"measure_names": "assay.vision.settings:name_measures"},
    schemas="assay.vision:schemas.json",
    demo_files="assay.vision.scenes:write_files",
)
