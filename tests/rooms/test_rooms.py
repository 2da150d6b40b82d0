"""The rooms: who may import whom, and what the door offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pathlens

SOURCE = Path(pathlens.__file__).parent
ORDER = ["errors", "types", "units", "quadrature", "path", "integrand", "text", "explanation", "integrate", "methods"]
APART = {"text", "path", "quadrature", "integrand", "explanation"}  # never sideways
HEAVY = {"ray", "fastapi", "matplotlib", "sentence_transformers", "lancedb", "spacy", "pandas", "duckdb"}


def imports(file: Path, top_level: bool = False):
    """Absolute names of modules imported in a file (or only when it is imported), relative ones resolved."""
    package = ["pathlens", *file.relative_to(SOURCE).parts[:-1]]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])


def test_rooms_do_not_import_sideways_or_backwards():
    wrong = []
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for name in imports(file):
            parts = name.split(".")
            if parts[0] != "pathlens" or len(parts) < 2:
                continue
            other = parts[1]
            sideways = room in APART and other in APART and room != other
            backwards = room in APART and other in ("integrate", "methods", "explain", "finish", "cli", "serve", "run")
            if sideways or backwards or (room == "draw" and other in ("text", "integrate", "methods", "explain")):
                wrong.append(f"{file.relative_to(SOURCE)} imports {name}")
    assert not wrong, wrong


def test_a_heavy_package_is_imported_by_one_room_and_lazily():
    where: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        top = {name.split(".")[0] for name in imports(file, top_level=True)}
        assert not top & HEAVY, f"{file.relative_to(SOURCE)} imports {top & HEAVY} before anyone asked for it"
        for name in imports(file):
            if name.split(".")[0] in HEAVY:
                where.setdefault(name.split(".")[0], set()).add(file.relative_to(SOURCE).parts[0])
    crowded = {name: rooms for name, rooms in where.items() if len(rooms) > 1}
    assert not crowded, crowded


def test_importing_the_door_is_light():
    code = "import sys, torch; before=set(sys.modules); import pathlens; pathlens.engine.explainer; print(*(set(sys.modules)-before))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & HEAVY
    assert "transformers" not in loaded, "transformers is needed only when a model is loaded"


def test_the_door_is_what_it_says():
    for name in pathlens.__all__:
        assert getattr(pathlens, name) is not None
    assert pathlens.engine.methods()["ig"] == "Integrated Gradients"
    assert set(dir(pathlens)) == set(pathlens.__all__)
