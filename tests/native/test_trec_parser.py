"""The TREC parser: every cut, every line form, every fault, and native = twin bit for bit."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

RUN = (
    b"\xef\xbb\xbf# comment\r\n"
    b"q1 Q0 d\xc3\xa9 1 2.5 tag\r\n"
    b"\n \t \n"
    b"q1\tQ0\t d2  2 \t1.5e0 tag \n"
    b"  # another # comment\xff\n"
    b" q2 Q0 d2 x -0.0 tag2\n"
    b"q1 Q0 d3 3 2 last"
)


# What follows a line decides whether it may be read in one go, words beyond its end included.
AFTER = {"run": b"q9 Q0 last 9 0.25 t\n" * 9, "qrels": b"q9 0 last 1\n" * 15}


def parse(kernels, kind: str, *chunks: bytes | tuple[int, int, int], expected: int = 0):
    """Everything a parser says about a text, in comparable form."""
    parser = kernels.TrecParser(kind, expected)
    for chunk in chunks:
        parser.feed(chunk)
    fine = parser.finish()
    assert fine is (parser.fault is None)
    if not fine:
        return parser.fault
    columns = [(column.dtype.str, column.tobytes()) for column in parser.take_columns()]
    return parser.tag, parser.rank_disagreements, parser.rank_unreadable, columns


def test_line_forms(engine):
    parser = engine.TrecParser("run")
    assert parser.feed(RUN)
    assert parser.finish()
    query_blob, query_ends, doc_blob, doc_ends, queries, docs, values = parser.take_columns()
    assert (query_blob.tobytes(), query_ends.tolist()) == (b"q1q2", [0, 2, 4])
    assert (doc_blob.tobytes().decode(), doc_ends.tolist()) == ("déd2d3", [0, 3, 5, 7])
    assert queries.tolist() == [0, 0, 1, 0]
    assert docs.tolist() == [0, 1, 1, 2]
    assert [repr(value) for value in values.tolist()] == ["2.5", "1.5", "-0.0", "2.0"]
    assert (parser.tag, parser.rank_disagreements, parser.rank_unreadable) == (b"last", 0, 1)


def test_qrels(engine):
    parser = engine.TrecParser("qrels")
    assert parser.feed(b"1 0 a -1\n1 0 b 0.5\n2 0 a +2\n")
    assert parser.finish()
    assert parser.take_columns()[6].tolist() == [-1.0, 0.5, 2.0]


def test_the_result_is_the_same_for_every_cut(engine):
    whole = parse(engine, "run", RUN)
    assert len(whole) == 4
    for cut in range(len(RUN) + 1):
        assert parse(engine, "run", RUN[:cut], b"", RUN[cut:]) == whole
    assert parse(engine, "run", *(RUN[i : i + 1] for i in range(len(RUN)))) == whole


def test_an_unknown_kind_is_refused(engine):
    with pytest.raises(ValueError, match="'run' or 'qrels'"):
        engine.TrecParser("tsv")


def run_of(*ranks_and_scores) -> bytes:
    lines = [f"q Q0 d{i} {r} {s} t\n" for i, (r, s) in enumerate(ranks_and_scores)]
    return "".join(lines).encode()


@pytest.mark.parametrize(
    ("lines", "disagreements", "unreadable"),
    [
        ([(1, 3), (2, 2), (3, 1)], 0, 0),
        ([(1, 1), (2, 2), (3, 3)], 2, 0),
        ([(3, 3), (2, 2)], 1, 0),
        ([(1, 1), (1, 2), (2, 2)], 0, 0),
        ([(1, 1), ("x", 2), (3, 3)], 0, 1),
        ([(1, 1), ("1e999", 2), (3, 3)], 0, 1),
    ],
)
def test_ranks_that_contradict_scores_are_counted(engine, lines, disagreements, unreadable):
    text = run_of(*lines)
    for cut in range(0, len(text), 5):
        counts = parse(engine, "run", text[:cut], text[cut:])[1:3]
        assert counts == (disagreements, unreadable)


GOOD = b"q Q0 d 1 1 t\n"
FAULTS = [
    (b"q Q0 d 1 1\n", ("columns", b"q Q0 d 1 1", 5)),
    (b"q\x01x\n", ("columns", b"q\x01x", 1)),
    (b"q Q0 d 1 abc t\n", ("number", b"abc", 0)),
    (b"q Q0 d 1 0x1p3 t\n", ("number", b"0x1p3", 0)),
    (b"q Q0 d 1 1_000 t\n", ("number", b"1_000", 0)),
    (b"q Q0 d 1 1,5 t\n", ("number", b"1,5", 0)),
    (b"q Q0 d 1 NaN t\n", ("not_finite", b"NaN", 0)),
    (b"q Q0 d 1 -Infinity t\n", ("not_finite", b"-Infinity", 0)),
    (b"q Q0 d 1 +inf t\n", ("not_finite", b"+inf", 0)),
    (b"q Q0 d 1 1e309 t\n", ("overflow", b"1e309", 0)),
    (b"q Q0 d\xe9 1 1 t\n", ("utf8", b"q Q0 d\xe9 1 1 t", 0)),
    (b"q Q0 \xed\xa0\x80 1 1 t\n", ("utf8", b"q Q0 \xed\xa0\x80 1 1 t", 0)),
    (b"q Q0 d\0 1 1 t\n", ("nul", b"q Q0 d\0 1 1 t", 0)),
    (b"q Q0 d\r 1 1 t\n", ("white_space", b"q Q0 d\r 1 1 t", 0)),
    (b"q Q0 d 1 1 t\r\r\n", ("white_space", b"q Q0 d 1 1 t\r", 0)),
    (b"q\vQ0 d 1 1 t\n", ("white_space", b"q\vQ0 d 1 1 t", 0)),
    (b"q" * (1 << 20) + b"x\n", ("too_long", b"q" * 400, 0)),
    (b"#" * ((1 << 20) + 1), ("too_long", b"#" * 400, 0)),
]


@pytest.mark.parametrize(("line", "fault"), FAULTS)
def test_faults_name_the_line(engine, line, fault):
    text = b"\xef\xbb\xbf" + GOOD + b"\n# comment\n" + GOOD + line + GOOD
    found = parse(engine, "run", text)
    assert found == (5, *fault)
    assert parse(engine, "run", text + AFTER["run"]) == found
    step = 1 if len(text) < 200 else len(text) // 7
    for cut in range(0, len(text), step):
        assert parse(engine, "run", text[:cut], text[cut:]) == found


def test_text_after_the_tag_of_a_run_is_passed_over_and_counted(engine):
    text = b"q Q0 a 1 3 t u\r\nq Q0 b 2 2 t\nq  Q0 c\t3 1 last u v w x y\n"
    for cut in range(len(text)):
        parser = engine.TrecParser("run")
        assert parser.feed(text[:cut])
        assert parser.feed(text[cut:])
        assert parser.finish()
        assert (parser.overlong, parser.tag) == (2, b"last")
        assert parser.take_columns()[6].tolist() == [3.0, 2.0, 1.0]


def test_a_fifth_column_in_qrels_is_a_fault(engine):
    assert parse(engine, "qrels", b"q 0 d 1 x\n") == (1, "columns", b"q 0 d 1 x", 5)


def test_a_fault_is_found_before_the_end_of_an_endless_line(engine):
    parser = engine.TrecParser("run")
    fed = 0
    while parser.feed(b"x" * 100_000):
        fed += 1
    assert fed == 10
    assert parser.fault[:2] == (1, "too_long")


def test_odd_but_harmless_control_characters_stay_in_ids(engine):
    parser = engine.TrecParser("run")
    assert parser.feed(b"q\x01 Q0 d\x1b[1m 1 1 t\n")
    assert parser.take_columns()[2].tobytes() == b"d\x1b[1m"


def test_a_line_of_just_the_limit_is_fine(engine):
    tag = b"t" * ((1 << 20) - len(b"q Q0 d 1 1 "))
    for text in (b"q Q0 d 1 1 " + tag, b"\xef\xbb\xbfq Q0 d 1 1 " + tag + b"\n"):
        assert parse(engine, "run", text)[0] == tag


TOKENS = st.sampled_from(
    [b"q1", b"q2", b"Q0", b"doc", b"d\xc3\xa9", b"1", b"2", b"-3.5", b"1e400", b".5", b"nan"]
)
BLANKS = st.sampled_from([b" ", b"\t", b"  ", b"\r", b"\0", b"\v", b"\x01", b"\xff", b"#"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\r"])
NOISE = st.lists(TOKENS | BLANKS | ENDS, max_size=40).map(b"".join)
ROW = st.tuples(
    st.sampled_from([b"q1", b"q2", b"long-query"]),
    st.integers(0, 300).map(lambda i: b"doc%d" % i),
    st.integers(-2, 5).map(lambda i: b"%d" % i),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: repr(x).encode()),
).map(lambda row: b"%s Q0 %s %s %s t\n" % row)


@examples(100)
@given(text=st.lists(ROW | NOISE, max_size=8).map(b"".join), data=st.data())
def test_native_equals_twin(both, text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for kind in ("run", "qrels"):
        assert parse(both[0], kind, *chunks) == parse(both[1], kind, text)
        more = text + AFTER[kind]
        assert parse(both[0], kind, more) == parse(both[1], kind, more)


@pytest.mark.parametrize("kind", ["run", "qrels"])
@pytest.mark.parametrize(
    "end", [b"\n", b"\r\n", b" \n", b"\r", b"\x01\n", b"\xc3\xa9\n", b"\xe9\n"]
)
def test_lines_of_any_width(both, kind, end):
    """Columns are looked for in two steps of 64 bytes; each of them ends at each place once."""
    columns = (
        ["q{}", "Q0", "doc{}", "7", "-12.0625", "tag{}"]
        if kind == "run"
        else ["q{}", "0", "d{}", "3"]
    )
    for blank in (" ", "\t"):
        for place in (0, 2, len(columns) - 1):
            for width in range(150):
                cells = [c.format("x" * width if i == place else "") for i, c in enumerate(columns)]
                text = blank.join(cells).encode() + end + AFTER[kind]
                assert parse(both[0], kind, text) == parse(both[1], kind, text)


def test_a_long_file_is_the_same_with_threads(both):
    rng = np.random.default_rng(1)
    lines = [
        f"query{i // 50} Q0 doc{doc} {i % 50} {score!r} t{i}\n".encode()
        for i, (doc, score) in enumerate(
            zip(rng.integers(0, 9000, 30_000).tolist(), rng.random(30_000).tolist(), strict=True)
        )
    ]
    text = b"".join(lines)
    whole = parse(both[1], "run", text)
    assert parse(both[0], "run", text) == whole
    assert parse(both[0], "run", text[:700_001], text[700_001:]) == whole
    broken = text + b"oops\n" + text
    assert parse(both[0], "run", broken) == parse(both[1], "run", broken)
    assert parse(both[0], "run", broken)[:2] == (30_001, "columns")


def parse_file(kernels, kind: str, path, text: bytes, size: int):
    """The same of a file, which the parser reads in parts of some size."""
    path.write_bytes(text)
    with path.open("rb") as file:
        ends = [*range(0, len(text), size), len(text)]
        return parse(kernels, kind, *((file.fileno(), *ends) for ends in pairwise(ends)))


FILES = {
    "one line": b"q Q0 d 1 2 t",
    "no end": RUN * 9000 + b"\nq9 Q0 d 1 2 t",
    "carriage returns": b"q1 Q0 d7 1 2.5 t\r\n" * 30_000,
    "blank lines": b"\n" * 300_000 + b"q Q0 d 1 2 t\n" + b"\n" * 300_000,
    "a line as long as pieces": b"q Q0 " + b"d" * 300_000 + b" 1 2 t\nq Q0 d 1 2 t\n",
    "lines longer than the tail": (b"q Q0 " + b"d" * 9000 + b" 1 2 t\n") * 90,
    "a fault late": b"q1 Q0 d7 1 2.5 t\n" * 30_000 + b"oops\n" * 9,
    "too long": b"q1 Q0 d7 1 2.5 t\n" * 20_000 + b"q Q0 d 1 2 " + b"t" * (1 << 20) + b"\nq\n",
    "just not too long": b"\xef\xbb\xbfq Q0 d 1 2 " + b"t" * ((1 << 20) - 11) + b"\nq Q0 e 1 2 t",
    "too long without end": b"q Q0 d 1 2 t\n" + b"t" * (5 << 20),
    "a piece ends with a line": b"q Q0 d 1 2 tag\n".rjust(128) * 4096,
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_in_parts_is_as_its_bytes(both, tmp_path, name):
    text = FILES[name]
    whole = parse(both[1], "run", text)
    for engine in both:
        for size in (1 << 30, 1 << 17, 100_003):
            assert parse_file(engine, "run", tmp_path / "run", text, size) == whole
        assert parse(engine, "run", text) == whole


def test_a_file_that_cannot_be_read(engine, tmp_path):
    with pytest.raises(OSError, match=r"directory|descriptor"):
        engine.TrecParser("run").feed((10**6, 0, 9))


NUMBERED = st.builds(
    lambda prefix, number, width: f"{prefix}{number:0{width}d}",
    st.sampled_from(["", "d", "d-", "doc1", "longprefix-", "d\u00e9", "12345678"]),
    st.integers(0, 40) | st.integers(4000, 4200) | st.integers(0, 10**12),
    st.integers(1, 12),
)


@examples(200)
@given(ids=st.lists(NUMBERED | st.sampled_from(["d", "-", "1a", "d 1"]), max_size=30))
def test_ids_that_end_in_digits(both, ids):
    text = "".join(f"q {i} {id} 1\n" for i, id in enumerate(ids)).encode()
    assert parse(both[0], "qrels", text) == parse(both[1], "qrels", text)


@pytest.mark.parametrize("form", ["{}", "doc{:08d}", "d{:x}", "LA{:05d}"])
@pytest.mark.parametrize("most", [9_000, 300_000, 10**8])
def test_many_ids_that_end_in_digits(both, form, most):
    """Dense or sparse, in any order: some are numbered by hash before they are by number."""
    numbers = np.random.default_rng(3).integers(0, most, 30_000)
    for order in (numbers, np.sort(numbers), np.sort(numbers)[::-1]):
        lines = [f"q{i // 99} 0 {form.format(n)} 1\n" for i, n in enumerate(order.tolist())]
        text = "".join(lines * 2).encode()
        ours, twins = (parse(engine, "qrels", text, expected=len(text)) for engine in both)
        assert ours == twins


WAYS = """
import pickle, sys
from assay.native import load
from tests.native.test_trec_parser import parse
texts = pickle.load(open(sys.argv[1], "rb"))
native = load("native")
print([parse(native, kind, text) for kind, text in texts])
"""


def test_every_width_of_vectors_reads_alike(both, tmp_path):
    rng = np.random.default_rng(5)
    scores = [*map(repr, (rng.standard_normal(3000) * 9).tolist()), *map(str, range(12_000))]
    scores += [f"{x:.{i % 19}f}" for i, x in enumerate((rng.random(3000) * 40).tolist())]
    scores += ["0.", "-0.", ".5", "-.5", "0.5e1", "007", "00.25", "-0", "+1", "1.", "0.0"]
    lines = [f"q{i // 50} Q0 doc{i:05d} {i % 50} {s} t\n" for i, s in enumerate(scores)]
    texts = [("run", "".join(lines).encode())]
    for bad in ("0.5.", "0..5", "1.2.3", ".", "-", "0.5-", "--1", "0.-5", "1,5", "0x1", "0.1 2"):
        texts.append(("qrels", f"q 0 d {bad}\n".encode() + AFTER["qrels"]))
    file = tmp_path / "texts"
    file.write_bytes(pickle.dumps(texts))
    expected = str([parse(both[1], kind, text) for kind, text in texts])
    for simd in ("none", "avx2", "avx512"):  # or what this machine has
        done = subprocess.run(
            [sys.executable, "-c", WAYS, file],
            env={**os.environ, "ASSAY_SIMD": simd},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


DIGITS = st.text("0123456789", max_size=25)
NUMBER_TEXT = st.one_of(
    st.builds(
        lambda sign, whole, point, part, e, esign, exponent: (
            sign + whole + point + part + (e + esign + exponent if e else "")
        ),
        st.sampled_from(["", "+", "-"]),
        DIGITS,
        st.sampled_from(["", "."]),
        DIGITS,
        st.sampled_from(["", "e", "E"]),
        st.sampled_from(["", "+", "-"]),
        st.text("0123456789", max_size=3),
    ),
    st.floats().map(repr),
    st.text("0123456789+-.eExXnaif_", max_size=8),
).filter(bool)


@examples(500)
@given(text=NUMBER_TEXT)
def test_numbers_are_those_of_python(both, text):
    line = f"q 0 d {text}\n".encode()
    for more in (line, line + AFTER["qrels"]):
        assert parse(both[0], "qrels", more) == parse(both[1], "qrels", more)


def test_many_numbers_bit_for_bit(both):
    rng = np.random.default_rng(7)
    bits = (
        rng.integers(0, 2**63, 20_000, dtype=np.uint64)
        | rng.integers(0, 2, 20_000, dtype=np.uint64) << 63
    )
    doubles = bits.view(np.float64)
    doubles = doubles[np.isfinite(doubles)].tolist()
    texts = [repr(x) for x in doubles] + [
        f"{x:.{int(d)}e}" for x, d in zip(doubles, rng.integers(0, 30, len(doubles)), strict=True)
    ]
    texts += [f"{x:.6f}" for x in rng.normal(0, 100, 20_000)]
    texts += [
        "4.9e-324",
        "2e-324",
        "3e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "0e999999999999",
        "-0e5",
        "1e-9999999999999",
        "0." + "0" * 400 + "1",
        "1" + "0" * 300 + "e-300",
        "9007199254740993",
        "5.",
        ".5",
        "+.5e+1",
    ]
    text = "".join(f"q 0 d{i} {x}\n" for i, x in enumerate(texts)).encode()
    parser = both[0].TrecParser("qrels")
    assert parser.feed(text), parser.fault
    expected = np.array([float(x) for x in texts])
    assert parser.take_columns()[6].tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "text", ["", "+", ".", "e5", "1e", "1e+", "+-1", "1.2.3", "--1", "1e5.", "٣", " "]
)
def test_what_is_no_number(engine, text):
    fault = parse(engine, "qrels", f"q 0 d {text}\n".encode())
    assert fault[1] == ("number" if text.strip() else "columns")
