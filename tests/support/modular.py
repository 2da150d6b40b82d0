"""What people load besides a model and its tokenizer: encoders of sentence-transformers made of modules, and their like.

Each is explained as a user would and held against the package's own call with its word embeddings moved by a hook; or it is
refused in one line. The rows stand in the sweep's table.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

import pathlens as pl
from pathlens.errors import PathlensError
from pathlens.quadrature import gauss
from tests.support import models

TEXT, OTHER = "the movie was not really funny , but moving .", "great acting and a very good plot !"
NODES = 6
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
PICTURES = {**SMALL, "image_size": 16, "patch_size": 8}


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="modular-"))


def _saved(kind: Any, name: str, seed: int = 0, **more: Any) -> str:
    torch.manual_seed(seed)
    module = models.sharpen(kind(models.config("bert", **more)))
    module.save_pretrained(_folder() / name)
    models.tokenizer().save_pretrained(_folder() / name)
    return str(_folder() / name)


def _body(seed: int = 0) -> Any:
    from sentence_transformers.base.modules import Transformer

    return Transformer(_saved(hf.BertModel, f"body-{seed}", seed))


def _of(*parts: Any) -> Any:
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(1)
    return SentenceTransformer(modules=list(parts), device="cpu").eval()


def pooled(mode: str) -> Any:
    from sentence_transformers.sentence_transformer.modules import Pooling

    return _of(_body(), Pooling(32, pooling_mode=mode))


def convolved() -> Any:
    from sentence_transformers.sentence_transformer.modules import CNN, Pooling

    torch.manual_seed(2)
    part = CNN(32, out_channels=8)
    return _of(_body(), part, Pooling(part.get_embedding_dimension(), pooling_mode="mean"))


def sparse() -> Any:
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    body = Transformer(_saved(hf.BertForMaskedLM, "masked"), transformer_task="fill-mask")
    return SparseEncoder(modules=[body, SpladePooling()], device="cpu").eval()


def static() -> Any:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(4)
    return _of(StaticEmbedding(models.tokenizer().backend_tokenizer, embedding_dim=16))


def routed() -> Any:
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Pooling

    return _of(Router.for_query_document([_body(0), Pooling(32)], [_body(5), Pooling(32)]))


def dpr() -> Any:
    torch.manual_seed(0)
    model = hf.DPRQuestionEncoder(hf.DPRConfig(vocab_size=60, **SMALL))
    return models.sharpen(model).eval(), models.tokenizer()


def t5_encoder() -> Any:
    torch.manual_seed(3)
    settings = hf.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    return hf.T5EncoderModel(settings).eval(), models.closing_tokenizer()


def yes_or_no() -> Any:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    model, tokenizer = models.generator("llama")
    for part in (model, tokenizer):
        part.save_pretrained(_folder() / "writer")
    body = Transformer(str(_folder() / "writer"), transformer_task="text-generation")
    return CrossEncoder(modules=[body, LogitScore(14, 15)], device="cpu")


PADDED = {"padding": "max_length", "max_length": 16}


def siglip() -> Any:
    torch.manual_seed(3)
    words = {**SMALL, "vocab_size": 60, "max_position_embeddings": PADDED["max_length"], "pad_token_id": 0}
    return hf.SiglipModel(hf.SiglipConfig(text_config=words, vision_config=PICTURES)).eval(), models.tokenizer()


def int8() -> Any:
    model, tokenizer = models.classifier("bert")
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    return small, tokenizer


def prompted() -> Any:
    import peft

    model, tokenizer = models.classifier("bert")
    settings = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    return peft.get_peft_model(copy.deepcopy(model), settings), tokenizer


@dataclass(frozen=True)
class Kind:
    """What is loaded; `similarity` None: it is refused."""

    build: Callable[[], Any]
    similarity: str | None = "cosine"


KINDS = {
    "SparseEncoder (SPLADE)": Kind(sparse, "dot"),
    "SentenceTransformer, max pooling": Kind(lambda: pooled("max")),
    "SentenceTransformer, CNN": Kind(convolved),
    "SentenceTransformer, StaticEmbedding": Kind(static),
    "SentenceTransformer, Router": Kind(routed),
    "DPRQuestionEncoder": Kind(dpr, "dot"),
    "T5EncoderModel": Kind(t5_encoder),
    "CrossEncoder, LogitScore": Kind(yes_or_no, None),
    "SiglipModel": Kind(siglip),
    "int8, dynamic": Kind(int8, None),
    "prompt tuning": Kind(prompted, None),
}


def vector(model: Any, text: str, side: str = "query") -> Tensor:
    """e(text) as the package itself gives it, with a gradient."""
    if isinstance(model, tuple):
        module, tokenizer = model
        if hasattr(module, "get_text_features"):  # SigLIP, as its users call it
            ids = tokenizer(text, **PADDED, return_tensors="pt")["input_ids"]
            return module.get_text_features(input_ids=ids).pooler_output[0]
        output = module(**{k: v for k, v in tokenizer(text, return_tensors="pt").items() if k != "token_type_ids"})
        result: Tensor = output.pooler_output[0] if "pooler_output" in output else output.last_hidden_state[0].mean(0)
        return result
    for part in model.modules():
        if type(part).__name__ == "SpladePooling":
            part.training = True  # else it writes over what a gradient needs
    routes = {"task": side} if type(model[0]).__name__ == "Router" else {}
    given: Tensor = model(model.preprocess([text], **routes), **routes)["sentence_embedding"][0]
    return given


@contextmanager
def moved(model: Any, rows: Tensor) -> Iterator[None]:
    """The tables of words answer with these rows."""
    hooks = [
        table.register_forward_hook(lambda part, *_: rows.mean(1) if isinstance(part, nn.EmbeddingBag) else rows)
        for table in tables(model)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def tables(model: Any) -> list[Any]:
    """Of words: those of positions and kinds are smaller."""
    every = [part for part in _network(model).modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    return [part for part in every if part.weight.shape == every[0].weight.shape and part is not _positions(model)]


def _positions(model: Any) -> Any:
    """SigLIP's table of positions may be as large as that of words here."""
    tower = getattr(_network(model), "text_model", None)
    return getattr(getattr(tower, "embeddings", None), "position_embedding", None)


def _network(model: Any) -> nn.Module:
    if isinstance(model, tuple):
        return model[0]
    routed_to = getattr(model[0], "sub_modules", None)
    return model if routed_to is None else routed_to["query"]


def slow(kind: Kind, model: Any, ids: list[int], held: list[bool]) -> tuple[float, np.ndarray]:
    """The similarity, and the sum of its gradients at the nodes of a Gauss rule."""
    weight = tables(model)[0].weight.detach()
    end = weight[ids][None]
    start = weight[[token if stays else 1 for token, stays in zip(ids, held, strict=True)]][None]
    with torch.no_grad():
        other = vector(model, OTHER, "document")

    def number(rows: Tensor) -> Tensor:
        with moved(model, rows):
            expected = vector(model, TEXT)
        product = (expected * other).sum()
        return product / expected.norm() / other.norm() if kind.similarity == "cosine" else product

    total, nodes = torch.zeros(end.shape[1], dtype=torch.float64), gauss(NODES)
    for t, share in zip(nodes.t, nodes.weight, strict=True):
        point = (start + float(t) * (end - start)).requires_grad_()
        (slope,) = torch.autograd.grad(number(point), point)
        total += float(share) * (slope * (end - start)).sum(-1)[0].double()
    with torch.no_grad():
        return float(number(end)), total.numpy()


def examined(name: str) -> dict[str, Any]:
    """The fields of a row of the sweep."""
    kind = KINDS[name]
    model = kind.build()
    choices = {"method": "ig", "n_steps": NODES, "rule": "gauss", "baseline": "unk", "tolerance": 9.0}
    try:
        result = pl.explain(model, [TEXT, OTHER], [OTHER, OTHER], **choices)
        alone = [pl.explain(model, text, OTHER, **choices) for text in (TEXT, OTHER)]
    except PathlensError as error:
        return {"state": "refused", "words": str(error)[:200]}
    tokenizer = model[1] if isinstance(model, tuple) else models.tokenizer()
    bare = name.endswith("StaticEmbedding")
    padded = PADDED if name.startswith("Siglip") else {}
    ids = tokenizer(TEXT, add_special_tokens=not bare, **padded)["input_ids"]
    value, scores = slow(kind, model, ids, [token in (0, 2, 3) for token in ids])
    size = max(float(np.abs(scores).max()), 1e-9)
    expected, far = abs(alone[0].certificate.f_input - value), float(np.abs(alone[0].scores - scores).max()) / size
    listed = max(float(np.abs(one.scores - two.scores).max()) for one, two in zip(result, alone, strict=True)) / size
    state = "holds" if expected < 1e-4 * max(1, abs(value)) and far < 1e-3 and listed < 1e-3 else "wrong"
    return {"state": state, "own": expected, "slow": far, "listed": listed, "layers": _deeper(model)}


def _deeper(model: Any) -> bool:
    try:
        return bool(pl.explain(model, TEXT, OTHER, layer=1, n_steps=1, method="ig", baseline="unk", tolerance=9.0))
    except PathlensError:
        return False
