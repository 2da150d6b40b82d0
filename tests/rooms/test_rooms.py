"""The rooms: who may import whom, and what the door offers."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

import pathlens
from pathlens.draw import PAGES
from pathlens.explanation.view import Viewable
from pathlens.integrand import Gradient
from pathlens.integrate.drive import Goal, fixed
from pathlens.integrate.loop import Job, run
from pathlens.integrate.memory import Limits
from pathlens.path.line import line
from pathlens.path.staircase import token_lines
from pathlens.text import load
from pathlens.types import Ends, Nodes
from tests.support import shapes

SOURCE = Path(pathlens.__file__).parent
REPOSITORY = Path(__file__).parents[2]
ORDER = (
    *("errors", "types", "checks", "files", "units", "quadrature", "path", "integrand", "text", "integrate"),
    *("explanation", "engine", "vectors", "metrics", "studies", "draw", "report", "corpus", "doctor", "serve", "cli"),
)  # a room imports only from those before it, for type checkers too; the door may name any
DOOR = ("__init__", "__main__", "models")
THROUGH_THE_DOOR = ("serve", "cli")  # they call the library as people do; to an earlier room the door leads anywhere
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
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            inside = module == "pathlens"  # import room; any other name is the door's, and so is `pathlens`
            yield from (f"pathlens.{name}" if name in ORDER else module for name in names) if inside else [module]


def against_the_order():
    """`room/file imports room`, for every import that goes sideways to an unknown room or up to a later one."""
    for file in sorted(SOURCE.rglob("*.py")):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for name in imports(file):
            first, *rest = name.split(".")
            if room in DOOR or first != "pathlens" or rest[:1] == [room] or (not rest and room in THROUGH_THE_DOOR):
                continue
            if room not in ORDER or not rest or rest[0] not in ORDER or ORDER.index(rest[0]) > ORDER.index(room):
                yield f"{file.relative_to(SOURCE)} imports {name}"


def test_a_room_imports_only_from_rooms_before_it():
    wrong = list(against_the_order())
    assert not wrong, "\n".join(wrong)


def test_no_room_enters_a_later_one_by_name():
    """`import_module` would go around the order: only the door may, and it hands results what draws them."""
    around = set()
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for other in re.findall(r"import_module\(f?[\"']pathlens\.(\w+)", file.read_text(encoding="utf-8")):
            if room not in DOOR and other != room:
                around.add(f"{file.relative_to(SOURCE)} enters {other}")
    assert not around


def test_what_is_drawn_is_of_an_earlier_room():
    """The drawing room knows types by name; those of later rooms bring a page of their own."""
    homes = {
        node.name: file.relative_to(SOURCE).parts[0]
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    assert len(PAGES) > 10 and not [name for name in PAGES if ORDER.index(homes[name]) > ORDER.index("draw")]


def test_the_root_holds_a_door_and_little_else():
    files = sorted(file.name for file in SOURCE.iterdir() if file.is_file())
    assert len(files) <= 8, files
    rooms = {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in SOURCE.rglob("*.py")}
    assert rooms == {*ORDER, *DOOR}, "a room without a place in the order, or a place without a room"


def test_a_class_name_is_taken_once():
    """One word for one thing: whoever reads a name knows which record is meant, private ones too."""
    taken: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                taken.setdefault(node.name, []).append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    twice = {name: places for name, places in taken.items() if len(places) > 1}
    assert len(taken) > 200 and not twice, twice


def given_names(tree: ast.AST):
    """Whatever a file names itself: variables, fields, parameters, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield (node.id if isinstance(node, ast.Name) else node.attr), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.MatchAs) and node.name:
            yield node.name, node.lineno


VAGUE = ("said", "told", "found", "own", "ways")  # they fit anything that was ever looked for
# words that other names took the place of: they say what happens to a thing, not what it is; a local `seen` may stay
GONE = ("culprit", "pushed", "probe", "apart", "unsettled", "finish", "finding", "judged", "shelf", "stand")
GONE_IN_THE_OPEN = ("seen", "way", "bodies")  # of classes, functions and attributes
GONE_FILES = ("finish", "way", "unsettled", "written", "work", "bodies", "probe")
SCRIPTS = ("tests", "experiments", "benchmarks", "docs")
KEPT = ("tests/support/sweep.py own",)  # a column of experiments/rows/architectures.jsonl


def test_a_name_says_what_the_thing_is():
    """A noun tells the reader what it is, in tests and scripts too."""
    vague, named = [], 0
    scripts = [file for folder in SCRIPTS for file in sorted((REPOSITORY / folder).rglob("*.py"))]
    for file in [*sorted(SOURCE.rglob("*.py")), *scripts]:
        for name, at in given_names(ast.parse(file.read_text(encoding="utf-8"))):
            named += 1
            where = file.relative_to(REPOSITORY).as_posix()
            if name.strip("_").lower() in VAGUE and f"{where} {name}" not in KEPT:
                vague.append(f"{where}:{at} {name}")
    assert named > 20_000 and not vague, "\n".join(vague)


def open_names(tree: ast.AST):
    """What others read of a file: classes, functions and attributes, no local variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(node, ast.ClassDef)]
            yield from [(node.name, node.lineno), *((ast.unparse(each.target), each.lineno) for each in fields)]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_a_name_that_went_does_not_come_back():
    back = []
    for file in sorted(SOURCE.rglob("*.py")):
        where, tree = file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))
        for names, banned in ((given_names(tree), GONE), (open_names(tree), GONE_IN_THE_OPEN)):
            back += [f"{where}:{at} {name}" for name, at in names if name.strip("_").lower() in banned]
        back += [where] if file.stem in GONE_FILES else []
    assert not back, "\n".join(back)


def names_of_script(text: str) -> set[str]:
    """Whatever is named in a script: words outside comments and texts, and the fields of a form it asks for by name."""
    quoted = r"\"(?:\\.|[^\"\\\n])*\""
    fields = re.findall(r"(?:pick|name|rename)\(\"(\w+)\"", text)
    text = re.sub(rf"{quoted}|(?<!:)//[^\n]*", " ", text)
    text = re.sub(r"`[^`]*`", lambda part: " ".join(re.findall(r"\$\{([^}]*)\}", part[0])), text)
    return {*re.findall(r"[A-Za-z_]\w*", text), *fields}


def test_the_pages_scripts_name_things_too():
    scripts = sorted(SOURCE.rglob("*.js"))
    named = {file.name: names_of_script(file.read_text(encoding="utf-8")) for file in scripts}
    assert len(scripts) >= 9 and sum(map(len, named.values())) > 1_000
    assert not {file: vague for file, names in named.items() if (vague := {n for n in names if n.lower() in VAGUE})}
    assert names_of_script('const said = `${told} own`; // found\npick("ways")') == {
        "const",
        "said",
        "told",
        "pick",
        "ways",
    }
    form = (SOURCE / "serve/static/index.html").read_text(encoding="utf-8")
    assert not set(re.findall(r"name=\"(\w+)\"", form)) & set(VAGUE)


THEIRS = ("_version", "_cache")  # a tensor's, ContextCite's: we have some of the same name


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")  # `__init__`, `_repr_html_` are there for others to call


def private_names(tree: ast.AST):
    """What a file reaches for under a private name, on anything but itself: attributes, imports, names given to setattr."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("attr", "patch.object")):
            yield from ((each.value, node.lineno) for each in node.args if isinstance(each, ast.Constant))


def test_no_test_reaches_for_a_private_name():
    """What a test needs, a user may: it has a public name. Torch's private names are not ours to mend."""
    ours = {
        name
        for file in SOURCE.rglob("*.py")
        for name, _ in given_names(ast.parse(file.read_text(encoding="utf-8")))
        if private(name)
    }
    reached = [
        f"{file.relative_to(REPOSITORY)}:{at} {name}"
        for folder in SCRIPTS
        for file in sorted((REPOSITORY / folder).rglob("*.py"))
        for name, at in private_names(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(name, str) and private(name) and name in ours and name not in THEIRS
    ]
    assert len(ours) > 500 and not reached, "\n".join(reached)


def test_no_file_imports_a_private_name_of_another():
    """What another file needs is no secret of this one: it has a public name and says what it is."""
    taken = [
        f"{file.relative_to(REPOSITORY)}:{node.lineno} {alias.name}"
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pathlens")
        for alias in node.names
        if private(alias.name)
    ]
    assert not taken, "\n".join(taken)


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


def test_bars_are_drawn_in_one_place():
    names = {file: {name.split(".")[0] for name in imports(file)} for file in SOURCE.rglob("*.py")}
    assert [file.relative_to(SOURCE).as_posix() for file in names if "tqdm" in names[file]] == ["engine/progress.py"]


def test_importing_the_door_is_light():
    code = "import sys, torch; before=set(sys.modules); import pathlens.engine.explainer; print(*(set(sys.modules)-before))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & HEAVY
    assert "transformers" not in loaded, "transformers is needed only when a model is loaded"


def test_the_door_is_what_it_says():
    for name in pathlens.__all__:
        assert getattr(pathlens, name) is not None
    assert pathlens.methods()["ig"] == "Integrated Gradients"
    beside = set(dir(pathlens)) - set(pathlens.__all__)  # the studies that people look for, no more
    assert set(pathlens.__all__) < set(dir(pathlens)) and beside < set(pathlens.studies.__all__) and len(beside) <= 4
    assert all(getattr(pathlens, name) is getattr(pathlens.studies, name) for name in beside)
    with pytest.raises(AttributeError, match="did you mean 'explain'"):
        _ = pathlens.explian
    with pytest.raises(AttributeError, match="it offers"):
        _ = pathlens.gqzxv


def test_the_door_is_small():
    """Not twenty names beside the results, the methods and the errors, and its docstring says where the others are."""
    shown = {name: getattr(pathlens, name) for name in pathlens.__all__ if name != "__version__"}
    made = {name for name, each in shown.items() if isinstance(each, type) and issubclass(each, Viewable)}
    records = {name for name in shown if name.lower() in pathlens.methods()}
    errors = {name for name, each in shown.items() if isinstance(each, type) and issubclass(each, Exception)}
    others = set(shown) - made - records - errors
    assert len(records) == len(pathlens.methods()) and len(others) <= 17 and len(errors) <= 6, sorted(others)
    assert {"Explanation", "Results", "Ranking"} <= made and len(made) <= 12, made
    words = set(re.findall(r"\w+", pathlens.__doc__))
    assert not {name for name in others - words if not name.endswith(("Error", "Warning"))}


def test_an_editor_sees_what_python_gives():
    """The door says its names twice, for type checkers and lazily for Python: the same names from the same modules."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    seen, _ = (node for node in tree.body if isinstance(node, ast.If))
    named = {alias.asname: node.module for node in seen.body for alias in node.names if alias.name != "*"}
    whole = [node.module for node in seen.body for alias in node.names if alias.name == "*"]
    assert set(named) == {*pathlens.__all__} - {"__version__"}
    assert whole == ["pathlens.models", "pathlens.studies"]  # that no name is taken twice: test_typed.py
    plain = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "__getattr__" not in plain, "a checker that saw it would take pl.explian for a name of the door"
    for name, module in named.items():
        where = importlib.import_module(module)
        assert getattr(pathlens, name) is getattr(where, name)


def test_what_moved_behind_the_door_is_still_given_at_it():
    for room in (pathlens.models, pathlens.studies):
        for name in room.__all__:
            assert getattr(pathlens, name) is getattr(room, name)


def test_what_the_pages_import_is_at_the_door():
    """Whoever reads a page types `pl.` (or `from pathlens.models import`, to build on it); no page digs deeper."""
    root = SOURCE.parent.parent
    pages = [root / "README.md", root / "README.ja.md", *sorted((root / "docs").glob("**/*.md"))]
    deep = re.compile(
        r"^\s*(?:>>> )?(?:from|import) pathlens\.(?!models import|studies import|corpus import)", re.MULTILINE
    )
    assert [page.name for page in pages if deep.search(page.read_text(encoding="utf-8"))] == []


def test_shapes_are_checked_while_tests_run():
    """Every room whose annotations name shapes, the light records included, refuses another shape."""
    fitting = Ends(start=torch.zeros(3, 4), end=torch.ones(3, 4), held=torch.zeros(3, dtype=torch.bool))
    assert fitting.delta.shape == (3, 4)
    with pytest.raises(TypeCheckError, match="held"):
        Ends(start=torch.zeros(3, 4), end=torch.ones(3, 4), held=torch.zeros(2, dtype=torch.bool))
    with pytest.raises(TypeCheckError, match="weight"):
        Nodes(np.zeros(3), np.ones(2))
    with pytest.raises(TypeCheckError, match="units"):
        token_lines(fitting, torch.ones(3, dtype=torch.bool))


class Transposed(Gradient):
    def __call__(self, batch):
        return super().__call__(batch).transpose(0, 1)


def test_a_value_of_another_shape_than_its_batch_is_caught():
    case = pathlens.ToyModel().case("why do words matter", request=pathlens.models.Request())
    errors = []
    for integrand in (Gradient(), Transposed()):
        drive = fixed(line(case.ends), integrand, Goal(1.0, lambda value: value.sum()), name="gauss", n=3)
        job = Job(case, torch.eye(len(case)), drive)
        run([job], Limits())
        errors.append(job.error)
    assert errors[0] is None and isinstance(errors[1], TypeCheckError) and "value" in str(errors[1])


def test_no_shape_is_named_in_vain():
    """A shape whose names are not there when the tests run would not be checked, and nobody would know."""
    vain, named = [], 0
    for room in shapes.ROOMS:
        for file in [SOURCE / f"{room}.py", *SOURCE.glob(f"{room}/**/*.py")]:
            if not file.exists():
                continue
            parts = [part for part in file.relative_to(SOURCE).with_suffix("").parts if part != "__init__"]
            module = vars(importlib.import_module(".".join(["pathlens", *parts])))
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                hint = getattr(node, "annotation", None) or getattr(node, "returns", None)
                if hint is None or not shapes.SHAPE.search(ast.unparse(hint)):
                    continue
                named += 1
                try:
                    eval(ast.unparse(hint), dict(module))
                except (NameError, TypeError) as error:
                    vain.append(f"{file.relative_to(SOURCE)}:{hint.lineno} {error}")
    assert named > 100 and not vain, "\n".join(vain)


ANY_SHAPE = (  # these stand in for torch's own operations, which take whatever a model hands them
    *("integrand/secant/", "integrand/forward_mode.py", "integrand/forward_tensor.py", "integrand/products.py"),
    "text/softplus.py",
    "text/shift.py",  # is copied beside a model, where jaxtyping may not be
)
UNSEEN = ("Callable", "Generator", "Iterator")  # what they take and give is not looked at when they are handed over


def names_no_shape(hint: ast.AST) -> bool:
    """Is there a Tensor in the annotation whose shape nobody knows?"""
    if isinstance(hint, ast.Name):
        return hint.id == "Tensor"
    if isinstance(hint, ast.Subscript):
        parts = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        shaped = len(parts) == 2 and isinstance(parts[1], ast.Constant) and isinstance(parts[1].value, str)
        return not shaped and ast.unparse(hint.value) not in UNSEEN and any(map(names_no_shape, parts))
    return any(map(names_no_shape, ast.iter_child_nodes(hint)))


def checked_hints(tree: ast.AST):
    """The annotations that are checked while tests run: of parameters, of what is returned, of the fields of records."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            yield from (each.annotation for each in given if each is not None and each.annotation is not None)
            yield from () if node.returns is None else (node.returns,)
        elif isinstance(node, ast.ClassDef):
            yield from (each.annotation for each in node.body if isinstance(each, ast.AnnAssign))


def test_a_tensor_has_a_shape():
    """Where a tensor may truly have any, it says so: `Float[Tensor, "..."]`."""
    bare = [
        f"{name}:{hint.lineno} {ast.unparse(hint)}"
        for room in shapes.ROOMS
        for file in sorted(SOURCE.glob(f"{room}/**/*.py"))
        if not (name := file.relative_to(SOURCE).as_posix()).startswith(ANY_SHAPE)
        for hint in checked_hints(ast.parse(file.read_text(encoding="utf-8")))
        if names_no_shape(hint)
    ]
    assert not bare, "\n".join(bare)
    assert names_no_shape(ast.parse("Mapping[str, Tensor] | None")) and not names_no_shape(
        ast.parse("Float[Tensor, 'S']")
    )


def test_the_walk_of_one_text_is_the_one_it_takes(monkeypatch, capsys):
    """CONTRIBUTING's walk, file by file: each is entered, and the first new one of a step after that of the step before."""
    page = (SOURCE.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("## One text, file by file")[2].partition("\n## ")[0]
    steps = [re.findall(r"`([\w/]+\.py)`", step) for step in re.split(r"\n\d+\. ", section)[1:]]
    named = [name for step in steps for name in step]
    assert len(steps) == 9 and all((SOURCE / name).is_file() for name in named)
    fresh = load.load_built_in.__wrapped__  # as if nobody had loaded it before
    monkeypatch.setattr(load, "load_built_in", fresh)
    explain, entered = pathlens.explain, list[str]()  # the door is passed, its rooms are imported

    def follow(frame, event, _):
        function = event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED  # no module, no body of a class
        if function and (file := Path(frame.f_code.co_filename)).is_relative_to(SOURCE):
            entered.append(file.relative_to(SOURCE).as_posix())

    sys.setprofile(follow)
    try:
        explain("sentiment", "Not really funny, but moving.", method="ig").show()
    finally:
        sys.setprofile(None)
    assert not [name for name in named if name not in entered]
    begins, known = [], set()
    for step in steps:
        begins.append(next(entered.index(name) for name in step if name not in known))
        known |= {*step}
    assert begins == sorted(begins), begins
