"""The last step of an exact encoder: e(x) = e'(x) − e'(r), r = the text's length of one token that says nothing.

This file is also written into every folder that `pathlens exact` makes, so that sentence-transformers needs nothing else:
`SentenceTransformer(folder, trust_remote_code=True)`. It stands alone and imports nothing of pathlens.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

CODE = "pathlens_shift.py"  # this file, as it is called beside a model
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class Shift(nn.Module):
    """Subtracts e'(r) from the pooled vector: row n of `table` is that of texts of n tokens, special ones counted.

    reference: the token that stands at every place of r but those of the special tokens.
    """

    table: Tensor  # (longest + 1, k)

    def __init__(self, table: Tensor, reference: str) -> None:
        super().__init__()
        self.reference = reference
        self.register_buffer("table", table)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        length = features["attention_mask"].sum(1).clamp(max=len(self.table) - 1)
        vector = features["sentence_embedding"]
        features["sentence_embedding"] = vector - self.table[length].to(vector)
        return features

    def get_config_dict(self) -> dict[str, Any]:
        return {"reference": self.reference}

    def get_embedding_dimension(self) -> int:
        return int(self.table.shape[1])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Its own code goes beside modules.json, where sentence-transformers looks for it."""
        folder = Path(output_path)
        (folder / CONFIG).write_text(json.dumps(self.get_config_dict()), encoding="utf-8")
        save_file({"table": self.table.detach().cpu().contiguous()}, str(folder / WEIGHTS))
        if Path(__file__).resolve() != (beside := folder.parent / CODE).resolve():
            shutil.copyfile(__file__, beside)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **where: Any) -> Shift:
        """From a folder, or from the hub as sentence-transformers asks for it."""

        def file(name: str) -> str:
            if Path(model_name_or_path).is_dir():
                return str(Path(model_name_or_path) / subfolder / name)
            from huggingface_hub import hf_hub_download

            given = {key: where[key] for key in ("token", "revision", "local_files_only") if key in where}
            cache = where.get("cache_folder")
            return str(hf_hub_download(model_name_or_path, f"{subfolder}/{name}", cache_dir=cache, **given))

        config = json.loads(Path(file(CONFIG)).read_text(encoding="utf-8"))
        return cls(load_file(file(WEIGHTS))["table"].to(torch.float32), config["reference"])
