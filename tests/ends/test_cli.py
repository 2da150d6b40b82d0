"""The command line as a person meets it: run as a process, its output read, its mistakes answered in one line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pathlens as pl
from pathlens.checks import option_names
from pathlens.engine.options import options
from pathlens.text.options import GeneratorOptions, PromptedOptions
from tests.support.models import classifier, generator

ENV = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
TEXT = "the movie was not really funny"


def pathlens(*arguments: str, cwd: Path | None = None, given: str | bytes | None = None) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pathlens.cli", *map(str, arguments)]
    raw = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        command, capture_output=True, cwd=cwd, env=ENV, input=raw if raw is not None else b"", timeout=170
    )
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A tiny classifier as a folder, as a user has it."""
    where = tmp_path_factory.mktemp("models") / "tiny"
    model, tokenizer = classifier("bert")
    model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def refused(done: subprocess.CompletedProcess, *words: str, code: int = 2) -> None:
    """One clear line on standard error, nothing else."""
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("pathlens: "), done.stderr
    for word in words:
        assert word in lines[0], done.stderr


COMMANDS = "explain answer compare evaluate methods rank index run summary report doctor serve".split()
HEAVY = ("torch", "transformers", "numpy", "pyarrow", "duckdb", "ray", "fastapi", "pydantic", "matplotlib", "spacy")


def test_help_names_every_command_and_loads_nothing_heavy():
    told = "\nimport atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules, file=sys.stderr))\n"
    line = f"import sys; sys.argv = ['pathlens', '--help']{told}from pathlens.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, env=ENV, timeout=170)
    assert done.returncode == 0 and all(command in done.stdout for command in COMMANDS)
    loaded = set(done.stderr.partition("LOADED ")[2].split())
    assert "pathlens.cli" in loaded and not loaded & set(HEAVY), "help waits for no library it does not need"


@pytest.mark.parametrize(
    "command", ["explain", "compare", "methods", "rank", "run", "summary", "report", "doctor", "serve"]
)
def test_every_command_has_examples(command):
    done = pathlens(command, "--help")
    assert done.returncode == 0 and f"pathlens {command}" in done.stdout and "Examples" in done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["nonsense"], ["nonsense", "--help"]),
        (["explain"], ["model", "pathlens explain --help"]),
        (["explain", "sentiment", "x", "--tolerance", "much"], ["--tolerance", "number"]),
        (["explain", "sentiment", "x", "--nope"], ["--nope"]),
        (["serve", "sentiment", "--port", "99999999"], ["--port", "65535"]),
    ],
)
def test_wrong_usage_is_one_line(arguments, words):
    refused(pathlens(*arguments), *words)


def test_nothing_given_shows_the_help():
    done = pathlens()
    assert done.returncode == 2 and "explain" in done.stdout and "Traceback" not in done.stderr


def test_explain_writes_json_page_and_picture(folder, tmp_path):
    done = pathlens("explain", folder, TEXT, "--json", "a.json", "--html", "a.html", "--png", "a.png", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert "%|" not in done.stderr, "no progress bar into a pipe"
    one, two = pl.load(tmp_path / "a.json"), pl.load(tmp_path / "a.html")
    assert one.certificate.converged and (one.scores == two.scores).all()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_explain_draws_in_the_terminal_and_reads_standard_input(folder):
    done = pathlens("explain", folder, "-", given=TEXT)
    assert done.returncode == 0 and "movie" in done.stdout and "adds up" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["explain", "./no-such-folder", "x"], ["no-such-folder"]),
        (["explain", "{folder}", TEXT, "--method", "magic"], ["magic", "ig"]),
        (["explain", "{folder}", TEXT, "--target", "nobody"], ["nobody", "LABEL_0"]),
        (["explain", "{folder}", ""], ["text is empty"]),
        (["explain", "{folder}", TEXT, "--html", "/no/such/place/a.html"], ["/no/such/place/a.html"]),
        (["explain", "{folder}", TEXT, "--png", "a.bmp"], ["a.bmp"]),
        (["explain", "{folder}", TEXT, "--html", "-"], ["--json -"]),
        (["explain", "{folder}", TEXT, "--n-steps", "99999999"], ["at most 100000"]),
        (["doctor", "{folder}", "--text", " "], ["empty"]),
        (["explain", "{folder}", TEXT, "--option", "nonsense"], ["NAME=VALUE"]),
        (["compare", "{folder}", TEXT, "--method", "ig"], ["at least two"]),
        (["report", "missing.json"], ["missing.json"]),
        (["serve", "{folder}", "--host", "0.0.0.0"], ["token"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, words, folder, tmp_path):
    refused(pathlens(*[str(folder) if a == "{folder}" else a for a in arguments], cwd=tmp_path), *words)


def test_bytes_that_are_no_text_are_refused(folder, tmp_path):
    refused(pathlens("explain", folder, "-", given=b"\xff\xfe\x00bad"), "UTF-8")
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe{")
    refused(pathlens("report", tmp_path / "bad.json"))


def test_compare_and_report_go_round(folder, tmp_path):
    done = pathlens("compare", folder, TEXT, "--baseline", "mask", "--baseline", "pad", "--json", "c.json",
                    "--html", "c.html", "--png", "c.png", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "c.json").read_text())
    assert body["labels"] == ["mask", "pad"] and -1 <= body["spearman"][0][1] <= 1
    done = pathlens("report", "c.json", "c.html", "--html", "r.html", "--png", "r.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = pl.load(tmp_path / "r.html")
    assert len(again) == 4 and [r.meta["baseline"] for r in again] == ["mask", "pad"] * 2
    done = pathlens("report", "r.html", cwd=tmp_path)
    assert "4 explanations" in done.stdout


def test_methods_lists_all_and_speaks_json():
    done = pathlens("methods", "--json", "-")
    assert {row["name"] for row in json.loads(done.stdout)} == set(pl.methods())


def test_a_reader_that_leaves_is_no_error(folder):
    line = f"{sys.executable} -m pathlens.cli methods | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=ENV, timeout=120)
    assert done.stdout.strip() and "Traceback" not in done.stderr and "Error" not in done.stderr


def test_doctor_says_what_holds(folder, tmp_path):
    done = pathlens(
        "doctor", folder, "--text", TEXT, "--json", "d.json", "--html", "d.html", "--png", "d.png", cwd=tmp_path
    )
    found = json.loads((tmp_path / "d.json").read_text())
    failed = [check for check in found["checks"] if check["state"] == "fails"]
    assert done.returncode == 0 and not failed, failed
    laws = {check["law"].split(" ", 1)[1] for check in found["checks"] if check["state"] == "holds"}
    assert {
        "completeness",
        "batch = single",
        "padding",
        "attention kernels",
        "precision drift",
        "second derivatives",
    } <= laws
    assert "precision drift" in (tmp_path / "d.html").read_text()


def test_interrupting_is_quiet(folder):
    command = [sys.executable, "-m", "pathlens.cli", "doctor", str(folder)]
    before = signal.getsignal(signal.SIGINT)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it, and so would its child
    screen, theirs = os.openpty()  # at a terminal it says which law it is at, so we know that it is at work
    try:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=ENV | {"TERM": "xterm"})
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(theirs)
    said = b""
    while b"law" not in said:
        said += os.read(screen, 4096)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while more := os.read(screen, 4096):
            said += more
    os.close(screen)
    assert running.returncode in (130, -signal.SIGINT) and b"Traceback" not in said, said.decode()


def test_help_says_what_each_method_accepts():
    """An option that several methods take is one flag, and keeps the choices of each of them."""
    (path,) = (each for each in options() if each.name == "path")
    assert path.takers["ig"] == ("line", "dig", "udig") and path.takers["ih"] == ("line",)
    shown = " ".join(pathlens("explain", "--help").stdout.replace("│", " ").split())
    assert "[ig, vaig, ij] line | dig | udig [ih] line" in shown


def test_options_of_models_are_options_of_the_command(tmp_path):
    """They come from the model kinds' records: what has several types in Python is read as what it says."""
    for part in generator():
        part.save_pretrained(tmp_path / "writer")
    ask = [
        "explain",
        "writer",
        TEXT,
        "--target",
        " funny",
        "--contrast",
        " moving",
        "--sink",
        "false",
        "--n-steps",
        "8",
    ]
    done = pathlens(*ask, "--json", "a.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    choices = {"target": " funny", "contrast": " moving", "sink": False, "n_steps": 8}
    wanted = pl.explain(str(tmp_path / "writer"), TEXT, **choices)
    assert pl.load(tmp_path / "a.json").scores == pytest.approx(wanted.scores, abs=1e-6)
    shown = pathlens("explain", "--help").stdout
    names = [*option_names(GeneratorOptions), *option_names(PromptedOptions)]
    assert all(f"--{name.replace('_', '-')}" in shown for name in names)
    refused(pathlens("explain", "writer", TEXT, "--generate", "few", cwd=tmp_path), "--generate")


def test_options_of_methods_are_options_of_the_command(folder, tmp_path):
    """They come from the methods' records: listed by help, read with their types, suggested when misspelt."""
    ask = ["explain", folder, TEXT, "--method", "udig", "--steps", "2", "--neighbours", "5"]
    done = pathlens(*ask, "--json", "a.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = pl.explain(str(folder), TEXT, method="udig", steps=2, neighbours=5)
    assert pl.load(tmp_path / "a.json").scores == pytest.approx(wanted.scores, abs=1e-6)
    shown = pathlens("explain", "--help").stdout
    assert all(f"--{each.name.replace('_', '-')}" in shown for each in options())
    refused(pathlens("explain", folder, TEXT, "--step", "2"), "--step", "--steps")
    refused(pathlens("explain", folder, TEXT, "--steps", "few"), "--steps")
    refused(pathlens("explain", folder, TEXT, "--context", "prefix"), "context: not an option of ig")
