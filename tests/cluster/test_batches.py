"""A bench on a cluster: the bytes of one process, resumed, and failing with names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.bench import run_bench
from assay.cluster import Cluster, ClusterBatches, SerialExecutor, ThreadExecutor
from assay.errors import ClusterError, UsageError, ValueRangeError
from assay.models import EncoderSettings, text_model
from tests.cluster import benches, encoders

SPEC = "py:tests.cluster.encoders:letters"


@pytest.fixture(autouse=True)
def _many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    benches.cut_small(monkeypatch)


@pytest.fixture(params=["serial", "threads"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with SerialExecutor() if request.param == "serial" else ThreadExecutor(3) as executor:
        yield Cluster(executor)


def test_the_bytes_of_one_process(cluster: Cluster, tmp_path: Path) -> None:
    benches.check(cluster, tmp_path)


def test_progress_is_reported_for_every_phase(cluster: Cluster) -> None:
    told: list[tuple[str, str, int, int | None]] = []
    run_bench(
        benches.collection(),
        [benches.LETTERS],
        measures="RR",
        cluster=cluster,
        progress=lambda *how: told.append(how),
    )
    steps = [done for *what, done, _ in told if what == ["letters", "documents"]]
    assert steps == sorted(set(steps))
    assert len(steps) == 8
    assert ("letters", "documents", 37, 37) in told


def test_a_failure_names_model_and_text_and_keeps_what_was_done(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = benches.collection().doc_texts[4]
    monkeypatch.setattr(encoders, "refused", {bad})
    with pytest.raises(UsageError, match=rf"strict' failed: KeyError.*; on the text '{bad[:40]}"):
        benches.bench(cluster, tmp_path, ["bm25", benches.STRICT])
    done = sum(step.bytes_made for step in cluster.journal.steps) // (6 * 4)
    monkeypatch.setattr(encoders, "refused", set())
    got = benches.bench(cluster, tmp_path, ["bm25", benches.STRICT])
    assert benches.encoded(got) == {"strict": benches.N_TEXTS - done}
    assert benches.found(got) == benches.found(benches.bench(None, None, ["bm25", benches.STRICT]))


def test_the_same_text_fails_wherever_it_stands(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match=f"on the text '{encoders.REFUSED}'"):
        benches.bench(cluster, None, [benches.STRICT], benches.with_text(encoders.REFUSED))


def test_vectors_that_are_none_name_the_text(cluster: Cluster) -> None:
    spec = "py:tests.cluster.encoders:not_finite"
    with pytest.raises(ValueRangeError, match=r"not_finite' returned NaN .* 'odd one'"):
        benches.bench(cluster, None, [spec], benches.with_text("odd one"))


def test_what_fails_only_together_is_told_so(cluster: Cluster) -> None:
    spec = "py:tests.cluster.encoders:few"
    with pytest.raises(UsageError, match=r"few' failed: .* on 5 texts, the first of them '"):
        benches.bench(cluster, None, [spec])


def test_errors_of_the_system_name_the_model(cluster: Cluster) -> None:
    spec = "py:tests.cluster.encoders:offline"
    with pytest.raises(ClusterError, match=r"offline' failed on the worker .*nobody.*5 texts"):
        benches.bench(cluster, None, [spec])


def test_a_worker_with_another_model_is_refused(cluster: Cluster) -> None:
    """Its vectors would lie in the cache under the name of this one."""
    send = ClusterBatches(cluster, SPEC, EncoderSettings())
    known = text_model(SPEC).fingerprint
    assert [done.number for done in send(known, [(0, ["a text"])])] == [0]
    with pytest.raises(ClusterError, match=r"has another 'py:tests.*letters' than"):
        list(send("another", [(0, ["a text"])]))


def test_a_worker_without_the_model(cluster: Cluster) -> None:
    send = ClusterBatches(cluster, "py:no_such_module:encode", EncoderSettings())
    with pytest.raises(ClusterError, match="cannot load the model 'py:no_such_module:encode'"):
        list(send("any", [(0, ["a text"])]))


def test_back_pressure() -> None:
    taken: list[int] = []

    def batches() -> Iterator[tuple[int, list[str]]]:
        for number in range(20):
            taken.append(number)
            yield number, [f"text {number}"]

    with ThreadExecutor(2) as executor:
        send = ClusterBatches(Cluster(executor, in_flight=3), SPEC, EncoderSettings())
        for count, _ in enumerate(send(text_model(SPEC).fingerprint, batches()), 1):
            assert len(taken) <= count + 3


def test_what_is_no_cluster() -> None:
    with pytest.raises(UsageError, match="cluster"):
        benches.bench("threads")  # type: ignore[arg-type]
