"""A real server on this machine that speaks /v1/embeddings, and misbehaves as it is told."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def vector(text):
    return [float(len(text)), float(text.count("a")), 1.0]


def right_answer(texts):
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": i, "embedding": vector(text)}
            for i, text in enumerate(texts)
        ],
    }


class Fake:
    """What was asked, and what to answer: `script` holds one function for each request to come.

    A function gets the handler and the texts; when the script is used up, answers are right.
    """

    def __init__(self):
        self.asked, self.keys, self.paths, self.script, self.bodies = [], [], [], [], []
        self.url = ""

    def answer(self, handler, texts):
        act = self.script.pop(0) if self.script else None
        if act is None:
            send(handler, 200, right_answer(texts))
        else:
            act(handler, texts)


def send(handler, status, content, headers=()):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def status(code, content=None, **headers):
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return lambda handler, texts: send(handler, code, content or {}, pairs)


def content(make):
    """A success whose content is made of the texts."""
    return lambda handler, texts: send(handler, 200, make(texts))


@contextmanager
def endpoint():
    fake = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            fake.keys.append(self.headers.get("Authorization"))
            fake.paths.append(self.path)
            body = json.loads(raw)
            fake.bodies.append(body)
            texts = next(body[key] for key in ("input", "documents", "texts") if key in body)
            fake.asked.append(texts)
            fake.answer(self, texts)

        def do_GET(self):
            fake.paths.append(self.path)
            fake.keys.append(self.headers.get("Authorization"))
            send(self, 200, right_answer([]))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
