"""Offer predictions to the rest of the house; nothing here needs numpy."""

from assay.plugins import CommandEntry, Plugin

# The values of --scores and `kind=`.
SCORE_KINDS = ("logits", "probabilities", "similarities")

_ABOUT = "Score predictions of one class per sample: Acc@k, MRR, nDCG, F1."

PLUGIN = Plugin(
    "prediction",
    commands=(CommandEntry("predict", "Tasks", _ABOUT, "assay.prediction.command:command"),),
    schemas="assay.prediction:schemas.json",
    demo_files="assay.prediction.demo:write_files",
)
