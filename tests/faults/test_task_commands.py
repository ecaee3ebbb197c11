"""Faults that users of the commands on vectors and predictions cause, by their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assay.cli.main import main
from assay.codes.compat import cosine_similarity_matrix
from assay.errors import UsageError
from assay.search.engine import rank, rerank
from tests.models.files import write_safetensors

CROSSMODAL = ("crossmodal", "--sensor-embeddings", "x.npy", "--labels", "l.npy", "--k-values", "2")
DESCRIBED = (*CROSSMODAL, "--use-prototypes", "--metadata", "meta.json", "--dataset-name", "home")
CODES = ("codes", "--embeddings", "x.npy", "--k", "2", "--resamples", "100")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Vectors, labels, ids and descriptions in the current folder."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(5).standard_normal((12, 4)))
    np.save("l.npy", np.array(["a", "b", "c"] * 4))
    Path("ids.txt").write_text("".join(f"d{row}\n" for row in range(12)))
    described = {"label_to_text_sourish": {"a": "one", "b": "two"}}
    Path("meta.json").write_text(json.dumps({"home": described}))
    return tmp_path


def refused(capsys, arguments, code: int, words: str) -> None:
    """The command ends with this code and one message that holds these words."""
    assert main(list(arguments)) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("option", ["--query-ids", "--doc-ids"])
def test_a_run_never_replaces_the_ids_it_is_made_of(capsys, option):
    before = Path("ids.txt").read_bytes()
    refused(capsys, ["rank", "x.npy", "x.npy", option, "ids.txt", "-o", "ids.txt"], 2, "inputs")
    assert Path("ids.txt").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        (*CODES, "--method", "sign", "--chart", "two.svg", "-o", "./two.svg"),
        (*CROSSMODAL, "--confusion", "two.json", "-o", "two.json"),
        (*CROSSMODAL, "--confusion", "two.json", "--confusion", "two.json"),
    ],
)
def test_two_results_never_share_a_file(capsys, arguments):
    refused(capsys, arguments, 2, "two results")
    assert not list(Path().glob("two.*"))


def test_a_table_never_replaces_a_result_that_is_imported(capsys):
    Path("a.json").write_text('{"acc@1": 30.0}')
    command = ["predict", "--results", "m=a.json"]
    refused(capsys, [*command, "-o", "a.json"], 2, "one of the inputs")
    assert Path("a.json").read_text() == '{"acc@1": 30.0}'
    assert main([*command, "-o", "table.json"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("rank", "x.npy", "x.npy", "-o", "run.txt"),
        CROSSMODAL,
        (*CODES, "--method", "sign"),
    ],
)
def test_more_threads_than_there_can_be(arguments, capsys):
    assert main([*arguments, "--threads", "99999999999"]) == 0
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("bits", ["65536", "9" * 15])
def test_more_bits_than_a_code_can_hold(capsys, bits):
    refused(capsys, [*CODES, "--method", "gaussian", "--bits", bits], 2, "exceed 65535")


def test_more_itq_bits_than_dimensions(capsys):
    refused(capsys, [*CODES, "--method", "itq", "--bits", "64"], 2, "one bit per dimension, 4")


@pytest.mark.parametrize("level", ["0", "1", "-1", "nan", "0.95"])
def test_a_level_that_is_none(capsys, level):
    assert main([*CODES, "--method", "sign", f"--level={level}"]) == 2
    said = capsys.readouterr().err
    assert "level must lie between 1e-12 and 0.5" in said
    assert f"found {level}." in said


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def encode(texts):\n    raise ValueError('boom')", "failed: ValueError: boom"),
        ("def encode():\n    pass", "failed: TypeError"),
        ("def encode(texts):\n    raise KeyError", "failed: KeyError."),
        ("raise RuntimeError('no')", "fails on import: RuntimeError: no"),
        ("def encode(texts:", "fails on import: SyntaxError"),
    ],
)
def test_a_text_model_of_the_user_fails(capsys, monkeypatch, tmp_path, request, code, words):
    module = f"model_{abs(hash(request.node.name))}"
    Path(f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    refused(capsys, [*DESCRIBED, "--encoder", f"py:{module}:encode"], 2, words)


def test_a_factory_of_the_user_fails(capsys, monkeypatch, tmp_path):
    write_safetensors(tmp_path / "x.safetensors", {"w": np.ones(1, np.float32)})
    Path("factory_of_one.py").write_text("def make(content):\n    return None")
    monkeypatch.syspath_prepend(str(tmp_path))
    named = ["--checkpoint", "x.safetensors", "--text-encoder-factory", "factory_of_one:make"]
    refused(capsys, [*DESCRIBED, *named], 2, "'factory_of_one:make' failed on x.safetensors")


def test_a_factory_without_a_checkpoint_is_not_passed_over(capsys):
    refused(capsys, [*CROSSMODAL, "--text-encoder-factory", "a:b"], 2, "Prototypes need")
    asked = [*DESCRIBED, "--encoder", "wordllama", "--text-encoder-factory", "a:b"]
    refused(capsys, asked, 2, "--checkpoint")


def test_a_dropped_label_that_nothing_has_is_named(capsys):
    assert main([*CROSSMODAL, "--drop-labels", "a,unknwon"]) == 0
    said = capsys.readouterr().err
    assert "no sample has the label 'unknwon'\n" in said


def test_labels_of_prototypes_from_json(capsys):
    np.save("p.npy", np.load("x.npy")[:2])
    Path("p.json").write_text('["a", "b"]')
    asked = [*CROSSMODAL, "--prototype-embeddings", "p.npy", "--prototype-labels"]
    assert main([*asked, "p.json"]) == 0
    capsys.readouterr()
    refused(capsys, [*asked, "meta.json"], 3, "is not a list. Write one label per prototype")


def test_wrong_names_in_an_npz_are_told_with_a_right_one(capsys):
    np.savez("strange.npz", foo=np.ones((2, 4)), bar=np.ones((2, 4)))
    refused(capsys, ["rank", "strange.npz", "x.npy", "-o", "r.txt"], 2, "or call it 'queries'")
    refused(capsys, ["rank", "x.npy", "strange.npz", "-o", "r.txt"], 2, "or call it 'docs'")


@pytest.mark.parametrize("cell", ["[1,2", "(1, 2", "[", "[1, 2)", "[1 2 ... 8 9]"])
def test_a_list_of_candidates_that_was_cut_off(capsys, cell):
    Path("p.tsv").write_text(f"target\ttop\n2\t[2]\n1\t{cell}\n")
    refused(capsys, ["predict", "p.tsv", "--candidates", "top"], 3, "row 1: the list")


def test_training_numbers_of_an_array_and_of_a_text_file(capsys):
    """A text file cannot say that 1 is a number, so both kinds of file mean the same classes."""
    np.save("train.npy", np.array([2, 2, 1]))
    Path("train.tsv").write_text("place\n2\n2\n1\n")
    Path("p.tsv").write_text("target\ttop\n2\t[2, 1]\n1\t[2, 1]\n")
    asked = ["predict", "p.tsv", "--candidates", "top", "--json", "--train"]
    assert main([*asked, "train.npy"]) == 0
    of_numbers = json.loads(capsys.readouterr().out)
    assert main([*asked, "train.tsv:place"]) == 0
    of_texts = json.loads(capsys.readouterr().out)
    assert of_texts.pop("made_by") != of_numbers.pop("made_by")  # another file
    assert of_texts == of_numbers
    majority = of_numbers["baselines"][0]
    assert (majority["name"], majority["measures"]["Success@1"]["mean"]) == ("majority", 0.5)
    np.save("y.npy", np.arange(12) % 4)
    refused(capsys, ["predict", "x.npy", "--targets", "y.npy", "--train", "l.npy"], 2, "is 'a'")


def test_the_old_json_is_no_table(capsys):
    np.save("y.npy", np.arange(12) % 4)
    asked = ["predict", "x.npy", "--targets", "y.npy", "--legacy-json"]
    refused(capsys, [*asked, "--format", "csv"], 2, "exclude each other")
    assert main(asked) == 0


def test_huge_rows_are_not_taken_for_rows_of_length_1():
    with pytest.raises(ValueError, match="not of length 1"):
        cosine_similarity_matrix([[1e200, 0.0], [0.0, 1e200]], assume_normalized=True)


def test_a_bool_of_numpy_is_a_bool(engine):
    same = np.ones((3, 2))
    assert len(rank(same, same, 1, keep_ties=np.True_, engine=engine).docs) == 9


def test_only_a_ranking_can_be_ordered_again():
    with pytest.raises(UsageError, match="ranking must be a Ranking, found list"):
        rerank([[0]], [[1.0]], docs=[[1.0]])
