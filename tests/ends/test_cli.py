"""The command line as a person meets it: its output read, its mistakes answered in one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from unittest import mock

import pytest

import pathlens as pl
from pathlens import corpus
from pathlens.checks import option_names, options_of
from pathlens.corpus.options import LEAST, MOST, RunOptions
from pathlens.engine.options import options
from pathlens.errors import python_only, setting
from pathlens.metrics.evaluate import METHODS
from pathlens.metrics.extras import EXTRAS
from pathlens.studies.exact import ExactOptions
from pathlens.text.options import kinds_of_options
from tests.support.models import classifier, generator

ENV = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
TEXT = "the movie was not really funny"


def pathlens(*arguments: object, cwd: Path | None = None, given: str | bytes = b"") -> subprocess.CompletedProcess:
    """The whole command in this process, which has torch already; what only a process shows is asked of one below."""
    from transformers.utils import logging

    from pathlens.cli import main

    logging.disable_progress_bar()  # the command itself does so before anything is imported
    words = ["pathlens", *map(str, arguments)]
    raw = given.encode() if isinstance(given, str) else given
    message, facts, read = (io.TextIOWrapper(io.BytesIO(text), encoding="utf-8") for text in (b"", b"", raw))
    with (
        contextlib.chdir(cwd or "."),
        contextlib.redirect_stdout(message),
        contextlib.redirect_stderr(facts),
        mock.patch.dict(os.environ, ENV),
        mock.patch.multiple(sys, argv=words, stdin=read),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as leaving:
            code = leaving.code or 0
    texts = []
    for stream in (message, facts):
        stream.seek(0)
        texts.append(stream.read())
    return subprocess.CompletedProcess(words, int(str(code)), *texts)


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


HANGS = 900  # seconds after which a command is taken to hang, on any machine
COMMANDS = "explain answer compare evaluate methods rank index exact run summary report doctor serve".split()
HEAVY = ("torch", "transformers", "numpy", "pyarrow", "duckdb", "ray", "fastapi", "pydantic", "matplotlib", "spacy")


def test_help_names_every_command_and_loads_nothing_heavy():
    loaded = "\nimport atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules, file=sys.stderr))\n"
    line = f"import sys; sys.argv = ['pathlens', '--help']{loaded}from pathlens.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, env=ENV, timeout=HANGS)
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


@pytest.mark.parametrize("command", [[], ["explain"], ["methods"], ["run"], ["index", "build"], ["serve"]])
def test_help_is_short_too(command, capsys):
    from pathlens.cli import app

    facts = []
    for flag in ("-h", "--help"):
        app([*command, flag], prog_name="pathlens", standalone_mode=False)
        facts.append(capsys.readouterr().out)
    assert facts[0] == facts[1] and "Usage" in facts[0]


def test_the_version_is_told():
    assert pathlens("--version").stdout == f"pathlens {pl.__version__}\n"


def test_every_command_begins_with_its_model_and_takes_methods_alike():
    """One grammar: MODEL first, never an option; `--method` a list everywhere."""
    import typer

    from pathlens.cli import app, search

    subcommands = typer.main.get_command(search.index).commands
    for name, command in {**app.commands, **subcommands}.items():
        params = (command.load() if hasattr(command, "load") else command).params
        arguments = [each.name for each in params if each.param_type_name == "argument"]
        by_name = {each.name: each for each in params}
        assert "methods" not in by_name or name == "methods", name
        if "method" in by_name:
            assert by_name["method"].multiple and arguments[0] == "model", name
        if any(each.startswith("model") for each in arguments):
            assert arguments[0].startswith("model"), name


def test_methods_are_repeated_or_given_with_commas(folder, tmp_path):
    for number, asked in enumerate((["--method", "ig,sig"], ["--method", "ig", "--method", "sig"])):
        command = ("compare", "explain")[number]  # several methods are put side by side wherever one text is explained
        done = pathlens(command, folder, TEXT, *asked, "--json", f"{number}.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2))
    assert one["labels"] == two["labels"] == ["ig", "sig"] and one["values"] == two["values"]


def test_a_run_of_several_methods_is_a_run_for_each_that_goes_on(folder, tmp_path):
    (tmp_path / "r.csv").write_text("text\ngreat movie\nnot bad\n")
    command = ("run", folder, "r.csv", "--out", "out", "--method", "ig,sig", "--n-steps", "2", "--tolerance", "1")
    done = pathlens(*command, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and "ig:\n" in done.stdout and "sig:\n" in done.stdout, done.stderr
    assert not (tmp_path / "out").exists()
    done = pathlens(*command, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("2 rows in 'out/") == 2, done.stderr
    for name in ("ig", "sig"):
        assert {each.method for each in corpus.results(tmp_path / "out" / name)} == {name}
    again = pathlens(*command, cwd=tmp_path)
    assert again.stdout.count("(2 were there already)") == 2, again.stderr
    refused(pathlens(*command[:3], "--out", "out/ig", *command[5:], cwd=tmp_path), "one method", "another folder")


def test_an_index_by_several_methods_is_an_index_for_each(tmp_path):
    from pathlens.vectors.index import Index

    (tmp_path / "d.txt").write_text("Rice is boiled in water.\nThe bank was closed.\n")
    command = ("index", "build", "minilm", "d.txt", "both", "--method", "ij,secant", "--tolerance", "0.1")
    done = pathlens(*command, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("2 documents, 2 passages") == 2, done.stderr
    for name in ("ij", "secant"):
        assert f": both/{name}\n" in done.stdout
        assert Index.open(tmp_path / "both" / name).search("cooking rice", 1)[0].explanation.method == name
    refused(pathlens(*command[:4], "both/ij", *command[5:], cwd=tmp_path), "one method", "another folder")


def test_a_ranking_by_several_methods_puts_their_reasons_side_by_side(tmp_path):
    (tmp_path / "d.txt").write_text("Rice is boiled in water.\nThe bank was closed.\n")
    asked = ("minilm", "cooking rice", "d.txt", "--method", "ij,secant", "--tolerance", "0.1", "--why", "1,2")
    done = pathlens("rank", *asked, "--json", "out.json", "--html", "out.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [each.method for each in pl.load(tmp_path / "out.json")] == ["ij", "secant"] * 3
    page = (tmp_path / "out.html").read_text()
    assert page.count("methods side by side: ij, secant") == 3 and "why one stands above the other" in page
    shown = pathlens("rank", *asked, cwd=tmp_path).stdout
    assert shown.count("rice") >= 2 and "ij" in shown and "secant" in shown
    for each in (shown, page):
        assert "nearest: “Rice is boiled in water.”, similarity" in each, "the winner stays the headline"
    for result in pl.load(tmp_path / "out.json")[:4]:
        line = f"{result.method}: " + ", ".join(f"{a}–{b} {score:+.3f}" for a, b, score in result.top(2))
        assert line in shown and line in page, "every method names its strongest pairs under each hit"


def test_baselines_with_commas_are_several_and_a_text_keeps_its_own():
    from pathlens.cli.options import baseline, baselines

    assert baselines(["mask,pad", "zero"]) == ["mask", "pad", "zero"]
    assert baselines(["well, no"]) == ["well, no"] and baseline(["mask"]) == "mask"
    assert baseline(None) is None and baseline(["mask", "pad"]) == ["mask", "pad"]


def test_nothing_given_shows_the_help():
    done = pathlens()
    assert done.returncode == 2 and "explain" in done.stdout and "Traceback" not in done.stderr


def test_explain_writes_json_page_and_picture(folder, tmp_path):
    done = pathlens("explain", folder, TEXT, "--json", "a.json", "--html", "a.html", "--png", "a.png", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert done.stderr.splitlines() == ["wrote a.json", "wrote a.html", "wrote a.png"], "and no bar into a pipe"
    one, two = pl.load(tmp_path / "a.json"), pl.load(tmp_path / "a.html")
    assert one.certificate.converged and (one.scores == two.scores).all()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_explain_draws_in_the_terminal_and_reads_standard_input(folder):
    done = pathlens("explain", folder, "-", given=TEXT)
    assert done.returncode == 0 and "movie" in done.stdout and "adds up" in done.stdout, done.stderr


def test_every_class_is_a_flag_away(folder):
    few, all_of_them = (pathlens("explain", folder, TEXT, *flag).stdout for flag in ((), ("--classes",)))
    assert "predicted LABEL_" in few and "at the baseline" in all_of_them and "diagnostics: adds up" in few
    rows = [line.split()[0] for line in all_of_them.splitlines() if line.count("%") == 2 and "predicted" not in line]
    assert set(rows) == {"LABEL_0", "LABEL_1", "LABEL_2"} and len(all_of_them) > len(few)


def test_a_comparison_names_model_target_and_text(folder):
    done = pathlens("compare", folder, TEXT, "--method", "ig,sig")
    above = done.stdout.split("ig\n")[0]
    assert "predicted LABEL_" in above and "(logit)" in above and f"“{TEXT}”" in " ".join(above.split()), done.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["explain", "./no-such-folder", "x"], ["no-such-folder"]),
        (["explain", "{folder}", TEXT, "--method", "magic"], ["magic", "ig"]),
        (["explain", "{folder}", TEXT, "--target", "nobody"], ["nobody", "LABEL_0"]),
        (
            ["compare", "{folder}", TEXT, "--method", "ig,sig", "--target", "all"],
            ["--target all: compare takes one target", "LABEL_2"],
        ),
        (["explain", "{folder}", ""], ["text is empty"]),
        (["explain", "{folder}", TEXT, "--html", "/no/such/place/a.html"], ["/no/such/place/a.html"]),
        (["explain", "{folder}", TEXT, "--png", "a.bmp"], ["a.bmp"]),
        (["explain", "{folder}", TEXT, "--html", "-"], ["--json -"]),
        (["explain", "{folder}", TEXT, "--n-steps", "99999999"], ["at most 100000"]),
        (["doctor", "{folder}", "--text", " "], ["empty"]),
        (["explain", "{folder}", TEXT, "--option", "nonsense"], ["NAME=VALUE"]),
        (["compare", "{folder}", TEXT, "--method", "ig"], ["at least two"]),
        (["run", "./none", "reviews.csv", "--out", "out", "--method", "ig,magic"], ["magic"]),
        (["rank", "./none", "a query", "-", "--method", "ij,magic"], ["magic"]),
        (["index", "build", "minilm", "{folder}", "out", "--method", "ij,magic"], ["magic"]),
        (["explain", "a lovely film", "sentiment"], ["swapped", 'sentiment and then "a lovely film"']),
        (["compare", "great", "{folder}"], ["swapped", 'and then "great"']),
        (["run", "{folder}/config.json", "sentiment", "--out", "out"], ["swapped", "so sentiment and then"]),
        (["explain", "{folder}", TEXT, "--target", "sideways"], ["--target sideways is not a label"]),
        (["explain", "{folder}", TEXT, "--target", "9"], ["--target 9 is out of range"]),
        (["explain", "a lovely film", "and so on"], ["'a lovely film' is no model", "MODEL comes first"]),
        (["explain", "{folder}", "reviews.csv"], ["'reviews.csv' looks like a file's name", "pathlens run"]),
        (["compare", "{folder}", "{folder}/config.json"], ["config.json' is a file", "standard input"]),
        (["compare", "{folder}", "{folder}/config.json"], ["(pathlens compare MODEL - < FILE)"]),
        (["rank", "{folder}", "{folder}/config.json", "who sings"], ["swapped", 'rank MODEL "who sings" /']),
        (["rank", "{folder}", "{folder}/config.json", "-"], ["is a file", "(pathlens rank MODEL - DOCUMENTS < FILE)"]),
        (["explain", "{folder}", TEXT, "--baseline", "Mask"], ["--baseline Mask is not a name; did you mean 'mask'?"]),
        (["explain", "minilm", TEXT], ["give a second text", "--method vaig"]),
        (["evaluate", "sentiment", "good film"], ["no file or folder 'good film'", "pathlens explain MODEL TEXT"]),
        (["answer", "smollm", "Who?", "--source", "Ann built it."], ["--source takes a file", "'Ann built it.'"]),
        (["report", "missing.json"], ["missing.json"]),
        (["serve", "{folder}", "--host", "0.0.0.0", "--token", "short"], ["token", "16"]),
        (["serve", "{folder}", "sentimant", "--port", "0"], ["did you mean the built-in 'sentiment'"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, words, folder, tmp_path):
    refused(pathlens(*[a.replace("{folder}", str(folder)) for a in arguments], cwd=tmp_path), *words)


@pytest.mark.parametrize(
    "choices, word",
    [
        (["--method", "magic"], "magic"),
        (["--method", "ig", "--context", "prefix"], "context"),
        (["--option", "nope=1"], "nope"),
        (["--tolerance", "-1"], "tolerance"),
        (["--n-steps", "0"], "n_steps"),
        (["--unit", "wrod"], "did you mean 'word'"),
        (["--score", "odds"], "score"),
        (["--baseline", "Mask"], "did you mean 'mask'"),
        (["--html", "no/such/place/a.html"], "no/such/place"),
    ],
)
def test_a_slip_is_told_before_the_model_is_loaded(choices, word):
    """There is no such model, and still the slip is what is spoken of."""
    refused(pathlens("explain", "./no-such-model", TEXT, *choices), word)
    if choices[0] not in ("--n-steps", "--tolerance", "--html"):  # these go the same way
        refused(pathlens("compare", "./no-such-model", TEXT, *choices, "--with", "./no-other"), word)


def test_commands_over_many_texts_tell_a_slip_before_the_model_too(tmp_path):
    (tmp_path / "t.csv").write_text("text\ngood\n")
    for command in (["evaluate", "./none", "t.csv"], ["run", "./none", "t.csv", "--out", "out"]):
        refused(pathlens(*command, "--method", "magic", cwd=tmp_path), "magic")
        refused(pathlens(*command, "--text", "body", cwd=tmp_path), "no column 'body'")
    refused(pathlens("rank", "./none", "a query", "t.csv", "--method", "magic", cwd=tmp_path), "magic")
    refused(pathlens("answer", "./none", "why?", "--source", "t.csv", "--method", "magic", cwd=tmp_path), "magic")


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
    line = f"{sys.executable} -m pathlens methods | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=ENV, timeout=HANGS)
    assert done.stdout.strip() and "Traceback" not in done.stderr and "Error" not in done.stderr


def test_doctor_says_what_holds(folder, tmp_path):
    done = pathlens(
        "doctor", folder, "--text", TEXT, "--json", "d.json", "--html", "d.html", "--png", "d.png", cwd=tmp_path
    )
    content = json.loads((tmp_path / "d.json").read_text())
    failed = [check for check in content["checks"] if check["state"] == "fails"]
    assert done.returncode == 0 and not failed, failed
    laws = {check["law"].split(" ", 1)[1] for check in content["checks"] if check["state"] == "holds"}
    assert {
        "completeness",
        "batch = single",
        "padding",
        "attention kernels",
        "precision drift",
        "second derivatives",
    } <= laws
    assert "precision drift" in (tmp_path / "d.html").read_text()


def test_what_takes_long_is_seen_to_go_on_and_what_is_quick_is_not(monkeypatch):
    from pathlens.cli import options as o
    from pathlens.engine import progress

    monkeypatch.setattr(o, "watched", lambda: True)
    for patience, seen in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
        with o.working("loading") as tell:
            while seen and "loading" not in screen.getvalue():
                time.sleep(0.01)
            tell("reading")
            while seen and "reading" not in screen.getvalue():
                time.sleep(0.01)
        assert bool(screen.getvalue()) is seen


def test_interrupting_is_quiet(folder):
    at_once = "from pathlens.cli import main; from pathlens.engine import progress; progress.PATIENCE = 0.0; main()"  # however fast the machine is
    command = [sys.executable, "-c", at_once, "doctor", str(folder)]
    before = signal.getsignal(signal.SIGINT)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it, and so would its child
    screen, theirs = os.openpty()  # at a terminal it says which law it is at, so we know that it is at work
    termios.tcsetwinsize(theirs, (24, 80))
    shown = {name: value for name, value in ENV.items() if name != "TQDM_DISABLE"} | {"TERM": "xterm"}
    try:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=shown)
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(theirs)
    words = b""
    while b"law" not in words:
        try:
            words += os.read(screen, 4096)
        except OSError:
            pytest.fail(
                f"it ended by itself, {running.wait(HANGS)}: {words.decode()} {running.stdout.read().decode()[-600:]}"
            )
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=HANGS)
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while more := os.read(screen, 4096):
            words += more
    os.close(screen)
    assert running.returncode in (130, -signal.SIGINT) and b"Traceback" not in words, words.decode()


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
    names = [name for kind in kinds_of_options() if kind.by_name for name in option_names(kind)]
    assert {"contrast", "prompt"} <= set(names) and "features" not in names
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
    refused(pathlens("explain", folder, TEXT, "--context", "prefix"), "context: not an option of secant")


def test_defaults_that_help_names_are_the_librarys():
    """Written twice, they came apart: `evaluate` has judged secants too, and its help named three methods."""

    def shown(*command: str) -> str:
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", pathlens(*command, "--help").stdout).split())

    judged = shown("evaluate")
    assert f"(default: {', '.join(METHODS)})" in judged
    assert f"{', '.join(EXTRAS)}; repeated or with commas (default: infidelity)" in judged
    for record, command in ((RunOptions, "run"), (ExactOptions, "exact")):
        page = shown(command)
        for each in options_of(record):
            named = page.split(f"--{each.name.replace('_', '-')} ", 1)[1]
            usual = "/".join(map(str, each.default)) if isinstance(each.default, tuple) else each.default
            assert each.default in (None, False, 0.0) or f"[default: ({usual})]" in named, each.name
    assert f"[default: {LEAST}]" in shown("summary") and f"[default: {MOST}]" in shown("summary")


@pytest.mark.parametrize("method", [(), ("--method", "vaig")], ids=["default", "vaig"])
def test_an_option_of_another_kind_is_refused_in_a_line(method):
    done = pathlens("explain", "sentiment", "Fine film.", *method, "--hold", "3")
    refused(done, "hold must be a text, a list of texts or None, got 3")


def test_what_python_calls_an_option_is_said_as_a_flag():
    from pathlens.cli.options import as_flags

    error = pl.InputError(
        f"use {setting(method='vaig')} or {setting(n_steps=20)}, {setting(check=False, truncation=True, target=' a b')}, "
        f"{setting('dtype=torch.float32', sink=None)}, {setting('tree=...')}, {setting(target=(1, 'x'))}"
        f"{python_only(' (in Python a tuple)')}; unit='word'"
    )
    assert as_flags(error) == (
        'use --method vaig or --n-steps 20, --no-check, --truncation, --target " a b", --dtype float32, --sink null, '
        "--tree …, target=(1, 'x'); unit='word'"
    )
    assert str(error) == (
        "use method='vaig' or n_steps=20, check=False, truncation=True, target=' a b', dtype=torch.float32, sink=None, "
        "tree=..., target=(1, 'x') (in Python a tuple); unit='word'"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), as_flags(again)) == (str(error), as_flags(error))


def test_what_a_user_wrote_is_never_read_as_an_option(folder, tmp_path):
    """ "layer=2" may be a folder, a model or a text: advice that turned it into a flag named things that are not there."""
    for command in (["summary", "layer=2"], ["explain", "layer=2/steps=3", "hello"]):
        done = pathlens(*command, cwd=tmp_path)
        refused(done, command[1])
        assert "--layer" not in done.stderr and "--steps" not in done.stderr
    done = pathlens("explain", folder, "unit='x'", "--baseline", "masks", cwd=tmp_path)
    refused(done, "--baseline masks is not a name", "'mask'?")
    assert "word itself" not in done.stderr
    refused(pathlens("explain", folder, TEXT, "--rule", "split", "--method", "sig"), "--rule split is not for sig")
