"""Search APIs over HTTP: each preset against a server that speaks its shape, and bad endpoints."""

from __future__ import annotations

import json
import math
import socket
import ssl
import threading

import pytest

from assay.bench.endpoints import PRESETS, HttpSearch, allow_http, fill, load_http
from assay.bench.systems import Query, read_hits
from assay.core.specs import Consent
from assay.errors import EndpointError, InputError, UsageError
from tests.bench import search_servers
from tests.bench.search_servers import ENGINES, answer, plain, serve

SECRET = "S3cr3t-of-the-tests-0123456789"
OPTIONS = {
    "vespa": {"id": "fields.id"},
    "typesense": {"collection": "Docs"},
    "qdrant": {"id": "payload.doc", "body": {"query": {"text": "{{query}}", "model": "bm25"}}},
    "weaviate": {"collection": "Docs", "id": "doc"},
}
BODY = '{"q": "{{query}}", "n": "{{k}}"}'
PLAIN = {"body": BODY, "hits": "results", "id": "doc.key", "score": "match"}


def query(text="red fox", k=10, **fields):
    return Query("q1", text, k, fields)


def ask(url, asked=None, **settings):
    return load_http(url, settings)(query() if asked is None else asked)


@pytest.fixture
def api():
    with serve(plain) as server:
        yield server


def test_every_preset_has_a_server():
    assert ENGINES.keys() == PRESETS.keys()


@pytest.mark.parametrize("name", ENGINES)
def test_a_preset_returns_what_the_engine_returns(name):
    with serve(ENGINES[name]) as server:
        ask = load_http(f"{name}:{server.url}/docs", OPTIONS.get(name, {}))
        for text in ("red fox", "whale", 'a "quoted" \\ {{k}} whale {x}\n', "nothing of that"):
            for k in (1, 2, 10):
                hits = read_hits(ask(query(text, k)))
                expected = search_servers.search(text, k)
                assert hits.ids == [id for id, _ in expected], server.bodies[-1]
                if expected and name != "typesense":
                    scale = 10 if name == "meilisearch" else 1
                    assert [scale * s for s in hits.scores] == pytest.approx(
                        [score for _, score in expected]
                    )


@pytest.mark.parametrize("name", ENGINES)
def test_a_preset_passes_filters_on(name):
    rules = [("tenant", "=", "b"), ("date", ">=", "2024-02-01"), ("date", "<=", "2025-01-01")]
    with serve(ENGINES[name]) as server:
        settings = {**OPTIONS.get(name, {}), "filters": "tenant,date>=since,date<=until"}
        ask = load_http(f"{name}:{server.url}/docs", settings)
        fields = {"tenant": "b", "since": "2024-02-01", "until": "2025-01-01"}
        hits = read_hits(ask(query("red fox whale", **fields)))
        assert hits.ids == [id for id, _ in search_servers.search("red fox whale", 10, rules)]
        assert hits.ids == ["d2"]
        with pytest.raises(InputError, match="'since'"):
            ask(query("red", tenant="b"))


def test_a_filter_cannot_leave_its_quotes():
    evil = 'a" OR tenant = "b'
    for name in ("meilisearch", "vespa"):
        body = load_http(f"{name}:http://127.0.0.1:1/docs", {"filters": "tenant"}).body
        filled = fill(body, {"query": "x", "k": 1, "tenant": evil})
        clause = filled["yql"] if name == "vespa" else filled["filter"][0]
        assert clause.endswith(f" {json.dumps(evil)}")
    typesense = load_http(
        "typesense:http://127.0.0.1:1", {"filters": "tenant", "collection": "Docs"}
    )
    with pytest.raises(InputError, match="backtick"):
        typesense(query(tenant="a` || tenant:=`b"))


def test_scores_that_float64_cannot_hold_stay_apart():
    with serve(ENGINES["typesense"]) as server:
        pairs = ask(f"typesense:{server.url}/docs?collection=Docs", query("red fox whale"))
        scores = [score for _, score in pairs]
        assert len(set(map(float, scores))) == len(scores) == 5
        assert scores == sorted(scores, reverse=True)


def test_an_api_of_my_own_by_post_and_get(api):
    expected = search_servers.search("red fox", 10)
    assert ask(api.url, **PLAIN) == expected
    assert ask(f"{api.url}/a/b/", **PLAIN, method="get") == expected
    assert api.bodies[-1] == {"q": "red fox", "n": "10"}
    assert ask(api.url, **{**PLAIN, "score": ""}) == [id for id, _ in expected]
    assert ask(api.url, **PLAIN, scores="low") == expected  # whoever ranks turns them round
    assert ask(api.url, query(k=1), **PLAIN) == expected[:1]
    assert ask(api.url, query(k=99), **PLAIN, most=2) == expected[:2]
    assert api.bodies[-1]["n"] == 2


def test_a_spec_on_the_command_line_says_all(api):
    spec = f"{api.url}?body={BODY}&hits=results&id=doc.key&score=match&timeout=5"
    assert ask(spec) == search_servers.search("red fox", 10)


# Keys and consent


def test_a_key_comes_from_the_environment_and_goes_nowhere_else(api, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    system = load_http(api.url, {**PLAIN, "key_env": "SEARCH_KEY", "key_header": "api-key: "})
    system(query())
    assert api.headers[-1]["Api-Key"] == SECRET
    assert SECRET not in repr(system)
    assert (
        system.fingerprint == load_http(api.url, {**PLAIN, "key_header": "api-key: "}).fingerprint
    )
    for status in (400, 401, 403, 404, 429, 500, 503):
        api.script = [answer(status, {"error": {"reason": f"bad key {SECRET}"}})]
        with pytest.raises((EndpointError, InputError), match=str(status)) as caught:
            system(query())
        assert SECRET not in str(caught.value)
        assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("name", ["elasticsearch", "typesense", "qdrant", "weaviate"])
def test_presets_know_the_header_of_the_key(name, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    headers = {
        "elasticsearch": ("Authorization", f"ApiKey {SECRET}"),
        "typesense": ("X-Typesense-Api-Key", SECRET),
        "qdrant": ("Api-Key", SECRET),
        "weaviate": ("Authorization", f"Bearer {SECRET}"),
    }
    with serve(ENGINES[name]) as server:
        ask(f"{name}:{server.url}/docs", **OPTIONS.get(name, {}), key_env="SEARCH_KEY")
        header, value = headers[name]
        assert server.headers[0][header] == value


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"headers": {"X-Api-Key": SECRET}},
        {"headers": {"Cookie": f"session={SECRET}"}},
        {"body": {"q": "{{query}}", "n": "{{k}}", "api_key": SECRET}},
    ],
)
def test_a_key_in_a_config_is_refused_and_not_repeated(settings):
    with pytest.raises(UsageError, match="key_env") as caught:
        load_http("http://127.0.0.1:1", {**PLAIN, **settings})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"http://me:{SECRET}@127.0.0.1:1/x",
        f"https://{SECRET}@example.org/x",
        f"http://127.0.0.1:1/x?apikey={SECRET}",
        f"http://127.0.0.1:1/x#{SECRET}",
        f"ftp://{SECRET}/x",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError) as caught:
        load_http(url, PLAIN)
    assert SECRET not in str(caught.value)


def test_a_key_does_not_travel_in_plain_text(monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    with pytest.raises(
        UsageError, match=r"The key in SEARCH_KEY would go to example\.org in plain text"
    ):
        load_http("http://example.org/x", {**PLAIN, "key_env": "SEARCH_KEY"})
    with pytest.raises(UsageError, match="SEARCH_KEYS is not set"):
        load_http("https://example.org/x", {**PLAIN, "key_env": "SEARCH_KEYS"})


def test_a_file_needs_consent_for_the_host_and_for_the_key():
    argument, settings = "solr:https://search.example.org/solr/docs?field=body", {"key_env": "K"}
    with pytest.raises(UsageError, match=r"--allow-endpoint search\.example\.org"):
        allow_http(argument, {}, Consent(), "bench.toml")
    host = Consent.of(endpoints=["search.example.org"])
    allow_http(argument, {}, host, "bench.toml")
    with pytest.raises(UsageError, match=r"search\.example\.org=K"):
        allow_http(argument, settings, host, "bench.toml")
    with pytest.raises(UsageError, match=r"search\.example\.org=K"):
        allow_http(f"{argument}&key_env=K", {}, host, "bench.toml")
    allow_http(argument, settings, Consent.of(endpoints=["search.example.org=K"]), "bench.toml")


# Bad settings


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ("example.org", {}, "http:PRESET:URL"),
        ("elastic:http://127.0.0.1:1", {}, "Did you mean elasticsearch"),
        ("http://127.0.0.1:1", {}, "needs a body"),
        ("http://127.0.0.1:1", {**PLAIN, "hit": "x"}, "Did you mean hits"),
        ("http://127.0.0.1:1?hits=a&hits=b", PLAIN, "each setting once"),
        ("http://127.0.0.1:1", {**PLAIN, "body": '{"q": 1'}, "body"),
        ("http://127.0.0.1:1", {**PLAIN, "body": '{"q": "x", "n": "{{k}}"}'}, "{{query}}"),
        ("http://127.0.0.1:1", {**PLAIN, "body": '{"q": "{{query}}"}'}, "{{k}}"),
        ("http://127.0.0.1:1", {**PLAIN, "filters": "tenant"}, "{{tenant}}"),
        ("http://127.0.0.1:1", {**PLAIN, "body": '{"q": "{{query:sql}} {{k}}"}'}, "quoting"),
        ("http://127.0.0.1:1", {**PLAIN, "method": "DELETE"}, "method"),
        ("http://127.0.0.1:1", {**PLAIN, "scores": "best"}, "scores"),
        ("http://127.0.0.1:1", {**PLAIN, "most": "many"}, "most"),
        ("http://127.0.0.1:1", {**PLAIN, "timeout": 0}, "timeout"),
        ("http://127.0.0.1:1", {**PLAIN, "hits": 3}, "hits"),
        ("http://127.0.0.1:1", {**PLAIN, "body": ["{{query}}", "{{k}}"]}, "body"),
        (
            "http://127.0.0.1:1",
            {**PLAIN, "headers": {"X-Team": "a\r\nHost: b"}},
            "headers hold a value that is not text",
        ),
        (
            "http://127.0.0.1:1",
            {**PLAIN, "headers": {"X-Team": "ä"}},
            "headers hold a value that is not text",
        ),
        (
            "http://127.0.0.1:1",
            {**PLAIN, "key_header": "key"},
            "headers hold a value that is not text",
        ),
        ("typesense:http://127.0.0.1:1", {}, "collection=NAME"),
        ("solr:http://127.0.0.1:1", {"filters": "a;b"}, "Cannot read the filter 'a;b'"),
        ("solr:http://127.0.0.1:1", {"filters": "n<=k"}, "Rename it"),
    ],
)
def test_bad_settings_are_named(spec, settings, words):
    with pytest.raises((UsageError, InputError)) as caught:
        load_http(spec, settings)
    assert words in str(caught.value)


# Bad endpoints


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>", "cannot read the answer"),
        (b'{"results": [', "cannot read the answer"),
        (b'{"results": [{"doc": {"key": "d1"}, "match": NaN}]}', "cannot read the answer"),
        (b'{"results": [{"doc": {"key": "d1"}, "match": 1e999}]}', ""),
        (b"\xff\xfe", "cannot read the answer"),
        ({"found": []}, "no list at 'results'"),
        ([], "no list at 'results'"),
        ({"results": None}, "no list at 'results'"),
        ({"results": {"a": 1}}, "no list at 'results'"),
        ({"results": [{"doc": {"key": "d1"}, "match": 1}, {"match": 2}]}, "hit 2 has no id"),
        ({"results": [{"doc": {"key": None}, "match": 1}]}, "hit 1 has no id"),
        ({"results": [7]}, "hit 1 has no id"),
        ({"results": [{"doc": {"key": "d1"}, "match": None}]}, "hit 1 has the score None"),
        ({"results": [{"doc": {"key": "d1"}, "match": "nan"}]}, "hit 1 has the score 'nan'"),
        ({"results": [{"doc": {"key": "d1"}, "match": True}]}, "hit 1 has the score True"),
        (
            b'{"results": [{"doc": {"key": "d1"}, "match": ' + b"9" * 5000 + b"}]}",
            "cannot read the answer",
        ),
    ],
)
def test_a_wrong_answer_is_named(api, content, words):
    api.script = [answer(200, content)]
    with pytest.raises((InputError, EndpointError)) as caught:
        ask(api.url, **PLAIN)
    assert words in str(caught.value)
    assert len(api.bodies) == 1  # who asks decides whether to ask again


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("elasticsearch", {"timed_out": True, "hits": {"hits": []}}, "timed_out"),
        ("opensearch", {"_shards": {"failed": 2}, "hits": {"hits": []}}, "_shards.failed: 2"),
        ("solr", {"responseHeader": {"partialResults": True}}, "partialResults"),
        ("vespa", {"root": {"errors": [{"message": "Timeout"}]}}, "Timeout"),
        ("vespa", {"root": {"coverage": {"degraded": {"timeout": True}}}}, "degraded"),
        ("vespa", {}, "no list at"),
        ("typesense", {"results": [{"code": 404, "error": "Not found."}]}, "Not found."),
        ("weaviate", {"data": {"Get": None}, "errors": [{"message": "no such"}]}, "no such"),
    ],
)
def test_a_failure_inside_a_success_is_no_empty_answer(name, content, words):
    with serve(ENGINES[name]) as server:
        server.script = [answer(200, content)]
        with pytest.raises((EndpointError, InputError), match=words):
            ask(f"{name}:{server.url}/docs", **OPTIONS.get(name, {}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"error": {"reason": "no such index [docs]"}}, "no such index"),
        ({"error": {"msg": "undefined field text"}}, "undefined field"),
        ({"message": "Could not find a field"}, "Could not find"),
        ({"status": {"error": "Not found: Collection"}}, "Not found: Collection"),
        ({"root": {"errors": [{"message": "Invalid query"}]}}, "Invalid query"),
    ],
)
def test_the_words_of_engines_are_quoted(api, content, words):
    api.script = [answer(404, content)]
    with pytest.raises(InputError, match=f"404: {words}"):
        ask(api.url, **PLAIN)


def test_what_may_pass_is_told_from_what_does_not(api):
    for status in (401, 403, 404, 400):
        api.script = [answer(status)]
        with pytest.raises(InputError):
            ask(api.url, **PLAIN)
    for status, seconds in ((429, 7.0), (500, None), (503, 2.5)):
        headers = {} if seconds is None else {"Retry_After": str(seconds)}
        api.script = [answer(status, **headers)]
        with pytest.raises(EndpointError) as caught:
            ask(api.url, **PLAIN)
        assert caught.value.retry_after == seconds


def test_a_redirect_is_not_followed(api, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    with serve(plain) as other:
        api.script = [answer(status, Location=other.url) for status in (301, 302, 307, 308)]
        for _ in range(4):
            with pytest.raises(InputError, match="redirects, which is not followed"):
                ask(api.url, **PLAIN, key_env="SEARCH_KEY")
        assert other.bodies == []


def test_a_huge_answer_is_given_up(api, monkeypatch):
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(10 << 30))
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" " * (1 << 20))
                sent.append(1)
        except OSError:
            pass

    monkeypatch.setattr("assay.bench.endpoints._LARGEST", 1 << 22)
    api.script = [endless]
    with pytest.raises(InputError, match="the answer exceeds 4 MiB"):
        ask(api.url, **PLAIN)
    assert len(sent) < 100


def test_a_slow_answer_is_a_time_out(api):
    over = threading.Event()
    api.script = [lambda handler: over.wait(20)]
    try:
        with pytest.raises(TimeoutError, match=r"0\.2 seconds"):
            ask(api.url, **PLAIN, timeout=0.2)
    finally:
        over.set()


def test_a_refused_connection_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EndpointError, match="ConnectionRefusedError"):
        ask(f"http://127.0.0.1:{port}/", **PLAIN)


@pytest.fixture
def certificate(tmp_path):
    """A certificate that nobody signed."""
    x509 = pytest.importorskip("cryptography.x509")
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(1))
        .not_valid_after(now + timedelta(1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "own.pem"
    plain_key = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, pkcs8, plain_key) + made.public_bytes(pem))
    return file


def test_a_certificate_that_fails_is_named(api, certificate, monkeypatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    api.http.socket = context.wrap_socket(api.http.socket, server_side=True)
    url = api.url.replace("http:", "https:")
    with pytest.raises(
        InputError, match="Add your authority's certificate to the file of SSL_CERT_FILE"
    ):
        ask(url, **PLAIN)
    assert api.bodies == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert ask(url, **PLAIN) == search_servers.search("red fox", 10)


def test_a_template_is_filled_once_and_keeps_types():
    values = {"query": "{{k}} {{tenant:json}}", "k": 3, "tenant": 7, "tags": ["a", "b"]}
    template = {"q": "{{query}}", "n": ["{{k}}", 1, None], "t": "t={{tenant}}", "l": "{{tags}}"}
    assert fill(template, values) == {
        "q": "{{k}} {{tenant:json}}",
        "n": [3, 1, None],
        "t": "t=7",
        "l": ["a", "b"],
    }
    assert not math.isnan(HttpSearch("http://127.0.0.1:1", **PLAIN).timeout)
