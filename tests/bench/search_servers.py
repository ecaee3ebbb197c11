"""A real server on this machine that speaks the search API of each preset, over one small index."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

DOCS = {
    "d1": ("red fox jumps", "a", "2024-01-01"),
    "d2": ("red red fox", "b", "2024-06-01"),
    "d3": ("blue whale", "a", "2025-01-01"),
    "d4": ("fox and whale", "b", "2025-06-01"),
    "d5": ("red whale", "a", "2025-07-01"),
}
_TESTS = {"=": str.__eq__, ">=": str.__ge__, "<=": str.__le__}


def search(text, k, rules=()):
    """Return (id, score) pairs by the number of shared words; rules are (column, op, value)."""
    scored = []
    for id, (body, tenant, date) in DOCS.items():
        columns = {"tenant": tenant, "date": date}
        score = sum(body.split().count(word) for word in set(text.split()))
        if score and all(_TESTS[op](columns[name], value) for name, op, value in rules):
            scored.append((id, score + int(id[1:]) / 100))  # no ties
    return sorted(scored, key=lambda pair: -pair[1])[:k]


# Each reads a request strictly, as the engine does, and answers in its shape.


def elasticsearch(path, body, headers):
    assert path == "/docs/_search"
    assert set(body) == {"query", "size", "_source"}
    query = body["query"]["bool"]
    rules = []
    for clause in query["filter"]:
        ((kind, ((name, value),)),) = [(kind, item.items()) for kind, item in clause.items()]
        if kind == "term":
            rules.append((name, "=", value))
        else:
            ((bound, limit),) = value.items()
            rules.append((name, {"gte": ">=", "lte": "<="}[bound], limit))
    hits = search(query["must"]["match"]["text"], body["size"], rules)
    hits = [{"_index": "docs", "_id": id, "_score": score} for id, score in hits]
    shards = {"total": 1, "successful": 1, "failed": 0}
    return {"timed_out": False, "_shards": shards, "hits": {"hits": hits}}


def solr(path, body, headers):
    assert path == "/docs/select"
    assert body["params"] == {"defType": "edismax", "qf": "text"}
    rules = []
    for clause in body["filter"]:
        if match := re.fullmatch(r"\{!term f=(\w+)\}(.*)", clause):
            rules.append((match[1], "=", match[2]))
        elif match := re.fullmatch(r'(\w+):\[("[^"]*") TO \*\]', clause):
            rules.append((match[1], ">=", json.loads(match[2])))
        else:
            match = re.fullmatch(r'(\w+):\[\* TO ("[^"]*")\]', clause)
            rules.append((match[1], "<=", json.loads(match[2])))
    assert body["fields"] == ["id", "score"]
    docs = [{"id": id, "score": score} for id, score in search(body["query"], body["limit"], rules)]
    return {"responseHeader": {"status": 0}, "response": {"numFound": len(docs), "docs": docs}}


def vespa(path, body, headers):
    assert path == "/docs/search/"
    assert body["hits"] <= 400
    assert body["timeout"] == "30s"
    head, *clauses = body["yql"].split(" and ")
    assert head == "select * from sources * where userQuery()"
    rules = []
    for clause in clauses:
        name, operator, value = clause.split(" ", 2)
        rules.append((name, "=" if operator == "contains" else operator, json.loads(value)))
    hits = search(body["query"], body["hits"], rules)
    children = [{"id": f"id:ns:doc::{id}", "relevance": s, "fields": {"id": id}} for id, s in hits]
    root = {"id": "toplevel", "fields": {"totalCount": len(hits)}, "coverage": {"coverage": 100}}
    return {"root": {**root, **({"children": children} if children else {})}}


def typesense(path, body, headers):
    assert path == "/docs/multi_search"
    (one,) = body["searches"]
    assert one["per_page"] <= 250
    assert (one["collection"], one["query_by"], one["include_fields"]) == ("Docs", "text", "id")
    rules = []
    for clause in filter(None, one["filter_by"].split(" && ")):
        name, operator, value = re.fullmatch(r"(\w+):(=|>=|<=)(.*)", clause).groups()
        rules.append((name, operator, value.strip('`"')))
    hits = search(one["q"], one["per_page"], rules)
    # Scores that float64 cannot tell apart, as the engine's are.
    whole = [(id, 578730123365711872 + round(100 * score)) for id, score in hits]
    big = [{"document": {"id": id}, "text_match": score} for id, score in whole]
    return {"results": [{"found": len(hits), "hits": big}]}


def meilisearch(path, body, headers):
    assert path == "/docs/search"
    assert body["showRankingScore"] is True
    rules = []
    for clause in body["filter"]:
        name, operator, value = clause.split(" ", 2)
        rules.append((name, operator, json.loads(value)))
    hits = search(body["q"], min(body["limit"], 1000), rules)
    return {"hits": [{"id": id, "_rankingScore": score / 10} for id, score in hits]}


def qdrant(path, body, headers):
    assert path == "/docs/points/query"
    rules = []
    for clause in body["filter"]["must"]:
        if "match" in clause:
            rules.append((clause["key"], "=", clause["match"]["value"]))
        else:
            ((bound, limit),) = clause["range"].items()
            rules.append((clause["key"], {"gte": ">=", "lte": "<="}[bound], limit))
    hits = search(body["query"]["text"], body["limit"], rules)
    points = [{"id": n, "score": s, "payload": {"doc": id}} for n, (id, s) in enumerate(hits)]
    return {"result": {"points": points}, "status": "ok", "time": 0.0}


_STRING = r'"(?:[^"\\]|\\.)*"'


def weaviate(path, body, headers):
    assert path == "/docs/v1/graphql"
    pattern = (
        rf'\{{ Get \{{ Docs\(bm25: \{{query: ({_STRING}), properties: \["text"\]\}}, limit: (\d+)'
        r"(?:, where: \{operator: And, operands: \[(.*)\]\})?\)"
        r" \{ doc _additional \{ id score \} \} \} \}"
    )
    text, k, where = re.fullmatch(pattern, body["query"], re.S).groups()
    clause = rf'\{{path: \["(\w+)"\], operator: (\w+), value\w+: ({_STRING})\}}'
    names = {"Equal": "=", "GreaterThanEqual": ">=", "LessThanEqual": "<="}
    found = re.findall(clause, where or "")
    rules = [(name, names[operator], json.loads(value)) for name, operator, value in found]
    hits = search(json.loads(text), int(k), rules)
    rows = [{"doc": id, "_additional": {"id": "uuid", "score": str(s)}} for id, s in hits]
    return {"data": {"Get": {"Docs": rows}}}


def plain(path, body, headers):
    """An API of somebody's own; GET, too."""
    hits = search(body["q"], int(body["n"]))
    return {"results": [{"doc": {"key": id}, "match": score} for id, score in hits]}


ENGINES = {
    "elasticsearch": elasticsearch,
    "opensearch": elasticsearch,
    "solr": solr,
    "vespa": vespa,
    "typesense": typesense,
    "meilisearch": meilisearch,
    "qdrant": qdrant,
    "weaviate": weaviate,
}


class Server:
    """What was asked; `script` holds functions of the handler that answer the next requests."""

    def __init__(self):
        self.bodies, self.headers, self.script, self.url = [], [], [], ""


@contextmanager
def serve(engine):
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw) if raw else dict(parse_qsl(parts.query))
            server.bodies.append(body)
            server.headers.append(dict(self.headers))
            if server.script:
                server.script.pop(0)(self)
                return
            try:
                status, answer = 200, engine(parts.path, body, self.headers)
            except Exception as error:  # a request that the engine does not take
                status, answer = 400, {"error": {"reason": f"{type(error).__name__}: {error}"}}
            send(self, status, answer)

        def do_GET(self):
            self.do_POST()

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url, server.http = f"http://127.0.0.1:{http.server_address[1]}", http
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def send(handler, status, content, headers=()):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def answer(status, content=None, **headers):
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return lambda handler: send(handler, status, {} if content is None else content, pairs)
