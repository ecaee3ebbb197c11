"""The kernels under the address and undefined-behaviour sanitizers, fed with noise."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.search_driver import HERE, NATIVE, answers, link_search

SOURCES = (
    "exact/resampling.cpp",
    "trec/ids.cpp",
    "trec/judgments.cpp",
    "trec/lines.cpp",
    "trec/parser.cpp",
    "trec/sorted_rows.cpp",
)
MEMORY = "address,undefined,float-cast-overflow"
CHECKS = {
    "memory": MEMORY,
    "threads": "thread",
}
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-Wno-maybe-uninitialized"]
COARSE = {
    NATIVE / "search" / "coarse_avx2.cpp": AVX2,
    NATIVE / "search" / "coarse_avx512vnni.cpp": [*AVX512, "-mavx512vnni"],
}
VECTORS = {
    **COARSE,
    NATIVE / "search" / "float32_avx2.cpp": AVX2,
    NATIVE / "search" / "float32_avx512.cpp": AVX512,
}
# The shape of the widest kernels in plain C++, in place of those for AVX2.
STAND_IN = {
    **COARSE,
    HERE / "wide_search.cpp": AVX2,
    NATIVE / "search" / "float32_avx512.cpp": AVX512,
}


def compiler() -> str:
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no C++ compiler")
    return found


def flags(checks: str) -> list[str]:
    strict = ["-fno-sanitize-recover=all", "-ffp-contract=off"]
    return ["-std=c++17", "-O1", "-g", f"-fsanitize={checks}", *strict, "-I", str(NATIVE)]


def run(driver: Path, **environment: str) -> str:
    done = subprocess.run(
        [driver],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checks", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(
    "scan", [[], ["-U__SSE2__"], ["-DASSAY_X86_KERNELS"]], ids=["sse2", "portable", "wide"]
)
def test_noise_breaks_nothing(tmp_path, checks, scan):
    if "-DASSAY_X86_KERNELS" in scan and not is_x86():
        pytest.skip("these vectors are those of x86")
    driver = tmp_path / "driver"
    sources = [HERE / "fuzz_driver.cpp", *(NATIVE / source for source in SOURCES)]
    command = [compiler(), *flags(checks), *scan, *sources, "-pthread", "-o", driver]
    subprocess.run(command, check=True)
    assert run(driver) == "ok\n"


@pytest.mark.slow
def test_the_search_among_sparse_rows_is_right_and_stays_within_them(tmp_path):
    driver = tmp_path / "driver"
    sources = [HERE / "sparse_driver.cpp", NATIVE / "search" / "sparse_search.cpp"]
    subprocess.run([compiler(), *flags(MEMORY), *sources, "-o", driver], check=True)
    assert run(driver) == "ok\n"


def build_search(folder: Path, vectors: dict[Path, list[str]]) -> Path:
    """The driver of the search under sanitizers."""
    common = [compiler(), *flags(MEMORY), *(["-DASSAY_X86_KERNELS"] if vectors else [])]
    return link_search(folder, common, vectors)


@pytest.mark.slow
def test_maxsim_is_right_and_stays_within_its_tokens(tmp_path):
    vectors = VECTORS if is_x86() else {}
    common = [compiler(), *flags(MEMORY), *(["-DASSAY_X86_KERNELS"] if vectors else [])]
    sources = (HERE / "token_driver.cpp", NATIVE / "search" / "token_search.cpp")
    driver = link_search(tmp_path, common, vectors, sources)
    for simd in ("none", "avx2", "avx512"):  # or what this machine has
        assert run(driver, ASSAY_SIMD=simd) == "ok\n"


def is_x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64")


@pytest.mark.slow
def test_the_search_is_right_and_stays_within_its_rows(tmp_path):
    driver = build_search(tmp_path, VECTORS if is_x86() else {})
    plain = answers(run(driver, ASSAY_SIMD="none"))
    assert plain.rows == (1, 1)
    widest = answers(run(driver, ASSAY_SIMD="avx512"))  # or what this machine has
    assert widest.rows in ((1, 1), (6, 6), (14, 6), (14, 14))
    assert widest.digest == plain.digest
    if widest.rows[0] == 14:
        assert answers(run(driver, ASSAY_SIMD="avx2")) == ((6, 6), plain.digest)


@pytest.mark.slow
def test_the_shape_of_the_widest_kernels(tmp_path):
    if not is_x86():
        pytest.skip("no fused product on this machine")
    driver = build_search(tmp_path, STAND_IN)
    if answers(run(driver, ASSAY_SIMD="avx2")).rows[0] == 1:
        pytest.skip("no AVX2 on this machine")


@pytest.mark.slow
def test_libfuzzer_finds_nothing_in_the_parser(tmp_path):
    """Guided by coverage; ASSAY_FUZZ_RUNS makes it longer."""
    clang = shutil.which("clang++") or pytest.skip("libFuzzer needs clang++")
    empty = tmp_path / "empty.cpp"
    empty.write_text(
        'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'
    )
    runtime = [clang, *flags(f"fuzzer,{MEMORY}"), empty, "-o", tmp_path / "empty"]
    if subprocess.run(runtime, capture_output=True, check=False).returncode:
        pytest.skip("clang++ is here without the runtime of libFuzzer")
    target, corpus = tmp_path / "target", tmp_path / "corpus"
    parser = [NATIVE / "trec" / "lines.cpp", NATIVE / "trec" / "parser.cpp"]
    sources = [HERE / "libfuzzer_trec.cpp", *parser]
    checks = flags(f"fuzzer,{MEMORY}")
    subprocess.run([clang, *checks, *sources, "-pthread", "-o", target], check=True)
    corpus.mkdir()
    (corpus / "run").write_bytes(b"\1\7q1 Q0 d1 1 0.5 t\nq1 Q0 d2 2 -1e3 t\r\n# note\n")
    (corpus / "qrels").write_bytes(b"\0\3q1 0 d1 1\nq1 0 d\xc3\xa9 -2.5\n\n")
    runs = os.environ.get("ASSAY_FUZZ_RUNS", "200000")
    done = subprocess.run(
        [target, f"-runs={runs}", "-seed=1", "-max_len=4096", "-close_fd_mask=1", corpus],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {runs} runs" in done.stderr
