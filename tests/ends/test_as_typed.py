"""Python as people type it: whatever holds texts, targets of each, results that behave like what they look like."""

import csv
import re
from copy import deepcopy

import numpy as np
import pandas
import pyarrow
import pytest
import torch

import pathlens as pl
from pathlens.text.language import choose_label
from pathlens.text.load import load
from tests.support import models
from tests.support.models import TEXTS

MANY = ["this movie was great", "not bad", "a great movie !"]


def bert():
    return models.classifier("bert")


@pytest.fixture(scope="module")
def pair():
    return bert()


def column(texts):
    import datasets

    return datasets.Dataset.from_dict({"text": texts})["text"]


@pytest.mark.parametrize(
    "held",
    [
        list,
        tuple,
        iter,
        np.array,
        pandas.Series,
        column,
        lambda texts: np.array(texts, dtype=object),
        pyarrow.array,
        lambda texts: pyarrow.chunked_array([texts[:1], texts[1:]]),
    ],
)
def test_whatever_holds_texts_gives_a_result_for_each(pair, held):
    results = pl.explain(pair, held(MANY), n_steps=2, tolerance=1)
    assert isinstance(results, pl.Results) and [each.text for each in results] == MANY
    table = pl.evaluate(pair, held(MANY), methods=["gradient-x-input"], labels=held(["0"] * len(MANY)), draws=10)
    assert table.texts == len(MANY)
    with pytest.raises(pl.InputError, match=r"one text.*pl\.evaluate"):
        pl.compare(pair, held(MANY), methods=["ig", "sig"])


def test_an_array_around_one_text_is_one_text(pair):
    for one in (np.array("not bad"), np.array("not bad", dtype=object)):
        assert pl.explain(pair, one, n_steps=2, tolerance=1).text == "not bad"


def test_a_model_is_not_loaded_as_a_result_and_that_is_said(tmp_path):
    with pytest.raises(pl.StoreError, match=r"cannot read 'sentiment'.*pl\.explain\('sentiment', text\)"):
        pl.load("sentiment")
    with pytest.raises(pl.StoreError) as refused:
        pl.load(tmp_path / "none.json")
    assert "pl.explain" not in str(refused.value)


def test_slips_are_seen_and_what_was_meant_is_named(pair):
    with pytest.raises(pl.InputError, match='swapped.*so sentiment and then "a lovely film"'):
        pl.explain("a lovely film", "sentiment")
    names = {0: "negative", 1: "positive"}
    with pytest.raises(pl.InputError, match="did you mean 'positive'"):
        choose_label("postive", names, 0)
    with pytest.raises(pl.InputError, match="did you mean 'ig'"):
        pl.evaluate(pair, ["not bad"], methods=["igg"])
    with pytest.raises(pl.InputError, match=r"got \['ig', 'sig'\]; pl\.compare\("):
        pl.explain(pair, "not bad", method=["ig", "sig"])


def test_what_a_generator_writes_is_its_prediction():
    model = load(models.generator())
    written, given = (pl.explain(model, "a great", score="logprob", **more) for more in ({}, {"target": " movie"}))
    assert (
        written.prediction
        and written.prediction == written.meta["outputs"][0]
        and written.prediction.strip() in written.headline
    )
    assert given.prediction == "", "it was given, not predicted"
    for result in (written, given):
        assert "% likely" in repr(result) and "baseline alone" not in repr(result)
    vector = pl.explain(model, "a great", method="vaig", n_steps=2, tolerance=1)
    assert "likely" not in vector.headline + repr(vector), "a length is no probability"
    two = pl.explain(model, "a great", generate=2)
    assert two.output(0).headline.startswith(f"“{two.outputs[0].strip()}” is ")


def test_a_comparison_is_a_table_too(pair, tmp_path):
    study = pl.compare(pair, TEXTS[1], methods=["ig", "sig"], n_steps=2, tolerance=1)
    assert isinstance(study, pl.Comparison)
    frame = study.to_dataframe()
    assert list(frame.columns) == ["unit", "ig", "sig"] and np.array_equal(frame[["ig", "sig"]], study.values)
    assert study.to_csv(tmp_path / "c.csv").read_text().startswith("unit,ig,sig\n")


def test_an_entry_is_asked_for_by_number(pair):
    result = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1)
    assert result[0] == next(iter(result)) and result[1:3] == list(result)[1:3]
    with pytest.raises(pl.InputError, match=r"entries are numbered: result\[0\].*e\[0\] == 'great'"):
        result["great"]


def test_a_missing_text_is_named_by_its_place(pair):
    with pytest.raises(pl.InputError, match="text 1: text must be a string, got float"):
        pl.explain(pair, pandas.Series(["good", float("nan")]), n_steps=2)


def test_numbers_are_one_row_of_a_table_not_many_texts():
    module = torch.nn.Linear(3, 1)
    for row in (np.array([1.0, 2.0, 3.0]), pandas.Series([1.0, 2.0, 3.0]), (1.0, 2.0, 3.0)):
        assert len(pl.explain(module, row).scores) == 3


def test_a_whole_table_is_not_taken_for_its_column_names(pair):
    import datasets

    for table in (pandas.DataFrame({"review": MANY}), datasets.Dataset.from_dict({"review": MANY})):
        with pytest.raises(pl.InputError, match="column with the texts.*'review'"):
            pl.explain(pair, table)


def test_one_target_per_text(pair):
    labels = [pl.explain(pair, text, n_steps=2, tolerance=1).prediction for text in MANY]
    names = list(pl.explain(pair, MANY[0], n_steps=2, tolerance=1).probabilities)
    asked = [names[0], names[1], names[0]]
    results = pl.explain(pair, MANY, target=asked, n_steps=2, tolerance=1)
    for result, text, target in zip(results, MANY, asked, strict=True):
        alone = pl.explain(pair, text, target=target, n_steps=2, tolerance=1)
        assert result.target == alone.target and result.text == text
        assert np.allclose(result.scores, alone.scores, atol=1e-6)
    mixed = pl.explain(pair, MANY, target=[None, names[0], None], n_steps=2, tolerance=1)
    assert mixed[0].target.startswith(labels[0]) and mixed[1].target.startswith(names[0])
    for kind in (np.array, pandas.Series, tuple, iter, column, pyarrow.array):
        again = pl.explain(pair, MANY, target=kind(asked), n_steps=2, tolerance=1)
        assert [each.target for each in again] == [each.target for each in results]
    with pytest.raises(pl.InputError, match="3 texts and 2 targets"):
        pl.explain(pair, MANY, target=names[:2], n_steps=2)


def test_results_stay_results(pair, tmp_path):
    results = pl.explain(pair, MANY, n_steps=2, tolerance=1)
    again = pl.load(results.save(tmp_path / "r.json"))
    for several in (again, results + again, results[:2], results.copy()):
        assert isinstance(several, pl.Results) and several.to_csv().startswith("result,text,prediction,target,token")
        table = several.to_dataframe().drop_duplicates("result")
        assert list(table["text"]) == [each.text for each in several]
        assert list(table["prediction"]) == [each.prediction for each in several]
    assert (results + again).to_csv() == pl.Results([*results, *results]).to_csv()
    compared = pl.compare(pair, MANY[0], methods=["ig", "sig"], n_steps=2, tolerance=1)
    assert isinstance(pl.load(compared.save(tmp_path / "c.json")), pl.Results)
    with pytest.raises(TypeError):
        results + "another"


def test_what_the_model_says_is_on_the_result_and_is_kept(pair, tmp_path):
    model, tokenizer = pair
    result = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, baseline="pad")
    with torch.no_grad():
        shares = model(**tokenizer(TEXTS[1], return_tensors="pt")).logits[0].softmax(-1)
    assert np.allclose(list(result.probabilities.values()), shares.numpy(), atol=1e-6)
    assert result.prediction == model.config.id2label[int(shares.argmax())]
    logit = result.certificate.f_baseline  # the softmax of two logits, of which the certificate has one
    start = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, baseline="pad", score="prob", target=result.prediction)
    assert result.baseline_probabilities[result.prediction] == pytest.approx(start.certificate.f_baseline, abs=1e-6)
    assert np.isfinite(logit) and sum(result.baseline_probabilities.values()) == pytest.approx(1)
    again = pl.load(result.save(tmp_path / "r.json"))
    assert (again.text, again.prediction, again.headline) == (TEXTS[1], result.prediction, result.headline)
    assert again.probabilities == result.probabilities
    deeper = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, baseline="pad", layer=1, target=0)
    assert deeper.baseline_probabilities == pytest.approx(result.baseline_probabilities, abs=1e-5)
    assert deeper.probabilities == pytest.approx(result.probabilities, abs=1e-5)
    several = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, baseline=["pad", "zero"])
    other = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, baseline="zero").baseline_probabilities
    mean = {name: (share + other[name]) / 2 for name, share in result.baseline_probabilities.items()}
    assert several.baseline_probabilities == pytest.approx(mean)


def test_the_headline_says_prediction_and_baseline_in_words(sentiment):
    result = pl.explain(sentiment, "Not really funny, but moving.", method="secant")
    assert result.headline == "predicted positive, 81.2 % (from the baseline alone: positive, 94.5 %)"
    assert any("baseline itself says positive (94.5 %)" in note for note in result.meta["notes"])
    sure = pl.explain(sentiment, "A dull and lifeless mess.", method="secant")
    assert sure.prediction == "negative" and not any("baseline itself" in note for note in sure.meta["notes"])


def test_a_baseline_that_has_the_answer_already_is_said_however_sure_the_text_is(sentiment):
    """The text is surer than its baseline here; the hint's figures are those of the baselines it names."""
    result = pl.explain(sentiment, "a lovely film", method="secant")
    assert result.probabilities["positive"] > result.baseline_probabilities["positive"] > 0.5
    (note,) = [note for note in result.meta["notes"] if "baseline itself says positive" in note]
    least = pl.explain(sentiment, "a lovely film", method="secant", baseline="unk").baseline_probabilities["positive"]
    assert (
        f"'unk' is least sure, {100 * least:.3g} %" in note
        and "give as the baseline a text that the model calls something else" in note
    )


def test_the_hint_names_a_baseline_that_says_something_else(pair):
    """The classifier is turned until its baselines disagree; whatever is named must do what the note says of it."""
    model, tokenizer = deepcopy(bert())  # its weights are changed, and others share it
    with torch.no_grad():
        points = [pl.explain((model, tokenizer), "great movie", baseline=b, n_steps=2, tolerance=1, target=0).certificate.f_baseline
                  for b in ("mask", "unk")]  # fmt: skip
        model.classifier.bias[0] -= sum(points) / 2  # between the two: one says class 0, the other does not
        model.classifier.weight[1:].zero_()
        model.classifier.bias[1:].zero_()
    named = 0
    for baseline in ("mask", "unk"):
        result = pl.explain((model, tokenizer), "great movie", baseline=baseline, n_steps=2, tolerance=1)
        for note in result.meta["notes"]:
            if matches := re.search(r"From '(\w+)' it says (\S+) \(.*try '(\w+)' as the baseline", note):
                there = pl.explain((model, tokenizer), "great movie", baseline=matches[1], n_steps=2, tolerance=1)
                start = there.baseline_probabilities
                assert matches[1] == matches[3] and max(start, key=start.get) == matches[2] != result.prediction
                named += 1
    assert named == 1  # one of the two baselines says what the text says, the other does not


def test_the_hint_follows_the_weights(pair):
    """What was measured of other baselines is forgotten when a weight changes."""
    model, tokenizer = deepcopy(bert())  # its weights are changed, and others share it
    one = load((model, tokenizer))
    (before,) = one.says([pl.Explainer(one).prepare("great").cases[0]])
    with torch.no_grad():
        model.classifier.bias.add_(torch.tensor([3.0] + [0.0] * (len(model.classifier.bias) - 1)))
    (after,) = one.says([pl.Explainer(one).prepare("great").cases[0]])
    (fresh,) = load((model, tokenizer)).says([pl.Explainer((model, tokenizer)).prepare("great").cases[0]])
    assert after.others == fresh.others and (not before.others or before.others != after.others)


def test_an_unsure_model_says_so(pair):
    model, _ = pair
    with torch.no_grad():
        before = model.classifier.weight.clone(), model.classifier.bias.clone()
        for part in (model.classifier.weight, model.classifier.bias):
            part.mul_(1e-3)  # logits that differ by next to nothing
        torn = pl.explain(pair, "great", n_steps=2, tolerance=1)
        for part, value in zip((model.classifier.weight, model.classifier.bias), before, strict=True):
            part.copy_(value)
    (note,) = [note for note in torn.meta["notes"] if note.startswith("the model is unsure")]
    assert torn.prediction in note


def test_an_unknown_token_is_said(sentiment):
    notes = pl.explain(sentiment, "Fine \N{SLIGHTLY SMILING FACE}.", method="secant").meta["notes"]
    assert any("'\N{SLIGHTLY SMILING FACE}'" in note and "[UNK]" in note for note in notes)
    assert not any("[UNK]" in note for note in pl.explain(sentiment, "Fine [UNK].", method="secant").meta["notes"])


def test_models_without_classes_predict_nothing_in_words(minilm):
    result = pl.explain(minilm, "A man plays.", "Music.", method="secant")
    assert (result.prediction, result.probabilities) == ("", {}) and result.headline.startswith("cosine similarity")
    assert result.text == ("A man plays.", "Music.")


def test_results_are_read_like_lists_of_what_they_hold(pair, tmp_path):
    result = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1)
    assert len(result) == len(result.tokens) and dict(result)[result.tokens[1]] == result.scores[1]
    assert result[1] == (result.tokens[1], result.scores[1]) and result[-1:] == list(result)[-1:]
    with open(result.to_csv(tmp_path / "r.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == result.scores.tolist() and result.to_csv().startswith("token,")
    matrix = pl.explain(pair, TEXTS[1], method="ih", n_steps=2, tolerance=1)
    assert len(matrix) == len(matrix.tokens) ** 2 and matrix[1][2] == matrix.matrix[0, 1]


def test_the_difference_of_two_results_adds_up_to_the_difference_of_their_changes(pair):
    for choices in ({}, {"method": "ih"}):
        one, two = (pl.explain(pair, TEXTS[1], target=k, tolerance=1e-2, **choices) for k in (0, 1))
        less = one - two
        change = [each.certificate.f_input - each.certificate.f_baseline for each in (one, two)]
        assert np.allclose(less.scores, one.scores - two.scores)
        assert less.scores.sum() == pytest.approx(change[0] - change[1], abs=less.certificate.bound)
        assert less.certificate.converged and "−" in less.target and not less.prediction
    long = " ".join([TEXTS[1]] * 4)
    for other, excerpt in (
        (pl.explain(pair, TEXTS[1], tolerance=1), "Interactions and Explanation"),
        (pl.explain(pair, long, method="ih", n_steps=2, tolerance=1), f"{len(one)} and "),
        (7, "Interactions and int"),
    ):
        with pytest.raises(pl.InputError, match="same text with the same unit") as refused:
            one - other
        line = str(refused.value)
        assert "\n" not in line and len(line) < 160 and repr(one) not in line
        assert excerpt in line.replace(f"{len(one.tokens)} and ", f"{len(one)} and ")


def test_a_difference_of_exact_differences_is_exact_too(pair):
    """SIG has no common sum, and so has none to miss."""
    one, two = (pl.explain(pair, TEXTS[1], target=k, method="sig") for k in (0, 1))
    less = one - two
    assert less.certificate.kind == "per token" and less.settled and less.altered == ""


SUBTRACTED = {  # kind -> the model, what is asked of it in common, and what tells the two apart
    "PairExplanation": (models.encoder, ("a great movie", "this movie was great"), {}, "baseline", ("mask", "zero")),
    "VectorExplanation": (bert, ("a great movie",), {"method": "vaig"}, "baseline", ("mask", "zero")),
    "Continuation": (models.generator, ("a great",), {"target": " movie was"}, "baseline", ("zero", "mean")),
}


@pytest.mark.parametrize("kind", SUBTRACTED)
def test_every_kind_has_a_difference_that_adds_up(kind, tmp_path, capsys):
    make, texts, common, name, values = SUBTRACTED[kind]
    model = load(make())
    one, two = (pl.explain(model, *texts, **common, **{name: value}, tolerance=1e-2) for value in values)
    assert type(one).__name__ == kind
    less = one - two
    assert less.altered == "" and less.settled and less.certificate.kind == one.certificate.kind
    assert less.headline.startswith("difference: baseline ") and not less.check
    if kind == "PairExplanation":
        assert np.array_equal(less.full_matrix, one.full_matrix - two.full_matrix)
        assert less.full_matrix.sum() == pytest.approx(one.similarity - two.similarity, abs=less.certificate.bound)
    elif kind == "VectorExplanation":
        ends = [each.f_input - each.f_baseline for each in (one, two)]
        assert np.abs(ends[0] - ends[1]).max() > 10 * less.certificate.bound, "two alike test nothing"
        assert np.linalg.norm(less.vectors.sum(1) - (ends[0] - ends[1])) <= less.certificate.bound
    else:
        columns = [[each.f_input - each.f_baseline for each in result.certificates] for result in (one, two)]
        bounds = max(each.bound for each in less.certificates)
        assert less.matrix.sum(0) == pytest.approx(np.subtract(*columns), abs=bounds)
        shown = less.to_html()
        assert (
            "at the baseline" not in shown.partition("</style>")[2].partition("<script")[0]
            and "more in baseline zero" in shown
        )
    assert pl.load(less.save(tmp_path / "less.json")).altered == ""
    less.show()
    assert "difference" in capsys.readouterr().out
    with pytest.raises(pl.InputError, match="same unit"):
        one - pl.explain(model, "not bad", *texts[1:], **common, tolerance=1)
    with pytest.raises(pl.InputError, match="same unit"):
        one - 3


def test_a_kind_without_a_difference_says_what_to_subtract(pair):
    one, two = (pl.explain(pair, TEXTS[1], method="idg", tree="right-branching", target=k, tolerance=1) for k in (0, 1))
    with pytest.raises(pl.InputError, match="PhraseTree have no difference that adds up; .*method='ig'"):
        one - two


def test_many_results_are_shown_tabled_and_put_on_a_page(pair, tmp_path, capsys):
    results = pl.explain(pair, MANY, n_steps=2, tolerance=1)
    results.show()
    shown = capsys.readouterr().out
    assert all(text in shown for text in MANY)
    frame = results.to_dataframe()
    assert len(frame) == sum(map(len, results)) and set(frame["result"]) == {0, 1, 2}
    page = results.to_html(tmp_path / "all.html")
    assert page == tmp_path / "all.html" and all(text in page.read_text("utf-8") for text in MANY)
    assert [each.text for each in pl.load(page)] == MANY
    assert isinstance(results[1:], pl.Results) and len(repr(results)) < 400 and results.to_csv().count("result,") == 1


def test_reprs_are_short_and_say_what_was_found(pair):
    for choices in ({}, {"method": "ih"}, {"method": "vaig"}, {"method": "idg"}):
        result = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1, **choices)
        assert len(repr(result)) < 300 and repr(TEXTS[1]) in repr(result) and "\n" not in repr(result)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"baseline": "Mask"}, "did you mean 'mask'"),
        ({"baseline": "PAD"}, "did you mean 'pad'"),
        ({"baseline": "mask "}, "did you mean 'mask'"),
        ({"method": "IG"}, "did you mean 'ig'"),
        ({"method": "udgi"}, "did you mean 'udig'"),
        ({"tolerence": 1}, "did you mean 'tolerance'"),
        ({"nsteps": 1}, "n_steps"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(pair, choices, words):
    with pytest.raises(pl.InputError, match=re.escape(words)):
        pl.explain(pair, "great", **choices)


def test_the_word_mask_can_still_be_a_baseline(sentiment):
    assert pl.explain(sentiment, "great", baseline=("mask",), method="secant").meta["baseline"] == "text: mask"


def test_a_device_is_chosen_by_name(sentiment):
    there = load("sentiment", device="meta")
    assert {p.device.type for p in there.module.parameters()} == {"meta"}
    assert there.network.device.type == "meta" and sentiment.network.device.type == "cpu"
    assert there.network.embed(torch.tensor([1, 2])).device.type == "meta"
    here = pl.explain("sentiment", "great", device="cpu", method="secant")
    assert here.prediction == "positive"
    for wanted in ("gpu", "cuda:99" if torch.cuda.is_available() else "cuda"):
        with pytest.raises((pl.InputError, RuntimeError), match="device"):
            load("sentiment", device=wanted)
    with pytest.raises(pl.InputError, match="loaded already"):
        load(bert(), device="cpu")


@pytest.mark.parametrize("slip, meant", [("masks", "mask"), ("masked", "mask"), ("pads", "pad"), ("quite", "quiet")])
def test_a_baseline_almost_spelt_is_no_english_word(slip, meant):
    with pytest.raises(pl.InputError, match=f"did you mean '{meant}'"):
        pl.explain("sentiment", "A lovely film.", baseline=slip)


def test_several_methods_as_people_write_them():
    asked = [
        {"methods": "ig, sig"},
        {"method": ["ig", "sig"]},
        {"methods": ("ig", "sig")},
        {"methods": [pl.IG(), "sig"]},
    ]
    for names in asked:
        study = pl.compare(models.classifier("bert"), "a fine film", **names, n_steps=2, tolerance=1)
        assert [result.method for result in study.results] == ["ig", "sig"]


def test_everyones_options_are_what_everyone_takes():
    """An option that only one method takes is not listed as everyone's, and a slip in it is still seen."""
    with pytest.raises(pl.InputError, match="did you mean 'tolerance'") as refused:
        pl.explain("sentiment", "A lovely film.", tolerence=3)
    everyones = str(refused.value).partition("everyone's (")[2].partition(")")[0].split(", ")
    named = {"target", "baseline", "layer", "tolerance", "method", "device", "dtype", "device_map", "pooling"}
    assert named <= set(everyones) and not {"tree", "steps", "cache"} & set(everyones)


def test_the_rooms_behind_the_door_show_what_can_be_written():
    assert (
        {"explain", "studies", "models"} <= set(dir(pl))
        and {"whatif", "pathview"} <= set(dir(pl))
        and {"whatif", "layers", "nodes"} <= set(pl.studies.__all__)
    )
    assert pl.whatif is pl.studies.whatif
    with pytest.raises(AttributeError, match="did you mean 'whatif'"):
        pl.whatiff  # noqa: B018


def test_options_given_to_a_call_are_sent_where_they_belong(pair):
    explain = pl.Explainer(pair, n_steps=2, tolerance=1)
    with pytest.raises(
        pl.InputError, match=r"^target: .*pl\.Explainer\(model, target=…\) or to pl\.explain\(model, text, target=…\)$"
    ):
        explain(MANY[:2], target=["0"])
    with pytest.raises(pl.InputError, match="^metod: .*belong to .*did you mean 'method'"):
        explain("not bad", metod="ig")
    with pytest.raises(pl.InputError, match="did you mean 'show_progress'"):
        explain("not bad", show_progres=True)


def test_lists_of_results_are_not_subtracted_but_their_entries_are(pair):
    one, other = (pl.explain(pair, MANY[:2], n_steps=2, tolerance=1, layer=layer) for layer in (0, 1))
    with pytest.raises(pl.InputError, match=r"\[a - b for a, b in zip"):
        one - other
    with pytest.raises(pl.InputError, match="Explanation and Results"):
        one[0] - other
    assert len([a - b for a, b in zip(one, other, strict=True)]) == 2


def test_entries_are_asked_for_by_truth_values_and_by_several_numbers(pair):
    result = pl.explain(pair, TEXTS[1], n_steps=2, tolerance=1)
    strong = np.abs(result.scores) > np.abs(result.scores).mean()
    wanted = [entry for entry, keep in zip(result, strong, strict=True) if keep]
    assert 0 < len(wanted) < len(result)
    for mask in (strong, strong.tolist(), torch.tensor(strong), pandas.Series(strong)):
        assert result[mask] == wanted
    assert (
        result[np.array([2, -1])] == [result[2], result[-1]] and result[np.int64(2)] == result[2] and result[[]] == []
    )
    with pytest.raises(pl.InputError, match=f"entries are numbered.*got 2 truth values for {len(result)} entries"):
        result[np.array([True, False])]
    for place in (np.array([0.5]), 1.5, None, (0, 1), np.eye(len(result), dtype=bool)):
        with pytest.raises(pl.InputError, match="entries are numbered"):
            result[place]
    with pytest.raises(IndexError):
        result[[99]]
    results = pl.explain(pair, MANY, n_steps=2, tolerance=1)
    chosen = results[np.array([True, False, True])]
    assert isinstance(chosen, pl.Results) and [each.text for each in chosen] == [MANY[0], MANY[2]]
    with pytest.raises(pl.InputError, match="results are numbered.*'great'"):
        results["great"]


HALF = "good \ud83d film"


@pytest.mark.parametrize(
    "model", [bert, models.generator, models.encoder, pl.ToyModel], ids=["bert", "generator", "encoder", "toy"]
)
def test_half_a_character_is_named_by_its_place(model):
    line = r"is no valid text: character 5 \(from 0\) is '\\ud83d', half of a character"
    model = model()
    with pytest.raises(pl.InputError, match=f"^text {line}") as refused:
        pl.explain(model, HALF)
    assert "tokenizer" not in str(refused.value) and str(refused.value).encode()
    with pytest.raises(pl.InputError, match=f"^text 1: text {line}"):
        pl.explain(model, ["not bad", HALF], method="vaig", n_steps=2, tolerance=1)


def test_half_a_character_is_refused_wherever_a_text_is_taken(pair):
    for more in ({"target": HALF}, {"baseline": HALF}, {"text_b": HALF}):
        with pytest.raises(pl.InputError, match=f"^{next(iter(more))} is no valid text: character 5"):
            pl.explain(pair, "not bad", **more)
    with pytest.raises(pl.InputError, match="^passage 1 is no valid text"):
        pl.chat(user="why?", passages=[HALF])
    with pytest.raises(pl.InputError, match="^message 0 is no valid text"):
        pl.chat([{"role": "user", "content": HALF}])
    with pytest.raises(pl.InputError, match="^document 1 is no valid text"):
        pl.rank(models.encoder(), "not bad", ["good", HALF])
    mended = HALF.replace("\ud83d", "\ud83d\ude00").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert pl.explain(pair, mended, n_steps=2, tolerance=1).text == "good 😀 film", "the advice works"
