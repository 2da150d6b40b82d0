"""Methods as records: an option is a field; and what a result says of its choices asks for the same again."""

from __future__ import annotations

import copy
import math
from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from beartype.door import is_bearable

import pathlens as pl
from pathlens.checks import options_of
from pathlens.corpus.options import RunOptions
from pathlens.engine.methods import METHODS
from pathlens.engine.options import EVERYONES, RECORDS, AnswerOptions, build, options
from pathlens.quadrature import gauss
from pathlens.studies.exact import ExactOptions
from pathlens.studies.zoom import zoom
from pathlens.text.adapter import Request
from pathlens.text.load import load
from pathlens.text.options import LoadOptions, ModelOptions, kinds_of_options
from tests.support import models
from tests.support.models import TEXTS

TEXT = "the movie was funny . i was not . great !"


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (pl.UDIG(steps=4, neighbours=9), {"method": "udig", "steps": 4, "neighbours": 9}),
        (pl.SIG(context="prefix"), {"method": "sig", "context": "prefix"}),
        (pl.IG(path="dig", steps=3, neighbours=9), {"method": "ig", "path": "dig", "steps": 3, "neighbours": 9}),
        (pl.IH(interaction_index=2), {"method": "ih", "interaction_index": 2}),
        (pl.IDG(), {"method": "idg"}),
        (pl.VAIG(mode="reverse"), {"method": "vaig", "mode": "reverse"}),
    ],
    ids=lambda value: value.get("method") if isinstance(value, dict) else "",
)
def test_a_record_and_a_name_with_options_give_the_same(record, named):
    one, other = (
        pl.explain(models.classifier("bert"), TEXTS[0], tolerance=1e-2, **how) for how in ({"method": record}, named)
    )
    name = "vectors" if isinstance(one, pl.VectorExplanation) else "scores"
    assert np.array_equal(getattr(one, name), getattr(other, name))
    assert one.meta["chosen"] == other.meta["chosen"] and one.method == record.name


def test_an_option_given_beside_a_record_is_put_over_it():
    explainer = pl.Explainer(models.classifier("bert"), method=pl.UDIG(steps=30, neighbours=9), steps=4)
    assert (explainer.method.steps, explainer.method.neighbours) == (4, 9)


def test_a_slip_is_named_with_what_was_meant():
    for choices, words in [
        ({"method": "udgi"}, "did you mean 'udig'"),
        ({"method": "udig", "neighbors": 5}, "did you mean 'neighbours'"),
        ({"method": "sig", "contxt": "prefix"}, "did you mean 'context'"),
        ({"method": pl.SIG(), "steps": 5}, "steps: not an option of sig; it takes coordinates, context"),
        ({"method": "ig", "context": "prefix"}, "context is an option of sig$"),
        ({"context": "prefix"}, "context is an option of sig$"),
        ({"method": "ig", "rule": "gaus"}, "did you mean 'gauss'"),
        ({"method": "ig", "rule": "Gauss"}, "did you mean 'gauss'"),
        ({"score": "probability"}, "did you mean 'prob'"),
        ({"method": "sig", "context": "prefx"}, "did you mean 'prefix'"),
        ({"method": "udig", "strategy": "maxcont"}, "did you mean 'maxcount'"),
        ({"method": "idg", "tree": "right"}, "tree='right' is neither .* did you mean 'right-branching'"),
        ({"metod": "ig"}, "metod: not an option of any method; some of them take .* did you mean 'method'"),
    ]:
        with pytest.raises(pl.PathlensError, match=words):
            pl.explain(models.classifier("bert"), TEXTS[0], **choices)
    for choices, words in [
        ({"topp": 2}, "did you mean 'top'"),
        ({"chunks": True}, "did you mean 'chunk'"),
        ({"onesided": True, "method": "ij"}, "did you mean 'one_sided'"),
        ({"similarity": "cos"}, "did you mean 'cosine'"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            pl.rank(models.encoder("bert"), TEXTS[0], TEXTS[1:], **choices)


@pytest.mark.parametrize("word", ["none", "Empty", "blank", "random", "neutral"])
def test_words_for_a_kind_of_baseline_are_not_read_as_english(word):
    with pytest.raises(pl.InputError, match="zero .* mean .* mask, pad") as caught:
        pl.explain(models.classifier("bert"), TEXTS[0], baseline=word)
    assert repr((word,)) in str(caught.value), "how to ask for the word itself"
    with pytest.raises(pl.InputError, match="did you mean 'similarity'"):
        pl.explain(models.encoder(), *TEXTS[:2], simlarity="dot")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("basline", "baseline"),
        ("tolerence", "tolerance"),
        ("max_node", "max_nodes"),
        ("unt", "unit"),
        ("dtyp", "dtype"),
    ],
)
def test_a_slip_in_everyones_options_is_named_too(slip, meant):
    with pytest.raises(pl.InputError, match=f"did you mean '{meant}'"):
        pl.explain(models.classifier("bert"), TEXTS[0], **{slip: 1})


def test_wrong_values_are_refused_by_the_record_itself():
    for make, words in [
        (lambda: pl.SIG(context="left"), 'must be "full" \\(the paper\\) or "prefix"'),
        (lambda: pl.UDIG(steps=0), "steps must be a whole number of at least 1"),
        (lambda: pl.DIG(strategy="grid"), '"greedy" or "maxcount", got .grid.'),
        (lambda: pl.IG(path="zigzag"), '"line", "dig" or "udig"'),
        (lambda: pl.IG(steps=3), "add path='udig'"),
        (lambda: pl.IH(path="dig"), "straight line only"),
        (lambda: pl.IH(interaction_index=1, pairs=[(0, 1)]), "not both"),
        (lambda: pl.IJ(similarity="euclid"), '"cosine" or "dot"'),
        (lambda: pl.IJ(similarity="dot", norm="inside"), "for similarity='cosine'"),
        (lambda: pl.IG(coordinates="yes"), "coordinates must be True or False, got 'yes'"),
        (lambda: pl.UDIG(wae=1), "wae must be True or False, got 1"),
        (lambda: pl.VAIG(mode="sideways"), "whichever takes fewer products"),
    ]:
        with pytest.raises(pl.InputError, match=words):
            make()


class Stranger:
    """What no option takes."""


STRANGE = (
    *(
        3,
        -3,
        10**30,
        10**400,
        0.5,
        math.nan,
        math.inf,
        True,
        "x",
        "",
        b"x",
        1j,
        Stranger(),
        np.arange(3),
        torch.ones(2),
    ),
    *([], [1], ["a"], [None], [math.nan], [[1, 2]], [(0, "a")], (1,), (1, 2, 3), {}, {"a": 1}, {"a": (1, 2)}),
)
EVERY_RECORD = (
    *(*EVERYONES, *RECORDS.values(), AnswerOptions, LoadOptions, RunOptions, ExactOptions),
    *(kind for kind in kinds_of_options() if kind.__module__ == ModelOptions.__module__),
)


@pytest.mark.parametrize(
    ("record", "each"),
    [(record, each) for record in EVERY_RECORD for each in options_of(record)],
    ids=lambda value: value.__name__ if isinstance(value, type) else value.name,
)
def test_a_field_holds_what_its_annotation_says_or_refuses_it(record, each):
    for value in STRANGE:
        try:
            kept = getattr(record(**{each.name: value}), each.name)
        except pl.InputError as error:
            assert each.name in str(error)
        else:
            assert is_bearable(kept, each.type), f"{value!r} is taken for {each.type}"
            assert not isinstance(kept, float) or math.isfinite(kept) or each.type is Any, value


TAKES_ANYTHING = {  # options without a type of their own → the calls that look at them
    **dict.fromkeys(("target", "baseline", "unit"), ("classifier", "encoder", "pair", "table", "generator", "phrases")),
    "tree": ("phrases",),
    "interaction_index": ("interactions",),
    "pairs": ("interactions",),
    "cache": ("words",),
    **dict.fromkeys(("dtype", "device_map", "device"), ("built in", "classifier")),
}
ASKED = {
    "classifier": lambda: (models.classifier("bert"), TEXT, {}),
    "encoder": lambda: (models.encoder(), TEXT, {"method": "vaig", "n_steps": 2}),
    "pair": lambda: (models.encoder(), TEXT, {"text_b": TEXT, "n_steps": 2}),
    "table": lambda: (torch.nn.Linear(3, 2), torch.ones(3), {}),
    "generator": lambda: (models.generator(), TEXT, {}),
    "phrases": lambda: (models.classifier("bert"), TEXT, {"method": "idg", "n_steps": 2, "tree": "right-branching"}),
    "interactions": lambda: (models.classifier("bert"), TEXT, {"method": "ih", "n_steps": 2}),
    "words": lambda: (models.classifier("bert"), TEXT, {"method": "udig", "n_steps": 1, "steps": 3, "neighbours": 9}),
    "built in": lambda: ("sentiment", "Fine film.", {}),
}


def test_options_of_any_type_are_all_asked():
    known = {each.name for record in EVERY_RECORD for each in options_of(record) if each.type is Any}
    assert known == set(TAKES_ANYTHING)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in TAKES_ANYTHING.items() for call in calls])
def test_whatever_is_given_is_used_or_refused_in_our_words(name, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a cache may be a folder of any name
    model, text, choices = ASKED[call]()
    for value in STRANGE:
        with suppress(pl.PathlensError):
            pl.explain(model, text, **{**choices, name: value})


def test_a_tolerance_is_a_finite_number_and_hold_a_list_of_names():
    for value in (True, math.inf, math.nan, "1e-3", 0, -1):
        with pytest.raises(pl.InputError, match="tolerance must be a (finite|positive) number, got"):
            pl.explain(models.classifier("bert"), TEXT, tolerance=value)
    for method in ("vaig", "secant", None):
        with pytest.raises(pl.InputError, match="hold must be a text, a list of texts or None, got 3"):
            pl.explain(models.classifier("bert"), TEXT, method=method, hold=3)
    assert pl.VAIG(block="encoder.layer.0", hold=["hidden_states"]).hold == ("hidden_states",)
    assert pl.IH(pairs=np.array([[0, 1]])).pairs == [[0, 1]]


def test_every_method_has_a_record_and_a_line_in_the_table():
    assert list(RECORDS) == list(METHODS)
    for name, entry in METHODS.items():
        assert entry.record is RECORDS[name] and build(name) == RECORDS[name]()
        assert getattr(pl, RECORDS[name].__name__) is RECORDS[name]


def test_the_list_of_options_says_what_the_fields_say():
    listed = {each.name: each for each in options()}
    assert set(listed) == {each.name for record in RECORDS.values() for each in fields(record)}
    assert dict(listed["context"].takers) == {"sig": ("full", "prefix")}
    assert listed["steps"].type == int | None and (listed["steps"].least, listed["steps"].most) == (1, 10_000)
    for each in listed.values():
        assert each.help.endswith((".", "…")) and each.takers
        assert all(each.name in METHODS[name].options for name in each.takers)


# ---------------------------------------------------------------- coordinates of larger units


@pytest.mark.parametrize("unit", ["word", "sentence", [(0, 21), (22, 33)]], ids=str)
@pytest.mark.parametrize("method", ["ig", "sig"])
def test_a_units_coordinates_are_the_sum_of_its_tokens(method, unit):
    how = {"method": method, "coordinates": True, "tolerance": 1e-3, "target": 1}
    result = pl.explain(models.classifier("bert"), TEXT, unit=unit, **how)
    assert result.coordinates.shape == (len(result.tokens), 32)
    assert np.allclose(result.coordinates.sum(1), result.scores, atol=1e-12)
    assert len(result.certificate.error_estimate) == len(result.tokens) and result.certificate.converged
    if method == "ig":
        tokens = pl.explain(models.classifier("bert"), TEXT, **how)
        for (low, high), special, row in zip(result.offsets, result.special, result.coordinates, strict=True):
            inside = [k for k, (a, b) in enumerate(tokens.offsets) if low <= a and b <= high and a < b]
            if not special:
                assert np.allclose(tokens.coordinates[inside].sum(0), row, atol=1e-9)


@pytest.mark.parametrize(
    "text", ["Not really funny. But moving it was.", "I did not like it. Not at all!", "Well made. But why?"]
)
def test_an_integral_by_coordinate_goes_on_until_its_units_have_settled(text):
    """Each of a sentence's tokens may be near enough and the sentence not."""
    result = pl.explain("sentiment", text, method="ig", unit="sentence", coordinates=True, check=False)
    assert result.certificate.converged


@pytest.mark.parametrize("context", ["full", "prefix"])
@pytest.mark.parametrize("unit", ["token", "word"])
def test_n_steps_of_sig_by_coordinate_are_nodes_of_every_unit(context, unit):
    """However long a token's own way is: its line is its own integral."""
    how = {"method": "sig", "coordinates": True, "context": context, "unit": unit, "target": 1}
    result = pl.explain(models.classifier("bert"), TEXT, n_steps=10, tolerance=1.0, **how)
    assert result.certificate.nodes == 10 * (len(result.tokens) - 2)  # all but [CLS] and [SEP]
    case = load(models.classifier("bert")).case(TEXT, request=Request(target=1))
    nodes, line = gauss(10), {"full": case.ends.end, "prefix": case.ends.start}[context]
    moved = [k for k, (a, b) in enumerate(case.offsets) if result.offsets[1][0] <= a < b <= result.offsets[1][1]]
    start, end = line.clone(), line.clone()
    start[moved], end[moved] = case.ends.start[moved], case.ends.end[moved]
    shares = torch.zeros(end.shape, dtype=torch.float64)
    for t, weight in zip(nodes.t, nodes.weight, strict=True):
        point = torch.lerp(start, end, float(t)).requires_grad_()
        (slope,) = torch.autograd.grad(case.score(point[None], [case]).sum(), point)
        shares += weight * slope.double() * (end - start).double()
    assert np.allclose(result.coordinates[1], shares[moved].sum(0), atol=1e-7)


def test_coordinates_of_a_pair_go_by_unit_too():
    how = {"coordinates": True, "n_steps": 4, "tolerance": 1.0}
    model, a, b = models.encoder(), "the movie was bad . it was great .", "i was a man !"
    result = pl.explain(model, a, b, unit="sentence", **how)
    assert result.coordinates.shape == (len(result.tokens_a), 32, len(result.tokens_b), 32)
    assert np.allclose(result.coordinates.sum((1, 3)), result.matrix, atol=1e-5)
    tokens = pl.explain(model, a, b, **how)
    assert np.isclose(tokens.matrix.sum(), result.matrix.sum(), atol=1e-6)


# ---------------------------------------------------------------- a result says how it was made


@pytest.mark.parametrize(
    "how",
    [
        {"target": "LABEL_1", "score": "prob"},
        {"baseline": "the plot"},
        {"baseline": ["pad", "zero"]},
        {"method": pl.UDIG(steps=3, neighbours=9), "layer": 0},
        {"method": "ig", "path": "dig", "steps": 3, "neighbours": 9},
        {"method": "sig", "context": "prefix"},
        {"layer": 1},
        {"n_steps": 3, "rule": "left"},
        {"rule": "midpoint", "max_nodes": 40},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
def test_a_saved_result_is_opened_as_it_was_made(how, tmp_path):
    model = models.classifier("bert")
    whole = pl.load(pl.explain(model, TEXT, unit="sentence", tolerance=1e-3, **how).save(tmp_path / "whole.json"))
    near = zoom(model, whole, [2])
    assert (near.target, near.method, near.meta["baseline"]) == (whole.target, whole.method, whole.meta["baseline"])
    assert near.meta["chosen"] == {**whole.meta["chosen"], "baselines": near.meta["chosen"]["baselines"]}
    assert len(near.tokens) > len(whole.tokens)
    if near.method != "sig":  # a prefix of tokens is another path
        assert np.isclose(near.scores.sum(), whole.scores.sum(), atol=4 * whole.certificate.bound)
    if "rule" in how:  # the same nodes: sums that are off are off by the same
        assert np.isclose(near.scores.sum(), whole.scores.sum(), atol=1e-5)


def test_a_text_that_was_cut_is_opened_cut():
    short = copy.deepcopy(models.tokenizer())
    short.model_max_length = 24
    model, encoder = (models.classifier("bert")[0], short), (models.encoder()[0], short)
    long = TEXT + " the movie was great ." * 20
    whole = pl.explain(model, long, unit="sentence", truncation=True, tolerance=1e-2)
    near = zoom(model, whole, [1])
    assert whole.meta["truncated"] and near.meta["truncated"]
    assert len(near.tokens) > len(whole.tokens) and near.offsets[-2] == whole.offsets[-2]
    pair = pl.explain(encoder, long, TEXT, unit="sentence", truncation=True, n_steps=4, tolerance=1.0)
    opened = zoom(encoder, pair, a=[1])
    assert len(opened.tokens_a) > len(pair.tokens_a)
    assert np.isclose(opened.full_matrix.sum(), pair.full_matrix.sum(), atol=1e-5)


def test_a_model_where_the_result_belongs_is_refused():
    model = models.classifier("bert")
    whole = pl.explain(model, TEXT, unit="sentence", tolerance=1e-2)
    with pytest.raises(pl.InputError, match="tuple has none; the model comes first"):
        zoom(whole, model, [1])
    with pytest.raises(pl.InputError, match="opens the units of a result, and str has none"):
        zoom(model, TEXT, [1])


def test_an_answers_span_is_opened_as_it_was_asked():
    model = models.answerer()
    whole = pl.explain(model, "who was it ?", TEXT, unit="sentence", target="start", tolerance=1e-2)
    near = zoom(model, whole, [1])
    assert near.target == whole.target and len(near.tokens) > len(whole.tokens)
