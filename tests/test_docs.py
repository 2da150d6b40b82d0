"""Every Python block of the docs runs, page by page, in order, in an empty folder."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

import pathlens as pl
from pathlens.text.load import load

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [
    DOCS / "tutorial.md",
    DOCS / "which-method.md",
    DOCS / "extending.md",
    *sorted((DOCS / "methods").glob("*.md")),
    DOCS / "blocks.md",
    DOCS.parent / "README.md",
]
HEAVY = {"dig", "ij", "vaig", "tutorial", "blocks", "README"}  # pages whose blocks take longer


def blocks(page: Path) -> list[str]:
    return re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in HEAVY else []) for p in PAGES]
)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert found, f"{page.name} has no Python block"
    names: dict[str, object] = {}
    if page.stem == "README":  # "your own model"
        sentiment = load("sentiment")
        names = {
            "model": sentiment.module,
            "tokenizer": sentiment.tokenizer,
            "text": "Not really funny, but moving.",
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, code in enumerate(found, 1):
            if code.startswith(">>>"):
                test = doctest.DocTestParser().get_doctest(code, names, page.name, page.name, 0)
                assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0, (
                    capsys.readouterr().out
                )
            else:
                exec(compile(code, f"{page.name}, block {number}", "exec"), names)


def test_every_method_has_a_page_with_all_it_promises():
    for name in pl.methods():
        text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
        for heading in ("## Formula", "## When to use it", "## When it misleads", "## Cost"):
            assert heading in text, f"{name}.md has no {heading}"
        assert f"../gallery/{name}.png" in text


def test_links_and_pictures_exist_and_are_small():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} points to {target}"
    for picture in (DOCS / "gallery").glob("*.png"):
        assert picture.stat().st_size < 200_000, picture.name


def test_the_japanese_readme_keeps_in_step():
    """Same headings in number, same code, same pictures."""
    root = DOCS.parent
    one, two = ((root / name).read_text(encoding="utf-8") for name in ("README.md", "README.ja.md"))
    for pattern in (r"^## ", r"^```", r"^\| "):
        assert len(re.findall(pattern, one, re.MULTILINE)) == len(re.findall(pattern, two, re.MULTILINE)), (
            pattern
        )
    assert re.findall(r"!\[[^\]]*\]\(([^)]+)\)", one) == re.findall(r"!\[[^\]]*\]\(([^)]+)\)", two)
