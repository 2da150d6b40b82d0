"""What the figures were measured on: nothing that names the machine or its owner."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("pathlens", "torch", "transformers", "sentence-transformers", "numpy", "captum", "time-interpret", "inseq")
CODE = ("src", "benchmarks/*.py", "tests/support/twins")  # a figure belongs to what is in these


def git(*arguments: str) -> str:
    try:
        run = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except OSError:  # no git here
        return ""
    return run.stdout.strip()


def commit() -> str:
    """The last commit that touched what is measured, with "+" where the tree differs from it."""
    short_hash = git("log", "-1", "--format=%h", "--", *CODE) or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return f"{short_hash}+" if changed else short_hash


def processor() -> str:
    """Its name, and the widest instructions that torch uses on it: processors of one name differ in them, and ratios with them."""
    return f"{_name_of_processor()} ({torch.backends.cpu.get_cpu_capability()})"


def _name_of_processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory_gib() -> float:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):
        return float("nan")


def description() -> dict[str, str]:
    """Machine, date, commit and versions, as the page shows them."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return {
        "machine": f"{processor()}, {os.cpu_count()} cores, {memory_gib():.0f} GiB, {platform.system()} {platform.machine()}",
        "threads": f"{torch.get_num_threads()} of torch",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "versions": ", ".join([f"Python {platform.python_version()}", *(f"{n} {v}" for n, v in versions.items())]),
    }


def together(measured_on: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """One description of rows that may have been measured on different days, commits or machines."""
    about = {}
    for name in next(iter(measured_on.values())):
        rows: dict[str, list[str]] = {}
        for entry, facts in measured_on.items():
            rows.setdefault(facts[name], []).append(entry)
        about[name] = (
            next(iter(rows))
            if len(rows) == 1
            else "; ".join(f"{value} ({', '.join(entries)})" for value, entries in rows.items())
        )
    return about
