"""Machine labels: a model reads each pair by a prompt; answers that cannot be read are counted.

Each answer goes to the log when it comes, with a digest of texts, prompt and model. So the log is
the cache: a run that broke off goes on where it ended, and a pair is asked again only if one of
these changed.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Final, NamedTuple

from assay.core.checks import is_real
from assay.core.specs import named_callable
from assay.core.work import tell
from assay.errors import AssayError, EndpointError, InputError, UsageError, error_text
from assay.judging.labels import Label, LabelLog, now
from assay.judging.plugin import read_asset
from assay.judging.pool import LabelPool
from assay.judging.session import GUIDELINES, LabelTexts
from assay.models.adapters.openai import KEY, Endpoint, default_address

PROMPT: Final = read_asset("judge.txt")
_GRADE: Final = re.compile(r"grade[^\w-]{0,6}(-?\d+(?:\.\d+)?)(?![\d.]*\d)", re.IGNORECASE)
_CHARACTERS_A_TOKEN: Final = 4
_ANSWER: Final = 100  # tokens, about
_NOTE: Final = 500  # characters of an answer that a label keeps


Model = Callable[[str], tuple[Any, tuple[int, int]]]


class Answer(NamedTuple):
    """Answer of a model on a pair."""

    grade: float | None
    text: str = ""
    confidence: float | None = None


class Job(NamedTuple):
    """A prompt, what it is about, and the key of its answer."""

    about: Any
    prompt: str
    key: str

    @classmethod
    def of(cls, about: Any, prompt: str, model: str) -> Job:
        """Make a job whose key changes with the model, the prompt and what it is about."""
        text = "\0".join((model, *([about] if isinstance(about, str) else about), prompt))
        return cls(about, prompt, hashlib.sha256(text.encode()).hexdigest()[:24])


@dataclass(frozen=True)
class JudgeReport:
    """Counts of a run of a judge.

    Args:
        by: The model and the digest of its prompt.
        pairs: Pairs of the pool.
        labelled: Labels made now.
        earlier: Pairs that the log had already.
        unreadable: Answers that could not be read.
        tokens_in: Tokens sent.
        tokens_out: Tokens received.
        price: Cost of them; None where no prices are known.
        seconds: How long it took.
    """

    by: str
    pairs: int
    labelled: int = 0
    earlier: int = 0
    unreadable: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    price: float | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        """Return the report as lines for people."""
        lines = [f"{self.labelled:,} of {self.pairs:,} pairs labelled by {self.by}"]
        if self.earlier:
            lines.append(f"{self.earlier:,} pairs were labelled before")
        if self.unreadable:
            lines.append(f"{self.unreadable:,} unreadable answers count as no label")
        if self.tokens_in or self.tokens_out:
            lines.append(describe_tokens(self.tokens_in, self.tokens_out, self.price))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(vars(self))


def describe_tokens(sent: int, received: int, price: float | None = None) -> str:
    """Return tokens sent and received, and their cost if prices are set."""
    cost = "" if price is None else f", cost {price:.4f}"
    return f"{sent:,} tokens sent, {received:,} received{cost}"


def price_of(prices: tuple[float, float] | None, sent: int, received: int) -> float | None:
    """Return the cost of tokens at prices per million; None without prices."""
    return prices and (sent * prices[0] + received * prices[1]) / 1e6


def parse_grade(answer: str, scale: Sequence[int]) -> float | None:
    """Read the grade that an answer ends with; None where there is none on the scale.

    An answer that is only a number counts, and `Grade: N`, of which the last counts.

    >>> parse_grade("It answers it.\\nGrade: 3", (0, 1, 2, 3)), parse_grade("7", (0, 1, 2, 3))
    (3.0, None)
    """
    stated = _GRADE.findall(answer)
    text = stated[-1] if stated else answer.strip()
    try:
        grade = float(text)
    except ValueError:
        return None
    return grade if grade in scale else None


def open_model(
    spec: str,
    *,
    base_url: str | None = None,
    key_env: str | None = None,
    temperature: float | None = None,
    rate: float | None = None,
) -> Model:
    """Open a model by its name.

    Args:
        spec: `openai:MODEL` for a chat endpoint, or `py:MODULE:FUNCTION` for a function.
        base_url: Address of the endpoint. [$OPENAI_BASE_URL, or the provider's]
        key_env: Environment variable with the key. [OPENAI_API_KEY]
        temperature: That of the model; None leaves it to the endpoint.
        rate: Requests a minute, at most; they start evenly spaced. Retries wait on their own.

    Returns:
        A function from a prompt to the answer and the tokens sent and received.

    Raises:
        UsageError: The name or the address is wrong.

    Example:
        model = open_model("openai:gpt-oss-20b", base_url="http://127.0.0.1:8000/v1")
    """
    kind, _, name = spec.partition(":")
    if not name or kind not in ("py", "openai"):
        raise UsageError(f"Unknown model {spec!r}. Write openai:MODEL or py:MODULE:FUNCTION.")
    if kind == "py":
        ask: Model = partial(_call, named_callable(name, "py:MODULE:FUNCTION"), name)
    else:
        address = (base_url or default_address()).rstrip("/")
        settings = {"model": name} | ({} if temperature is None else {"temperature": temperature})
        ask = partial(_post, Endpoint(address, KEY if key_env is None else key_env), settings)
    return ask if rate is None else _pace(ask, rate)


def _pace(ask: Model, rate: float) -> Model:
    """Let requests of all threads start evenly spaced, `rate` in a minute."""
    lock, free_from = Lock(), [0.0]

    def ask_in_turn(prompt: str) -> tuple[Any, tuple[int, int]]:
        with lock:
            turn = max(free_from[0], time.monotonic())
            free_from[0] = turn + 60 / rate
        time.sleep(max(turn - time.monotonic(), 0.0))
        return ask(prompt)

    return ask_in_turn


def _call(function: Callable[[str], Any], name: str, prompt: str) -> tuple[Any, tuple[int, int]]:
    try:
        return function(prompt), (0, 0)
    except Exception as error:  # the function is the user's
        raise InputError(f"{name} failed: {error_text(error)}.") from error


def _post(endpoint: Endpoint, settings: dict[str, Any], prompt: str) -> tuple[str, tuple[int, int]]:
    content = {**settings, "messages": [{"role": "user", "content": prompt}]}
    return read_chat(endpoint.post("/chat/completions", content), endpoint.base_url)


def read_answer(value: Any, scale: Sequence[int]) -> Answer:
    """Read what a model returns: a grade, a text with one, or either with a confidence.

    >>> read_answer(("Grade: 2", 0.9), (0, 1, 2, 3)).grade
    2.0
    """
    confidence = None
    if isinstance(value, tuple) and len(value) == 2:
        value, confidence = value
        if not is_real(confidence) or not 0 <= confidence <= 1:
            raise InputError(f"The judge returned confidence {confidence!r}. Return 0 to 1.")
    if isinstance(value, str):
        return Answer(parse_grade(value, scale), value, confidence)
    grade = float(value) if is_real(value) and value in scale else None
    return Answer(grade, "" if grade is not None else repr(value)[:_NOTE], confidence)


def read_chat(answer: Any, place: str) -> tuple[str, tuple[int, int]]:
    """Return the text of a chat completion, and the tokens sent and received.

    A refusal is a text, too: it holds no grade.
    """
    try:
        message = answer["choices"][0]["message"]
        text = message.get("content") or message.get("refusal") or ""
        if not isinstance(text, str):
            raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise EndpointError(
            f"{place}/chat/completions: the answer lacks choices[0].message.content. Check "
            "the endpoint."
        ) from None
    usage = answer.get("usage") or {}
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    sent, received = (n if type(n) is int and n >= 0 else 0 for n in counts)
    return text, (sent, received)


def fill_prompt(template: str, **texts: str) -> str:
    """Put texts into the places of a prompt; braces inside a text stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda place: texts.get(place[1], place[0]), template)


def judge_pool(
    pool: LabelPool,
    texts: LabelTexts,
    log: LabelLog,
    *,
    model: str,
    ask: Model | None = None,
    prompt: str = PROMPT,
    guidelines: Mapping[int, str] | None = None,
    concurrency: int = 4,
    prices: tuple[float, float] | None = None,
    limit: int | None = None,
    before: Callable[[int, int], None] | None = None,
) -> JudgeReport:
    """Let a model label the pairs of a pool, those that people label included.

    Args:
        pool: The pool.
        texts: Texts of queries and documents.
        log: Where the labels go; pairs it has already are not asked again.
        model: Name of the judge, as `open_model` takes it.
        ask: The judge: grade, text that ends with "Grade: N", (either, confidence) or None, and
            tokens. [that of the name]
        prompt: Its prompt, with {query}, {document} and, if wanted, {description}, {grades}.
        guidelines: What each grade means.
        concurrency: Requests at a time.
        prices: Price of a million tokens sent and received.
        limit: Label this many pairs at most.
        before: Gets about how many tokens will be sent and received for the pairs that remain.

    Returns:
        What was done.

    Raises:
        UsageError: The prompt lacks a place.
        InputError: A pair has no text.
        EndpointError: The endpoint failed for good; finished labels are in the log.

    Example:
        judge_pool(pool, texts, LabelLog("machine.jsonl"), model="py:mine:judge")
    """
    if "{query}" not in prompt or "{document}" not in prompt:
        raise UsageError("The prompt lacks {query} or {document}. Add it.")
    ask = ask or open_model(model)
    meaning = guidelines or GUIDELINES
    grades = "\n".join(f"{grade}: {meaning.get(grade, '')}" for grade in pool.scale)
    digest = hashlib.sha256((prompt + grades).encode()).hexdigest()[:8]
    by = f"{model}#{digest}"
    jobs = []
    for query, doc in pool.names:
        if query not in texts.queries or doc not in texts.docs:
            what = f"query {query!r}" if query not in texts.queries else f"document {doc!r}"
            raise InputError(f"No text of {what}. Pass files with all texts.")
        about = {"description": texts.descriptions.get(query, ""), "grades": grades}
        filled = fill_prompt(prompt, query=texts.queries[query], document=texts.docs[doc], **about)
        jobs.append(Job.of((query, doc), filled, by))
    finished = {act.key for act in log.acts()[0] if act.key}
    waiting = [job for job in jobs if job.key not in finished]
    earlier, waiting = len(jobs) - len(waiting), waiting[:limit]
    done: Counter[str] = Counter()
    began = time.monotonic()
    try:
        read = partial(read_answer, scale=pool.scale)
        for job, answer, tokens in ask_all(ask, waiting, read, concurrency, before, _ANSWER):
            state = "unreadable" if answer.grade is None else "label"
            act: dict[str, Any] = {"kind": "machine", "state": state, "time": now(), "key": job.key}
            act |= {"note": answer.text[:_NOTE], "confidence": answer.confidence, "by": by}
            query, doc = job.about
            log.append(Label(query, doc, answer.grade, pool=pool.digest, **act))
            done.update({state: 1, "sent": tokens[0], "received": tokens[1]})
            tell("judging", done["label"] + done["unreadable"], len(waiting))
    except AssayError as error:
        raise type(error)(
            f"{error} {done['label']:,} of {len(waiting):,} labels are in {log.path}; the same "
            "command continues from there."
        ) from error
    sent, received = done["sent"], done["received"]
    cost = (sent, received, price_of(prices, sent, received), time.monotonic() - began)
    return JudgeReport(by, len(pool), done["label"], earlier, done["unreadable"], *cost)


def ask_all(
    ask: Model,
    jobs: Sequence[Job],
    read: Callable[[Any], Any],
    concurrency: int,
    before: Callable[[int, int], None] | None,
    answer_size: int,
) -> Iterator[tuple[Job, Any, tuple[int, int]]]:
    """Ask a few at a time; what is under way when one fails is still yielded.

    Args:
        ask: The model.
        jobs: What to ask.
        read: Reads the model's answer.
        concurrency: Requests at a time.
        before: Gets about how many tokens will be sent and received.
        answer_size: Tokens of an answer, about.

    Yields:
        Each job with what was read from its answer, and tokens sent and received.
    """
    if before is not None:
        sent = sum(len(job.prompt) for job in jobs) // _CHARACTERS_A_TOKEN
        before(sent, answer_size * len(jobs))
    rest = iter(jobs)
    failure: AssayError | None = None
    with ThreadPoolExecutor(max(concurrency, 1)) as pool:
        running: dict[Future[Any], Job] = {}
        while True:
            free = 0 if failure else concurrency - len(running)
            running |= {pool.submit(ask, job.prompt): job for job in islice(rest, max(free, 0))}
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    value, tokens = future.result()
                    answer = read(value)
                except AssayError as error:
                    failure = error
                    continue
                yield job, answer, tokens
    if failure:
        raise failure
