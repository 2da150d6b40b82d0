"""Pictures: no text is ever markup, every view has its legend and certificate, numbers still add up."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import itertools
import re
import shutil
import sys
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import pathlens as pl
from experiments.plots import curve
from pathlens.draw import (
    bidi,
    blocks,
    canvas,
    element,
    figure,
    grid,
    markup,
    page_of,
    palette,
    places,
    plots,
    svg,
    terminal,
    words,
)
from pathlens.draw.results import LINKS
from pathlens.errors import InputError, MissingError, StoreError
from pathlens.explanation import store
from pathlens.explanation.base import percent
from pathlens.explanation.record import Explanation, PairExplanation, VectorExplanation
from pathlens.explanation.store import from_dict
from pathlens.metrics.record import Column, Curve, Evaluation
from pathlens.studies.layers import Layers
from tests.support import draw_samples as samples
from tests.support import models

EVERY = samples.everything()
each = pytest.mark.parametrize("name", EVERY)
ROUGH = samples.certificate(
    1.32, f_input=2.04, gap=0.22, relative_gap=0.14, converged=False, nodes=512, passes=520, error_estimate=(0.31,)
)


# ---------------------------------------------------------------- palette


def block_of(result, kind):
    """The block of that kind on a result's page."""
    return next(block for block in page_of(result).blocks if isinstance(block, kind))


def legend(result) -> str:
    return page_of(result).proof.legend


def proof(result) -> str:
    return page_of(result).proof.sums[0].words


KINDS = list(blocks.Block.__subclasses__())


MEDIA = {"terminal": terminal.draw, "page": markup.draw, "figure": figure.draw_block}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_medium_has_a_function_for_every_kind_of_block(kind):
    """No more, and no fewer: a function for a kind that never reaches its medium would be dead."""
    mine = {name for name, draw in MEDIA.items() if draw.dispatch(kind) is not draw.dispatch(blocks.Block)}
    assert mine == set(kind.media)


def test_a_block_may_be_for_some_media_alone():
    bars = blocks.Bars((blocks.Bar("a", 1.0),))
    some, drawn = replace(bars, where=("page",)), replace(bars, where=("figure",))
    live = blocks.Live("pathview", {}, inside=(drawn,))
    page = blocks.Page("x", blocks=(some, blocks.Abreast(inside=(bars, bars)), live))
    assert [len(page.on(medium)) for medium in ("terminal", "page", "figure")] == [2, 3, 3]


@pytest.mark.parametrize("dark", [False, True])
def test_both_signs_are_equally_strong_and_zero_is_the_ground(dark):
    assert palette.color(0, 1, dark=dark) == (palette.DARK if dark else palette.LIGHT)
    for share in np.linspace(0, 1, 21):
        up, down = palette.color(share, 1, dark=dark), palette.color(-share, 1, dark=dark)
        assert abs(palette.oklab(up)[0] - palette.oklab(down)[0]) < 0.01
    steps = [np.linalg.norm(palette.oklab(palette.color(s, 1, dark=dark)) - palette.oklab(palette.color(0, 1, dark=dark)))
             for s in np.linspace(0, 1, 11)]  # fmt: skip
    assert all(np.diff(steps) > 0)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_on_every_shade(dark):
    for share in np.linspace(-1, 1, 201):
        for back in (palette.color(share, 1, dark=dark), palette.color(share, 1, signed=False, dark=dark)):
            assert palette.contrast(palette.text_color(back), back) >= 4.5


# Viénot 1999: linear RGB as a protanope and a deuteranope see it; the third removes what a tritanope lacks
BLINDNESS = {
    "red": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "green": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    "blue": [[1, 0.1462, -0.1462], [0, 0.8531, 0.1469], [0, 0.8531, 0.1469]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_signs_stay_apart_for_colour_blind_readers(kind):
    def seen(color):
        linear = np.clip(np.array(BLINDNESS[kind]) @ palette.channels(color), 0, 1)
        return palette.AXES @ np.cbrt(palette.CONES @ linear)

    for share in (0.3, 0.6, 1.0):
        far = np.linalg.norm(seen(palette.color(share, 1)) - seen(palette.color(-share, 1)))
        assert far > 0.15 * share  # 0.02 is a just noticeable difference


def test_limit_is_the_largest_size():
    assert palette.limit([0.5, -2.0, 1.0]) == 2.0
    assert palette.limit([0.0, 0.0]) == palette.limit([]) == 1.0
    assert palette.limit(np.array([np.nan, -3.0, np.inf])) == 3.0


def test_numbers():
    assert palette.number(-0.0004, 2) == "0.00"
    assert palette.number(1.239, 2) == "+1.24"
    assert palette.number(-0.25, 2, narrow=True) == "-.25"
    assert palette.number(10.0, 1, narrow=True) == "+10.0"
    assert palette.number(float("nan"), 2) == "·" and palette.number(float("-inf"), 2) == "-inf"
    assert [palette.decimals(x) for x in (0.021, 0.5, 2.3, 35.0, 1234.0)] == [4, 3, 2, 1, 0]


def test_certificate_in_plain_words():
    line = words.certificate_line
    assert line(samples.certificate(1.32)) == (
        "adds up: 1.32000 of 1.32005 (gap 5e-05, 0.004%), settled, 31 nodes, 33 passes"
    )
    assert line(ROUGH) == (
        "NOT settled: adds up only roughly: 1.3200 of 1.5400 (gap 0.2, 14.0%), 512 nodes, 520 passes; "
        "asked for 0.1%; a single number may be off by 0.3"
    )
    sig = samples.certificate(5.02, kind="per token", gap=3e-7, nodes=0, passes=12)
    sentence = "every token by itself (worst gap 3e-07), no common sum: the total 5.02 is not meant"
    assert line(sig).startswith(f"adds up: {sentence}")
    assert line(replace(sig, gap=0.0)).startswith("exact: every token by itself (worst gap 0), no common sum")
    assert "12 passes" in line(sig) and "nodes" not in line(sig)
    assert "all cells with the reference" in line(samples.small_pair().certificate)
    assert "length 12.76" in line(samples.block().certificate)
    assert "rows within 1e-05" in line(samples.interactions().certificate)
    assert words.proof_line(samples.phrases()).startswith("the integral under it adds up: ")
    assert "✓ exact unit by unit ·" in markup.document(samples.small().derived(certificate=replace(sig, total=1.32)))


def test_sig_is_never_said_to_sum():
    sig = samples.small().derived(method="sig", certificate=samples.certificate(1.32, kind="per token"))
    assert "no common sum" in legend(sig) and "they sum" not in legend(sig)
    assert "\nsum" not in shown(sig) and " sum " not in shown(sig)
    assert ">sum<" not in markup.document(sig)


def test_a_legend_puts_quotes_around_a_class_and_no_second_ones_around_words():
    module, tokenizer = copy.deepcopy(models.classifier("bert"))
    module.config.id2label = {0: "'t Hart", 1: "good", 2: "bad"}
    assert "raises “'t Hart (logit)”" in legend(pl.explain((module, tokenizer), "the movie", target=0))
    one = pl.explain(models.generator(), "the movie was", target=" not")
    several = pl.explain(
        models.generator(), "the movie was", target=" it's"
    ).aggregate()  # Python has other quotes for it
    assert "raises ' not' (logprob)," in legend(one) and 'raises " it\'s" (logprob),' in legend(several)
    assert "raises 'not' in the gap (logprob)," in legend(
        pl.explain(models.filler(), "the movie was [MASK] .", target="not")
    )


# ---------------------------------------------------------------- text and tables


def texts(result) -> list[str]:
    """What is drawn as text, put together again."""
    every = []
    for block in page_of(result).blocks:
        every += [text for _, text in getattr(block, "named", ()) if isinstance(text, str)]
        paragraphs = [*getattr(block, "paragraphs", ()), *getattr(block, "prompt", ())]
        paragraphs += [block.spoken] if isinstance(block, grid.Continued) else []
        every += ["".join(part.text for part in paragraph) for paragraph in paragraphs]
    return every


@pytest.mark.parametrize(
    "name", [name for name, result in EVERY.items() if hasattr(result, "scores") and name != "tree"]
)
def test_stretches_put_together_are_the_text(name):
    result = EVERY[name]
    if not isinstance(result, VectorExplanation):
        assert texts(result) == list(result.meta.get("texts", []))


def test_byte_pieces_of_one_emoji_share_a_piece():
    result = samples.emoji()
    part = next(part for part in block_of(result, blocks.Running).paragraphs[0] if part.text == "😀")
    assert part.units == (2, 3, 4) and part.value == pytest.approx(0.75) and part.tip.startswith("+0.750 = ð +0.300")


def test_a_decoders_blank_is_not_coloured():
    result = samples.explanation("so good", [1, 2], pattern=r"so| good")
    assert [part.text for part in block_of(result, blocks.Running).paragraphs[0]] == ["so", " ", "good"]


def test_two_segments_are_two_paragraphs_and_lost_texts_are_rebuilt():
    tokens, offsets = ("Who", "sings", "She", "sing", "##s"), ((0, 3), (4, 9), (0, 3), (4, 8), (8, 9))
    scores = np.arange(5.0)
    result = Explanation(method="ig", target="span", certificate=samples.certificate(10.0), tokens=tokens,
                         offsets=offsets, scores=scores, segments=(0, 0, 1, 1, 1))  # fmt: skip
    assert texts(result) == ["Who sings", "She sings"]


def test_the_first_letter_says_where_a_text_begins():
    assert bidi.right_to_left("  \u05d0b") and not bidi.right_to_left("a\u05d0") and not bidi.right_to_left("12")


# capitals stand for Hebrew letters, Q W E R for Arabic ones, & for a digit of Arabic (U+0663); checked with another implementation
@pytest.mark.parametrize(
    "text, from_the_left",
    [
        ("abc DEG hij", "abc GED hij"),
        ("ABC def ghi", "def ghi CBA"),
        ("ABC 123 XYZ", "ZYX 123 CBA"),
        ("ABC 1-2, 3.50$ XYZ", "ZYX 3.50$ ,1-2 CBA"),  # digits keep their order, and the signs between them
        ("QWE 1-2 a", "a 2-1 EWQ"),  # after Arabic letters a minus joins no digits
        ("a A (b) C", "a A (b) C"),
        ("A b (C) d", "d )C( b A"),
        ("a A (B) c", "a )B( A c"),  # a pair of brackets goes the same way
        ("he said “ABC, DE”!", "he said “ED ,CBA”!"),
        ("AB\u05b0C d", "d C\u05b0BA"),  # a mark goes with its letter
        ("A& b", "b &A"),
        ("12 A", "A 12"),
        ("abc, 12!", "abc, 12!"),
    ],
)
def test_mixed_directions_stand_as_the_bidirectional_algorithm_has_them(text, from_the_left):
    hebrew = {chr(65 + k): chr(0x5D0 + k) for k in range(26) if chr(65 + k) not in "QWER"}
    letters = str.maketrans({**hebrew, **dict(zip("QWER&", "بتثج٣", strict=True))})
    logical, base = text.translate(letters), int(bidi.right_to_left(text.translate(letters)))
    shown = bidi.in_order(list(zip(bidi.levels(logical, base), logical, strict=True)))
    assert "".join(shown) == from_the_left.translate(letters)


def test_signs_alone_are_mirrored_and_blanks_at_a_lines_end_stay_there():
    pieces = [("\u05d0", [1], 0), (" (", [1, 1], 1), ("a", [2], 2), (") ", [1, 1], 3)]
    assert bidi.line(pieces, 1) == [(" (", 3), ("a", 2), (") ", 1), ("\u05d0", 0)]
    assert bidi.line([("\u05d0 b", [1, 1, 2], "one")], 1) == [("b", "one"), ("\u05d0 ", "one")], "a mixed piece is cut"
    assert [text for text, _ in bidi.line([("\u05d0", [1], 0), ("  ", [1, 1], 1)], 0)] == ["\u05d0", "  "]


@pytest.mark.parametrize(
    "text, from_the_left",
    [
        ("\u05d4\u05e1\u05e8\u05d8 \u05d4\u05d6\u05d4 is not bad, 100 times", "is not bad , 100 times | \u05d4\u05d6\u05d4 \u05d4\u05e1\u05e8\u05d8"),
        ("it is \u05d8\u05d5\u05d1 \u05de\u05d0\u05d3 100 times", "it is 100 \u05de\u05d0\u05d3 \u05d8\u05d5\u05d1 times"),
    ],
)  # fmt: skip
def test_a_picture_has_the_words_of_a_mixed_text_in_reading_order(matplotlib, text, from_the_left):
    """Each word is drawn by itself, on its own ground."""
    spans = [match.span() for match in re.finditer(r"[\w]+|,", text)]
    names = tuple(text[start:end] for start, end in spans)
    result = Explanation(method="ig", target="x", certificate=samples.certificate(float(len(spans))), tokens=names,
                         offsets=tuple(spans), scores=np.ones(len(spans)), meta={"texts": [text]})  # fmt: skip
    ((part,), _) = figure.draw_block(block_of(result, blocks.Running), 9.0)
    drawn = canvas.sheet([part], 9.0).findobj(matplotlib.text.Text)
    placed = sorted((each.get_position()[0], each.get_text()) for each in drawn if each.get_text() in names)
    assert [word for _, word in placed] == from_the_left.replace("| ", "").split()
    edges = placed[0][0], 9.0 - placed[-1][0]
    assert (edges[1] < edges[0]) == ("|" in from_the_left), "a text from the right begins at the right edge"


def test_special_tokens_with_a_score_are_shown_outside():
    result = samples.small()
    scored = result.derived(scores=np.concatenate([[0.7], result.scores[1:]]))
    assert block_of(result, blocks.Running).outside == ()
    assert block_of(scored, blocks.Running).outside == (("[CLS]", 0.7),)
    assert "outside the text" in markup.document(scored) and "[CLS] +0.70" in markup.document(scored)
    assert "[CLS]" in shown(scored) and "[CLS]" not in shown(result)


def test_folding_keeps_the_sum_and_the_strongest_cell():
    whole = block_of(samples.long_pair(60), grid.Grid)
    folded = whole.fold(10, 12)
    assert folded.values.shape == (10, 12) and folded.rows[-1] == "+52 more" and folded.columns[-1] == "+50 more"
    assert folded.values.sum() == pytest.approx(whole.values.sum(), abs=1e-12)
    assert folded.limit == whole.limit
    assert "52 of 60 rows and 50 of 60 columns" in folded.notes[-1]


def test_lengths_are_never_summed():
    folded = block_of(samples.block(), grid.Grid).fold(4, 4)
    assert folded.rest == (0, 0) and "not shown" in folded.notes[-1]


def test_zero_special_tokens_are_left_out_and_said():
    table = block_of(samples.small_pair(), grid.Grid)
    assert "[CLS]" not in table.rows and table.rows[0] == "(reference)" and "[CLS], [SEP]" in table.notes[0]
    full = samples.small_pair().full_matrix.copy()
    full[1, 2] = 0.1  # [CLS] has a share now
    assert "[CLS]" in block_of(samples.small_pair().derived(full_matrix=full), grid.Grid).rows


def test_kept_phrases_hang_together():
    nodes = samples.phrases(samples.long(60).meta["texts"][0]).nodes
    kept, notes = grid.strongest_phrases(nodes, 20)
    assert len(kept) == 20 and notes == (f"{len(nodes) - 20} phrases of smaller value are not shown",)
    parents = {child: i for i, node in enumerate(nodes) for child in node.children}
    assert all(i == 0 or parents[i] in kept for i in kept)


# ---------------------------------------------------------------- terminal


def shown(result, columns: int = 100, **options) -> str:
    stream = io.StringIO()
    terminal.show(result, console=Console(file=stream, width=columns, color_system=None), **options)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_terminal_text_exactly():
    assert (
        shown(samples.small(), 80)
        == """\
positive: 1.82 (from the baseline alone: 0.5)
ig · positive   sentiment · baseline mask · score logit

  Not really funny, but moving.

     Not -1.42 ███████████████│
  really +0.11                │█▏
   funny -0.63         ▐██████│
       , +0.02                │▎
     but +0.88                │█████████▏
  moving +2.31                │████████████████████████
       . +0.05                │▌
     sum +1.32                │

██ orange raises “positive”, blue lowers it; numbers are contributions to the
   change from the baseline, they sum to 1.32; full colour is 2.31, the largest
   |value|.
 ✓ diagnostics: adds up: 1.32000 of 1.32005 (gap 5e-05, 0.004%), settled, 31
   nodes, 33 passes"""
    )


CHANCES = {"positive": 0.812, "negative": 0.188}
START = {"positive": 0.945, "negative": 0.055}
SPOKEN = samples.small().derived(prediction="positive", probabilities=CHANCES, baseline_probabilities=START)
HEADLINE = "predicted positive, 81.2 % (from the baseline alone: positive, 94.5 %)"


def test_every_view_says_what_the_model_says(matplotlib):
    assert shown(SPOKEN, 80).startswith(f"{HEADLINE}\nig · positive")
    page = SPOKEN.to_html()
    assert HEADLINE in page and "<td>negative</td><td>18.8 %</td><td>5.5 %</td>" in page
    assert HEADLINE in "".join(text.get_text() for text in figure.draw(SPOKEN).findobj(matplotlib.text.Text)).replace(
        "\n", " "
    )
    without = SPOKEN.derived(baseline_probabilities={})
    assert "predicted positive, 81.2 %" in shown(without, 80) and "baseline alone" not in shown(without, 80)


def test_no_half_of_a_table_of_bars_is_empty():
    """Where all numbers are on one side, the bars have the whole width."""
    for values, sides in {(1.0, 0.5): {"above"}, (-1.0, -0.5): {"below"}, (1.0, -0.5): {"above", "below"}}.items():
        bars = blocks.Bars(tuple(blocks.Bar(str(value), value) for value in values))
        for block in (bars, blocks.Panels((bars,))):
            drawn = str(markup.draw(block)[0])
            assert {side for side in ("above", "below") if f'class="{side}"' in drawn} == sides, values
            assert drawn.count("<i ") == len(values)


def test_diagnostics_are_folded_unless_something_does_not_add_up():
    page, rough = samples.small().to_html(), samples.small().derived(certificate=ROUGH).to_html()
    assert '<details class="diagnostics"><summary>✓ adds up · diagnostics</summary>' in page
    assert '<details class="diagnostics" open="open"><summary>✗' in rough


@pytest.mark.parametrize(
    ("share", "message"),
    [(1.0, "100 %"), (0.99999, ">99.9 %"), (0.945, "94.5 %"), (0.00762, "0.762 %"), (0.000762, "<0.1 %"), (0.0, "0 %")],
)
def test_percentages_round_nothing_to_certainty(share, message):
    assert percent(share) == message


def test_terminal_pair_exactly():
    full = np.array([[0.5, -0.1, 0.0], [0.0, 0.3, -0.04]])
    result = PairExplanation(
        method="ij", target="cosine similarity",
        certificate=samples.certificate(0.66, f_input=0.66, gap=0.0, relative_gap=0.0, kind="matrix"),
        tokens_a=("猫",), tokens_b=("cat", "[b]"), offsets_a=((0, 1),), offsets_b=((0, 3), (4, 7)),
        full_matrix=full, similarity=0.66, meta={"texts": ["猫", "cat [b]"], "notes": ["cut at 512 tokens"]},
    )  # fmt: skip
    assert (
        shown(result, 80)
        == """\
cosine similarity 0.660 = pairs of tokens 0.260 + the rest 0.400
ij · cosine similarity

  A 猫
  B cat [b]

  A ↓  B →     (reference) │         cat         [b]      sum
  (reference)       +0.500 │      -0.100           0   +0.400
  ─────────────────────────┼────────────────────────
  猫                     0 │      +0.300      -0.040   +0.260
  sum               +0.500 │      +0.200      -0.040   +0.660

  strongest pairs
  猫 × cat +0.300    │████████████████████████
  猫 × [b] -0.040 ███│

██ orange raises “cosine similarity”, blue lowers it; numbers are contributions
   to the similarity, with the reference row and column they sum to 0.66; full
   colour is 0.300, the largest |contribution| of two tokens; larger ones, with
   the reference, have that colour too.
 ✓ diagnostics: adds up: all cells with the reference, 0.6600 of 0.6600 (gap 0,
   0%), settled, 31 nodes, 33 passes
 · cut at 512 tokens"""
    )


@each
def test_terminal_has_legend_certificate_and_no_control_characters(name):
    result = EVERY[name]
    text = shown(result, 100)
    joined = " ".join(text.split())
    for facts in (legend(result), proof(result)):
        assert " ".join(facts.split()) in joined
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_terminal_markup_stays_text():
    text = shown(samples.nasty(), 120)
    assert samples.NASTY in text and "[bold]loud[/bold]" in text and "$x^2$" in text and "\\frac" in text
    assert "␛[31m" in text


def test_terminal_colours_are_the_palettes():
    stream = io.StringIO()
    console = Console(file=stream, width=90, force_terminal=True, color_system="truecolor", _environ={})
    terminal.show(samples.small(), console=console, dark=False)
    back = palette.color(1, 1)
    red, green, blue = (int(back[i : i + 2], 16) for i in (1, 3, 5))
    assert f"48;2;{red};{green};{blue}mmoving" in stream.getvalue()


def test_terminal_says_when_it_is_rough():
    text = shown(samples.small().derived(certificate=ROUGH), 120)
    assert " ✗ NOT settled" in text and "they should sum to 1.54" in " ".join(text.split())


def test_500_tokens_are_a_short_print():
    text = shown(samples.long_pair(500), 120)
    assert "500 × 500 does not fit" in text and "strongest pairs" in text and len(text.splitlines()) < 60
    text = shown(samples.long(500), 120)
    assert "488 others" in text and "12 strongest of 500" in text


def test_rows_that_were_not_asked_for_are_dots(tmp_path):
    result = samples.interactions()
    matrix = result.matrix.copy()
    matrix[2:, 2:] = np.nan  # only the first token's row and column
    proof = samples.certificate(float(matrix[1].sum()), kind="per token")
    partly = result.derived(matrix=matrix, certificate=proof, meta={**result.meta, "rows": [1]})
    text = shown(partly)
    assert "·" in text and "nan" not in text and "everything to" not in text
    assert all(np.isfinite(value) for *_, value in block_of(partly, blocks.Links).links)
    assert "nan" not in Reader(markup.document(partly)).visible
    block_of(partly, grid.Grid).fold(4, 4)
    pytest.importorskip("matplotlib")
    figure.save(partly, tmp_path / "a.png")


def test_terminal_folds_a_wide_table():
    text = shown(samples.long_pair(20), 100)
    assert "of 20 columns, the weakest" in text
    assert "+0.4887" in text  # the corner is still the similarity


def test_width_is_obeyed_and_never_more_than_the_console_has(capsys):
    terminal.show(samples.small_pair(), width=100)
    assert max(map(len, capsys.readouterr().out.splitlines())) > 80
    wide = shown(samples.small_pair(), 70, width=100)
    assert wide == shown(samples.small_pair(), 70)
    assert max(map(len, shown(samples.small_pair(), 100, width=60).splitlines())) <= 60


def test_units_are_checked():
    with pytest.raises(InputError, match="'token' or 'word'"):
        terminal.show(samples.small(), unit="sentence")
    with pytest.raises(InputError, match="cannot draw a str"):
        terminal.show("text")


def test_dark_ground_is_read_from_the_terminal(monkeypatch):
    for value, dark in (("15;0", True), ("0;15", False), ("0;default", True), ("", True), ("0;7", False)):
        monkeypatch.setenv("COLORFGBG", value)
        assert terminal.is_dark() is dark


# ---------------------------------------------------------------- html


class Reader(HTMLParser):
    """Every element with its attributes, the text of the running texts, the text of everything visible."""

    VOID = ("meta", "img", "input")

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.open: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.visible = ""
        self.scripts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []  # everything closed in order

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in self.VOID:
            self.open.append((tag, given))
        if "text" in (given.get("class") or "").split():
            self.texts.append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if any("text" in (given.get("class") or "").split() for _, given in self.open):
            self.texts[-1] += data
        if tags and tags[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in tags:
            self.visible += data


TAGS = re.compile(
    "html|head|meta|title|style|body|main|article|header|h1|h2|h3|p|section|span|table|thead|tbody|tr|th|td|i|u|b|footer|"
    "strong|ul|li|script|figure|div|label|input|output|svg|path|g|text|details|summary|small|img"
)


@each
def test_page_is_safe_complete_and_offline(name):
    result = EVERY[name]
    page = markup.document(result)
    read = Reader(page)
    assert all(TAGS.fullmatch(tag) for tag, _ in read.tags)
    assert (name == "nasty") <= (samples.NASTY in read.visible)
    for tag, given in read.tags:
        assert not any(key.startswith("on") for key in given)
        for key in ("src", "href", "action", "xlink:href"):
            assert given.get(key, "data:").startswith("data:"), (tag, given)
    outside = re.sub(r'(?s)<script type="application/json".*?</script>|base64,[^"]*', "", page)
    assert not re.search(r"https?:|url\(|@import|src=[\"']?//", outside)
    assert legend(result) in read.visible and proof(result) in read.visible
    assert len(read.scripts) == 2 and page.count("</script") == 2


@pytest.mark.parametrize("name", ["text", "japanese", "emoji", "nasty", "long", "interactions"])
def test_running_text_is_the_text(name):
    result = EVERY[name]
    expected = [words.printable(text) for text in result.meta["texts"]]
    assert Reader(markup.document(result)).texts == expected
    assert Reader(markup.fragment(result)).texts == expected


def test_pair_page_keeps_both_texts():
    result = samples.small_pair()
    assert Reader(markup.document(result)).texts == list(result.meta["texts"])


def test_values_are_on_the_tokens_and_reachable_by_keyboard():
    units = [
        given for tag, given in Reader(markup.document(samples.small())).tags if tag == "span" and "title" in given
    ]
    assert [given["title"] for given in units][:2] == ["Not -1.420", "really +0.110"]
    assert all(given["tabindex"] == "0" for given in units)
    assert units[5]["class"] == "unit p24"  # moving: full colour


@pytest.mark.parametrize("name", ["nasty", "pair", "tree", "block", "interactions", "emoji"])
def test_the_result_travels_inside_its_page(name, tmp_path):
    result = EVERY[name]
    path = tmp_path / "page.html"
    page = markup.document(result, path)
    assert path.read_text(encoding="utf-8") == page
    data = store.extract(page)
    assert data == result.to_dict()
    again = from_dict(data)
    assert type(again) is type(result) and again.certificate == result.certificate


def test_long_arrays_are_packed_and_come_back_exactly():
    values = np.random.default_rng(0).normal(size=(40, 50))
    values[0, :4] = [0.0, -0.0, 1e-300, np.inf]
    packed = store.pack({"matrix": values.tolist(), "n": 3, "names": ["a"] * 2000})
    assert set(packed["matrix"]) == {"packed", "shape"} and packed["names"] == ["a"] * 2000
    back = np.array(store.unpack(packed)["matrix"])
    assert back.tobytes() == values.tobytes()


def test_a_page_without_a_result_says_so():
    with pytest.raises(StoreError, match="holds no result"):
        store.extract("<html></html>")
    big = samples.block().derived(vectors=np.zeros((7, 7, 20_000)))
    page = markup.document(big)
    assert 'id="pathlens"' not in page and "too large to travel" in page and len(page) < 200_000


def test_500_by_500_stays_light():
    result = samples.long_pair(500)
    page = markup.document(result)
    assert len(page.encode()) < 3_000_000
    read = Reader(page)
    paths = [given for tag, given in read.tags if tag == "path" and "arc" in given["class"]]
    assert len(paths) == LINKS
    assert sum(given.get("display") != "none" for given in paths) == svg.FIRST
    assert sum(tag == "td" for tag, _ in read.tags) < 45 * 45
    assert np.array_equal(np.array(store.extract(page)["full_matrix"]), result.full_matrix)


def test_arcs_are_the_strongest_pairs():
    result = samples.small_pair()
    read = Reader(svg.arcs(block_of(result, blocks.Links)))
    sizes = [float(given["data-size"]) for tag, given in read.tags if tag == "path"][::-1]
    expected = np.sort(np.abs(result.matrix[result.matrix != 0]))[::-1]
    assert sizes == pytest.approx(expected, rel=1e-3)
    assert "guitar × music: +0.3" in read.visible
    inside = Reader(svg.arcs(block_of(samples.interactions(), blocks.Links)))
    assert "Not with funny: -1.680" in inside.visible  # both halves


def test_only_our_script_may_run():
    page = markup.document(samples.small())
    digest = base64.b64encode(hashlib.sha256(Reader(page).scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page and "default-src 'none'" in page


def test_a_quiet_reference_is_one_number_and_one_click_away():
    full = samples.small_pair().full_matrix.copy()
    full[0], full[1:, 0] = full[0] * 0.1, full[1:, 0] * 0.1
    pair = samples.small_pair().derived(full_matrix=full, similarity=float(full.sum()))
    table = block_of(pair, grid.Grid)
    assert "(reference)" not in table.rows and table.values.sum() == pytest.approx(pair.core)
    (folded,) = (block for block in page_of(pair).details if isinstance(block, grid.Grid))
    assert folded.rows[0] == folded.columns[0] == "(reference)"
    assert folded.values.sum() == pytest.approx(pair.similarity)
    assert "with the reference row and column" in markup.document(pair)
    assert (
        f"pairs of tokens {palette.short(pair.core)}, the rest (pairs with the reference) {palette.short(pair.rest)}"
        in legend(pair)
    )
    loud = page_of(samples.small_pair())  # a large cell, and a row and a column that nearly cancel it
    assert not [block for block in loud.details if isinstance(block, grid.Grid)]


def test_matrix_has_reference_and_sums():
    table = block_of(samples.small_pair(), grid.Grid)
    read = Reader(markup.draw(table)[0])
    assert read.visible.count("(reference)") == 2
    assert f"{samples.small_pair().full_matrix.sum():+.4f}" in read.visible
    edges = [given for tag, given in read.tags if tag == "td" and "edge" in (given.get("class") or "")]
    assert len(edges) == len(table.rows) + 1
    result = samples.small_pair()
    value = result.matrix[result.tokens_a.index("guitar"), result.tokens_b.index("music")]
    assert any(given.get("title") == f"guitar × music: {value:+.5f}" for _, given in read.tags)


def test_fragment_stands_alone():
    text = markup.fragment(samples.small_pair())
    assert text.startswith("<style>") and "application/json" not in text and "<html" not in text


def test_picture_of_a_table_is_a_valid_png():
    image = pytest.importorskip("matplotlib.image")
    values = np.array([[1.0, 0.0], [-1.0, np.nan]])
    pixel = image.imread(io.BytesIO(element.png(values, 1.0)))
    assert pixel.shape == (2, 2, 4)
    assert pixel[0, 0, 3] == 1 and pixel[0, 1, 3] == 0 and pixel[1, 1, 3] == 0
    assert pixel[0, 0, 0] > pixel[0, 0, 2] and pixel[1, 0, 2] > pixel[1, 0, 0]  # orange, blue


# ---------------------------------------------------------------- figure


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib")


@pytest.mark.parametrize("name", ["text", "nasty", "pair", "interactions", "block", "pooled", "tree", "tabular"])
def test_png_is_drawn(matplotlib, name, tmp_path):
    from matplotlib.image import imread

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = figure.save(EVERY[name], tmp_path / "a.png")
    image = imread(path)
    assert image.shape[1] >= 1400 and path.stat().st_size > 8_000
    lengths = name in ("block", "pooled")
    ends = [palette.color(1, 1, signed=False)] if lengths else [palette.color(1, 1), palette.color(-1, 1)]
    full = [np.array([int(end[i : i + 2], 16) / 255 for i in (1, 3, 5)]) for end in ends]
    near = [(np.abs(image[..., :3] - color).max(-1) < 0.02).sum() for color in full]
    assert max(near) > 1_000  # a whole bar, cell or box in full colour, more than the scale's end
    assert (image[..., :3].min(-1) < 0.3).sum() > 1_000  # and ink


@pytest.mark.parametrize("name", [name for name in EVERY if name != "long"])
def test_figures_carry_legend_and_certificate(matplotlib, name):
    from matplotlib.text import Text

    made = figure.draw(EVERY[name])
    squeezed = re.sub(r"\s", "", "".join(text.get_text() for text in made.findobj(Text)))
    for line in (legend(EVERY[name]), proof(EVERY[name])):
        assert re.sub(r"\s", "", line) in squeezed


def test_dollars_and_backslashes_are_not_mathematics(matplotlib, tmp_path):
    from matplotlib.text import Text

    texts = "$\\bad{$ $x^2$ \\frac $"
    result = samples.explanation(texts, [1, -1, 2, 0.5], pattern=r"\S+", target="$\\oops{$")
    drawn = figure.draw(result).findobj(Text)  # also in the hands of someone who saves it without us
    assert all(not text.get_parse_math() for text in drawn if "$" in text.get_text())
    figure.save(result, tmp_path / "a.png")  # mathtext would raise on these
    made = curve([1, 2], {"$\\bad{$": [1, 2]}, title="$\\bad{$", xlabel="$\\bad{$")
    canvas.save(made, tmp_path / "b.png")
    assert "$\\bad{$" in [text.get_text() for text in made.findobj(Text)]
    assert all(not text.get_parse_math() for text in made.findobj(Text) if "$" in text.get_text())


def test_svg_keeps_text_as_text(matplotlib, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = figure.save(samples.nasty(), tmp_path / "a.svg")
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
    assert not tags & {"img", "image", "script", "foreignObject"}
    assert "<img" not in path.read_text(encoding="utf-8")


def test_a_missing_font_is_said_on_the_picture(matplotlib, monkeypatch):
    from matplotlib.text import Text

    monkeypatch.setattr(canvas, "system_fonts", lambda: ())
    canvas.advance.cache_clear()
    made = figure.draw(samples.japanese())
    with pytest.warns(UserWarning, match="no font on this machine has .* fonts-noto-cjk"):
        missing = canvas.fit(made)
    assert {"映", "画"} <= missing and "a" not in missing
    assert any("U+3001" in text.get_text() and "drawn as boxes" in text.get_text() for text in made.findobj(Text))
    canvas.advance.cache_clear()


def test_a_font_that_has_the_characters_is_found(matplotlib, monkeypatch):
    monkeypatch.setattr(canvas, "system_fonts", lambda: (("Other", "other.ttf"), ("Kanji", "kanji.ttf")))
    has = {"other.ttf": frozenset("x"), "kanji.ttf": frozenset("映画")}
    monkeypatch.setattr(canvas, "covered", lambda path: has.get(path, frozenset(map(chr, range(32, 127)))))
    assert canvas.fonts("ab 映画\u200d") == (["DejaVu Sans", "Kanji"], set())
    assert canvas.fonts("ab 語") == (["DejaVu Sans"], {"語"})
    assert canvas.fonts("plain") == (["DejaVu Sans"], set())


def test_a_dark_picture_is_the_same_turned_over(matplotlib, tmp_path):
    """Paper and ink change places; what raises stays the warmer colour, what lowers the cooler one."""
    from PIL import Image

    result = samples.small()
    light, dark = (
        np.asarray(Image.open(result.to_png(tmp_path / f"{dark}.png", dark=dark)).convert("RGB")).astype(int)
        for dark in (False, True)
    )
    assert light.shape == dark.shape
    paper = (light == 255).all(-1)
    assert paper.mean() > 0.5 and (dark[paper] < 30).all() and dark[light.sum(-1) < 120].min() > 150
    warm = light[..., 0] - light[..., 2]
    assert warm.max() > 100 and warm.min() < -100
    turned = dark[..., 0] - dark[..., 2]
    assert turned[warm > 100].min() > 0 and turned[warm < -100].max() < 0
    with pytest.raises(InputError, match="dark pictures are PNG, got 'a.svg'"):
        result.to_png(tmp_path / "a.svg", dark=True)


def test_japanese_needs_no_note_where_a_font_exists(matplotlib):
    if canvas.fonts("映画")[1]:
        pytest.skip("no Japanese font on this machine")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert canvas.fit(figure.draw(samples.japanese())) == set()


def test_lines_fit_and_lose_nothing(matplotlib):
    text = "a fairly long sentence with 日本語の文字が混ざっている and anextremelylongwordthatdoesnotfit " * 2
    lines = canvas.wrap(text, 2.0, 9)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(canvas.inches(line.rstrip(), 9) <= 2.0 + 1e-6 for line in lines)
    assert any(line.startswith("sentence") or " sentence" in line for line in lines)  # words stay whole


def test_pictures_need_matplotlib_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(MissingError, match=r'pip install "pathlens\[plot\]"'):
        curve([1], {"a": [1.0]})
    with pytest.raises(MissingError, match=r'pip install "pathlens\[plot\]"'):
        figure.save(samples.small(), tmp_path / "a.png")


def test_only_known_suffixes(matplotlib, tmp_path):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        figure.save(samples.tabular(), tmp_path / "a.doc")


def test_only_canvas_touches_matplotlib():
    folder = Path(canvas.__file__).parent
    for path in folder.glob("*.py"):
        code = re.sub(r"(?s)if TYPE_CHECKING:\n(    .*\n)+", "", path.read_text(encoding="utf-8"))
        assert "import pyplot" not in code and "matplotlib.pyplot" not in code
        if path.name != "canvas.py":
            assert not re.search(r"^\s*(from|import) matplotlib", code, flags=re.MULTILINE), path.name


def test_plots(matplotlib, tmp_path):
    made = curve([0, 1, 2], {"ig": [1, 0.5, 0.2], "udig": [1, 0.4, 0.1]}, bands={"ig": ([0] * 3, [1] * 3)})
    assert [line.get_label() for line in made.axes[0].get_lines()] == ["ig", "udig"]
    assert len(made.axes[0].collections) == 1
    axes = canvas.blank(4, 3).add_subplot()
    points = {"gauss": [(2, 1e-2), (4, 0.0), (8, -1e-6)]}
    plots.chart_on(axes, blocks.Chart(points, "nodes", "error", log=True, level=1e-3))
    assert axes.get_yscale() == "log" and list(axes.get_lines()[0].get_ydata()) == [1e-2, 1e-16, 1e-6]
    axes.figure.canvas.draw()
    assert not any("$" in label.get_text() for label in axes.get_yticklabels())
    axes = canvas.blank(4, 3).add_subplot()
    plots.panel_on(axes, blocks.Bars((blocks.Bar("a", 1.0, 0.9, 1.1), blocks.Bar("b", -2.0))))
    assert [patch.get_width() for patch in axes.patches] == [1.0, -2.0]
    rng = np.random.default_rng(0)
    values, scores = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) * [0.1, 1.0]
    axes = canvas.blank(4, 3).add_subplot()
    plots.swarm_on(axes, blocks.Swarm(("weak", "strong"), values, scores))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["strong", "weak"]
    assert np.allclose(np.sort(axes.collections[0].get_offsets()[:, 0]), np.sort(scores[:, 1]))
    assert canvas.save(axes.figure, tmp_path / "a.png").stat().st_size > 5_000


def test_layers(matplotlib):
    """A panel for each layer on one scale, the strongest tokens as curves, a certificate for each layer."""
    results = [samples.small().derived(scores=samples.small().scores * k, meta={"layer": k}) for k in (1, 2, 3)]
    page = page_of(Layers(tuple(results)))
    small, curves = page.on("figure")
    names = ["layer 1", "layer 2", "layer 3"]
    assert [panel.title for panel in small.panels] == names and small.common
    moving = next(points for name, points in curves.charts[0].series.items() if "moving" in name)
    assert np.allclose([y for _, y in moving], [2.31, 4.62, 6.93])
    assert [each.name for each in page.proof.sums] == names
    assert "layer 2" in shown(page) and markup.document(page).count('class="bars"') == 3
    drawn = figure.draw(page)
    panels = [axes for axes in drawn.findobj(type(drawn.axes[0])) if axes.get_title("left") in names]
    assert len(panels) == 3 and len({axes.get_xlim() for axes in panels}) == 1


# ---------------------------------------------------------------- a real browser


def test_page_in_a_browser(tmp_path):
    chromium = shutil.which("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: browser not tested")
    if chromium is None:
        pytest.skip("no chromium on this machine: the page was not tried in a browser")
    markup.document(samples.nasty(), tmp_path / "nasty.html")
    markup.document(samples.small_pair(), tmp_path / "pair.html")
    with playwright.sync_playwright() as play:
        flags = ["--no-sandbox", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 390, "height": 800})
        trouble: list[str] = []
        page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("request", lambda r: trouble.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
        page.goto(f"file://{tmp_path}/nasty.html")
        assert page.locator("img").count() == 0
        assert page.locator(".text").inner_text() == words.printable(samples.nasty().meta["texts"][0])
        unit = page.locator(".unit").first
        unit.hover()
        tip = unit.evaluate("e => getComputedStyle(e, '::after').content")
        assert samples.NASTY in tip and "-1.000" in tip
        unit.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.textContent") == "[bold]loud[/bold]"
        page.goto(f"file://{tmp_path}/pair.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390  # a phone does not scroll sideways
        page.locator(".top").fill("5")
        assert page.locator(".arc[display=inline]").count() == 5
        page.locator(".least").fill("50")
        assert page.locator(".shown").inner_text() == "2 of 24"
        browser.close()
    assert trouble == []


# ---------------------------------------------------------------- few words that must not mislead


def evaluated(values: np.ndarray, better: str = "higher") -> Evaluation:
    """Two methods and a control, one metric, the numbers of each text given."""
    column = Column("comprehensiveness", better, values, curve="comprehensiveness")
    curve = Curve("comprehensiveness", better, (0.2,), values[..., None])
    rows = ("random", "ig", "sig")
    return Evaluation(rows, (column,), (curve,), np.eye(3), "default", ("mask",), 0.2, values.shape[1])


@pytest.mark.parametrize(
    ("texts", "lead", "noise", "starred"),
    [(3, 0.2, 0.01, False), (40, 0.2, 0.01, True), (40, 0.001, 0.3, False), (40, -0.2, 0.01, True)],
    ids=["three texts", "sure", "overlapping", "sure, the other"],
)
def test_a_star_is_for_rows_that_are_surely_better(texts, lead, noise, starred):
    draw = np.random.default_rng(0)
    common = draw.normal(size=texts)
    values = np.stack([common - 1, common, common + lead + noise * draw.normal(size=texts)])
    lines = shown(evaluated(values), 200).splitlines()
    marked = {line.split()[0] for line in lines if "★" in line and line.split()[0] in ("random", "ig", "sig")}
    assert marked == ({"sig" if lead > 0 else "ig"} if starred else set())
    turned = shown(evaluated(-values, "lower"), 200)
    assert turned.count("★") == 1 + starred  # one is in the legend


def test_a_hit_that_has_not_settled_says_what_is_off():
    """ "not settled, gap 1e-07" says nothing: the sum is right, and single numbers are not."""
    pair = samples.small_pair()
    loose = {"converged": False, "bound": 1e-4}
    single = pair.derived(certificate=replace(pair.certificate, **loose, error_estimate=(3e-3, 1e-6)))
    assert words.in_short(single) == "the sum is within 1e-06, but single numbers may be off by 3e-03, 1e-04 allowed"
    proof = samples.certificate(
        pair.certificate.total, kind="matrix", f_input=pair.certificate.total + 0.2, gap=0.2, **loose
    )
    whole = pair.derived(certificate=proof, similarity=proof.f_input)
    assert words.in_short(whole) == "not settled: the sum is off by 2e-01, 1e-04 allowed"
    assert words.in_short(pair) == "", "what is as it should be needs no words on every line"
    assert words.in_short(pair.derived(edited="by hand")) == "✗ altered"


def test_row_names_stay_whole_and_no_number_is_lost_at_80_columns():
    """Intervals take a second line before a row's name is broken."""
    heads = ("", *(f"metric {k} ↑" for k in range(4)))
    cells = tuple((name, *("-0.012 [-0.022, -0.002]",) * 4) for name in ("random", "leave-one-out"))
    series = {name: [(0.0, -0.00113), (1.0, -0.0838)] for name in ("random", "leave-one-out")}
    charts = blocks.Charts(tuple(blocks.Chart(series, "share", f"metric {k}") for k in range(3)))
    page = blocks.Page("wide", blocks=(blocks.Listing(heads, cells, right=True), charts))
    lines = shown(page, 80).splitlines()
    printed = " ".join(lines).split()
    assert printed.count("leave-one-out") == printed.count("random") == 2
    assert printed.count("-0.012") == printed.count("[-0.022,") == printed.count("-0.002]") == 8
    assert printed.count("-0.0838") == 6


# ---------------------------------------------------------------- names in plots

CROWD = tuple((f"mask {word}", 0.1 + 1e-4 * k, 0.1) for k, word in enumerate("one two three four five six".split()))
NEAR = (
    ("mask A", -0.119, -0.025),
    ("mask lovely", -0.366, -0.404),
    ("mask film", -0.085, -0.033),
    ("mask .", -0.073, -0.028),
)


def scattered(points) -> blocks.Scatter:
    return blocks.Scatter(tuple(points), "predicted change", "actual change", "as predicted")


@pytest.mark.parametrize("points", [NEAR, (*CROWD, ("far", -1.0, -1.0))], ids=["near", "crowded"])
def test_every_dot_is_named_and_no_name_runs_into_another(matplotlib, points):
    names, meaning = plots.point_names(scattered(points), 4.5, 3.05)
    meanings = dict(part.split(" ", 1) for part in meaning.split(" · ")) if meaning else {}
    assert sorted(meanings.get(name.text, name.text) for name in names) == sorted(name for name, *_ in points)
    boxes = [name.box for name in names]
    assert not any(a.meets(b) for k, a in enumerate(boxes) for b in boxes[:k])
    page = svg.scatter(scattered(points))
    written = re.findall(r'class="name">([^<]*)<', page)
    under = re.search(r'<p class="outside"[^>]*>([^<]*)<', page)
    meanings = dict(part.split(" ", 1) for part in under[1].split(" · ")) if under else {}
    assert sorted({meanings.get(text, text) for text in written} - {"as predicted"}) == sorted(
        name for name, *_ in points
    )
    assert page.count("<circle") == len(points)


def test_numbers_under_a_picture_say_what_they_mean(matplotlib):
    page = blocks.Page("crowded", blocks=(scattered((*CROWD, ("far", -1.0, -1.0))),))
    _, meaning = plots.point_names(page.blocks[0], 4.5, 3.05)
    text = " ".join(
        each.get_text()
        for each in figure.draw(page).findobj(type(canvas.write(canvas.blank(1, 1).add_subplot(), 0, 0, "")))
    )
    assert meaning and all(word in text for word in meaning.split())


def test_a_level_is_named_where_no_curve_runs(matplotlib):
    letters = places.Letters(lambda text: 7.0 * len(text), 14.0)
    room = places.Box(0, 0, 600, 300)
    down = [(480.0, 20.0), (600.0, 280.0)]  # through the right end of the level, above it and below
    name = places.along("allowed 7.4e-04", 150.0, letters, room, [down])
    assert name.anchor == "start" and not name.box.crossed(*down)
    assert places.along("allowed 7.4e-04", 150.0, letters, room, []).anchor == "end"
    axes = canvas.blank(8, 3).add_subplot()
    chart = blocks.Chart(
        {"gauss": [(4, 1.0), (32, 1e-2), (64, 1e-4)]}, "nodes", "error", "", True, 7e-4, "allowed 7e-04"
    )
    plots.chart_on(axes, chart)
    axes.figure.canvas.draw()
    [text] = [each for each in axes.texts if each.get_text() == "allowed 7e-04"]
    (left, low), (right, high) = text.get_window_extent().get_points().tolist()
    box = places.Box(left, low, right, high)
    curve = axes.transData.transform(axes.get_lines()[0].get_xydata()).tolist()
    assert not any(box.crossed(*pair) for pair in itertools.pairwise(curve))


@pytest.mark.parametrize(("line", "inside"), [(((0, 0), (4, 4)), True), (((0, 2), (4, 2)), True), (((0, 0), (4, 0)), False),
    (((0, 0), (0.5, 4)), False), (((2, 2), (2, 2)), True), (((4, 0), (5, 9)), False)])  # fmt: skip
def test_a_line_crosses_a_box_or_passes_it(line, inside):
    assert places.Box(1, 1, 3, 3).crossed(*line) is inside


def test_a_tiny_probability_is_said_in_percent():
    """A whole answer is next to impossible even where the model is sure of every token."""
    answer = samples.answer()
    proof = replace(answer.certificate, f_baseline=-150.0, f_input=-150.0 + answer.certificate.total)
    message = " ".join(shown(answer.derived(certificate=proof), 200).split())
    assert "a probability of <0.1 %, on average" in message and not re.search(r"probability of \d\S*e-", message)
