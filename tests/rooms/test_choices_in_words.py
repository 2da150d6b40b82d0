"""What a model chooses at one place of a text, in words: a tag, an answer, a word in a gap. Held against the model itself."""

from functools import cache

import pytest
import torch
import transformers as hf

import pathlens as pl
from pathlens.draw import page_of
from pathlens.explanation.base import percent
from tests.support import models

TEXTS = ["a great movie", "great film was bad", "a bad movie"]
QUESTION, PASSAGE = "was it great", "a great movie was bad and the film was great"
GAP = "a great [MASK] was bad"
NUL = {"baseline": "mask"}  # a text that can be written down, so the baseline's share is known from the model itself


@cache
def filler():
    torch.manual_seed(3)
    return models.sharpen(hf.AutoModelForMaskedLM.from_config(models.config("bert"))).eval(), models.tokenizer()


def output_at(pair, *texts, masked=()):
    """The user's own model, with [MASK] in place of some tokens."""
    model, tokenizer = pair
    ids = tokenizer(*texts, return_tensors="pt")
    row = ids["input_ids"][0]
    special = torch.tensor(tokenizer.get_special_tokens_mask(row.tolist(), already_has_special_tokens=True)).bool()
    if masked == "all":
        row[~special] = tokenizer.mask_token_id
    with torch.no_grad():
        return model(**ids), ids


@pytest.mark.parametrize("method", ["secant", "ig", "sig"])
def test_a_tagger_says_the_tag_of_the_token_that_is_asked_about(method):
    pair = models.tagger()
    names = pair[0].config.id2label
    for target in (None, (1, "O"), (3, "PER")):
        result = pl.explain(pair, TEXTS[0], target=target, method=method, tolerance=1, **NUL)
        place = int(result.target.split("at token ")[1].split()[0])
        here, there = (
            output_at(pair, TEXTS[0], masked=masked)[0].logits[0, place].softmax(-1) for masked in ((), "all")
        )
        assert list(result.probabilities.values()) == pytest.approx(here.tolist(), abs=1e-5)
        assert list(result.baseline_probabilities.values()) == pytest.approx(there.tolist(), abs=1e-5)
        assert result.prediction == names[int(here.argmax())], "what the model predicts, whatever is asked about"
        assert result.headline == (
            f"token '{result.tokens[place]}': predicted {result.prediction}, {percent(float(here.max()))} "
            f"(from the baseline alone: {names[int(there.argmax())]}, {percent(float(there.max()))})"
        )
        assert page_of(result).headline == result.headline and len(page_of(result).classes) == len(names)


def test_several_targets_and_texts_of_a_tagger_each_have_their_own_words(tmp_path):
    pair, targets = models.tagger(), [(1, "O"), (2, "PER"), (3, "LOC")]
    for target, result in zip(targets, pl.explain(pair, TEXTS[0], target=targets), strict=True):
        alone = pl.explain(pair, TEXTS[0], target=target)
        assert result.headline == alone.headline and result.headline.startswith(f"token '{result.tokens[target[0]]}': ")
    for text, result in zip(TEXTS, pl.explain(pair, TEXTS), strict=True):
        assert result.headline == pl.explain(pair, text).headline
        assert pl.load(result.save(tmp_path / "one.json")).headline == result.headline
    assert pl.pathview(pair, TEXTS[0], methods=["ig"]).headline == pl.explain(pair, TEXTS[0], method="ig").headline
    whole = pl.explain(pair, TEXTS[0], method="vaig", tolerance=1)
    assert not whole.prediction and not whole.probabilities, "all tags at once are no one token's"


def test_an_answer_is_as_likely_as_its_start_times_its_end():
    """As the usual pipeline has it: a softmax over the passage and [CLS], of each."""
    pair = models.answerer()
    tokenizer = pair[1]
    output, ids = output_at(pair, QUESTION, PASSAGE)
    segments = ids.sequence_ids(0)
    usable = [
        s == 1 or i == tokenizer.cls_token_id for s, i in zip(segments, ids["input_ids"][0].tolist(), strict=True)
    ]
    ends = []
    for out in (output, output_at(pair, QUESTION, PASSAGE, masked="all")[0]):
        rows = [
            torch.where(torch.tensor(usable), x[0], -torch.inf).softmax(-1) for x in (out.start_logits, out.end_logits)
        ]
        ends.append([float(v) for v in rows[0]] + [float(v) for v in rows[1]])
    count = len(usable)
    spans = [
        (ends[0][a] * ends[0][count + b], a, b)
        for a in range(count)
        for b in range(a, count)
        if segments[a] == segments[b] == 1
    ]
    share, a, b = max(spans)
    answer = PASSAGE[ids.token_to_chars(a).start : ids.token_to_chars(b).end]
    for target in (None, "start"):
        result = pl.explain(pair, QUESTION, PASSAGE, target=target, **NUL)
        assert result.prediction == answer and result.probabilities[answer] == pytest.approx(share, abs=1e-5)
        there = ends[1][a] * ends[1][count + b]
        assert result.baseline_probabilities[answer] == pytest.approx(there, abs=1e-5)
        assert result.headline == f"predicted “{answer}”, {percent(share)} (from the baseline alone: {percent(there)})"
        assert list(result.probabilities.values()) == sorted(result.probabilities.values(), reverse=True)


def test_a_gap_says_the_likeliest_word_and_the_one_that_is_explained():
    pair = filler()
    here, there = (output_at(pair, GAP, masked=masked)[0].logits[0, 3].softmax(-1).double() for masked in ((), "all"))
    words = pair[1].convert_ids_to_tokens
    best = words(int(here.argmax()))
    number = pair[1].convert_tokens_to_ids("film")
    assert best != "film", "the example is a word that is not the likeliest"
    result, given = pl.explain(pair, GAP, **NUL), pl.explain(pair, GAP, target="film", **NUL)
    for each in (result, given):
        assert each.prediction == best
        for name, share in each.probabilities.items():
            assert share == pytest.approx(float(here[pair[1].convert_tokens_to_ids(name)]), abs=1e-6)
            start = float(there[pair[1].convert_tokens_to_ids(name)])
            assert each.baseline_probabilities[name] == pytest.approx(start, abs=1e-6)
        assert {words(int(i)) for i in here.topk(5).indices} <= set(each.probabilities)
        assert not any("unsure" in note or "itself says" in note for note in each.origin.notes)
    start = percent(float(there[here.argmax()]))
    assert (
        result.headline
        == f"in the gap: predicted “{best}”, {percent(float(here.max()))} (from the baseline alone: {start})"
    )
    assert given.headline == (
        f"in the gap: predicted “{best}”, {percent(float(here.max()))}; “film” is {percent(float(here[number]))} likely "
        f"(from the baseline alone: {percent(float(there[number]))})"
    )
    two = pl.explain(pair, "a [MASK] [MASK] was bad", target=(3, "film"))
    assert two.headline.startswith("in the gap at token 3: predicted ")
    mean = pl.explain(pair, GAP, method="ig", baseline=["mask", "zero"], tolerance=1)
    each = [pl.explain(pair, GAP, method="ig", baseline=one, tolerance=1) for one in ("mask", "zero")]
    assert mean.baseline_probabilities[best] == pytest.approx(sum(r.baseline_probabilities[best] for r in each) / 2)


def test_a_name_that_two_tokens_share_stands_for_one_of_them():
    """The second is written as the tokenizer stores it."""
    pair = filler()
    model = pl.models.load(pair)
    model.tokenizer = Same(pair[1])
    shares = pl.explain(model, GAP).probabilities
    assert len(shares) == 5 and "same" in shares and sum(name != "same" for name in shares) == 4


class Same:
    """A tokenizer that reads every token to people as one word."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, *texts, **how):
        return self.inner(*texts, **how)

    def __len__(self):
        return len(self.inner)

    def decode(self, numbers, **how):
        return "same"


def zero_shot():
    torch.manual_seed(4)
    settings = models.config("bert", num_labels=3)
    settings.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    settings.label2id = {name: number for number, name in settings.id2label.items()}
    model = models.sharpen(hf.AutoModelForSequenceClassification.from_config(settings)).eval()
    whole = hf.pipeline("zero-shot-classification", model=model, tokenizer=models.tokenizer())
    whole._preprocess_params["candidate_labels"] = ["great", "bad movie"]
    return whole


ASKS = {
    "classifier": (lambda: models.classifier("bert"), TEXTS[:1], lambda result: result.target.split(" ")[0]),
    "tagger": (models.tagger, TEXTS[:1], lambda result: result.target.split(" ")[0]),
    "gap": (filler, [GAP], lambda result: result.origin.about.asked),
    "two gaps": (filler, ["a [MASK] [MASK] was bad"], lambda result: result.origin.about.asked),
    "zero-shot": (zero_shot, TEXTS[:1], lambda result: result.target.removesuffix(" (logit)")),
}


@pytest.mark.parametrize("kind", ASKS)
def test_a_record_says_what_asks_for_each_of_its_names(kind, tmp_path):
    make, texts, explained = ASKS[kind]
    model = pl.models.load(make())
    first = pl.explain(model, *texts, **({"target": (3, None)} if kind == "two gaps" else {}))
    kept = pl.load(first.save(tmp_path / "first.json"))
    assert set(first.origin.targets) == set(first.probabilities) == set(kept.origin.targets)
    for name, target in first.origin.targets.items():
        result = pl.explain(model, *texts, target=target)
        assert explained(result) == name
        assert result.probabilities[name] == pytest.approx(first.probabilities[name], abs=1e-6)
        pressed = [each for each, wanted in result.origin.targets.items() if wanted == result.origin.chosen["target"]]
        assert pressed == [name], "and which of them is explained"


def test_nothing_asks_for_a_name_where_all_are_explained_at_once_or_the_model_chooses():
    assert not pl.explain(models.classifier("bert"), TEXTS[0], method="vaig", tolerance=1).origin.targets
    answer = pl.explain(models.answerer(), QUESTION, PASSAGE)
    assert not answer.origin.targets and answer.origin.about.asked == answer.prediction


def test_a_record_says_how_far_an_edit_may_move_its_place():
    for target, end in (
        ((0, None), 0),
        ((2, None), len("a great")),
        ((4, None), len(TEXTS[0])),
    ):  # [CLS], a word, [SEP]
        assert pl.explain(models.tagger(), TEXTS[0], target=target).origin.about.end == end
    assert pl.explain(filler(), GAP).origin.about.end == len("a great")  # a gap has no characters of its own
