"""What an embedding endpoint can do wrong, against a real server on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from email.utils import formatdate
from functools import partial

import numpy as np
import pytest

from assay.errors import EndpointError, ShapeError, UsageError
from assay.models import EmbeddingCache, EncoderSettings, text_model
from assay.models.adapters import openai
from tests.models.fake_endpoint import content, right_answer, send, status, vector
from tests.models.fake_endpoint import endpoint as fake_endpoint
from tests.waiting import PATIENCE, until

KEY = "sk-secret-0123456789abcdef"


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with fake_endpoint() as server:
        yield server


@pytest.fixture
def waits(monkeypatch):
    """Seconds that would have been waited."""
    found = []
    monkeypatch.setattr(openai, "sleep", found.append)
    return found


def model(fake, cache=None):
    return text_model("openai:m", settings=EncoderSettings(base_url=fake.url), cache=cache)


def refused(fake, words, texts=("a", "bb")):
    """The error, which holds these words and nowhere the key."""
    with pytest.raises((EndpointError, ShapeError), match=words) as caught:
        model(fake).encode_docs(list(texts))
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_a_right_answer(fake):
    made = model(fake).encode_docs(["a", "bbb", "", "a"])
    assert made.vectors.tolist() == [vector("a"), vector("bbb"), [0, 0, 0], vector("a")]
    assert fake.asked == [["a", "bbb"]]
    assert fake.keys == [f"Bearer {KEY}"]
    assert fake.paths == ["/v1/embeddings"]


def test_without_a_key_none_is_sent(fake, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    model(fake).encode_docs(["a"])
    assert fake.keys == [None]


def test_many_texts_go_in_many_requests(fake):
    texts = [f"text {i}" for i in range(300)]
    made = model(fake).encode_docs(texts)
    assert made.vectors.tolist() == [vector(text) for text in texts]
    assert [len(part) for part in fake.asked] == [64, 64, 64, 64, 44]
    long = ["a" * 150_000, "b" * 150_000, "c" * 300_000, "d"]
    model(fake).encode_docs(long)
    assert [len(part) for part in fake.asked[5:]] == [1, 1, 1, 1]


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504, 408])
def test_a_passing_fault_is_tried_again(fake, waits, code):
    fake.script = [status(code), status(code)]
    assert model(fake).encode_docs(["a"]).vectors.tolist() == [vector("a")]
    assert len(fake.asked) == 3
    assert 0.25 <= waits[0] <= 0.5 <= waits[1] <= 1


def test_a_lasting_fault_is_told(fake, waits):
    fake.script = [status(500, {"error": {"message": "all is lost"}})] * 6
    error = refused(fake, r"HTTP 500: all is lost \(6 times\)")
    assert error.exit_code == 5
    assert len(fake.asked) == 6
    assert all(0.25 * 2**i <= wait <= 0.5 * 2**i for i, wait in enumerate(waits))


def test_retry_after_is_honoured(fake, waits):
    date = formatdate(time.time() + 50, usegmt=True)
    fake.script = [
        status(429, Retry_After="7"),
        status(429, Retry_After=date),
        status(429, Retry_After="soon"),
        status(503, Retry_After="Fri, 01 Jan 1999 00:00:00 GMT"),
    ]
    model(fake).encode_docs(["a"])
    assert waits[0] == 7
    assert 20 < waits[1] <= 50
    assert 1 <= waits[2] <= 2
    assert 2 <= waits[3] <= 4


def test_a_wait_that_is_too_long_is_told(fake, waits):
    fake.script = [status(429, Retry_After="3600")]
    refused(fake, "asks to wait 3600 seconds")
    assert waits == []


@pytest.mark.parametrize("code", [400, 404, 422])
def test_a_request_that_is_wrong_is_not_repeated(fake, waits, code):
    fake.script = [status(code, {"error": "no such model"})]
    refused(fake, f"HTTP {code}: no such model")
    assert len(fake.asked) == 1


@pytest.mark.parametrize("code", [401, 403])
def test_a_wrong_key_is_told_without_the_servers_words(fake, waits, code):
    fake.script = [status(code, {"error": {"message": f"Incorrect API key: {KEY}"}})]
    error = refused(fake, rf"HTTP {code}\. Check OPENAI_API_KEY\.")
    assert "Incorrect" not in str(error)


def test_a_server_that_repeats_the_key(fake, waits):
    fake.script = [
        status(400, {"error": {"message": f"bad header\n\x1b[31m Bearer {KEY}"}}),
    ]
    error = refused(fake, r"bad header \[31m Bearer \*\*\*")
    assert "\x1b" not in str(error)
    doubled = f'{{"{KEY}": 1, "{KEY}": 2}}'.encode()
    fake.script = [status(200, doubled)] * 6
    refused(fake, r"the key '\*\*\*' appears twice")
    fake.script = [content(lambda texts: {"data": [{"index": KEY, "embedding": KEY}] * 2})]
    refused(fake, "embeddings are not 0 to 1, each once: str")
    both = [{"index": at, "embedding": KEY} for at in range(2)]
    fake.script = [content(lambda texts: {"data": both})]
    refused(fake, "embedding 0 is not a list of finite")


def test_a_slow_answer_is_tried_again(fake, waits, monkeypatch):
    monkeypatch.setattr(openai, "Endpoint", partial(openai.Endpoint, timeout=1.0))
    never = threading.Event()
    fake.script = [lambda handler, texts: never.wait(20)] * 2
    try:
        assert model(fake).encode_docs(["a"]).n_computed == 1
    finally:
        never.set()
    assert len(fake.asked) >= 3


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.0 200 OK\r\nX-Slow: ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;size-of-a-chunk=",
    ],
)
def test_headers_that_trickle_are_given_up(fake, waits, monkeypatch, start):
    monkeypatch.setattr(openai, "Endpoint", partial(openai.Endpoint, timeout=0.5))
    stop = threading.Event()

    def trickle(handler, texts):
        handler.wfile.write(start)
        with suppress(OSError):
            while not stop.wait(0.05):
                handler.wfile.write(b"x")
                handler.wfile.flush()

    fake.script = [trickle] * 6
    try:
        refused(fake, "no answer within 0.5 seconds")
    finally:
        stop.set()


def test_an_answer_that_trickles_is_given_up(fake, waits, monkeypatch):
    monkeypatch.setattr(openai, "Endpoint", partial(openai.Endpoint, timeout=0.5))
    stop = threading.Event()

    def trickle(handler, texts):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        while not stop.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    fake.script = [trickle] * 6
    try:
        refused(fake, r"no answer within 0.5 seconds \(6 times\)")
    finally:
        stop.set()


def test_truncated_json(fake, waits):
    fake.script = [
        content(lambda texts: json.dumps(right_answer(texts)).encode()[:-7]),
        content(lambda texts: b""),
        content(lambda texts: b"\xff\xfe"),
    ]
    assert model(fake).encode_docs(["a"]).n_computed == 1
    fake.script = [content(lambda texts: b'{"data": [')] * 6
    refused(fake, "cannot read the answer.*not JSON")


def test_a_connection_that_breaks_off(fake, waits):
    def cut(handler, texts):
        body = json.dumps(right_answer(texts)).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:20])

    fake.script = [cut, lambda handler, texts: handler.connection.close()]
    assert model(fake).encode_docs(["a"]).n_computed == 1
    fake.script = [cut] * 6
    refused(fake, r"the answer ended after 20 of 162 bytes \(6")


def test_nobody_listens(waits, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with fake_endpoint() as gone:
        pass
    refused(gone, r"no connection or incomplete answer \(ConnectionRefusedError\) \(6 times\)")


@pytest.mark.parametrize("extra", [-1, 1])
def test_the_wrong_count(fake, waits, extra):
    fake.script = [content(lambda texts: right_answer([*texts, "c"][: len(texts) + extra]))]
    refused(fake, f"{2 + extra} embeddings for 2 texts")


def test_a_reordered_index(fake):
    def reversed_answer(texts):
        answer = right_answer(texts)
        answer["data"].reverse()
        return answer

    fake.script = [content(reversed_answer)]
    assert model(fake).encode_docs(["a", "bb"]).vectors.tolist() == [vector("a"), vector("bb")]


@pytest.mark.parametrize("index", [[0, 0], [0, 2], [-1, 0], [None, None], [True, 0], ["0", "1"]])
def test_places_that_make_no_sense(fake, index):
    def answer(texts):
        rows = right_answer(texts)["data"]
        return {"data": [{**row, "index": i} for row, i in zip(rows, index, strict=True)]}

    fake.script = [content(answer)]
    refused(fake, "each once: ")


def with_rows(*rows):
    return content(
        lambda texts: {"data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]}
    )


def test_the_wrong_dimension(fake):
    fake.script = [with_rows([1, 2, 3], [1, 2])]
    refused(fake, "embeddings of 2 and of 3 dimensions in one answer")
    fake.script = [None, with_rows(*[[1.0]] * 2)]
    texts = [f"t{i}" for i in range(66)]
    refused(fake, "returned 1 dimensions, but 3 for other texts", texts)


@pytest.mark.parametrize("row", [[], None, "1,2,3", [1, None, 3], [1, True, 3], [[1], [2]], ["1"]])
def test_what_is_no_vector(fake, row):
    fake.script = [with_rows([1, 2, 3], row)]
    refused(fake, "embedding 1 is not a list of finite numbers")


def test_nan_and_infinity(fake, waits):
    fake.script = [status(200, b'{"data": [{"index": 0, "embedding": [NaN]}]}')] * 6
    refused(fake, "cannot read the answer")
    fake.script = [status(200, b'{"data": [{"index": 0, "embedding": [1e999]}]}')] * 6
    refused(fake, "cannot read the answer", ["a"])


@pytest.mark.parametrize("data", [None, [], {}, "x", {"data": 3}, {"data": [1, 2]}, {"dat": []}])
def test_what_is_no_answer(fake, data):
    fake.script = [content(lambda texts: json.dumps(data).encode())]
    refused(fake, "/v1/embeddings: the answer lacks the list 'data'")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_key_stays(fake, waits, code):
    with fake_endpoint() as other:
        fake.script = [status(code, Location=f"{other.url}/embeddings")]
        refused(fake, f"HTTP {code} redirects")
        assert other.paths == []
        assert other.keys == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "file:///etc/passwd",
        "host:80",
        "",
        "http://",
        f"http://user:{KEY}@host/v1",
        f"http://host/v1?key={KEY}",
        f"http://host/v1#{KEY}",
        "http://host:99999/v1",
        "http://[::1/v1",
    ],
)
def test_addresses_that_are_none_or_hold_a_secret(url, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", url or "x")
    with pytest.raises(UsageError, match="Invalid endpoint address") as caught:
        text_model("openai:m")
    assert KEY not in str(caught.value)


def test_a_key_with_line_ends(fake, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\r\nX-Evil: 1")
    with pytest.raises(UsageError, match="holds invalid characters") as caught:
        model(fake).encode_docs(["a"])
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert fake.asked == []


def test_the_key_is_neither_in_the_model_nor_on_disk(
    fake, waits, tmp_path, caplog, capfd, monkeypatch
):
    made = model(fake, EmbeddingCache(tmp_path))
    fake.script = [status(500, {"error": {"message": KEY}})]
    first = made.fingerprint
    assert made.encode_docs(["a"]).n_computed == 1
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert model(fake).fingerprint == first
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in kept
    assert KEY not in repr(made) + repr(vars(made)) + caplog.text + "".join(capfd.readouterr())


def test_the_model_and_the_address_enter_the_fingerprint(fake):
    one = model(fake).fingerprint
    settings = EncoderSettings(base_url=fake.url)
    assert text_model("openai:other", settings=settings).fingerprint != one
    other = EncoderSettings(base_url=fake.url + "/x")
    assert text_model("openai:m", settings=other).fingerprint != one


def test_what_was_finished_is_not_asked_again(fake, waits, tmp_path):
    cache = EmbeddingCache(tmp_path)
    texts = [f"text {i}" for i in range(200)]
    fake.script = [None, status(400)]
    with pytest.raises(EndpointError):
        model(fake, cache).encode_docs(texts)
    done = model(fake, cache).encode_docs(texts)
    assert done.n_computed == 136
    assert np.array_equal(done.vectors, np.array([vector(text) for text in texts], np.float32))


def test_ctrl_c_ends_at_once(fake):
    """While a request hangs and while a retry is waited for."""
    hanging = threading.Event()
    fake.script = [status(429, Retry_After="100"), lambda handler, texts: hanging.wait(60)]
    code = (
        "from assay.models import text_model\n"
        "from assay.models.adapters import openai\n"
        "sleep = openai.sleep\n"
        "openai.sleep = lambda seconds: (print('waiting', flush=True), sleep(seconds))\n"
        "try:\n    text_model('openai:m').encode_docs(['a'])\n"
        "except KeyboardInterrupt:\n    raise SystemExit(130)\n"
    )
    environment = {**os.environ, "OPENAI_BASE_URL": fake.url}
    try:
        for requests in (1, 2):
            command = [sys.executable, "-c", code]
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
                until(lambda count=requests: len(fake.asked) == count)
                assert requests == 2 or process.stdout.readline() == b"waiting\n"
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 130
    finally:
        hanging.set()


def test_a_large_answer_is_refused(fake, monkeypatch):
    monkeypatch.setattr(openai, "Endpoint", partial(openai.Endpoint, largest=1000))

    def endless(handler, texts):
        send(handler, 200, b" " * 100_000)

    fake.script = [endless]
    refused(fake, "the answer exceeds 0 MiB")


def test_a_key_does_not_travel_in_plain_text(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for host in ("example.org", "10.0.0.1", "127.0.0.1.example.org", "localhost.example.org"):
        plain = EncoderSettings(base_url=f"http://{host}/v1")
        with pytest.raises(UsageError, match=f"would go to {host} in plain text") as caught:
            text_model("openai:m", settings=plain)
        assert KEY not in str(caught.value)
        text_model("openai:m", settings=EncoderSettings(base_url=f"https://{host}/v1"))
        text_model("openai:m", settings=EncoderSettings(base_url=f"http://{host}/v1", key_env=""))
    for host in ("127.0.0.1:8", "localhost", "[::1]:8", "127.9.9.9"):
        text_model("openai:m", settings=EncoderSettings(base_url=f"http://{host}/v1"))


def test_no_proxy_sees_what_stays_on_this_machine(fake, monkeypatch):
    with fake_endpoint() as proxy:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert model(fake).encode_docs(["a"]).n_computed == 1
        assert proxy.keys == []
    assert fake.keys == [f"Bearer {KEY}"]


def test_another_variable_holds_the_key(fake, monkeypatch):
    monkeypatch.setenv("MY_KEY", "mine-0123456789")
    settings = EncoderSettings(base_url=fake.url, key_env="MY_KEY")
    made = text_model("openai:m", settings=settings)
    made.encode_docs(["a"])
    text_model("openai:m", settings=EncoderSettings(base_url=fake.url, key_env="")).encode_docs(
        ["b"]
    )
    assert fake.keys == ["Bearer mine-0123456789", None]
    plain = text_model("openai:m", settings=EncoderSettings(base_url=fake.url))
    assert made.fingerprint == plain.fingerprint, "vectors do not depend on the key"
    fake.script = [status(401)]
    with pytest.raises(EndpointError, match=r"HTTP 401\. Check MY_KEY\."):
        made.encode_docs(["c"])


@pytest.mark.parametrize(
    "echo",
    [
        KEY.upper(),
        " ".join(KEY),
        f"{KEY[:9]}\n{KEY[9:]}",
        f"{KEY[:9]}\x00{KEY[9:]}",
        f"authorization:  bearer   {KEY.upper()}",
        'headers: {"Api-Key": "another-key"}',
        "x-api-key=another-key",
        "?a=1&API_KEY=another-key&b=2",
        "https://me:another-key@host",
        "Bearer\tanother-key",
    ],
)
def test_no_key_is_repeated_in_any_case_or_spacing(fake, waits, echo):
    fake.script = [status(400, {"error": {"message": f"bad request: {echo}"}})]
    words = str(refused(fake, r"\*\*\*"))
    bare = "".join(words.split()).lower()
    assert "another-key" not in bare
    assert KEY not in bare
    assert "secret" not in bare
