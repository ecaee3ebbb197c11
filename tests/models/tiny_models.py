"""Small real models of sentence-transformers with random weights, made here without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.samples import WORDS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[Q]", "[D]"]
EXPANSION = {"strategy": "fixed", "attend": False, "length": 12}


def _save_backbone(folder: Path, masked: bool = False) -> str:
    """Write a random BERT of two layers with a vocabulary of words."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, ".", ",", *WORDS]), "utf-8")
    tokenizer = BertTokenizerFast(
        vocab=str(folder / "vocab.txt"), additional_special_tokens=["[Q]", "[D]"]
    )
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    model = (BertForMaskedLM if masked else BertModel)(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def save_tokens(folder: Path, **changes: Any) -> str:
    """Save a MultiVectorEncoder: query expansion, prompts, a list of skipped tokens."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from torch import nn

    settings = {"document_length": 14, "query_expansion": EXPANSION, **changes}
    transformer = Transformer(_save_backbone(folder / "backbone"), **settings)
    tokens = {"module_input_name": "token_embeddings"}
    modules = [
        transformer,
        Dense(16, 8, bias=False, activation_function=nn.Identity(), **tokens),
        MultiVectorMask(skiplist_words=[".", ","]),
        Normalize(**tokens),
    ]
    prompts = {"query": "[Q] ", "document": "[D] "}
    MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").save(str(folder / "model"))
    return str(folder / "model")


def save_sparse(folder: Path, metric: str = "dot") -> str:
    """Save a SparseEncoder of the kind of SPLADE."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    backbone = _save_backbone(folder / "backbone", masked=True)
    transformer = Transformer(backbone, transformer_task="fill-mask")
    modules = [transformer, SpladePooling()]
    model = SparseEncoder(modules=modules, similarity_fn_name=metric, device="cpu")
    model.save(str(folder / "model"))
    return str(folder / "model")


def save_dense(folder: Path) -> str:
    """Save a SentenceTransformer with mean pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    transformer = Transformer(_save_backbone(folder / "backbone"))
    model = SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")
    model.save(str(folder / "model"))
    return str(folder / "model")
