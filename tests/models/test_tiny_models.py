"""Models of token and sparse vectors, made by sentence-transformers itself with random weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from assay.bench import run_bench
from assay.cluster import encode_shards, open_cluster, rank_shards
from assay.core.specs import Consent
from assay.errors import FormatError, ShapeError, UsageError, ValueRangeError
from assay.models import EmbeddingCache, EncoderSettings, encoder, text_model
from assay.models.ragged import have_numbers, take_rows
from assay.models.specs import allow_model, allow_reranker, as_encoder, vector_kind
from assay.search.engine import rank
from tests.bench.samples import small
from tests.models import tiny_models

pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers", minversion="6")

COLLECTION = small(n_docs=30, n_queries=12, empty=2)
DOCS, QUERIES = list(COLLECTION.doc_texts), list(COLLECTION.query_texts)
FULL = [text for text in DOCS if text.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return where the models are, each made once."""
    place = tmp_path_factory.mktemp("models")
    for kind in ("tokens", "sparse", "dense"):
        getattr(tiny_models, f"save_{kind}")(place / kind)
    return place


@pytest.fixture
def tokens(folder):
    return str(folder / "tokens" / "model")


@pytest.fixture
def sparse(folder):
    return str(folder / "sparse" / "model")


def change(path: str | Path, **entries) -> None:
    """Write entries into a JSON file; None removes one."""
    file = Path(path)
    content = {**json.loads(file.read_text()), **entries}
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def copied(model: str, target: Path) -> Path:
    shutil.copytree(model, target)
    return target


def test_the_files_of_a_model_tell_its_kind(folder):
    kinds = {kind: vector_kind(f"st:{folder / kind / 'model'}") for kind in ("tokens", "sparse")}
    assert kinds == {"tokens": "tokens", "sparse": "sparse"}
    assert vector_kind(f"st:{folder / 'dense' / 'model'}") == "dense"
    assert vector_kind("st:some/name") is None


def test_tokens_are_those_of_the_library(tokens):
    model = text_model(f"st:{tokens}", ragged=True)
    library = sentence_transformers.MultiVectorEncoder(tokens, device="cpu")
    docs, queries = model.encode_docs(DOCS), model.encode_queries(QUERIES)
    assert docs.empty.tolist() == [not text.strip() for text in DOCS]
    assert docs.vectors.lengths[-2:].tolist() == [0, 0]
    assert set(queries.vectors.lengths) == {12}  # expanded
    # 14 tokens are read, and the full stop is skipped
    assert docs.truncated[:3].tolist() == [True, True, True]
    for made, theirs in (
        (docs.vectors, library.encode_document(FULL, convert_to_numpy=True)),
        (queries.vectors, library.encode_query(QUERIES, convert_to_numpy=True)),
    ):
        assert made.lengths[made.lengths > 0].tolist() == [len(rows) for rows in theirs]
        assert np.allclose(made.values, np.concatenate(theirs), atol=1e-6)


def test_a_search_orders_as_the_librarys_similarity(tokens, sparse):
    result = run_bench(COLLECTION, [f"late=st:{tokens}", f"splade=st:{sparse}"], depth=28)
    rows = [DOCS.index(text) for text in FULL]
    for name, make, place in (
        ("late", sentence_transformers.MultiVectorEncoder, tokens),
        ("splade", sentence_transformers.SparseEncoder, sparse),
    ):
        model = make(place, device="cpu")
        theirs = model.similarity(model.encode_query(QUERIES), model.encode_document(FULL))
        expected = theirs.cpu().numpy()
        ranking = result[name].ranking
        for row, query in enumerate(COLLECTION.query_ids):
            ours = dict(ranking.row(query))
            scores = [ours[COLLECTION.doc_ids[doc]] for doc in rows]
            assert np.allclose(scores, expected[row], rtol=1e-5)
            assert list(ours.values()) == sorted(ours.values(), reverse=True)
    settings = [result[name].ranking.settings for name in ("late", "splade")]
    assert [part["metric"] for part in settings] == ["maxsim", "sparse-dot"]
    assert all(len(part["encoder"]) == 8 for part in settings)
    assert result["late"].result.n_without == 0  # empty texts take no part


def test_sparse_weights_are_those_of_the_library(sparse):
    model = text_model(f"st:{sparse}", ragged=True)
    library = sentence_transformers.SparseEncoder(sparse, device="cpu")
    made = model.encode_docs(DOCS).vectors
    theirs = library.encode_document(FULL).to_dense().numpy()
    whole = np.zeros((len(DOCS), made.width), np.float32)
    whole[np.repeat(np.arange(len(DOCS)), np.diff(made.offsets)), made.columns] = made.weights
    assert np.allclose(whole[[bool(text.strip()) for text in DOCS]], theirs, atol=1e-6)
    assert (model.kind, model.metric) == ("sparse", "dot")


def test_the_cache_holds_rows_of_any_length(tokens, sparse, tmp_path):
    for place in (tokens, sparse):
        first = text_model(f"st:{place}", cache=EmbeddingCache(tmp_path), ragged=True)
        again = text_model(f"st:{place}", cache=EmbeddingCache(tmp_path), ragged=True)
        for side in ("docs", "queries"):
            made = getattr(first, f"encode_{side}")(DOCS[:9])
            cached = getattr(again, f"encode_{side}")(DOCS[:10])
            assert made.n_computed == 9
            assert cached.n_computed == 1
            same = [array[:5].tobytes() for array in made.vectors.arrays()[:2]]
            assert same == [array[:5].tobytes() for array in cached.vectors.arrays()[:2]]


def test_prefixes_replace_prompts_and_keep_masks(tokens):
    library = sentence_transformers.MultiVectorEncoder(tokens, device="cpu")
    settings = EncoderSettings(query_prefix="kaba ", doc_prefix="[D] ")
    model = text_model(f"st:{tokens}", settings=settings, ragged=True)
    theirs = library.encode_query([f"kaba {text}" for text in QUERIES], prompt="")
    made = model.encode_queries(QUERIES).vectors
    assert made.lengths.tolist() == [len(rows) for rows in theirs]
    assert np.allclose(made.values, np.concatenate([rows.numpy() for rows in theirs]), atol=1e-6)
    own = text_model(f"st:{tokens}", ragged=True)
    assert own.fingerprint != model.fingerprint
    docs = own.encode_docs(FULL).vectors  # the same words in front
    assert np.allclose(model.encode_docs(FULL).vectors.values, docs.values, atol=1e-6)


def test_settings_of_tokens_and_of_weights(tokens, sparse):
    short = text_model(f"st:{tokens}", settings=EncoderSettings(max_length=6), ragged=True)
    assert short.encode_docs(FULL).vectors.lengths.max() == 6
    narrow = text_model(f"st:{tokens}", settings=EncoderSettings(dimensions=4), ragged=True)
    values = narrow.encode_docs(FULL).vectors.values
    assert values.shape[1] == 4
    assert np.allclose(np.linalg.norm(values, axis=1), 1, atol=1e-6)
    for settings in ({"dimensions": 4}, {"normalize": True}):
        with pytest.raises(UsageError, match="its sparse vectors are normalised"):
            text_model(f"st:{sparse}", settings=EncoderSettings(**settings), ragged=True)


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("2_MultiVectorMask/config.json", {"skiplist_words": [","]}),
        ("sentence_bert_config.json", {"document_length": 9}),
        ("config_sentence_transformers.json", {"prompts": {"query": "", "document": "[D] "}}),
    ],
)
def test_masks_lengths_and_prompts_are_part_of_the_identity(tokens, tmp_path, file, entries):
    other = copied(tokens, tmp_path / "other")
    change(other / file, **entries)
    first, second = (text_model(f"st:{place}", ragged=True) for place in (tokens, other))
    assert first.fingerprint != second.fingerprint
    assert first.encode_docs(FULL).vectors.lengths.sum() != 0


def test_a_folder_that_lies_about_its_class(tokens, sparse, folder, tmp_path):
    dense = folder / "dense" / "model"
    for number, (model, said) in enumerate(
        [
            (tokens, "SparseEncoder"),
            (tokens, "SentenceTransformer"),
            (sparse, "MultiVectorEncoder"),
            (dense, "SparseEncoder"),
            (dense, "MultiVectorEncoder"),
        ]
    ):
        liar = copied(model, tmp_path / f"liar-{number}")
        change(liar / "config_sentence_transformers.json", model_type=said)
        with pytest.raises(UsageError, match=f"contradicts itself.*{said}.*Correct the files"):
            encoder(f"st:{liar}")
    silent = copied(tokens, tmp_path / "silent")
    change(silent / "config_sentence_transformers.json", model_type=None)
    assert vector_kind(f"st:{silent}") == "tokens"
    (silent / "modules.json").write_text("{broken")
    with pytest.raises(FormatError, match=r"modules\.json"):
        vector_kind(f"st:{silent}")


def test_euclidean_sparse_models_are_refused(sparse, tmp_path):
    other = copied(sparse, tmp_path / "far")
    change(other / "config_sentence_transformers.json", similarity_fn_name="euclidean")
    with pytest.raises(UsageError, match="by euclidean; Assay does by dot or cosine"):
        encoder(f"st:{other}")
    near = copied(sparse, tmp_path / "near")
    change(near / "config_sentence_transformers.json", similarity_fn_name="cosine")
    result = run_bench(COLLECTION, [f"splade=st:{near}"])
    assert result["splade"].ranking.settings["metric"] == "sparse-cosine"


@pytest.mark.parametrize("kind", ["tokens", "sparse"])
def test_no_code_of_a_stranger_runs(folder, kind, tmp_path):
    """A folder may name foreign classes in modules.json; neither its nor other code is imported."""
    place = copied(str(folder / kind / "model"), tmp_path / "stranger")
    marker = tmp_path / "ran"
    (place / "own_code.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Mine: pass\n")
    modules = json.loads((place / "modules.json").read_text())
    for foreign in ("own_code.Mine", "this.Mine", "antigravity.Mine"):
        modules.append({"idx": len(modules), "name": foreign, "path": "", "type": foreign})
        (place / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(UsageError, match=r"cannot be loaded.*pass --trust-remote-code"):
            encoder(f"st:{place}")
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["tokens", "sparse"])
def test_a_file_that_names_a_folder_needs_consent(folder, kind):
    spec, nobody = f"st:{folder / kind / 'model'}", Consent()
    with pytest.raises(UsageError, match="--allow-code"):
        allow_model(spec, {}, nobody, "bench.toml")
    with pytest.raises(UsageError, match="--allow-code"):
        allow_reranker(f"maxsim:{spec}", {}, nobody, "bench.toml")


def test_one_vector_is_expected_elsewhere(tokens, sparse):
    for place, words in ((tokens, "makes token vectors"), (sparse, "makes sparse vectors")):
        with pytest.raises(UsageError, match=words):
            text_model(f"st:{place}")
        with pytest.raises(UsageError, match=words):
            as_encoder(f"st:{place}")
    assert len(encoder(f"st:{tokens}").encode(FULL[:3])) == 3


def test_maxsim_is_a_second_stage(tokens):
    models = ["bm25", f"late=st:{tokens}"]
    result = run_bench(COLLECTION, models, reranks=[f"two=rerank/7:bm25>maxsim:st:{tokens}"])
    late = result["late"].ranking
    for query in COLLECTION.query_ids:
        first = [doc for doc, _ in result["bm25"].ranking.row(query)]
        head = [(doc, score) for doc, score in late.row(query) if doc in first[:7]]
        both = result["two"].ranking.row(query)
        assert [doc for doc, _ in both] == [*(doc for doc, _ in head), *first[7:]]
        scores = [score for _, score in both[: len(head)]]
        assert np.allclose(scores, [score for _, score in head], rtol=1e-6)
    assert "reranker" in result["two"].ranking.settings
    with pytest.raises(UsageError, match="makes one vector"):
        run_bench(COLLECTION, ["bm25"], reranks=["bm25>maxsim:wordllama"])


@pytest.mark.parametrize(("kind", "metric"), [("tokens", "maxsim"), ("sparse", "dot")])
def test_shards_of_texts_become_shards_of_such_vectors(folder, kind, metric, tmp_path):
    spec = f"st:{folder / kind / 'model'}"
    for number, part in enumerate((DOCS[:13], DOCS[13:])):
        lines = [
            json.dumps({"id": f"p{number}-{row}", "text": text}) for row, text in enumerate(part)
        ]
        (tmp_path / f"texts-{number}.jsonl").write_text("\n".join(lines))
    made = encode_shards(str(tmp_path / "texts-*.jsonl"), spec, tmp_path / "vectors")
    assert (made.n_texts, made.empty, made.made) == (30, 2, 2)
    model = text_model(spec, ragged=True)
    queries = model.encode_queries(QUERIES).vectors
    docs = [model.encode_docs(part).vectors for part in (DOCS[:13], DOCS[13:])]
    got = rank_shards(queries, made.manifest, 5, metric=metric)
    for row, query in enumerate(got.query_ids):
        scores = [score for _, score in got.row(query)]
        assert scores == sorted(scores, reverse=True)
        best = []
        for part in docs:
            there = np.flatnonzero(have_numbers(part))
            ranking = rank(queries, take_rows(part, there), 5, metric=metric)
            best += [score for _, score in ranking.row(row)]
        assert np.allclose(sorted(best, reverse=True)[:5], scores, rtol=1e-5)
    again = encode_shards(str(tmp_path / "texts-*.jsonl"), spec, tmp_path / "vectors")
    assert (again.made, again.resumed) == (0, 2)


def test_a_cluster_encodes_for_a_bench(tokens):
    with open_cluster("threads", workers=2) as cluster:
        result = run_bench(COLLECTION, [f"late=st:{tokens}"], cluster=cluster)
    here = run_bench(COLLECTION, [f"late=st:{tokens}"])
    rankings = [part["late"].ranking for part in (result, here)]
    assert np.allclose(rankings[0].scores, rankings[1].scores, rtol=1e-5)


def test_broken_weights_name_the_text(tokens, tmp_path):
    broken = copied(tokens, tmp_path / "broken")
    from safetensors.numpy import load_file, save_file

    file = broken / "1_Dense" / "model.safetensors"
    save_file({key: np.full_like(rows, np.nan) for key, rows in load_file(file).items()}, file)
    with pytest.raises(ValueRangeError, match="NaN or infinite values for the text 'ka"):
        text_model(f"st:{broken}", ragged=True).encode_docs(["kaba"])
    with pytest.raises(ShapeError, match="are empty"):
        text_model(f"st:{tokens}", ragged=True).encode_docs(["", " "])
