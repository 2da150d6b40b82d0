"""Every script of experiments/ can be started as its page says: what it imports is there under today's names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "experiments").rglob("*.py"))

# One process for all: as a script each has its own folder first on the path, as a module of a package the root.
START = """
import importlib.util, sys
from pathlib import Path

failed, usual = [], [place for place in sys.path if place]
for name in sys.argv[1:]:
    module = name.removesuffix(".py").replace("/", ".")
    script = module.count(".") == 1 and "__main__" in Path(name).read_text("utf-8")
    sys.path[:] = [str(Path(name).parent.resolve() if script else Path.cwd()), *usual]
    for known in [each for each in sys.modules if each.split(".")[0] == "experiments" or each in beside]:
        del sys.modules[known]
    try:
        if script:
            spec = importlib.util.spec_from_file_location("started", name)
            sys.modules["started"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules["started"])
        else:
            importlib.import_module(module)
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print("\\n".join(failed))
""".replace("beside", repr({Path(name).stem for name in SCRIPTS if "__" not in name}))


@pytest.mark.slow
def test_every_experiment_can_be_started():
    command = [sys.executable, "-c", START, *SCRIPTS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.strip(), done.stdout
