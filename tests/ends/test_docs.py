"""Every Python block of the docs runs, page by page, in order, in an empty folder; every notebook runs too.

A page may hold, unseen by its readers:
    <!-- setup … -->          lines that give names to what the reader has (a text, a model of their own)
    <!-- not run: reason -->  before a block that needs a cluster or a hub; no other reason is good enough
"""

from __future__ import annotations

import doctest
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

import pathlens as pl

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]
QUICK = {"which-method", "extending", "ig", "sig", "idg", "ih", "udig"}  # toy models alone: seconds
REASONS = ("cluster", "hub")
PART = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->|^<!-- not run: (?P<reason>[^\n]*?) -->\n+```python\n.*?^```|^```python\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    code: str
    reason: str = ""  # why it is not run


def blocks(text: str) -> list[Block]:
    """Setup and code in the order of the page; a block marked as not run keeps its reason instead."""
    matches = (part.groupdict() for part in PART.finditer(text))
    return [Block(part["setup"] or part["code"] or "", part["reason"] or "") for part in matches]


def with_blocks() -> list[Path]:
    return [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.stem, marks=[] if p.stem in QUICK else [pytest.mark.slow]) for p in with_blocks()]
)
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8")), 1):
            if block.reason:
                continue
            if block.code.startswith(">>>"):
                test = doctest.DocTestParser().get_doctest(block.code, names, page.name, page.name, 0)
                ran = doctest.DocTestRunner().run(test, clear_globs=False)
                assert ran.failed == 0, capsys.readouterr().out
                names |= test.globs  # a block goes on where the one before it ended
            else:
                exec(compile(block.code, f"{page.name}, block {number}", "exec"), names)


def test_no_block_escapes_without_a_good_reason():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        parts = blocks(text)
        fenced = len(re.findall(r"^```python$", text, re.MULTILINE))
        setups = len(re.findall(r"^<!-- setup$", text, re.MULTILINE))
        assert len(parts) == fenced + setups, f"{page.name}: a block or a comment is not closed as it should be"
        assert text.count("<!-- not run") == sum(bool(block.reason) for block in parts), page.name
        for block in parts:
            assert not block.reason or any(word in block.reason for word in REASONS), (page.name, block.reason)


def test_the_reader_of_blocks_sees_them():
    text = "<!-- setup\nx = 1\n-->\n```python\ny = x\n```\n<!-- not run: needs a cluster -->\n```python\n1 / 0\n```\n"
    assert blocks(text) == [Block("x = 1\n"), Block("y = x\n"), Block("", "needs a cluster")]


NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))


def views(book) -> list[str]:
    """What a reader sees of each cell: the outputs' kinds, in order."""
    return [" ".join(sorted(out.get("data", {}))) for cell in book.cells for out in cell.get("outputs", ())]


def test_notebooks_carry_what_they_show():
    import nbformat

    assert NOTEBOOKS
    for file in NOTEBOOKS:
        book, text = nbformat.read(file, as_version=4), file.read_text(encoding="utf-8")
        assert len(text) < 1_500_000 and "Traceback" not in text, file.name
        ends = [
            cell
            for cell in book.cells
            if cell.cell_type == "code" and not cell.source.split("\n")[-1].startswith("assert")
        ]
        assert ends and all(cell.outputs for cell in ends), f"run {file.name} and save it"
        assert not any(out.output_type in ("stream", "error") for cell in ends for out in cell.outputs), file.name


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_every_notebook_runs(file, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(file, as_version=4)
    saved = views(book)
    NotebookClient(book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [out for cell in book.cells for out in cell.get("outputs", ()) if "text/html" in out.get("data", {})]
    assert shown and all("pathlens" in out["data"]["text/html"] for out in shown), "results draw themselves"
    assert [each for each in views(book) if each] == [each for each in saved if each], "what is saved is what it shows"


CHEAP = ("secant", "ig", "sig", "compare", "whatif", "japanese")


def test_pictures_say_what_is_drawn_today():
    """Otherwise a picture shows words that the library has withdrawn."""
    from docs.gallery import VIEWS, WORDS, without_numbers, words_of

    kept = json.loads(WORDS.read_text(encoding="utf-8"))
    pictures = {file.stem for file in (DOCS / "gallery").glob("*.png")}
    assert set(kept) == {*VIEWS, "page"} == {*pictures, "page"} and (DOCS / "images" / "page.png").exists()
    drawn = {name: words_of(VIEWS[name]()) for name in CHEAP}
    for name, words in drawn.items():
        assert kept[name] == words, f"make it again: python docs/gallery.py {name}"
    check = next(line for line in drawn["secant"] if line.startswith("✓ agrees"))
    assert check in kept["page"], "make it again: python docs/gallery.py page"
    assert without_numbers(["gap 3e-07 of -0.7352"]) == ["gap # of #"]


def seen(html: str) -> list[str]:
    """The words between the tags, without numbers."""
    from docs.gallery import without_numbers

    bare = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return without_numbers(re.sub(r"<[^>]*>", "\n", bare).split("\n"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_say_what_is_drawn_today(file):
    import nbformat

    cells = [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    tried = [cell for cell in cells if re.fullmatch(r'pl\.\w+\("sentiment".*', cell.source)]
    assert len(tried) >= 3
    for cell in tried:
        (saved,) = (out["data"]["text/html"] for out in cell.outputs)
        now = eval(cell.source, {"pl": pl})._repr_html_()  # our own file
        assert seen("".join(saved)) == seen(now), f"run {file.name} and save it"


def test_every_method_has_a_page_with_all_it_promises():
    for name in pl.methods():
        text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
        for heading in ("## Formula", "## When to use it", "## When it misleads", "## Cost"):
            assert heading in text, f"{name}.md has no {heading}"
        assert f"../gallery/{name}.png" in text


def test_links_and_pictures_exist_and_are_small():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in (
            *re.findall(r"\]\(([^)#]+)\)", text),
            *re.findall(r'<(?:img|source) .*src(?:set)?="([^"]+)"', text),
        ):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} points to {target}"
    for picture in (DOCS / "gallery").glob("*.png"):
        assert picture.stat().st_size < 200_000, picture.name


def test_blocks_of_other_libraries_are_those_that_ran():
    """captum, shap, inseq and LIT are not installed with ours; docs/peers.py runs their blocks and keeps each one's sum."""
    from docs.peers import PAGE, ROWS, TABLE, checksum, peer_blocks, table

    text = PAGE.read_text(encoding="utf-8")
    ran, content = json.loads(ROWS.read_text(encoding="utf-8")), peer_blocks(text)
    assert set(content) == set(ran) == {"captum", "shap", "inseq", "LIT"} and len(content) == text.count("```py\n")
    for peer, code in content.items():
        assert ran[peer]["block"] == checksum(code), f"run it again: python docs/peers.py {peer}"
        assert ran[peer]["version"]
    assert ran["captum"]["largest_difference"] <= 1e-3 * ran["captum"]["largest_score"]
    assert max(ran[peer]["difference_of_outputs"] for peer in ("shap", "LIT")) <= 1e-5
    assert TABLE.search(text)[0] == table(ran), "the page's figures are not the rows'"


def test_the_japanese_readme_keeps_in_step():
    """Same headings in number, same code, same pictures, same links, the same names of code."""
    root = DOCS.parent
    one, two = ((root / name).read_text(encoding="utf-8") for name in ("README.md", "README.ja.md"))
    for pattern in (r"^## ", r"^```", r"^\| ", r"^<!-- "):
        assert len(re.findall(pattern, one, re.MULTILINE)) == len(re.findall(pattern, two, re.MULTILINE)), pattern
    pictures = [re.findall(r'<(?:img|source) .*src(?:set)?="([^"]+)"', text) for text in (one, two)]
    assert pictures[0] == pictures[1] and len(pictures[0]) == 4
    links = [set(re.findall(r"\]\(([^)]+)\)", text)) - {"README.md", "README.ja.md"} for text in (one, two)]
    assert links[0] == links[1]
    names = [set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))) for text in (one, two)]
    assert names[0] == names[1]
