"""OpenRun: a run while it runs: visible to others, resumable, finished or failed at the end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from assay.core import checks
from assay.core.text import mask_secrets
from assay.errors import AssayError, StorageError, UsageError
from assay.runs.record import RunRecord, check_name
from assay.scoring.scores import Scores
from assay.store import writing
from assay.store.codec import json_text, pack_json, pack_scores, unpack_json, unpack_scores
from assay.store.payload import Payload
from assay.store.queries import read_blobs

if TYPE_CHECKING:
    from assay.store.store import Store

__all__ = ["OpenRun"]


class OpenRun:
    """A run with the status `running`, made by `Store.start_run`.

    Call `set_result` with the scores before the `with` block ends. Long work may save its parts
    on the way (`save_part`, `load_part`), for another attempt after a failure.
    """

    def __init__(self, store: Store, run: int) -> None:
        self._store = store
        self.id = run
        self._began = time.perf_counter()
        self._payload = Payload()
        self._timings: dict[str, float] = {}

    def set_result(self, scores: Scores | None, **fields: Any) -> None:
        """Set the numbers of the run; they are stored when the block ends.

        Keywords are the fields of `RunRecord` that hold numbers: aggregates, chance, ceiling,
        clusters, resampling, results, details.
        """
        self._payload = Payload.of(RunRecord.of(name="run", scores=scores, **fields))

    def progress(self, done: int, total: int, now: str = "") -> None:
        """Say how far the run is, and what it does now; others see it at once."""
        far = {"done": int(done), "total": int(total), "message": now}
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id, **far)

    def set_name(self, name: str) -> None:
        """Name the run and its model, where that was not known when it began."""
        check_name(name, "name")
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id, name=name, model=name)

    def set_dataset(self, dataset: str) -> None:
        """Name the dataset, where it was not known when the run began."""
        check_name(dataset, "dataset")
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id, dataset=dataset)

    def add_timing(self, name: str, seconds: float) -> None:
        """Note how long a step took."""
        self._timings[name] = float(seconds)

    def save_part(self, part: str, scores: Scores) -> Scores:
        """Store the scores of a finished part, so that a later attempt need not compute them."""
        check_name(part, "part")
        checks.require(scores, Scores, "scores", "a Scores")
        head = {"conventions": scores.conventions.signature(), "search": scores.search}
        blobs = [*pack_scores(scores), pack_json("head", json_text(head, "head"))]
        with self._store.database.writing() as connection:
            writing.update_running(connection, self.id)
            writing.remove_parts(connection, self.id, part)
            writing.add_blobs(connection, self.id, blobs, part=part)
        return scores

    def load_part(self, part: str) -> Scores | None:
        """The scores of a part that an earlier attempt stored; None where there are none.

        A part whose checksum does not match counts as absent: it has to be computed again.
        """
        with self._store.database.reading() as connection:
            blobs = read_blobs(connection, self.id, part=part)
        heads = [blob for blob in blobs if blob.kind == "head"]
        if not heads:
            return None
        try:
            head = json.loads(unpack_json(heads[0]))
            return unpack_scores(blobs, head["conventions"], search=head["search"])
        except (AssayError, ValueError, KeyError):
            return None

    def finish(self) -> None:
        """Store the result; all of it is on disk when this returns."""
        seconds = time.perf_counter() - self._began
        timings = json_text(self._timings, "timings")
        with self._store.database.writing() as connection:
            writing.finish_run(connection, self.id, self._payload, seconds=seconds, timings=timings)

    def fail(self, error: BaseException) -> None:
        """Store why there is no result. Saved parts stay, for another attempt."""
        words = str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else "")
        message = words if isinstance(error, AssayError) else f"{type(error).__name__}: {words}"
        message = mask_secrets(message)
        try:
            with self._store.database.writing() as connection:
                writing.update_running(connection, self.id, status="failed", message=message)
        except (StorageError, UsageError):
            return  # the first error matters more; the run stays visible as running
