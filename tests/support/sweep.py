"""Kinds of models × heads, tiny and random, explained as a user would, and beside it the slow computation.

The slow one is a plain loop: the model called with token ids, its word embeddings moved by a hook of torch's own, and the
paper's sum at the same nodes. `python -m tests.support.sweep` (with names of kinds or heads, for those alone) writes the rows
and the table of docs/models.md.
"""

from __future__ import annotations

import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor
from transformers import CONFIG_MAPPING

import pathlens as pl
from pathlens.errors import PathlensError, SecantError
from pathlens.quadrature import gauss
from pathlens.text.load import load
from tests.support import models, modular
from tests.support.architectures import DECODERS, ENCODERS, MIXTURES, RECURRENT, SIZE, SPECIAL, TRANSLATORS

HEADS = {
    "classify": hf.AutoModelForSequenceClassification,
    "tag": hf.AutoModelForTokenClassification,
    "answer": hf.AutoModelForQuestionAnswering,
    "fill": hf.AutoModelForMaskedLM,
    "write": hf.AutoModelForCausalLM,
    "translate": hf.AutoModelForSeq2SeqLM,
    "embed": hf.AutoModel,
}
FAMILIES = {
    **dict.fromkeys(ENCODERS, ("classify", "tag", "answer", "fill", "embed")),
    **dict.fromkeys([*DECODERS, *MIXTURES, *RECURRENT], ("write", "classify")),
    **dict.fromkeys(TRANSLATORS, ("translate", "classify", "answer")),
    "funnel": ("classify", "tag", "answer", "fill"),
    "fsmt": ("translate",),
    **dict.fromkeys(("gemma3n_text", "gemma4_text", "olmo3", "gpt_oss", "glm4", "qwen3_5_text"), ("write",)),
    "switch_transformers": ("translate",),
    "reformer": ("classify", "answer", "fill"),
    "roberta": ("classify", "tag", "answer", "fill", "embed", "write"),
    "xlm-roberta": ("classify", "tag", "answer", "fill", "embed", "write"),
}
IDS = {
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 3,
    "sep_token_id": 3,
    "cls_token_id": 2,
}
WINDOW = {"sliding_window": 6}  # shorter than the texts
ROUTED = {"num_experts": 4}  # two of them are chosen for each token
MORE = {
    "mixtral": {"num_local_experts": 4},
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "olmoe", "jamba", "qwen3_next"), ROUTED),
    **dict.fromkeys(
        ("mistral", "ministral", "gemma2", "cohere2", "starcoder2", "phi3", "olmo3", "gpt_oss", "exaone4"), WINDOW
    ),
    "fsmt": {"langs": ["en", "de"], "src_vocab_size": 60, "tgt_vocab_size": 60},
    "funnel": {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48},
    "xlm": {"pad_index": 0, "eos_index": 3, "bos_index": 2, "unk_index": 1, "mask_index": 4},
    "flaubert": {"pad_index": 0, "eos_index": 3, "bos_index": 2, "unk_index": 1, "mask_index": 4},
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 0,
        "vocab_size_per_layer_input": 60,
        "hidden_size_per_layer_input": 8,
        "laurel_rank": 4,
        "altup_num_inputs": 2,
        "activation_sparsity_pattern": [0.0, 0.0],
        **WINDOW,
    },
    "reformer": {
        "axial_pos_shape": [8, 8],
        "axial_pos_embds_dim": [16, 16],
        "attn_layers": ["local", "local"],
        "local_attn_chunk_length": 64,
        "attention_head_size": 8,
        "feed_forward_size": 48,
        "is_decoder": False,
    },
    "esm": {"mask_token_id": 4, "token_dropout": True},
    "mra": {"type_vocab_size": 2},  # by default it takes no second text
    "yoso": {"type_vocab_size": 2},
    "big_bird": {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1},
}
ROOT = Path(__file__).parents[2]
ROWS, PAGE, MARK = ROOT / "experiments/rows/architectures.jsonl", ROOT / "docs/models.md", "<!-- sweep -->"
TEXT, OTHER = "the movie was not really funny , but moving .", "great acting and a very good plot !"
NODES = 6


@dataclass(frozen=True)
class Row:
    """One configuration: what came out, and how far it is from the slow computation, relative to its largest score."""

    kind: str
    head: str
    state: str  # "holds", "wrong", "refused", "crashed", "not built"
    own: float | None = None  # |f_input − the model's own output|
    slow: float | None = None  # largest difference from the loop
    listed: float | None = None  # … of a list from its single texts
    layers: bool = False  # can every deeper layer be entered, with the same output?
    secant: bool = True  # and by secants, or are they refused? (only asked where ours is the number of a plain loop)
    words: str = ""


def configurations() -> Iterator[tuple[str, str]]:
    for name, heads in FAMILIES.items():
        for head in heads:
            if CONFIG_MAPPING[name] in HEADS[head]._model_mapping:
                yield name, head
    yield from ((name, "embed") for name in modular.KINDS)


def build(name: str, head: str) -> tuple[Any, Any]:
    config = CONFIG_MAPPING[name]
    known = set(inspect.signature(config.__init__).parameters)
    known.update(*(getattr(each, "__annotations__", {}) for each in config.__mro__))
    sizes = {key: value for key, value in {**SIZE, **IDS}.items() if key in known}
    special = {key: value for key, value in SPECIAL.get(name, {}).items() if key not in IDS}
    torch.manual_seed(3)
    settings = config(**{**sizes, **special, **MORE.get(name, {})})
    settings.num_labels = 3 if head != "answer" else 2
    if head == "write":
        settings.is_decoder = True
    if head == "translate" or name in TRANSLATORS:
        settings.decoder_start_token_id = 3
    model = HEADS[head].from_config(settings, dtype=torch.float32)
    with torch.no_grad():
        for part, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in part.lower():
                weight.mul_(2.0 if name in TRANSLATORS else 4.0)
    decoder = head == "write"
    tokenizer = models.closing_tokenizer() if head == "translate" else models.tokenizer(decoder)
    return model.eval(), models.twice_closing_tokenizer() if name == "longformer" else tokenizer


def looked_up(model: Any, ids: list[int]) -> Tensor:
    """Rows as the model's own table gives them."""
    with torch.no_grad():
        return model.get_input_embeddings()(torch.tensor([ids]))


@contextmanager
def moved(model: Any, *given: tuple[Tensor, Tensor]) -> Iterator[None]:
    """The word embeddings of these ids are these rows, wherever the model looks them up."""

    def answer(table: Any, asked: tuple[Any, ...], result: Tensor) -> Tensor:
        for ids, rows in given:
            length = ids.shape[1]
            if asked[0].shape == ids.T.shape and torch.equal(asked[0].T, ids):  # XLNet counts tokens first
                return rows.transpose(0, 1)
            if asked[0].ndim == 2 and asked[0].shape[1] >= length and torch.equal(asked[0][:, :length], ids):
                return torch.cat([rows, result[:, length:]], 1)
        ids, rows = given[0]
        shifted = asked[0].shape == ids.shape and torch.equal(asked[0][:, 1:], ids[:, :-1])
        return torch.cat([result[:, :1], rows[:, :-1]], 1) if shifted else result

    size = model.get_input_embeddings().weight.shape
    tables = [part for part in model.modules() if isinstance(part, torch.nn.Embedding) and part.weight.shape == size]
    hooks = [part.register_forward_hook(answer) for part in tables]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class Question:
    """What is asked of one text: of `pl.explain`, and of the model itself as a number of its rows."""

    texts: tuple[str, ...]
    asked: dict[str, Any]
    ids: list[int]
    held: list[int]
    number: Callable[[Tensor], Tensor]  # rows (1, S, d) → the number explained


def question(pair: tuple[Any, Any], head: str, text: str) -> Question:
    model, tokenizer = pair
    texts = {"answer": ("what was it ?", text), "fill": (f"{text} [MASK] film",)}.get(head, (text,))
    encoded = tokenizer(*texts, return_tensors="pt")
    ids = encoded["input_ids"][0].tolist()
    takes = inspect.signature(model.forward).parameters
    inputs = {name: value for name, value in encoded.items() if name in takes}
    held = [i for i, token in enumerate(ids) if token in (2, 3, 4)]
    if head in ("write", "translate"):
        return writing(pair, head, text, ids)

    def out(rows: Tensor) -> Any:
        with moved(model, (encoded["input_ids"], rows)):
            return model(**inputs)

    numbers: dict[str, Callable[[Tensor], Tensor]] = {
        "classify": lambda rows: out(rows).logits[0, 1],
        "tag": lambda rows: out(rows).logits[0, 2, 1],
        "answer": lambda rows: out(rows).start_logits[0, 6],
        "fill": lambda rows: out(rows).logits[0, ids.index(4)].log_softmax(-1)[14],
    }
    asked: dict[str, Any] = {
        "classify": {"target": 1},
        "tag": {"target": (2, 1)},
        "answer": {"target": lambda logits: logits[0][:, 6]},
        "fill": {"target": 14},
    }
    if head == "embed":
        with torch.no_grad():
            fixed = model(
                **{name: value for name, value in tokenizer(OTHER, return_tensors="pt").items() if name in takes}
            )
            other = fixed[0][0].mean(0)
        cosine = torch.nn.functional.cosine_similarity
        return Question(
            (text, OTHER), {"method": "ig"}, ids, held, lambda rows: cosine(out(rows)[0][0].mean(0), other, 0)
        )
    return Question(texts, asked[head], ids, held, numbers[head])


def writing(pair: tuple[Any, Any], head: str, text: str, ids: list[int]) -> Question:
    """Two continuations against each other, each written after the prompt by itself."""
    model, tokenizer = pair
    words = [tokenizer(each, add_special_tokens=False)["input_ids"] for each in ("good bad", "funny plot film")]
    start = [model.config.decoder_start_token_id] if head == "translate" else []
    opening, tails = len(ids) + len(start), [each[:-1] for each in words]
    rows_of = [list(range(opening)), list(range(opening))]
    at = opening
    for line, tail in zip(rows_of, tails, strict=True):
        line += range(at, at + len(tail))
        at += len(tail)
    every = torch.tensor([*ids, *start, *tails[0], *tails[1]])

    def logprob(rows: Tensor, line: list[int], tokens: list[int]) -> Tensor:
        laid = every[line][None], rows[:, line]
        if head == "write":
            with moved(model, laid):
                logits = model(input_ids=laid[0], use_cache=False).logits[0]
            first = len(ids) - 1
        else:
            split = len(ids)
            encoder, decoder = (every[None, :split], rows[:, :split]), tuple(each[:, split:] for each in laid)
            with moved(model, encoder, decoder):
                logits = model(input_ids=encoder[0], decoder_input_ids=decoder[0], use_cache=False).logits[0]
            first = 0
        return sum(logits[first + k].log_softmax(-1)[token] for k, token in enumerate(tokens))

    held = [i for i in range(opening) if int(every[i]) in (2, 3) or i >= len(ids)]
    asked = {"target": " good bad", "contrast": " funny plot film"}
    both = lambda rows: logprob(rows, rows_of[0], words[0]) - logprob(rows, rows_of[1], words[1])  # noqa: E731
    return Question((text,), asked, every.tolist(), held, both)


def slow(model: Any, asked: Question) -> tuple[float, np.ndarray]:
    """The model's number for the text, and the sum of gradients at the nodes of a Gauss rule."""
    start = looked_up(model, [token if i in asked.held else 1 for i, token in enumerate(asked.ids)])
    end, nodes = looked_up(model, asked.ids), gauss(NODES)
    total = torch.zeros(end.shape[1], dtype=torch.float64)
    for t, weight in zip(nodes.t, nodes.weight, strict=True):
        point = (start + float(t) * (end - start)).requires_grad_()
        (slope,) = torch.autograd.grad(asked.number(point), point)
        total += float(weight) * (slope * (end - start)).sum(-1)[0].double()
    with torch.no_grad():
        return float(asked.number(end)), total.numpy()


def examined(name: str, head: str) -> Row:
    """Explained as a user would, held against the loop, and in a list against its texts alone."""
    if name in modular.KINDS:
        return Row(name, head, **modular.examined(name))
    try:
        pair = build(name, head)
    except Exception as error:
        return Row(name, head, "not built", words=f"{type(error).__name__}: {error}"[:160])
    model = pair[0]
    try:
        asked = [question(pair, head, text) for text in (TEXT, OTHER)]
    except Exception as error:
        return Row(name, head, "not built", words=f"the model itself: {type(error).__name__}: {error}"[:160])
    choices = {"n_steps": NODES, "rule": "gauss", "baseline": "unk"}
    try:
        alone = [pl.explain(pair, *each.texts, **choices, **asked[0].asked) for each in asked]
        sides = [list(each) for each in zip(*(each.texts for each in asked), strict=True)]
        result = pl.explain(pair, *sides, **choices, **asked[0].asked)
    except PathlensError as error:
        return Row(name, head, "refused", words=str(error)[:200])
    except Exception as error:
        return Row(name, head, "crashed", words=f"{type(error).__name__}: {error}"[:200])
    try:
        value, scores = slow(model, asked[0])
    except Exception as error:
        return Row(name, head, "not built", words=f"the model itself: {type(error).__name__}: {error}"[:160])
    size = max(float(np.abs(scores).max()), 1e-9)
    listed = max(float(np.abs(one.scores - two.scores).max()) for one, two in zip(result, alone, strict=True)) / size
    off, far = abs(alone[0].certificate.f_input - value), float(np.abs(alone[0].scores - scores).max()) / size
    state = "holds" if off < 1e-4 * max(1, abs(value)) and far < 1e-3 and listed < 1e-3 else "wrong"
    more = {"layers": _deeper(pair, asked[0]), "secant": _by_secants(pair, asked[0])}
    return Row(name, head, state, off, far, listed, **more)


def _deeper(pair: tuple[Any, Any], asked: Question) -> bool:
    """Refused, or the same output: a case is compared with the model's own whatever its layer."""
    choices = {"n_steps": 1, "baseline": "unk", "tolerance": 9, **asked.asked}
    depth = load(pair).network.depth
    try:
        for layer in range(1, depth + 1):  # both ends are one batch of two rows
            pl.explain(pair, *asked.texts, layer=layer, **choices)
        return depth > 0
    except PathlensError:
        return False


def _by_secants(pair: tuple[Any, Any], asked: Question) -> bool:
    """Refused, or settled: where experts are chosen otherwise for the baseline, no mean derivative exists."""
    try:
        return bool(pl.explain(pair, *asked.texts, baseline="unk", **{**asked.asked, "method": "secant"}).settled)
    except SecantError:
        return False


def table(rows: Sequence[Row]) -> str:
    """A line for every kind, a column for every head."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    result = {(row.kind, row.head): row for row in rows}
    lines = [f"| | {' | '.join(HEADS)} |", f"|---|{'---|' * len(HEADS)}"]
    for kind in kinds:
        cells = [_cell(result.get((kind, head))) for head in HEADS]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or row.state == "not built":
        return ""
    holds = ["✓", *([] if row.layers else ["layer 0"]), *([] if row.secant else ["not `secant`"])]
    return {"holds": " ".join(holds), "refused": "no"}[row.state]


def main() -> None:
    """One row for every configuration (or those named), and the page's table of them all."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    wanted = sys.argv[1:]
    known = {(row.kind, row.head): row for row in kept()}
    for name, head in configurations():
        if not wanted or name in wanted or head in wanted:
            known[name, head] = row = examined(name, head)
            print(row, flush=True)
    rows = [known[each] for each in configurations() if each in known]
    ROWS.write_text("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows))
    before, after = PAGE.read_text().split(MARK)[::2]
    PAGE.write_text(f"{before}{MARK}\n{table(rows)}\n\n{MARK}{after}")


def kept() -> list[Row]:
    """The rows of the last run."""
    return [Row(**json.loads(line)) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


if __name__ == "__main__":
    main()
