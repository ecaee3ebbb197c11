"""Label retrieval across modalities."""
