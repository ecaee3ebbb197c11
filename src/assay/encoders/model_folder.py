"""A folder with a model, as exports and sentence-transformers write it: what its files say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import checks
from assay.errors import FormatError, StorageError
from assay.io.json_text import parse_json
from assay.io.text_lines import read_text

__all__ = ["ModelFolder"]


@dataclass(frozen=True)
class ModelFolder:
    """The folder; nothing is read before it is asked for."""

    path: Path

    def file(self, *names: str) -> Path:
        """The first of these files that is there; one must be."""
        for name in names:
            if (self.path / name).is_file():
                return self.path / name
        raise StorageError(
            f"{self.path} holds no {names[0]}. Give the folder that an export of a model wrote."
        )

    @property
    def max_length(self) -> int | None:
        """How many tokens the model reads, if the folder says it."""
        for name, key in (
            ("sentence_bert_config.json", "max_seq_length"),
            ("config.json", "max_position_embeddings"),
        ):
            given = self._settings(name).get(key)
            if given is not None:
                return checks.check_cutoff(given, f"{self.path / name}: {key}")
        return None

    @property
    def padding(self) -> int:
        """The token that fills short texts up."""
        given = self._settings("config.json").get("pad_token_id")
        return given if isinstance(given, int) else 0

    @property
    def scales(self) -> bool:
        """Whether vectors are scaled to length 1 at the end."""
        modules = self._json("modules.json")
        return isinstance(modules, list) and any(
            isinstance(module, dict) and str(module.get("type", "")).endswith(".Normalize")
            for module in modules
        )

    @property
    def poolings(self) -> list[str]:
        """Which ways of making one vector of many are asked for, e.g. "mean_tokens"."""
        return [
            name.removeprefix("pooling_mode_")
            for name, on in self._settings("1_Pooling/config.json").items()
            if name.startswith("pooling_mode_") and on is True
        ]

    def _settings(self, name: str) -> dict[str, Any]:
        found = self._json(name)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise FormatError(f"{self.path / name} must hold a JSON object.")
        return found

    def _json(self, name: str) -> Any:
        """What a file holds; None where there is none."""
        file = self.path / name
        return parse_json(read_text(file), str(file)) if file.is_file() else None
