"""The wheel, in an environment of its own: what is installed is what runs."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_wheel_installs_and_runs_where_nothing_of_the_project_is(tmp_path):
    """Its dependencies are lent by this environment: what is asked is whether the wheel itself is whole."""

    def run(*command, **more):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=tmp_path, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--quiet", "--wheel-dir", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("pathlens-*.whl")
    place = tmp_path / "empty"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel)
    (own / "lent.pth").write_text("\n".join({sysconfig.get_path(k) for k in ("purelib", "platlib")}), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    where = run(python, "-c", "import pathlens; print(pathlens.__file__)", env=clean).strip()
    assert Path(where).is_relative_to(own), where
    run(place / "bin" / "pathlens", "explain", "sentiment", "A fine film.", "--html", "why.html", env=clean)
    page = (tmp_path / "why.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>") and "fine" in page
    assert "mask" in run(place / "bin" / "pathlens", "explain", "--help", env=clean)
