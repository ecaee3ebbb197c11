"""Declare what the integrations room offers to the rest of the house."""

from assay.plugins import Plugin

PLUGIN = Plugin("integrations", hooks={"model_card": "assay.integrations.records:model_card"})
