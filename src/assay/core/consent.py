"""Consent: what a file that names models, indexes or functions may do beyond being read.

What is typed or written in Python is the user's own wish. A config file or a stored command may be
a stranger's: it runs no code and reaches no other host unless the user says so, by `--allow-code`
and `--allow-endpoint` (in Python `allow_code` and `allow_endpoints`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from assay.core.on_demand import OnDemand
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.core import checks
else:  # which needs numpy
    checks = OnDemand("assay.core.checks")

# Clients do not agree on what odd characters in an address mean, so that it may have none.
_ADDRESS: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:[^\s/@?#\\]*@)?([^\s/@?#\\=]+)(?:/[^\s@#\\]*)?"
)
_ENDPOINT: Final = re.compile(r"[^\s=/@?#]+(=[A-Za-z_][A-Za-z0-9_]*)?")


@dataclass(frozen=True)
class Consent:
    """Whether code may run, and which endpoints may be reached: HOST[:PORT] or …=VARIABLE.

    A variable of the environment is sent to a host only where both were named together.

    >>> Consent.of(endpoints=["gpu-box:8000"]).check_endpoint("http://gpu-box:8000/v1", "a.toml")
    """

    code: bool = False
    endpoints: frozenset[str] = frozenset()

    @classmethod
    def of(cls, code: bool = False, endpoints: Iterable[str] = ()) -> Consent:
        """From what the user allows."""
        checks.require(code, bool, "allow_code", "True or False")
        hosts = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        for host in hosts:
            if not isinstance(host, str) or not _ENDPOINT.fullmatch(host):
                raise UsageError(
                    f"An endpoint is allowed as HOST, HOST:PORT or HOST=VARIABLE, found {host!r}."
                )
        return cls(code, frozenset(map(_small_host, hosts)))

    def as_options(self) -> dict[str, Any]:
        """As the keyword arguments that functions take."""
        return {"allow_code": self.code, "allow_endpoints": sorted(self.endpoints)}

    def check_code(self, what: str, place: str) -> None:
        """Refuse what runs code, unless code is allowed."""
        if not self.code:
            raise UsageError(
                f"{place} names {what}, which runs code. If you trust whoever wrote it, repeat "
                "this with --allow-code (in Python allow_code=True)."
            )

    def check_download(self, what: str, source: str, place: str) -> None:
        """Refuse what is fetched from a source that was not allowed."""
        if source not in self.endpoints:
            raise UsageError(
                f"{place} names {what}, which {source} fetches unless it has it. If you want that, "
                f"name it on the command line yourself, or repeat this with --allow-endpoint "
                f"{source} (in Python allow_endpoints=[{source!r}])."
            )

    def check_endpoint(self, url: str, place: str, variable: str = "") -> None:
        """Refuse a host that was not allowed, and a variable that was not allowed for it."""
        host = host_of(url)
        endpoint = f"{host}={variable}" if variable else host
        if endpoint in self.endpoints:
            return
        named = {endpoint_there.partition("=")[0] for endpoint_there in self.endpoints}
        if not variable and host in named:
            return
        sent = f"the content of {variable}" if variable and host in named else "data"
        raise UsageError(
            f"{place} sends {sent} to {host}. If you trust that host, repeat this with "
            f"--allow-endpoint {endpoint} (in Python allow_endpoints=[{endpoint!r}])."
        )


def _small_host(endpoint: str) -> str:
    host, equals, variable = endpoint.partition("=")
    return f"{host.lower()}{equals}{variable}"


def host_of(url: str) -> str:
    """Host and port of an address, as they stand in it; a name or a password is left out.

    >>> host_of("https://me:secret@API.example.org:8443/v1")
    'api.example.org:8443'
    """
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise UsageError("An address in a file names one host, as in https://host:port/path.")
    return match[1].lower()


def is_loopback(url: str) -> bool:
    """Tell whether an address is one of this machine.

    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("http://127.0.0.1.example.org")
    (True, False)
    """
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
