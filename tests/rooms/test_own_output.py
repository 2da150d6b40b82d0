"""What is explained is the model's own output: from ids as a user calls it, alone and in a list, or not at all."""

from __future__ import annotations

import copy
import inspect
from functools import wraps

import numpy as np
import pytest
import torch
import transformers as hf
from transformers.modeling_outputs import SequenceClassifierOutput

import pathlens as pl
from pathlens.errors import InputError, ModelError
from pathlens.text.load import load
from tests.support import models, modular, sweep
from tests.support.models import TEXTS

PROMPT = "the movie was not really funny"


@pytest.mark.parametrize(
    "name, head",
    [
        ("bart", "classify"),  # needs ids to find its end
        ("bart", "answer"),
        ("t5", "classify"),
        ("pegasus", "translate"),  # scales what it looks up
        ("xlnet", "classify"),  # counts tokens first, and padding changes it
        ("fnet", "classify"),  # has no mask at all
        ("convbert", "tag"),
        ("esm", "fill"),  # does something else with masked ids
        ("mistral", "write"),  # sees only a window back
        ("mamba2", "write"),  # has no attention to mask
        ("mpt", "write"),
        ("roberta", "write"),  # counts positions from its padding id
    ],
)
def test_a_kind_equals_a_plain_loop_and_a_list_its_texts(name, head):
    row = sweep.examined(name, head)
    assert row.state == "holds", row


class Restless(hf.BertForSequenceClassification):
    """Says something else at every call."""

    calls = 0

    def forward(self, **inputs):
        self.calls += 1
        output = super().forward(**inputs)
        return SequenceClassifierOutput(logits=output.logits + self.calls)


def test_another_number_than_the_models_own_is_an_error_with_both():
    torch.manual_seed(7)
    pair = Restless(models.config("bert", num_labels=3)).eval(), models.tokenizer()
    with pytest.raises(
        ModelError, match=r"Restless itself gives -?[\d.]+ for this text, and what would be explained is -?[\d.]+"
    ):
        pl.explain(pair, TEXTS[0], target=1)


class Hidden(hf.BertForSequenceClassification):
    """Looks its words up where nobody sees it."""

    def forward(self, input_ids, attention_mask=None):
        rows = torch.nn.functional.embedding(input_ids, self.get_input_embeddings().weight)
        return super().forward(inputs_embeds=rows, attention_mask=attention_mask)


def test_a_model_that_is_not_entered_says_so():
    pair = Hidden(models.config("bert", num_labels=3)).eval(), models.tokenizer()
    with pytest.raises(ModelError, match="does not look its words up"):
        pl.explain(pair, TEXTS[0])


class Twice(hf.BertForSequenceClassification):
    """Reads the table a second time, where nobody sees it."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        known = super().forward(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        rows = torch.nn.functional.embedding(input_ids, self.get_input_embeddings().weight)
        return SequenceClassifierOutput(logits=known.logits + 50 * rows.mean((1, 2), keepdim=True)[:, 0])


class Counting(hf.BertForSequenceClassification):
    """Adds how often a word is there."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        known = super().forward(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return SequenceClassifierOutput(logits=known.logits + 5 * (input_ids > 10).sum(1, keepdim=True))


def reads_ids(result):
    return [note for note in result.origin.notes if note.startswith("this model takes more from the ids")]


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("baseline", ["mask", "mean", "zero", "great acting"])
@pytest.mark.parametrize("kind", [Twice, Counting, hf.BertForSequenceClassification])
def test_what_a_model_reads_of_its_ids_besides_their_rows_is_noted(kind, baseline, layer):
    """Of every text, and for every kind of baseline; where the baseline has ids, its output is another than theirs."""
    torch.manual_seed(7)
    module, tokenizer = models.sharpen(kind(models.config("bert", num_labels=3))).eval(), models.tokenizer()
    explainer = pl.Explainer((module, tokenizer), method="ig", n_steps=2, baseline=baseline, layer=layer, target=1)
    plain = kind is hf.BertForSequenceClassification
    for text in TEXTS[:2]:
        result = explainer(text)
        assert len(reads_ids(result)) == (0 if plain else 1)
        if baseline == "mask":
            inputs = tokenizer(text, return_tensors="pt")
            inputs["input_ids"][0, 1:-1] = tokenizer.mask_token_id
            with torch.no_grad():
                says = float(module(**inputs).logits[0, 1])
            assert (abs(result.certificate.f_baseline - says) < 1e-4) == plain


class Marked(hf.BertForSequenceClassification):
    """Adds how often its last word is there."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        known = super().forward(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        last = input_ids == self.config.vocab_size - 1
        return SequenceClassifierOutput(logits=known.logits + 5 * last.sum(1, keepdim=True))


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
def test_two_tokens_are_two_kinds_of_baselines_whatever_they_are_called():
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<mark:one>", "<mark:two>"]})
    torch.manual_seed(7)
    pair = Marked(models.config("bert", num_labels=3, vocab_size=len(tokenizer))).eval(), tokenizer
    model = load(pair)
    for baseline, noted in (("<mark:one>", 0), ("<mark:two>", 1)):
        assert len(reads_ids(pl.explain(model, TEXTS[0], baseline=baseline, method="ig", n_steps=2, target=1))) == noted


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    "name, head, baseline, noted",
    [
        ("gemma3n_text", "write", None, True),  # a table for every block
        ("gemma4_text", "write", None, True),
        ("mpnet", "classify", "unk", True),  # its padding stands at no position
        ("mpnet", "classify", None, False),
        ("gpt2", "write", None, False),
        ("llama", "write", "unk", False),
        ("t5", "translate", None, False),
        ("bert", "fill", None, False),
        ("bart", "classify", None, False),
        ("xlnet", "classify", None, False),
    ],
)
def test_kinds_that_read_their_ids_twice_are_noted_and_no_others(name, head, baseline, noted):
    pair = copy.deepcopy(sweep.build(name, head))
    for word, weight in pair[0].named_parameters():
        if word.endswith("altup.correct_output_scale"):  # 0 before training: then its tables for every block do nothing
            torch.nn.init.ones_(weight)
    asked = sweep.question(pair, head, sweep.TEXT)
    result = pl.explain(pair, *asked.texts, method="ig", n_steps=2, baseline=baseline, check=False, **asked.asked)
    assert bool(reads_ids(result)) == noted


def test_labels_that_do_not_exclude_each_other_have_a_sigmoid():
    model, tokenizer = models.classifier("bert")
    model = copy.deepcopy(model)
    model.config.problem_type = "multi_label_classification"
    whole = hf.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    printed = {each["label"]: each["score"] for each in whole([TEXTS[0]])[0]}
    for label, score in printed.items():
        result = pl.explain(whole, TEXTS[0], target=label, score="prob")
        assert result.certificate.f_input == pytest.approx(score, abs=1e-6)
        log = pl.explain(whole, TEXTS[0], target=label, score="logprob", n_steps=2)
        assert log.certificate.f_input == pytest.approx(np.log(score), abs=1e-5)


@pytest.mark.filterwarnings("ignore::pathlens.errors.ConvergenceWarning")
@pytest.mark.parametrize("function", ["sigmoid", "softmax", "none", None])
@pytest.mark.parametrize("problem", [None, "multi_label_classification", "regression"])
def test_probabilities_are_what_the_pipeline_prints(function, problem):
    model, tokenizer = models.classifier("bert")
    model = copy.deepcopy(model)
    model.config.problem_type = problem
    choices = {} if function is None else {"function_to_apply": function}
    whole = hf.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None, **choices)
    printed = {each["label"]: each["score"] for each in whole([TEXTS[0]])[0]}
    plain = pl.explain(whole, TEXTS[0], target=0, n_steps=2, check=False)
    if function == "none" or (function is None and problem == "regression"):
        label = next(iter(plain.target.split()))
        assert plain.certificate.f_input == pytest.approx(printed[label], abs=1e-6)
        assert not plain.probabilities and not plain.prediction, "logits are no probabilities"
        with pytest.raises(InputError, match="gives logits as they are.*score='logit'"):
            pl.explain(whole, TEXTS[0], score="prob")
        return
    assert dict(plain.probabilities) == pytest.approx(printed, abs=1e-6) and plain.prediction == max(
        printed, key=printed.get
    )
    for label, score in printed.items():
        for asked, wanted in (("prob", score), ("logprob", np.log(score))):
            result = pl.explain(whole, TEXTS[0], target=label, score=asked, n_steps=2, check=False)
            assert result.certificate.f_input == pytest.approx(wanted, abs=1e-5)
    every = pl.explain(whole, TEXTS[0], target="all", score="prob", n_steps=2, check=False)
    assert sorted(each.certificate.f_input for each in every) == pytest.approx(sorted(printed.values()), abs=1e-6)


def adapted(pair, kind, **more):
    import peft

    model, tokenizer = pair
    torch.manual_seed(1)
    wrapped = peft.get_peft_model(copy.deepcopy(model), kind(**more)).eval()
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return wrapped, tokenizer


def test_an_adapter_in_the_layers_is_explained_with_both_segments_and_in_lists():
    from peft import LoraConfig

    bert = adapted(models.classifier("bert"), LoraConfig, task_type="SEQ_CLS", target_modules=["query", "value"])
    with torch.no_grad():
        expected = bert[0](**bert[1](TEXTS[1], TEXTS[0], return_tensors="pt")).logits[0, 1]
        plain = models.classifier("bert")[0](**bert[1](TEXTS[1], TEXTS[0], return_tensors="pt")).logits[0, 1]
    result = pl.explain(bert, TEXTS[1], TEXTS[0], target=1)
    assert (
        result.certificate.f_input == pytest.approx(float(expected), abs=1e-5) and abs(float(expected - plain)) > 1e-3
    )
    llama = adapted(models.classifier("llama"), LoraConfig, task_type="SEQ_CLS", target_modules=["q_proj", "v_proj"])
    texts = [PROMPT, f"{PROMPT} but moving"]
    listed = pl.explain(llama, texts, target=1, n_steps=8)
    for text, result in zip(texts, listed, strict=True):
        with torch.no_grad():
            expected = llama[0](**llama[1](text, return_tensors="pt")).logits[0, 1]
        assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-5)
        assert result.scores == pytest.approx(pl.explain(llama, text, target=1, n_steps=8).scores, abs=1e-5)


def test_an_adapter_that_the_model_took_in_itself_is_explained():
    """transformers' own `add_adapter`, and a model whose layers peft changed in place: no wrapper is around it."""
    import peft

    model, tokenizer = models.classifier("bert")
    took_in, changed = copy.deepcopy(model), copy.deepcopy(model)
    config = peft.LoraConfig(target_modules=["query", "value"], lora_alpha=99, init_lora_weights=False)
    took_in.add_adapter(config)
    peft.get_peft_model(changed, config)
    for each in (took_in.eval(), changed.eval()):
        with torch.no_grad():
            adapted = each(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0, 1]
            plain = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0, 1]
        result = pl.explain((each, tokenizer), TEXTS[0], target=1, n_steps=4, check=False)
        assert (
            result.certificate.f_input == pytest.approx(float(adapted), abs=1e-5) and abs(float(adapted - plain)) > 1e-3
        )


def test_learned_vectors_before_a_text_are_refused():
    from peft import PromptTuningConfig

    tuned = adapted(models.generator("llama"), PromptTuningConfig, task_type="CAUSAL_LM", num_virtual_tokens=3)
    with pytest.raises(ModelError, match="puts learned vectors before the text"):
        pl.explain(tuned, PROMPT)


def test_big_bird_is_left_as_it_was():
    pair = sweep.build("big_bird", "classify")
    body = pair[0].bert
    before = [id(part) for part in body.modules()]
    pl.explain(pair, TEXTS[0], n_steps=2, tolerance=1)
    assert body.attention_type == body.encoder.layer[0].attention.attention_type == "block_sparse"
    assert [id(part) for part in body.modules()] == before


def test_a_compiled_model_is_the_model_it_was_made_of():
    model, tokenizer = models.classifier("bert")
    compiled = torch.compile(model, backend="eager")
    ours, plain = (pl.explain((each, tokenizer), TEXTS[0], n_steps=4, tolerance=1) for each in (compiled, model))
    assert np.array_equal(ours.scores, plain.scores)


class MyModel(hf.PreTrainedModel):
    """A user's own head, with a name that says nothing."""

    config_class = hf.BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.encoder = hf.BertModel(config)
        self.top = torch.nn.Linear(config.hidden_size, 3)
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder.get_input_embeddings()

    def forward(self, input_ids, attention_mask=None):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return SequenceClassifierOutput(logits=self.top(states.mean(1)))


def test_a_model_that_is_spread_over_devices_is_the_model_it_was_made_of():
    model, tokenizer = models.classifier("bert")
    spread = torch.nn.DataParallel(model)
    one, other = (pl.explain((each, tokenizer), TEXTS[0], target=1) for each in (spread, model))
    assert np.allclose(one.scores, other.scores, atol=1e-6) and one.meta["model"] == other.meta["model"]
    with pytest.raises(ModelError, match="BertForSequenceClassification needs its tokenizer"):
        pl.explain(spread, TEXTS[0])


def test_a_class_of_the_users_own_is_known_by_its_output():
    torch.manual_seed(7)
    pair = models.sharpen(MyModel(models.config("bert"))).eval(), models.tokenizer()
    result = pl.explain(pair, TEXTS[0], target=2)
    with torch.no_grad():
        inputs = {name: pair[1](TEXTS[0], return_tensors="pt")[name] for name in ("input_ids", "attention_mask")}
        assert result.certificate.f_input == pytest.approx(float(pair[0](**inputs).logits[0, 2]), abs=1e-5)
    together = pl.explain(pair, [TEXTS[0], TEXTS[2]], target=2, n_steps=8)  # its mean takes padding in
    assert together[1].scores == pytest.approx(pl.explain(pair, TEXTS[2], target=2, n_steps=8).scores, abs=1e-5)


def test_a_chat_model_that_also_sees_is_explained_with_text_alone():
    torch.manual_seed(7)
    text = models.config("llama").to_dict() | {"model_type": "gemma3_text", "head_dim": 8, "sliding_window": 6}
    text["layer_types"] = ["sliding_attention", "sliding_attention", "full_attention"]
    text.pop("rope_parameters", None)
    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "image_size": 28,
        "patch_size": 14,
    }
    config = hf.Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=4,
        image_token_index=35,
        boi_token_index=34,
        eoi_token_index=33,
    )
    model = models.sharpen(hf.Gemma3ForConditionalGeneration(config)).eval()
    tokenizer = models.tokenizer(decoder=True)
    asked = {"target": " but moving .", "contrast": " and very bad"}
    result = pl.explain((model, tokenizer), PROMPT, **asked, n_steps=8)
    ids = tokenizer(PROMPT)["input_ids"]

    def logprob(words):
        tokens = tokenizer(words, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*ids, *tokens]])).logits[0].log_softmax(-1)
        return sum(float(logits[len(ids) - 1 + k, token]) for k, token in enumerate(tokens))

    wanted = logprob(asked["target"]) - logprob(asked["contrast"])
    assert result.certificate.f_input == pytest.approx(wanted, abs=1e-5)
    deeper = pl.explain((model, tokenizer), PROMPT, **asked, layer=1, n_steps=8)
    assert deeper.certificate.f_input == pytest.approx(wanted, abs=1e-5)


def test_a_cut_prompt_leaves_room_for_the_token_in_front():
    torch.manual_seed(7)
    model = hf.GPT2LMHeadModel(models.config("gpt2", n_positions=8)).eval()
    tokenizer = copy.deepcopy(models.tokenizer())
    tokenizer.bos_token, tokenizer.mask_token = "[CLS]", None
    tokenizer.backend_tokenizer.post_processor = None
    result = pl.explain((model, tokenizer), TEXTS[2], truncation=True, n_steps=2, tolerance=1)
    assert len(result.tokens) == 8 and result.tokens[0] == "[CLS]" and result.meta["truncated"]


def test_a_table_with_rows_that_are_no_positions_does_not_raise_the_limit():
    for name in ("opt", "biogpt"):
        assert load(sweep.build(name, "write")).limit == 64


def test_a_gap_is_explained_by_the_words_around_it():
    pair = sweep.build("bert", "fill")
    text = "the [MASK] was not really funny , but moving ."
    result = pl.explain(pair, text, target="film")
    with torch.no_grad():
        logits = pair[0](**pair[1](text, return_tensors="pt")).logits[0, 2].log_softmax(-1)
    film = pair[1].convert_tokens_to_ids("film")
    assert result.certificate.f_input == pytest.approx(float(logits[film]), abs=1e-5)
    assert "'film' in the gap" in result.target and result.scores[2] == 0
    best = pl.explain(pair, text, score="prob")
    assert best.certificate.f_input == pytest.approx(float(logits.max().exp()), abs=1e-5)
    with pytest.raises(InputError, match="write \\[MASK\\] where the word is missing"):
        pl.explain(pair, TEXTS[0])
    with pytest.raises(InputError, match="is not one token of this model's vocabulary"):
        pl.explain(pair, text, target="good film")
    with pytest.raises(InputError, match=r"one gap, at token 2, .*target=\(2, 'film'\)"):
        pl.explain(pair, text, target=(3, "film"))
    two = "the [MASK] was not really [MASK] , but moving ."
    for unclear in (None, "film"):
        with pytest.raises(InputError, match=r"gaps at tokens 2 and 6, .*does not say which"):
            pl.explain(pair, two, target=unclear)
    with torch.no_grad():
        logits = pair[0](**pair[1](two, return_tensors="pt")).logits[0, 6].log_softmax(-1)
    second = pl.explain(pair, two, target=(6, "film"))
    assert second.certificate.f_input == pytest.approx(float(logits[film]), abs=1e-5)
    likeliest = pl.explain(pair, two, target=(6, None), n_steps=2, tolerance=1)
    assert likeliest.certificate.f_input == pytest.approx(float(logits.max()), abs=1e-5)
    similar = pl.explain(pair, TEXTS[0], TEXTS[1], pooling="mean", method="ig", n_steps=2, tolerance=1)
    assert "similarity" in similar.target


def slow_tokenizers(folder):
    """Tokenizers that know no characters: Japanese words, bytes, and pieces of Vietnamese."""
    words = [*models.SPECIAL, "日本", "##語", "面白", "##い", "cafe", "the"]
    (folder / "vocab.txt").write_text("\n".join(words))
    japanese = hf.BertJapaneseTokenizer(str(folder / "vocab.txt"), word_tokenizer_type="basic", do_lower_case=True)
    (folder / "pieces.txt").write_text("mo@@ 1\nvie 1\nthe 1\n")
    (folder / "bpe.codes").write_text("#version: 0.2\nt h 1\nth e</w> 1\nm o 1\nv i 1\nvi e</w> 1\n")
    vietnamese = hf.PhobertTokenizer(str(folder / "pieces.txt"), str(folder / "bpe.codes"))
    return japanese, hf.ByT5Tokenizer(), vietnamese


def test_characters_are_worked_out_where_a_tokenizer_does_not_say_them(tmp_path):
    from pathlens.text.tokens import tokenise

    japanese, bytewise, vietnamese = slow_tokenizers(tmp_path)
    tokens = tokenise(japanese, "日本語 Café 鮪 the", "面白い", limit=None, truncation=False)
    assert tokens.tokens == ("[CLS]", "日本", "語", "Café", "鮪", "the", "[SEP]", "面白", "い", "[SEP]")
    assert tokens.offsets[1:6] == ((0, 2), (2, 3), (4, 8), (9, 10), (11, 14)) and tokens.offsets[7:9] == (
        (0, 2),
        (2, 3),
    )
    assert tokens.segments == (-1, 0, 0, 0, 0, 0, -1, 1, 1, -1)
    cut = tokenise(japanese, "日本語 the the", "面白い", limit=7, truncation=True)
    assert len(cut) == 7 and {-1, 0, 1} == set(cut.segments)
    tokens = tokenise(bytewise, "Zü 日", None, limit=None, truncation=False)
    assert tokens.tokens == ("Z", "ü[1/2]", "ü[2/2]", " ", "日[1/3]", "日[2/3]", "日[3/3]", "</s>")
    tokens = tokenise(vietnamese, "the movie", None, limit=None, truncation=False)
    assert tokens.tokens == ("<s>", "the", "mo", "vie", "</s>")


def test_a_model_with_a_slow_tokenizer_is_explained(tmp_path):
    tokenizer = slow_tokenizers(tmp_path)[0]
    result = pl.explain((models.classifier("bert")[0], tokenizer), "日本語 the", target=1)
    with torch.no_grad():
        expected = models.classifier("bert")[0](**tokenizer("日本語 the", return_tensors="pt")).logits[0, 1]
    assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-5) and result.certificate.converged
    torch.manual_seed(7)
    config = hf.T5Config(
        vocab_size=384, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    written = pl.explain(
        (hf.T5ForConditionalGeneration(config).eval(), hf.ByT5Tokenizer()), "ab ü", target="日", n_steps=2
    )
    assert written.outputs == ("日[1/3]", "日[2/3]", "日[3/3]")


def zero_shot(kind="bert", order=("contradiction", "neutral", "entailment"), **choices):
    model, tokenizer = models.classifier(kind)
    model = copy.deepcopy(model)
    model.config.id2label = dict(enumerate(order))
    model.config.label2id = {name: i for i, name in model.config.id2label.items()}
    return hf.pipeline("zero-shot-classification", model=model, tokenizer=tokenizer, **choices)


LABELS = ["funny", "a great film", "awful"]


@pytest.mark.parametrize(
    "order", [("contradiction", "neutral", "entailment"), ("entailment", "neutral", "contradiction")]
)
@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_zero_shot_probabilities_are_the_pipelines(kind, multi, order):
    whole, template = zero_shot(kind, order), "this movie is {} ."
    printed = whole(TEXTS[0], LABELS, hypothesis_template=template, multi_label=multi)
    shares = dict(zip(printed["labels"], printed["scores"], strict=True))
    asked = {"hypothesis": template, "candidate_labels": LABELS, "multi_label": multi}
    for label in LABELS:
        for score, wanted in (("prob", shares[label]), ("logprob", np.log(shares[label]))):
            result = pl.explain(whole, TEXTS[0], target=label, score=score, tolerance=1e-4, **asked)
            assert result.certificate.f_input == pytest.approx(wanted, abs=1e-5) and result.settled
            assert (
                dict(result.probabilities) == pytest.approx(shares, abs=1e-5)
                and result.prediction == printed["labels"][0]
            )
            assert not any("entail" in note or "neutral" in note for note in result.meta["notes"])
    best = pl.explain(whole, TEXTS[0], score="prob", **asked)
    assert best.target == f"{printed['labels'][0]} (prob)", "the likeliest, where none is named"
    piped = zero_shot(kind, order, candidate_labels=LABELS, hypothesis_template=template, multi_label=multi)
    same = pl.explain(piped, TEXTS[0], target=LABELS[1], score="prob")
    assert same.certificate.f_input == pytest.approx(shares[LABELS[1]], abs=1e-5), "as the pipeline was made"


@pytest.mark.parametrize("labels", [1, 3])
def test_a_regression_has_no_probabilities_without_a_pipeline_either(labels):
    model, tokenizer = models.classifier("bert", labels=labels)
    model = copy.deepcopy(model)
    model.config.problem_type = "regression"
    result = pl.explain((model, tokenizer), TEXTS[0], check=False)
    assert not result.probabilities and not result.prediction
    for score in ("prob", "logprob"):
        with pytest.raises(InputError, match="regression.*score='logit'"):
            pl.explain((model, tokenizer), TEXTS[0], score=score)


def test_a_share_among_labels_is_the_integral_of_its_gradient():
    """Against a plain loop: midpoints from [MASK] to the text, every label's hypothesis after it."""
    whole, asked = zero_shot(), {"candidate_labels": LABELS, "hypothesis": "this movie is {} ."}
    result = pl.explain(
        whole, TEXTS[0], target="awful", score="prob", tolerance=1e-6, max_nodes=255, method="ig", **asked
    )
    model, tokenizer, table = whole.model.eval(), whole.tokenizer, whole.model.get_input_embeddings()
    encoded = [tokenizer(TEXTS[0], f"this movie is {label} .", return_tensors="pt") for label in LABELS]
    length = len(tokenizer(TEXTS[0])["input_ids"]) - 1  # [CLS] and the text
    end = table(encoded[0]["input_ids"])[0, :length].detach()
    start = end.clone()
    start[1:] = table.weight[tokenizer.mask_token_id].detach()
    scores, nodes = torch.zeros(length), 400
    for k in range(nodes):
        point = (start + (k + 0.5) / nodes * (end - start)).requires_grad_()
        logits = []
        for each in encoded:
            rows = torch.cat([point, table(each["input_ids"])[0, length:].detach()])[None]
            rest = {name: value for name, value in each.items() if name != "input_ids"}
            logits.append(model(inputs_embeds=rows, **rest).logits[0, 2])
        share = torch.stack(logits).softmax(0)[LABELS.index("awful")]
        (slope,) = torch.autograd.grad(share, point)
        scores += (slope * (end - start)).sum(-1).detach() / nodes
    assert result.scores[:length] == pytest.approx(scores.numpy(), abs=1e-5) and not result.scores[length:].any()
    with pytest.raises(InputError, match="layer=0"):
        pl.explain(whole, TEXTS[0], target="awful", score="prob", layer=1, **asked)
    assert pl.explain(whole, TEXTS[0], target="awful", layer=1, **asked).probabilities
    with pytest.raises(InputError, match="not one of the candidate labels: funny"):
        pl.explain(whole, TEXTS[0], target="dull", **asked)
    texts = [TEXTS[0], TEXTS[1]]
    for one, text in zip(pl.explain(whole, texts, target="awful", score="prob", **asked), texts, strict=True):
        alone = pl.explain(whole, text, target="awful", score="prob", **asked)
        assert one.scores == pytest.approx(alone.scores, abs=1e-5)


def test_a_zero_shot_pipeline_is_explained_with_its_hypothesis():
    whole = zero_shot()
    model, tokenizer = whole.model, whole.tokenizer
    template = "this movie is {} ."
    printed = whole(TEXTS[0], ["funny"], hypothesis_template=template)["scores"][0]
    result = pl.explain(whole, TEXTS[0], target="funny", score="prob", hypothesis=template)
    assert result.certificate.f_input == pytest.approx(printed, abs=1e-6) and result.certificate.converged
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS[0], "this movie is funny .", return_tensors="pt")).logits[0]
    assert pl.explain(whole, TEXTS[0], target="funny", hypothesis=template).certificate.f_input == pytest.approx(
        float(logits[2])
    )
    words = [token for token, segment in zip(result.tokens, result.segments, strict=True) if segment == 0]
    assert words == TEXTS[0].split() and not result.scores[len(words) + 1 :].any(), "the hypothesis is held"
    with pytest.raises(InputError, match="the label in words"):
        pl.explain(whole, TEXTS[0])
    with pytest.raises(InputError, match="in place of the label"):
        pl.explain(whole, TEXTS[0], target="funny", hypothesis="no place")
    with pytest.raises(ModelError, match="needs a model with a label 'entailment'"):
        pl.explain(
            hf.pipeline("zero-shot-classification", model=models.classifier("bert")[0], tokenizer=tokenizer), TEXTS[0]
        )


def test_one_candidate_label_is_the_one_that_is_asked_about():
    """As the pipeline takes it: against its contradiction. With no rival it is not "predicted", however unlikely."""
    whole = zero_shot()
    printed = whole(TEXTS[0], ["very bad"])["scores"][0]
    assert printed < 0.5, "the example is a label that does not hold"
    for asked in ({"candidate_labels": ["very bad"]}, {"target": "very bad"}):
        result = pl.explain(whole, TEXTS[0], score="prob", **asked)
        assert result.target == "very bad (prob)" and result.certificate.f_input == pytest.approx(printed, abs=1e-6)
        assert result.headline.startswith(f"very bad is {100 * printed:.3g} % likely (from the baseline alone: ")
        assert result.prediction == "" and "predicted" not in repr(result)


@pytest.mark.parametrize("place", ["meta", "inference"])
def test_weights_without_numbers_or_gradients_are_one_line(place):
    if place == "meta":
        module, words = (
            copy.deepcopy(models.classifier("bert")[0]).to("meta"),
            "no numbers in it: its weight 'bert.*' is on the meta",
        )
    else:
        with torch.inference_mode():
            module, words = hf.BertForSequenceClassification(models.config("bert")), "made under torch.inference_mode"
    with pytest.raises(ModelError, match=words):
        pl.explain((module.eval(), models.tokenizer()), TEXTS[0])


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_choice_is_explained_by_its_logit_among_the_others(name):
    torch.manual_seed(7)
    model = models.sharpen(hf.AutoModelForMultipleChoice.from_config(models.config(name))).eval()
    tokenizer, question, choices = models.tokenizer(), "what was the plot ?", ["a great film", "awful , and not funny"]
    encoded = tokenizer([question] * 2, choices, return_tensors="pt", padding=True)
    takes = inspect.signature(model.forward).parameters
    with torch.no_grad():
        expected = model(**{key: value[None] for key, value in encoded.items() if key in takes}).logits[0]
    results = pl.explain((model, tokenizer), [question] * 2, choices)
    for result, logit in zip(results, expected, strict=True):
        assert result.certificate.f_input == pytest.approx(float(logit), abs=1e-5) and result.certificate.converged
    with pytest.raises(InputError, match="hangs on the others"):
        pl.explain((model, tokenizer), question, choices[0], score="prob")
    with pytest.raises(InputError, match="needs two texts"):
        pl.explain((model, tokenizer), question)


def test_a_sentence_encoder_with_a_convolution_is_the_same_in_a_list(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers import models as parts

    model, tokenizer = models.encoder("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(7)
    body = parts.Transformer(str(tmp_path))
    whole = SentenceTransformer(modules=[body, parts.CNN(32, 16, [1, 3]), parts.Pooling(32)], device="cpu")
    texts = [PROMPT, f"{PROMPT} but moving"]  # near enough in length to share a batch
    listed = pl.explain(whole, texts, [TEXTS[1]] * 2, method="ig", n_steps=8)
    for text, result in zip(texts, listed, strict=True):
        one, other = whole.encode([text], convert_to_tensor=True), whole.encode([TEXTS[1]], convert_to_tensor=True)
        words = float(torch.nn.functional.cosine_similarity(one, other)[0])
        assert result.certificate.f_input == pytest.approx(words, abs=1e-5)
        assert result.scores == pytest.approx(
            pl.explain(whole, text, TEXTS[1], method="ig", n_steps=8).scores, abs=1e-5
        )


def test_as_many_points_as_equal_tokens_are_not_turned_round():
    """Ids of a batch that is its own transpose: rows belong to their points all the same."""
    network = load(models.classifier("bert")).network
    ids = torch.full((2, 2), 7)
    rows = network.embed(ids) + torch.randn(2, 2, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = network.call(rows, {"input_ids": ids}).logits
        alone = [network.call(rows[i : i + 1], {"input_ids": ids[i : i + 1]}).logits[0] for i in range(2)]
    torch.testing.assert_close(together, torch.stack(alone))


def test_a_language_model_that_ranks_is_its_difference_of_two_logits():
    """What a CrossEncoder with LogitScore gives is a contrast of two continuations, and it says so."""
    model, tokenizer = models.generator("llama")
    result = pl.explain((model, tokenizer), TEXTS[0], target=" good", contrast=" bad")
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0, -1]
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("good", "bad"))
    assert result.certificate.f_input == pytest.approx(float(logits[yes] - logits[no]), abs=1e-5)
    with pytest.raises(ModelError, match="target='good', contrast='bad'"):
        load(modular.yes_or_no())


def test_a_sparse_encoder_is_loaded_from_its_folder(tmp_path):
    made = modular.sparse()
    made.save(str(tmp_path / "splade"))
    again = load(str(tmp_path / "splade"))
    assert again.similarity == "dot" and type(again.sentence_transformer).__name__ == "SparseEncoder"
    result = pl.explain(again, *TEXTS[:2]).similarity
    a, b = made.encode(list(TEXTS[:2]), convert_to_sparse_tensor=False)
    assert result == pytest.approx(float(a @ b), rel=1e-5)


def test_one_class_that_agrees_by_luck_clears_no_other():
    """FlauBERT leaves its first block's inputs behind, so layer 1 is another network: by how little hangs on the class."""
    config = hf.FlaubertConfig(
        vocab_size=60, emb_dim=32, n_layers=2, n_heads=4, pad_index=0, eos_index=3, bos_index=2, unk_index=1,
        mask_index=4, num_labels=2,
    )  # fmt: skip
    tokenizer = models.tokenizer()
    for seed in (3, 9, 27):
        torch.manual_seed(seed)
        model = load((hf.FlaubertForSequenceClassification(config).eval(), tokenizer))
        for target in (0, 1):
            with pytest.raises(ModelError, match="layer=0"):
                pl.explain(model, "this film was not really funny", layer=1, target=target, n_steps=2, check=False)


def test_a_tuple_of_classes_is_not_taken_for_states():
    class Bare(hf.PreTrainedModel):
        config_class = hf.BertConfig

        def __init__(self, config):
            super().__init__(config)
            self.bert, self.out = hf.BertModel(config), torch.nn.Linear(config.hidden_size, 3)
            self.post_init()

        def get_input_embeddings(self):
            return self.bert.get_input_embeddings()

        def forward(self, input_ids=None, attention_mask=None, token_type_ids=None):
            return (self.out(self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state[:, 0]),)

    with pytest.raises(ModelError, match="no states of the text's tokens"):
        pl.explain((Bare(models.config("bert")).eval(), models.tokenizer()), TEXTS[0], target=1)


def wandering(pair, field, place):
    """The same model, but one number of its output, which nobody asks for, is another where its table answers with our rows."""
    model, tokenizer = copy.deepcopy(pair)

    class Wandering(type(model)):
        @wraps(type(model).forward)  # what it takes is read from its signature
        def forward(self, *inputs, **more):
            result = super().forward(*inputs, **more)
            if "forward" in vars(self.get_input_embeddings()):
                change = torch.zeros_like(result[field])
                change[(slice(None), *place)] = 1.0
                result[field] = result[field] + change
            return result

    model.__class__ = Wandering
    return model, tokenizer


@pytest.mark.parametrize(
    "head, field, place, texts, target",
    [
        ("tag", "logits", (0, 0), (TEXTS[0],), (3, 1)),  # another token, another tag
        ("tag", "logits", (3, 0), (TEXTS[0],), (3, 1)),  # another tag of the token asked for
        ("answer", "start_logits", (0,), (TEXTS[1], TEXTS[0]), "end"),
        ("answer", "end_logits", (0,), (TEXTS[1], TEXTS[0]), "start"),
        ("fill", "logits", (2, 7), ("the [MASK] was not really funny",), "film"),
        ("write", "logits", (-1, 7), (PROMPT,), " but"),
        ("translate", "logits", (-1, 7), (PROMPT,), "but"),
    ],
)
def test_all_of_the_output_is_compared_not_what_is_asked_alone(head, field, place, texts, target):
    name = {"write": "llama", "translate": "t5"}.get(head, "bert")
    pair = sweep.build(name, head)
    asked = {"target": target, "score": "logit", "n_steps": 2, "tolerance": 1, "check": False}
    pl.explain(pair, *texts, **asked)
    with pytest.raises(
        ModelError, match=r"itself gives -?[\d.]+ for this text, and what would be explained is -?[\d.]+"
    ):
        pl.explain(wandering(pair, field, place), *texts, **asked)


@pytest.mark.parametrize("head", ["classify", "tag", "answer", "fill", "write", "translate", "encode"])
def test_a_model_that_gives_tuples_is_asked_for_names_and_left_as_it_was(head):
    name = {"write": "llama", "translate": "t5"}.get(head, "bert")
    model, tokenizer = sweep.build(name, "classify" if head == "encode" else head)
    model = model.base_model if head == "encode" else model
    texts = {"answer": (TEXTS[1], TEXTS[0]), "fill": ("the [MASK] was not really funny",), "encode": TEXTS[:2]}
    asked = {"method": "ij" if head == "encode" else "ig", "n_steps": 2, "tolerance": 1, "check": False}
    plain = pl.explain((model, tokenizer), *texts.get(head, (PROMPT,)), **asked)
    nameless = copy.deepcopy(model)
    nameless.config.return_dict = False
    result = pl.explain((nameless, tokenizer), *texts.get(head, (PROMPT,)), **asked)
    one, two = (each.matrix if head == "encode" else each.scores for each in (plain, result))
    assert np.allclose(one, two, rtol=0, atol=1e-6) and result.target == plain.target
    assert nameless.config.return_dict is False
    if head == "write":
        return  # this library's Llama cannot be called so itself
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    more = {"decoder_input_ids": ids} if head == "translate" else {}
    assert isinstance(nameless(input_ids=ids, **more), tuple)


class PlainDict(MyModel):
    """A user's own head that gives a plain dict."""

    def forward(self, input_ids, attention_mask=None):
        return dict(super().forward(input_ids, attention_mask))


def test_a_plain_dict_of_logits_is_read_like_an_output_of_the_library():
    torch.manual_seed(7)
    known = models.sharpen(MyModel(models.config("bert"))).eval()
    plain = PlainDict(models.config("bert")).eval()
    plain.load_state_dict(known.state_dict())
    for method in ("secant", "ig"):
        one, two = (
            pl.explain((each, models.tokenizer()), TEXTS[0], target=2, method=method, check=False)
            for each in (known, plain)
        )
        assert np.allclose(one.scores, two.scores, rtol=0, atol=1e-6) and one.target == two.target


def test_all_words_of_a_vocabulary_are_refused_with_what_to_do():
    pair, text = sweep.build("bert", "fill"), "the [MASK] was not really funny"
    with pytest.raises(
        InputError, match=r"target='all' would be each of the \d+ words.*target=\['good', 'bad'\]"
    ) as refused:
        pl.explain(pair, text, target="all")
    assert "\n" not in str(refused.value)
    named = pl.explain(pair, text, target=["good", "bad"], n_steps=2, tolerance=1, check=False)
    assert [each.target.split()[0] for each in named] == ["'good'", "'bad'"]
