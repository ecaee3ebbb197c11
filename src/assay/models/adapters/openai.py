"""`openai:MODEL`: an endpoint that speaks OpenAI's /v1/embeddings; requests are retried.

The key is read from the environment when a request is made. It is sent to the host that was named
and to no other: redirects are refused, and so is a key over plain http, unless to this machine,
which no proxy comes between. It is in no message and is not stored.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Timer
from time import sleep
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

import numpy as np
from numpy.typing import NDArray

from assay.core.specs import is_loopback
from assay.core.text import mask_secrets
from assay.errors import EndpointError, FormatError, UsageError
from assay.io.plain_data import parse_json
from assay.models.encoding import Batch, Encoder, EncoderRequest, add_tokens

KEY: Final = "OPENAI_API_KEY"
_ADDRESS: Final = "https://api.openai.com/v1"
_VARIABLE: Final = "OPENAI_BASE_URL"
_TEXTS: Final = 64  # in one request
_CHARACTERS: Final = 200_000  # in one request, unless one text has more

_TRIES: Final = 6
_FIRST_WAIT: Final = 0.5  # seconds; doubled after each try
_LONGEST_WAIT: Final = 30.0
_LONGEST_ASKED: Final = 120.0  # an endpoint that asks for more is given up
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_AT_A_TIME: Final = 1 << 16
_WORDS: Final = 300  # characters of a message
# Where an answer tells its tokens; the last two as Cohere has them.
_USAGE: Final = ("usage.total_tokens", "usage.prompt_tokens")
_COUNTS: Final = (*_USAGE, "meta.billed_units.input_tokens", "meta.tokens.input_tokens")
# Where an answer other than success has its words; the first and the fourth as OpenAI has them, the
# others as search engines do.
_SAID: Final = (
    *("error.message", "error.reason", "error.msg", "error", "message", "status.error"),
    *("root.errors.0.message", "errors.0.message"),
)


class RequestError(EndpointError):
    """Report a failed request: whether another may succeed, and after how many seconds.

    `retry_after` is what the endpoint asked for, None if nothing. `late` is a time-out.
    """

    again: bool = True
    late: bool = False
    retry_after: float | None = None

    def __init__(self, words: str, **facts: Any) -> None:
        super().__init__(words)
        vars(self).update(facts)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leave a redirect as the answer that it is."""


@dataclass(frozen=True)
class Endpoint:
    """Send requests to a checked address, with the key in a variable.

    `key_header` is the name of the key's header, and what stands before the key.
    """

    base_url: str
    key_env: str  # "" for no key
    timeout: float = 120.0  # seconds for a whole answer
    key_header: str = "Authorization: Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    tries: int = _TRIES
    largest: int = 1 << 28  # bytes of an answer

    def __post_init__(self) -> None:
        """Refuse anything but a plain address, without repeating it: it may hold a secret."""
        try:
            parts = urlsplit(self.base_url)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound or parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(
                "Invalid endpoint address. Write http://host:port/v1, without user, "
                "password, query or fragment. Pass the key by the environment variable "
                f"{self.key_env or 'that key_env names'}."
            )
        if self._key and parts.scheme == "http" and not is_loopback(self.base_url):
            raise UsageError(
                f"The key in {self.key_env} would go to {parts.hostname} in plain text. Use "
                f"https, or unset {self.key_env}."
            )

    @property
    def _key(self) -> str:
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if not key.isascii() or not (key.isprintable() or not key):
            raise UsageError(f"{self.key_env} holds invalid characters. Set it again.")
        return key

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        name, _, before = self.key_header.partition(": ")
        return {**headers, **self.headers, **({name: f"{before}{self._key}"} if self._key else {})}

    def post(self, path: str, content: Any, method: str = "POST") -> Any:
        """Send JSON content and return the JSON answer; of GET, content is the query string."""
        tried = 0
        while True:
            tried += 1
            try:
                return self._try(path, content, method)
            except RequestError as trouble:
                if not trouble.again or tried >= self.tries:
                    times = f" ({tried} times)" if tried > 1 else ""
                    words = _plain(f"{trouble}{times}.", self._key)
                    trouble.args = (f"{self.base_url}{path}: {words}",)
                    raise trouble from None
                sleep(self._wait(path, tried, trouble.retry_after))

    def _wait(self, path: str, tried: int, seconds: float | None) -> float:
        """Return seconds to wait: twice as long each time, or what the endpoint asked for."""
        if seconds is not None and seconds > _LONGEST_ASKED:
            raise EndpointError(
                f"{self.base_url}{path} asks to wait {seconds:.0f} seconds. Try again later; "
                "finished texts are cached."
            )
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (tried - 1))
        return max(seconds or 0.0, random.uniform(longest / 2, longest))

    def _try(self, path: str, content: Any, method: str) -> Any:
        end = time.monotonic() + self.timeout
        url = self.base_url.rstrip("/") + path if path else self.base_url
        body = None if method == "GET" else json.dumps(content).encode()
        url += f"?{urlencode(content)}" if method == "GET" else ""
        request = Request(url, body, self._headers(), method=method)
        # To this machine without a proxy, which would read plain http.
        direct = [ProxyHandler({})] if is_loopback(self.base_url) else []
        with ExitStack() as deadline:
            try:
                opener = build_opener(_NoRedirects, *_bounded_handlers(end, deadline), *direct)
                with opener.open(request, timeout=self.timeout) as response:
                    raw = _read(response, end, self.largest)
            except HTTPError as error:
                with error:
                    raise _status(error, end, self.key_env) from None
            except UnicodeError:
                raise RequestError("the address has no host", again=False) from None
            except (URLError, HTTPException, OSError) as error:
                late = time.monotonic() > end
                raise _connection(TimeoutError() if late else error, self.timeout) from None
        try:
            return parse_json(raw.decode("utf-8"), "the answer")
        except (UnicodeDecodeError, FormatError) as error:
            raise RequestError(f"cannot read the answer: {str(error)[:160]}") from None


def _bounded_handlers(end: float, deadline: ExitStack) -> tuple[HTTPHandler, HTTPSHandler]:
    """Hang up at a time, even while an endpoint sends headers or sizes letter by letter."""

    def watch(connection: HTTPConnection) -> None:
        # The socket itself: the connection forgets it when the headers are read.
        timer = Timer(max(end - time.monotonic(), 0.0), _hang_up, [connection.sock])
        timer.daemon = True
        timer.start()
        deadline.callback(timer.cancel)

    class Plain(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            watch(self)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            watch(self)

    class PlainHandler(HTTPHandler):
        def http_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Plain, req)

    class SecureHandler(HTTPSHandler):
        def https_open(self, req: Request) -> HTTPResponse:
            return self.do_open(Secure, req)

    return PlainHandler(), SecureHandler()


def _hang_up(connected: socket) -> None:
    with suppress(OSError):  # closed meanwhile
        connected.shutdown(SHUT_RDWR)


def _read(response: Any, end: float, largest: int = 1 << 20) -> bytes:
    """Read all of an answer, as long as time and size allow."""
    parts, size = [], 0
    while part := response.read1(_AT_A_TIME):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise RequestError(f"the answer exceeds {largest >> 20} MiB", again=False)
        if time.monotonic() > end:
            break
    if time.monotonic() > end:  # whoever is hung up on in the headers seems to send nothing
        raise TimeoutError
    promised = response.headers.get("Content-Length")
    if promised is not None and promised.isdigit() and int(promised) > size:
        raise RequestError(f"the answer ended after {size} of {promised} bytes")
    return b"".join(parts)


def _connection(error: Exception, timeout: float) -> RequestError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return RequestError(f"no answer within {timeout:g} seconds", late=True)
    if flaw := getattr(reason, "verify_message", ""):
        advice = "Add your authority's certificate to the file of SSL_CERT_FILE"
        return RequestError(f"certificate rejected ({flaw}). {advice}", again=False)
    return RequestError(f"no connection or incomplete answer ({type(reason).__name__})")


def _status(error: HTTPError, end: float, variable: str) -> RequestError:
    """Explain an answer other than success."""
    again, words = error.code in _AGAIN, _said(error, end)
    if 300 <= error.code < 400:
        # The key is for the host that was named.
        words = " redirects, which is not followed. Pass the target address"
    elif error.code in (401, 403):
        words = f". Check {variable}" if variable else ". Name the key's variable: key_env"
    return RequestError(f"HTTP {error.code}{words}", again=again, retry_after=_asked_wait(error))


def _said(error: HTTPError, end: float) -> str:
    """Quote the endpoint's words, if it has any."""
    try:
        answer = json.loads(_read(error, end).decode("utf-8"))
    except Exception:  # words are a courtesy: without them the number must do
        return ""
    words = [text for path in _SAID if isinstance(text := pick(answer, path), str) and text]
    return f": {words[0]:.2000}" if words else ""


def _plain(words: str, key: str) -> str:
    """Put words on one line, without escape codes, and without the key if it is repeated."""
    line = "".join(letter for letter in " ".join(words.split()) if letter.isprintable())
    masked = mask_secrets(line, key)
    return f"{masked[:_WORDS]}…" if len(masked) > _WORDS else masked


def _asked_wait(error: HTTPError) -> float | None:
    """Read Retry-After: seconds or a date."""
    header = (error.headers.get("Retry-After") or "").strip()
    if not header:
        return None
    try:
        if header.replace(".", "", 1).isdigit():
            return float(header)
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def is_trusted(url: str) -> bool:
    """Tell whether an address is the user's in the environment, or the provider's."""
    return url.rstrip("/") in (_ADDRESS, default_address())


def key_variable() -> str:
    """Return the name of the environment variable with the key of the provider."""
    return KEY


def default_address() -> str:
    """Return the endpoint of the environment, or else the provider's."""
    return (os.environ.get(_VARIABLE) or _ADDRESS).rstrip("/")


def load(request: EncoderRequest) -> Encoder:
    """Check the address; the endpoint is first asked when there are texts."""
    request.settings.refuse("max_length", "openai:", "the endpoint counts tokens itself")
    address = request.settings.base_url or default_address()
    key = request.settings.key_env
    endpoint = Endpoint(address.rstrip("/"), KEY if key is None else key)
    if endpoint.base_url == _ADDRESS and not os.environ.get(endpoint.key_env, "").strip():
        raise UsageError(
            f"{request.spec} needs a key. Set {endpoint.key_env or KEY}, or pass --base-url "
            "URL of another endpoint."
        )
    return Encoder(
        request.spec,
        partial(_encode, endpoint, request.argument),
        lambda: {"endpoint": endpoint.base_url, "model": request.argument},
        repeatable=True,
        batch_size=_TEXTS,
        warm_up=False,
    )


def _encode(endpoint: Endpoint, model: str, texts: list[str]) -> Batch:
    rows: list[list[float]] = []
    tokens = None
    for part in _requests(texts):
        content = {"model": model, "input": part, "encoding_format": "float"}
        answer = endpoint.post("/embeddings", content)
        rows.extend(_rows(answer, len(part), f"{endpoint.base_url}/embeddings"))
        tokens = add_tokens(tokens, count_tokens(answer))
    return Batch(_as_matrix(rows, endpoint.base_url), tokens=tokens)


def count_tokens(answer: Any) -> int | None:
    """Return the tokens that an answer counted: `usage`, or `meta` as Cohere has it."""
    counts = [pick(answer, path) for path in _COUNTS]
    return next((int(n) for n in counts if type(n) in (int, float) and n >= 0), None)


def pick(value: Any, path: str) -> Any:
    """Return what stands at a path of names and places in lists; None where nothing does.

    >>> pick({"hits": [{"id": "a"}, {"id": "b"}]}, "hits.1.id")
    'b'
    """
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _requests(texts: list[str]) -> Iterator[list[str]]:
    """Cut texts into what one request may carry."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (size + len(text) > _CHARACTERS or len(part) == _TEXTS):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield part


def _rows(answer: Any, count: int, place: str) -> list[list[float]]:
    data = pick(answer, "data")
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise EndpointError(f"{place}: the answer lacks the list 'data'. Check the endpoint.")
    rows: list[list[float]] = []
    for index, entry in enumerate(in_order(data, count, "embeddings", place)):
        values = entry.get("embedding")
        sound = isinstance(values, list) and values
        if not sound or not all(type(v) in (int, float) and math.isfinite(v) for v in values):
            raise EndpointError(f"{place}: embedding {index} is not a list of finite numbers.")
        rows.append(values)
    return rows


def in_order(data: list[Any], count: int, what: str, place: str) -> list[Any]:
    """Sort entries in the order of the texts, which `index` tells."""
    if len(data) != count:
        raise EndpointError(f"{place}: {len(data)} {what} for {count} texts. Check the endpoint.")
    items: dict[int, Any] = {}
    for entry in data:
        index = entry.get("index")
        if type(index) is not int or not 0 <= index < count or index in items:
            raise EndpointError(
                f"{place}: the places (index) of the {what} are not 0 to {count - 1}, each "
                f"once: {index if type(index) is int else type(index).__name__}."
            )
        items[index] = entry
    return [items[index] for index in range(count)]


def _as_matrix(rows: list[list[float]], place: str) -> NDArray[np.float32]:
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        sizes = f"{widths[0]} and of {widths[-1]} dimensions"
        raise EndpointError(f"{place}: embeddings of {sizes} in one answer. Check the endpoint.")
    return np.array(rows, np.float32)
