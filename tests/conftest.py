"""Shared models. One torch thread: the machine's cores are often busy, and results do not depend on it."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def minilm():
    from pathlens.text.load import load

    return load("minilm")


@pytest.fixture(scope="session")
def sentiment():
    from pathlens.text.load import load

    return load("sentiment")


@pytest.fixture(scope="session")
def data() -> Path:
    """Public data kept beside the project (see experiments/); tests that need it name it."""
    return Path(os.environ.get("PATHLENS_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
