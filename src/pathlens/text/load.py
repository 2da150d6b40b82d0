"""Whatever a user has → a model kind."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import nn

from pathlens.errors import InputError, ModelError, PathlensError, first_line, setting
from pathlens.text.adapter import TextModel
from pathlens.text.builtin import TAKES_OPTIONS, load_built_in
from pathlens.text.causal import CausalLM
from pathlens.text.choice import Chooser
from pathlens.text.dual import DualEncoder
from pathlens.text.heads import Answerer, Classifier, Tagger
from pathlens.text.language import LanguageModel
from pathlens.text.masked import MaskedLM
from pathlens.text.network import evaluation_mode, named
from pathlens.text.options import BUILT_IN, refuse_slip
from pathlens.text.pipelines import crossed, follow
from pathlens.text.sentence import PooledEncoder, SentenceEncoder, SentenceTransformerEncoder, SiglipText, open_modules
from pathlens.text.seq2seq import Seq2Seq
from pathlens.text.tabular import Tabular
from pathlens.text.zeroshot import ZeroShot

KINDS: dict[str, tuple[Callable[[nn.Module, Any], LanguageModel], str]] = {  # suffix of a class → model kind, loader
    "ForSequenceClassification": (Classifier, "AutoModelForSequenceClassification"),
    "ForTokenClassification": (Tagger, "AutoModelForTokenClassification"),
    "ForQuestionAnswering": (Answerer, "AutoModelForQuestionAnswering"),
    "ForMultipleChoice": (Chooser, "AutoModelForMultipleChoice"),
    "ForQuestionAnsweringSimple": (Answerer, "AutoModelForQuestionAnswering"),
    "ForMaskedLM": (MaskedLM, "AutoModelForMaskedLM"),
    "WithLMHeadModel": (MaskedLM, "AutoModelForMaskedLM"),  # XLM and FlauBERT
    "ForCausalLM": (CausalLM, "AutoModelForCausalLM"),
    "LMHeadModel": (CausalLM, "AutoModelForCausalLM"),
    "QuestionEncoder": (PooledEncoder, "AutoModel"),  # DPR's two
    "ContextEncoder": (PooledEncoder, "AutoModel"),
    "ForConditionalGeneration": (Seq2Seq, "AutoModelForSeq2SeqLM"),
    "MTModel": (Seq2Seq, "AutoModelForSeq2SeqLM"),  # Marian
}
ON_LOADING = ("dtype", "device_map", "device")  # for what is loaded by name, and here only
ACCELERATORS = ("cuda", "mps", "xpu")  # in the order "auto" looks for them


def load(model: Any, **options: Any) -> TextModel:
    """A built-in name, folder, hub id, (model, tokenizer), pipeline, SentenceTransformer, CrossEncoder, or module.

    `options` go to the model kind (`pooling` for a bare encoder, `features` for a table) or, for a name or
    folder, to `from_pretrained` (`dtype`, `device_map`, …).
    """
    if isinstance(model, TextModel):
        _nothing_left(options, "a model that is loaded already")
        return model
    if isinstance(model, str | Path):
        device = _device(options.pop("device", None))
        return _by_name(model, options) if device is None else _moved(_by_name(model, options, device), device)
    for late in ON_LOADING:
        if late in options:
            raise InputError(f"{late} is for a folder or hub id; this model is loaded already: set it when you load it")
    if isinstance(model, tuple | list) and len(model) == 2:
        return _hugging_face(model[0], model[1], options)
    named = {base.__name__ for base in type(model).__mro__}
    if named & {"SentenceTransformer", "SparseEncoder"}:
        _nothing_left(options, f"a {type(model).__name__}, which brings its own pooling")
        return _modular(model)
    if "MultiVectorEncoder" in named:
        raise ModelError(
            "a MultiVectorEncoder compares every token of one text with every token of the other by itself (late "
            "interaction): its matrix of similarities is its own explanation; its body is explained as (model, tokenizer)"
        )
    if "CrossEncoder" in named:
        _nothing_left(options, "a CrossEncoder")
        return crossed(model)
    if hasattr(model, "task") and hasattr(model, "model") and hasattr(model, "tokenizer"):
        if model.task == "zero-shot-classification":
            _nothing_left(options, "a zero-shot pipeline")
            return ZeroShot.piped(model)
        text_model = _hugging_face(model.model, model.tokenizer, options)
        if isinstance(text_model, LanguageModel):
            follow(text_model, model)
        if type(text_model) is Classifier:
            text_model.function = _function_of(model) or text_model.function
        if isinstance(text_model, MaskedLM):
            chosen = getattr(model, "_postprocess_params", {}).get("target_ids")
            text_model.among = () if chosen is None else tuple(int(number) for number in chosen)
        return text_model
    if isinstance(model, nn.Module):
        inner = unwrapped(model)
        if hasattr(inner, "config") and hasattr(inner, "get_input_embeddings"):
            raise ModelError(f"{type(inner).__name__} needs its tokenizer: pass (model, tokenizer)")
        _nothing_left({name: options[name] for name in options if name == "pooling"}, "a plain module")
        return Tabular(model, **options)
    raise ModelError(
        f"a {type(model).__name__} cannot be explained; pass a built-in name ({', '.join(BUILT_IN)}), a folder or hub id, "
        "(model, tokenizer), a pipeline, a SentenceTransformer, a CrossEncoder, or an nn.Module that takes tensors"
    )


def _function_of(pipeline: Any) -> str | None:
    """What a text-classification pipeline makes of its logits: what it was told, else by the model's configuration.

    Of a regression nothing, as the model says itself.
    """
    given, config = getattr(pipeline, "_postprocess_params", {}).get("function_to_apply"), pipeline.model.config
    if given is not None:
        return str(getattr(given, "value", given)).lower()
    if config.problem_type == "regression":
        return None
    return "sigmoid" if config.problem_type == "multi_label_classification" or config.num_labels == 1 else "softmax"


def _modular(model: Any, name: str | None = None) -> TextModel:
    """A model of sentence-transformers by its first module."""
    if type(model[0]).__name__ == "Router":
        return DualEncoder.routed(model, name=name)
    return SentenceTransformerEncoder(model, name=name)


def _nothing_left(options: dict[str, Any], what: str) -> None:
    if options:
        raise InputError(f"{', '.join(options)}: not for {what}")


def _hugging_face(module: Any, tokenizer: Any, options: dict[str, Any]) -> TextModel:
    if not isinstance(module, nn.Module):
        raise ModelError(f"the first of (model, tokenizer) must be a torch model, got {type(module).__name__}")
    inner = unwrapped(module)
    names = [base.__name__ for base in type(inner).__mro__]  # a user's subclass is still of its kind
    known_class = next(((name, suffix) for name in names for suffix in KINDS if name.endswith(suffix)), None)
    if known_class is None:
        _refuse_unknown(names)
        if names[0].startswith("Siglip") and hasattr(inner, "text_model"):
            _nothing_left(options, "SigLIP's text tower, which says itself which vector is the text's")
            return SiglipText(inner.text_model, tokenizer, name=names[0])
        if hasattr(inner, "vision_model"):
            raise ModelError(
                f"{type(inner).__name__} reads pictures and texts: pass pl.DualEncoder.clip(model, tokenizer, processor), which "
                "takes models of CLIP's architecture"
            )
        kind = kind_by_output(inner)
        model = SentenceEncoder(encoder_of(inner), tokenizer, **options) if kind is None else kind(inner, tokenizer)
    else:
        name, suffix = known_class
        kind = KINDS[suffix][0]
        if kind is MaskedLM and "pooling" in options:  # asked for as an encoder
            return SentenceEncoder(getattr(inner, "base_model", inner), tokenizer, **options)
        _nothing_left(options, f"{name}, which has a head of its own")
        written = kind is Seq2Seq and not inner.config.is_encoder_decoder  # pictures and text in, text out
        model = CausalLM(inner, tokenizer) if written else kind(inner, tokenizer)
    if inner is not module:
        model.user = module
    return model


def unwrapped(module: Any) -> Any:
    """What is compiled, spread over devices, or adapted: a LoRA sits in the layers of the model it was put on."""
    module = getattr(module, "_orig_mod", module)
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return unwrapped(module.module)
    wrapped = {base.__name__ for base in type(module).__mro__} & {"PeftModel", "PeftMixedModel"}
    if not wrapped:  # also one whose layers were changed in place (`add_adapter`)
        return module
    if getattr(getattr(module, "active_peft_config", None), "is_prompt_learning", False):
        raise ModelError(
            f"{type(module).__name__} puts learned vectors before the text (prompt or prefix tuning), which are no words; "
            "pathlens explains adapters that sit in the layers, such as LoRA"
        )
    if hasattr(module, "get_base_model"):
        return module.get_base_model()
    return module.base_model.model  # of adapters of several kinds at once


def encoder_of(module: nn.Module) -> nn.Module:
    """The module, unless it also writes: then its states are those of a text nobody gave."""
    if (
        getattr(getattr(module, "config", None), "is_encoder_decoder", False)
        and getattr(module, "decoder", None) is not None
    ):
        raise ModelError(
            f"{type(module).__name__} has an encoder and a decoder; to compare texts pass its encoder: "
            "(model.get_encoder(), tokenizer)"
        )
    return module


@torch.no_grad()
def kind_by_output(module: nn.Module) -> Callable[[nn.Module, Any], LanguageModel] | None:
    """A class of the user's own says by its output what it is; None: it gives states."""
    if type(module).__module__.startswith("transformers."):
        return None
    ids = torch.zeros(1, 3, dtype=torch.long, device=next(module.parameters()).device)
    with evaluation_mode(module):
        try:
            output = named(module(input_ids=ids, attention_mask=torch.ones_like(ids)))
        except Exception as error:
            raise ModelError(
                f"{type(module).__name__} could not be called as (input_ids, attention_mask): {first_line(error)}; give its "
                "forward pass these, or write a model kind (docs/extending.md)"
            ) from error
    if hasattr(output, "start_logits"):
        return Answerer
    logits = getattr(output, "logits", None)
    if logits is None:
        return None
    return Classifier if logits.ndim == 2 else Tagger


def _refuse_unknown(names: list[str]) -> None:
    """A head that is no kind of ours must not be taken for a bare encoder."""
    for name in names:
        if re.search("For(?=[A-Z])", name):  # RoFormer has no head
            known = ", ".join(suffix.removeprefix("For") for suffix in KINDS if suffix.startswith("For"))
            raise ModelError(f"{name} is not a kind pathlens knows; it takes {known}, and bare encoders")


def _device(wanted: Any) -> torch.device | None:
    """The device asked for, if torch has it here; None where none was."""
    if wanted is None:
        return None
    there = [name for name in ACCELERATORS if getattr(torch, name).is_available()]
    here = f"here there are {', '.join(['cpu', *there])}"
    try:
        device = torch.device((there or ["cpu"])[0] if isinstance(wanted, str) and wanted == "auto" else wanted)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{setting(device=wanted)} is not a device of torch; {here}") from error
    if device.type in ACCELERATORS and device.type not in there:
        raise InputError(f"{setting(device=wanted)}: torch finds none on this machine; {here}")
    return device


def _moved(model: TextModel, device: torch.device) -> TextModel:
    module = model.whole()
    if module is not None:
        module.to(device)
    return model


def _by_name(model: str | Path, options: dict[str, Any], device: torch.device | None = None) -> TextModel:
    if isinstance(model, str) and model in BUILT_IN and not Path(model).exists():
        passed_on = ON_LOADING if model in TAKES_OPTIONS else ()
        _nothing_left({n: options[n] for n in options if n not in passed_on}, f"the built-in model {model!r}")
        return load_built_in(model, device, **options)  # one that is moved is not the one others use
    refuse_slip(str(model))
    folder = Path(model)
    if folder.is_dir() and not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise ModelError(f"the folder {str(model)!r} holds no model: neither config.json nor modules.json is in it")
    pooling = {"pooling": options.pop("pooling")} if "pooling" in options else {}
    import transformers

    kept = {} if folder.is_dir() or hub_has_an_address() else {"local_files_only": True}
    try:
        if _file_of(model, "modules.json", kept) is not None:
            _nothing_left(pooling, "a sentence-transformers model, which brings its own pooling")
            stated = _stated(model, kept)
            opened = open_modules(str(model), stated or "SentenceTransformer", model_kwargs=options, **kept)
            return crossed(opened) if stated == "CrossEncoder" else _modular(opened, str(model))
        config = transformers.AutoConfig.from_pretrained(model, **kept)
        name = (config.architectures or [""])[0]
        auto = next((loader for suffix, (_, loader) in KINDS.items() if name.endswith(suffix)), "AutoModel")
        if auto == "AutoModel":
            _refuse_unknown([name])
        elif auto == "AutoModelForMaskedLM" and pooling:
            auto = "AutoModel"
        elif auto == "AutoModelForSeq2SeqLM" and not config.is_encoder_decoder:
            auto = "AutoModelForImageTextToText"  # and text alone
        loader = getattr(transformers, auto)
        module = loader.from_pretrained(model, **kept, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, **kept)
    except PathlensError:
        raise
    except (OSError, ValueError, TypeError, AttributeError, AssertionError, RuntimeError) as error:
        raise ModelError(
            f"{str(model)!r} could not be loaded ({first_line(error)}); give a built-in name ({', '.join(BUILT_IN)}), an existing "
            "folder, or a hub id that can be reached"
        ) from error
    return _hugging_face(module.eval(), tokenizer, pooling)


def _stated(model: str | Path, kept: dict[str, Any]) -> str:
    """What sentence-transformers says the model is."""
    file = _file_of(model, "config_sentence_transformers.json", kept)
    return str(json.loads(Path(file).read_text(encoding="utf-8")).get("model_type", "")) if file else ""


def _file_of(model: str | Path, name: str, kept: dict[str, Any]) -> str | None:
    """A file of a folder or of the hub; None where there is none."""
    if Path(model).is_dir():
        return str(Path(model) / name) if (Path(model) / name).exists() else None
    from transformers.utils import cached_file

    try:
        file: str | None = cached_file(str(model), name, _raise_exceptions_for_missing_entries=False, **kept)
        return file
    except (OSError, ValueError):
        return None


def hub_has_an_address() -> bool:
    """Without one only the cache is asked: nobody should wait for half a minute of retries on a train."""
    from huggingface_hub import constants

    if getproxies():  # then the proxy looks names up
        return True
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True


@contextmanager
def cache_alone_without_hub() -> Iterator[None]:
    """While a data set is loaded: where the hub has no address, its libraries are told to be off line."""
    import datasets
    from huggingface_hub import constants

    places = [constants, datasets.config]
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        if not hub_has_an_address():
            for place in places:
                place.HF_HUB_OFFLINE = True
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value
