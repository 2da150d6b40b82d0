"""A small CLIP of the real architecture with random weights, its tokenizer, and a picture drawn here."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

WORDS = "a red blue green circle square triangle left of right and the above below".split()


def word_tokenizer() -> PreTrainedTokenizerFast:
    special = ["<pad>", "<unk>", "<start>", "<end>"]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*special, *WORDS])}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 2), ("<end>", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", bos_token="<start>", eos_token="<end>"
    )


def small_clip(seed: int = 0, *, image: int = 32, patch: int = 8, width: int = 32) -> CLIPModel:
    torch.manual_seed(seed)
    common = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2, "num_attention_heads": 4}
    count = len(WORDS) + 4
    text = {
        **common,
        "vocab_size": count,
        "max_position_embeddings": 24,
        "eos_token_id": 3,
        "bos_token_id": 2,
        "pad_token_id": 0,
    }
    vision = {**common, "image_size": image, "patch_size": patch}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    config._attn_implementation = "sdpa"
    return CLIPModel(config).eval()


def picture(size: int = 32) -> torch.Tensor:
    """A red circle and a blue square, as pixels between -1 and 1."""
    image = Image.new("RGB", (size, size), "white")
    pen = ImageDraw.Draw(image)
    pen.ellipse((2, 2, size // 2 - 2, size // 2 - 2), fill="red")
    pen.rectangle((size // 2 + 2, size // 2 + 2, size - 3, size - 3), fill="blue")
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 127.5 - 1
