"""Declare the integrations plugin."""

from assay.plugins import Plugin

PLUGIN = Plugin("integrations", hooks={"model_card": "assay.integrations.records:model_card"})
