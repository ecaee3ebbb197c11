"""Declare what can be set about a text model, whatever its kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.core.on_demand import OnDemand
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.core import checks
else:  # which needs numpy
    checks = OnDemand("assay.core.checks")

DTYPES: Final = ("float32", "float16", "bfloat16")
HUB: Final = ("revision", "dtype", "trust_remote_code")
_NO_MATTER: Final = ("key_env", "batch_size")
_TEXTS: Final = {
    "base_url": "an address such as http://host/v1",
    "key_env": "the name of a variable",
    "revision": "a commit, branch or tag",
}


@dataclass(frozen=True)
class EncoderSettings:
    """Set prefixes, length, scale and width; each enters the model's fingerprint.

    `query_prefix` and `doc_prefix` (a model's prompts) are put before each text as they are.
    `max_length` counts the model's own tokens, special ones among them. `normalize` is None (as
    the model gives its vectors), True (scaled to length 1) or False (without the model's own
    last scaling, where it is ours to leave out: minilm and onnx). `dimensions` keeps the first
    numbers of each vector (Matryoshka); unless `normalize` is False they are scaled to length 1.
    `base_url` is where the endpoint of `openai:` is, and `key_env` the variable of the environment
    that holds its key: None stands for OPENAI_API_KEY, "" for no key.
    `revision` (of a hub), `dtype` and `trust_remote_code` are for `st:`; code that a model brings
    along runs only if the last is True. `batch_size` is how many texts are encoded at once.

    Raises:
        UsageError: A setting has the wrong type or range.

    Example:
        >>> EncoderSettings(query_prefix="query: ", dimensions=64).identity["dimensions"]
        64
    """

    query_prefix: str = ""
    doc_prefix: str = ""
    max_length: int | None = None
    normalize: bool | None = None
    dimensions: int | None = None
    base_url: str | None = None
    key_env: str | None = None
    revision: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    batch_size: int | None = None

    def __post_init__(self) -> None:
        """Check all settings before a model is loaded."""
        for name in ("query_prefix", "doc_prefix"):
            prefix = getattr(self, name)
            checks.require(prefix, str, name, "text")
            try:
                prefix.encode()
            except UnicodeEncodeError:
                flaw = f"a lone surrogate: {prefix!a}"
                raise UsageError(f"{name} has {flaw}.") from None
        for name in ("max_length", "dimensions", "batch_size"):
            if getattr(self, name) is not None:
                checks.check_cutoff(getattr(self, name), name)
        if self.normalize is not None and not isinstance(self.normalize, bool):
            raise UsageError(f"normalize is {self.normalize!r}. Pass True, False or None.")
        for name, what in _TEXTS.items():
            if getattr(self, name) is not None:
                checks.require(getattr(self, name), str, name, what)
        checks.require(self.trust_remote_code, bool, "trust_remote_code", "True or False")
        if self.dtype not in (None, *DTYPES):
            raise UsageError(f"dtype is one of {', '.join(DTYPES)}, found {self.dtype!r:.40}.")

    @property
    def identity(self) -> dict[str, Any]:
        """Return what vectors may depend on: not the key and the size of batches.

        Settings that came later are named only where they are set: fingerprints stay as they were.
        """
        identity = {name: value for name, value in asdict(self).items() if name not in _NO_MATTER}
        return {name: value for name, value in identity.items() if value or name not in HUB}

    def refuse_hub(self, kind: str) -> None:
        """Refuse what only models of a hub have."""
        for name in HUB:
            if getattr(self, name):
                raise UsageError(f"The encoder {kind!r} has no {name}. Use st:, or omit it.")

    def refuse(self, name: str, kind: str, why: str) -> None:
        """Refuse a setting that a kind of model does not support; None means not set."""
        if getattr(self, name) is not None:
            raise UsageError(f"The encoder {kind!r} does not support {name} ({why}). Omit it.")
