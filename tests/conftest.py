"""Shared models. One torch thread: the machine's cores are often busy, and results do not depend on it."""

from __future__ import annotations

import os
import random
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("TQDM_DISABLE", None)  # tests of bars count on bars, wherever they are run from

import numpy as np
import pytest
import torch

from tests.support import shapes

torch.set_num_threads(1)
shapes.install()  # before anything of pathlens is imported


def pytest_collection_modifyitems(items):
    """Processes that share the tests must call them alike, and an address is another one in each."""
    placed = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if placed:
        raise pytest.UsageError(f"the name of a test holds an address in memory; give it another id: {placed[0]}")


@pytest.fixture(scope="session", autouse=True)
def references(tmp_path_factory):
    """References of encoders are kept for this run alone: what another version found must not be read."""
    folder = tmp_path_factory.mktemp("references")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pathlens.text.reference.user_cache", lambda: folder)
        yield folder


@pytest.fixture(autouse=True)
def seeds():
    """What a test draws does not hang on the tests that ran before it, nor on which process took them."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


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


def pytest_sessionfinish(session, exitstatus):
    """With PATHLENS_NO_SKIPS set (CI), a skipped or expected-to-fail test fails the run: it would hide a gap."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PATHLENS_NO_SKIPS") and reporter is not None:
        hidden = [report for kind in ("skipped", "xfailed") for report in reporter.stats.get(kind, [])]
        if hidden and session.exitstatus == 0:
            session.exitstatus = 1
            reporter.write_line(f"{len(hidden)} tests did not run, and here that counts as failing", red=True)
