"""What users slip on is said in our words, not in a library's."""

from __future__ import annotations

import copy
import json

import pytest

import pathlens as pl
from pathlens.errors import InputError, StoreError
from pathlens.explanation.store import from_dict
from pathlens.text.load import load
from pathlens.text.options import HypothesisOptions
from tests.support import draw_samples, models


@pytest.mark.parametrize("sentence", ["{} or {}", "{} or {x}", "{} }", "{} {0}", "{} {.x}"])
def test_a_hypothesis_with_other_braces_is_refused(sentence):
    with pytest.raises(InputError, match="no other braces"):
        HypothesisOptions(hypothesis=sentence)
    HypothesisOptions(hypothesis="It is about {}.")


@pytest.mark.parametrize(
    "body",
    [
        {"pathlens": "1", "kind": "Explanation"},
        {"pathlens": 1, "kind": "Collection", "items": None},
        {"pathlens": 1, "kind": "Ranking", "hits": [1]},
        {"pathlens": 1, "kind": "Ranking", "hits": {}},
        {"pathlens": 1, "kind": ["a"]},
    ],
)
def test_a_damaged_file_is_a_store_error(tmp_path, body):
    file = tmp_path / "result.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(StoreError):
        pl.load(file)


def test_a_lost_byte_of_the_arrays_is_a_store_error(tmp_path):
    file = tmp_path / "result.json"
    draw_samples.long_pair(150).save(file)
    arrays = tmp_path / "result.safetensors"
    whole = arrays.read_bytes()
    assert pl.load(file).settled
    for broken in (whole[: len(whole) // 2], b"", bytes([whole[0] ^ 255]) + whole[1:], whole[:9] + b"?" + whole[10:]):
        arrays.write_bytes(broken)
        with pytest.raises(StoreError, match=r"result\.safetensors.* is damaged"):
            pl.load(file)
    arrays.write_bytes(whole)
    body = json.loads(file.read_text())
    file.write_text(json.dumps({**body, "arrays": 5}))
    with pytest.raises(StoreError, match="is damaged"):
        pl.load(file)


def test_a_lost_character_of_a_page_is_a_store_error(tmp_path):
    page = tmp_path / "result.html"
    draw_samples.long_pair(60).to_html(page)
    text = page.read_text(encoding="utf-8")
    at = text.index('"packed":"') + 40
    assert pl.load(page).settled
    for one in ("A" if text[at] != "A" else "B", '"', ""):
        page.write_text(text[:at] + one + text[at + 1 :], encoding="utf-8")
        with pytest.raises(StoreError, match=r"result\.html.* is damaged"):
            pl.load(page)


def places(value, path=()):
    """Every place in a file's values; of a list the first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    yield from (each for name, one in inside for each in ((*path, name), *places(one, (*path, name))))


def changed(body, path, change):
    body = copy.deepcopy(body)
    home = body
    for name in path[:-1]:
        home = home[name]
    change(home, path[-1])
    return body


def wrong(value):
    return lambda home, name: home.__setitem__(name, value)


CHANGES = {
    "a text": wrong("x"),
    "a number": wrong(5),
    "nothing": wrong(None),
    "a list": wrong([[1, "a"]]),
    "one less": lambda home, name: home.__setitem__(name, home[name][:-1]),
    "gone": lambda home, name: home.__delitem__(name),
}
SAMPLES = {
    "explanation": draw_samples.small,
    "pair": draw_samples.small_pair,
    "interactions": draw_samples.interactions,
    "vectors": draw_samples.block,
    "phrases": draw_samples.phrases,
    "continuation": draw_samples.continuation,
    "answer": draw_samples.answer,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", SAMPLES)
def test_an_edited_file_is_a_result_that_can_be_shown_or_is_damaged(kind, change):
    body = json.loads(json.dumps(SAMPLES[kind]().to_dict()))
    damaged, shown = 0, 0
    for path in places(body):
        try:
            edited = changed(body, path, CHANGES[change])
        except TypeError:  # a number has no last entry
            continue
        try:
            result = from_dict(edited, source="the file")
        except StoreError as error:
            assert path[0] in ("pathlens", "kind") or str(error).startswith("the file is damaged: "), (path, error)
            damaged += 1
            continue
        assert repr(result) and result.to_html() and result.to_csv(), path
        shown += 1
    assert damaged and shown


def test_a_mixed_adapter_is_opened():
    import peft

    model, tokenizer = models.classifier("bert")
    mixed = peft.PeftMixedModel(copy.deepcopy(model), peft.LoraConfig(target_modules=["query"])).eval()
    assert load((mixed, tokenizer)).kind == "sequence classification"
    result = pl.explain((mixed, tokenizer), "a good film", target=0, check=False)
    expected = mixed(**tokenizer("a good film", return_tensors="pt")).logits[0, 0].item()
    assert result.certificate.f_input == pytest.approx(expected, abs=1e-5)


def test_a_study_of_certain_methods_says_so_of_another():
    """It was Python's own "multiple values for keyword argument"."""
    model = models.classifier("bert")
    with pytest.raises(InputError, match="^a path is drawn for"):
        pl.pathview(model, models.TEXTS[0], method="sig")
    with pytest.raises(InputError, match=r"^method: .* leave method out$"):
        pl.softplus_curve(model, models.TEXTS[0], method="ig")
