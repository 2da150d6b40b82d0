"""Every kind of model: what is explained is the model's own output, and its own tokens."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch
from torch import nn
from transformers import pipeline

import pathlens as pl
from pathlens.checks import options_of
from pathlens.text.adapter import Request, Wrapped
from pathlens.text.fingerprint import fingerprint, table_fingerprint, whole_fingerprint
from pathlens.text.load import load
from tests.support import models
from tests.support.models import ARCHITECTURES, TEXTS


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("score", ["logit", "logprob", "prob"])
def test_classifier_explains_its_own_prediction(architecture, score):
    model, tokenizer = models.classifier(architecture)
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    expected = {"logit": logits, "logprob": logits.log_softmax(-1), "prob": logits.softmax(-1)}[score]
    result = pl.explain((model, tokenizer), TEXTS[0], score=score, n_steps=2, tolerance=1)
    assert result.certificate.f_input == pytest.approx(float(expected.max()), abs=1e-5)
    named = pl.explain((model, tokenizer), TEXTS[0], target="label_1", n_steps=2, tolerance=1)
    assert named.certificate.f_input == pytest.approx(float(logits[1]), abs=1e-5) and "LABEL_1" in named.target


def test_a_pair_of_texts_is_one_input_with_two_segments():
    model, tokenizer = models.classifier("bert")
    result = pl.explain((model, tokenizer), TEXTS[1], TEXTS[0], target=0)
    with torch.no_grad():
        expected = model(**tokenizer(TEXTS[1], TEXTS[0], return_tensors="pt")).logits[0, 0]
    assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-5)
    assert set(result.segments) == {-1, 0, 1} and result.certificate.converged
    first = [t for t, s in zip(result.tokens, result.segments, strict=True) if s == 0]
    assert first == ["great", "!"]


def test_one_logit_head_explains_that_logit():
    pair = models.classifier("bert", labels=1)
    result = pl.explain(pair, TEXTS[0])
    assert result.certificate.converged
    prob = pl.explain(pair, TEXTS[0], score="prob").certificate
    assert prob.f_input == pytest.approx(1 / (1 + np.exp(-result.certificate.f_input)), abs=1e-6)


def test_cross_encoder(tmp_path):
    from sentence_transformers import CrossEncoder

    model, tokenizer = models.classifier("bert", labels=1)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    cross = CrossEncoder(str(tmp_path), device="cpu")
    result = pl.explain(cross, TEXTS[1], TEXTS[0])
    expected = cross.predict([(TEXTS[1], TEXTS[0])], activation_fn=nn.Identity())[0]
    assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-5) and result.certificate.converged


def test_pipeline_and_folder_are_the_same_model(tmp_path):
    model, tokenizer = models.classifier("distilbert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = pipeline("text-classification", model=model, tokenizer=tokenizer)
    scores = [
        pl.explain(each, TEXTS[1], n_steps=4, tolerance=1).scores for each in (whole, str(tmp_path), (model, tokenizer))
    ]
    assert np.allclose(scores[0], scores[1], atol=1e-6) and np.allclose(scores[0], scores[2], atol=1e-6)


def test_tagger_explains_one_token():
    model, tokenizer = models.tagger()
    with torch.no_grad():
        logits = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    result = pl.explain((model, tokenizer), TEXTS[0], target=(3, "LOC"))
    assert result.certificate.f_input == pytest.approx(float(logits[3, 2]), abs=1e-5)
    assert result.certificate.converged and "LOC" in result.target and result.tokens[3] in result.target
    default = pl.explain((model, tokenizer), TEXTS[0])
    inner = logits[1:-1].softmax(-1)[:, 1:]
    token, label = divmod(int(inner.argmax()), 2)
    assert default.certificate.f_input == pytest.approx(float(logits[token + 1, label + 1]), abs=1e-5)
    vector = pl.explain((model, tokenizer), TEXTS, method="vaig")
    for text, each in zip(TEXTS, vector, strict=True):
        assert each.vectors.shape[0] == len(tokenizer(text)["input_ids"]) and each.certificate.converged


@pytest.mark.parametrize("target", ["start", "end", "span"])
def test_question_answering(target):
    model, tokenizer = models.answerer()
    question, passage = "what was it ?", TEXTS[0]
    encoded = tokenizer(question, passage, return_tensors="pt")
    with torch.no_grad():
        out = model(**encoded)
    inside = [i for i, s in enumerate(encoded.sequence_ids(0)) if s == 1]
    best = max(
        ((s, e) for s in inside for e in inside if s <= e),
        key=lambda p: float(out.start_logits[0, p[0]] + out.end_logits[0, p[1]]),
    )
    parts = {"start": out.start_logits[0, best[0]], "end": out.end_logits[0, best[1]]}
    expected = sum(parts.values()) if target == "span" else parts[target]
    result = pl.explain((model, tokenizer), question, passage, target=target)
    assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-5) and result.certificate.converged
    exact = models.in_double((model, tokenizer))  # where no node is added by rounding
    listed = pl.explain(exact, [question, question], [passage, "it was"], target=target, score="logprob")
    alone = pl.explain(exact, question, "it was", target=target, score="logprob")
    assert listed[1].scores == pytest.approx(alone.scores, abs=2e-6)


@pytest.mark.parametrize("score", ["logprob", "prob"])
def test_padding_is_no_place_for_an_answer(score):
    """Two passages near enough in length to share a batch: each reads as it does alone."""
    model, texts = models.in_double(models.answerer()), (TEXTS[0], TEXTS[0].replace(" moving .", ""))
    together = pl.explain(model, ["what was it ?"] * 2, list(texts), score=score, n_steps=3, tolerance=1)
    assert len(together[0].tokens) == len(together[1].tokens) + 2 <= 1.25 * len(together[1].tokens)
    for text, result in zip(texts, together, strict=True):
        alone = pl.explain(model, "what was it ?", text, score=score, n_steps=3, tolerance=1)
        assert result.certificate.f_input == pytest.approx(alone.certificate.f_input, abs=1e-9)
        assert result.scores == pytest.approx(alone.scores, abs=1e-9)


def test_the_class_is_fixed_before_the_path_begins():
    """Both ends are read at the class asked for, also where the model prefers another one there."""
    model, tokenizer = models.in_double(models.classifier("bert"))
    ids = tokenizer(TEXTS[0], return_tensors="pt")
    masked = ids["input_ids"].clone()
    masked[:, 1:-1] = tokenizer.mask_token_id
    with torch.no_grad():
        end, start = (model(**{**ids, "input_ids": each}).logits[0] for each in (ids["input_ids"], masked))
    for label in range(3):
        proof = pl.explain((model, tokenizer), TEXTS[0], target=label, n_steps=2, tolerance=1).certificate
        assert (proof.f_input, proof.f_baseline) == pytest.approx((float(end[label]), float(start[label])), abs=1e-9)
    default = pl.explain((model, tokenizer), TEXTS[0], n_steps=2)
    assert default.meta["baseline"] == "mask" and default.certificate.tolerance == 1e-3
    assert default.certificate.f_baseline == pytest.approx(float(start[int(end.argmax())]), abs=1e-9)


def test_the_surest_tag_is_of_a_word():
    """However sure the model is of a special token's tag, or that a word has none."""
    model = load(models.tagger())
    tokens = model.tokenise(TEXTS[1], None, Request())
    logits = torch.full((1, len(tokens), 3), -9.0, dtype=torch.float64)
    logits[..., 0] = 0.0  # no tag, whatever the word
    logits[0, [0, -1], [1, 2]] = 9.0
    logits[0, 2, 2] = -1.0
    assert model.target(tokens, logits, Request()).again == (2, 2)


def test_a_decoder_without_padding_reads_each_text_at_its_own_end():
    module, tokenizer = models.in_double(models.classifier("gpt2"))
    module.config.pad_token_id = None
    texts = [TEXTS[0], TEXTS[0].replace(" moving .", "")]
    together = pl.explain((module, tokenizer), texts, target=0, n_steps=3, tolerance=1)
    for text, result in zip(texts, together, strict=True):
        with torch.no_grad():
            expected = module(**tokenizer(text, return_tensors="pt")).logits[0, 0]
        assert result.certificate.f_input == pytest.approx(float(expected), abs=1e-9)


def test_a_pairs_baseline_texts_each_lie_over_their_own():
    model = load(models.answerer())
    case = model.case("what was it ?", TEXTS[0], request=Request(baseline=("who is that !", "bad film")))
    words = model.tokenizer.convert_ids_to_tokens(case.ends.start_ids)
    first = [word for word, segment in zip(words, case.segments, strict=True) if segment == 0]
    second = [word for word, segment in zip(words, case.segments, strict=True) if segment == 1]
    assert first == ["who", "is", "that", "!"] and second[:2] == ["bad", "film"] and set(second[2:]) == {"[MASK]"}


def test_sentence_transformer_with_all_its_modules(tmp_path, minilm):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    model, tokenizer = models.encoder("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(3)
    for mode in ("mean", "cls", "max"):
        whole = SentenceTransformer(
            modules=[Transformer(str(tmp_path)), Pooling(32, pooling_mode=mode), Dense(32, 8), Normalize()],
            device="cpu",
        )
        a, b = whole.encode([TEXTS[0], TEXTS[1]])
        result = pl.explain(whole, TEXTS[0], TEXTS[1], method="ig", tolerance=1e-2)
        assert result.certificate.f_input == pytest.approx(float(a @ b), abs=1e-5)
        vector = pl.explain(whole, TEXTS[0], method="vaig", norm="inside", n_steps=2, tolerance=1)
        assert vector.f_input[0] == pytest.approx(a, abs=1e-5)


@pytest.mark.parametrize("include", [True, False])
def test_prompts_are_part_of_the_input_and_held(tmp_path, include):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    model, tokenizer = models.encoder("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    whole = SentenceTransformer(
        modules=[Transformer(str(tmp_path)), Pooling(32, pooling_mode="mean", include_prompt=include)],
        prompts={"query": "what is this ? "},
        device="cpu",
    )
    expected = whole.encode(TEXTS[0], prompt_name="query")
    result = pl.explain(whole, TEXTS[0], method="vaig", prompt_name="query")
    assert result.f_input[0] == pytest.approx(expected, abs=1e-5)
    assert sum(result.special) == 2 + 4 and result.certificate.converged
    assert "held" in " ".join(result.meta["notes"])
    start, end = result.offsets[result.special.index(False)]
    assert TEXTS[0][start:end] == "the"


def test_minilm_similarity_is_the_models_own(minilm):
    texts = ["A man plays a guitar.", "Someone makes music."]
    a, b = minilm.sentence_transformer.encode(texts)
    result = pl.explain(minilm, *texts)
    assert result.similarity == pytest.approx(float(a @ b), abs=1e-5)
    assert result.full_matrix.sum() == pytest.approx(result.similarity, abs=result.certificate.tolerance * 0.5)
    assert result.certificate.converged


@pytest.mark.parametrize("architecture", ["bert", "llama"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_bare_encoder_with_pooling(architecture, pooling):
    model, tokenizer = models.encoder(architecture)
    wrapped = pl.SentenceEncoder(model, tokenizer, pooling=pooling)
    with torch.no_grad():
        states = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0]
    expected = {"mean": states.mean(0), "cls": states[0], "last": states[-1]}[pooling]
    result = pl.explain(wrapped, TEXTS, method="vaig")[0]
    assert result.f_input[0] == pytest.approx(expected.numpy(), abs=1e-5) and result.certificate.converged


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_block_by_name_sums_to_its_outputs_change(architecture):
    model, _ = pair = models.classifier(architecture)
    names = [n for n, m in model.named_modules() if type(m).__name__.endswith(("Attention", "Layer", "Block", "MLP"))]
    for name in names[:3]:
        try:
            result = pl.explain(pair, TEXTS[1], method="vaig", block=name, tolerance=1e-5)
        except pl.InputError as error:
            assert "no input left to move" in str(error) or "never run" in str(error)
            continue
        assert result.certificate.converged, name
        assert result.vectors.sum(1) == pytest.approx(result.f_input - result.f_baseline, abs=1e-4)


def test_block_with_two_inputs_moves_both_or_holds_one(minilm):
    both = pl.explain(minilm, "A man plays.", method="vaig", block="encoder.layer.1.attention.output")
    assert set(both.sources) == {"hidden_states", "input_tensor"} and both.vectors.shape[1] == 2 * 6
    held = pl.explain(
        minilm, "A man plays.", method="vaig", block="encoder.layer.1.attention.output", hold=["input_tensor"]
    )
    assert set(held.sources) == {"hidden_states"}
    assert not np.allclose(held.f_baseline, both.f_baseline)
    for result in (both, held):
        assert result.vectors.sum(1) == pytest.approx(result.f_input - result.f_baseline, abs=1e-4)


def test_block_from_a_layer_upwards(minilm):
    result = pl.explain(minilm, "A man plays.", method="vaig", block="encoder.layer.2", layer=0)
    assert result.certificate.converged and result.sources == ()
    assert not result.vectors[:, [0, -1]].any()
    assert result.vectors.sum(1) == pytest.approx(result.f_input - result.f_baseline, abs=1e-3)


def test_tabular_names_shapes_and_background():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    row, background = torch.randn(4), torch.randn(20, 4)
    result = pl.explain(pl.Tabular(net, features=["age", "sex", "bp", "chol"]), row, target=1, baseline=background)
    assert result.tokens == ("age", "sex", "bp", "chol") and result.standard_error.shape == (4,)
    with torch.no_grad():
        change = net(row)[1] - net(background)[:, 1].mean()
    assert result.scores.sum() == pytest.approx(float(change), abs=1e-3)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(6, 1))
    assert pl.explain(flat, torch.randn(2, 3)).scores.shape == (6,)


def test_own_target_function():
    model, tokenizer = models.classifier("bert")
    result = pl.explain((model, tokenizer), TEXTS[0], target=lambda logits: logits[:, 0] - logits[:, 1])
    parts = [pl.explain((model, tokenizer), TEXTS[0], target=i).scores for i in (0, 1)]
    assert result.scores == pytest.approx(parts[0] - parts[1], abs=1e-4)


def test_split_step_explains_a_model_without_gradients():
    class Rounded(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            return torch.tanh(self.inner(x)).detach()

    net, x = Rounded(), torch.randn(4)
    with pytest.raises(pl.ModelError, match="rule='split'"):
        pl.explain(net, x)
    result = pl.explain(net, x, rule="split")
    assert result.certificate.gap < 1e-6 and result.certificate.converged


def test_gemma_scales_embeddings_and_ours_are_scaled_too():
    model = load(models.classifier("gemma2"))
    looked_up = model.network.embed(torch.tensor([5]))
    assert not torch.allclose(looked_up, model.network.embedding.weight[5]) or hasattr(
        model.network.module, "normalizer"
    )
    assert torch.equal(model.vocabulary.table[5], looked_up[0])


KINDS = {
    "classifier": (lambda: models.classifier("bert"), (TEXTS[0],), {}),
    "one logit": (lambda: models.classifier("bert", labels=1), (TEXTS[0],), {"score": "prob"}),
    "decoder": (lambda: models.classifier("gpt2"), (TEXTS[0],), {"target": "label_1", "baseline": TEXTS[1]}),
    "tagger": (models.tagger, (TEXTS[0],), {}),
    "answerer": (models.answerer, (TEXTS[1], TEXTS[0]), {"baseline": (TEXTS[0], TEXTS[1])}),
    "generator": (models.generator, (TEXTS[0],), {"score": "logit"}),
    "translator": (lambda: models.translator("t5"), (TEXTS[0],), {"target": TEXTS[1]}),
    "table": (lambda: nn.Linear(3, 2), (torch.ones(3),), {}),
    "toy": (pl.ToyModel, (TEXTS[0],), {"baseline": TEXTS[1]}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_says_how_to_ask_for_it_again(kind):
    make, texts, choices = KINDS[kind]
    model = load(make())
    case = model.case(*texts, request=Request(**choices))
    chosen = case.chosen
    again = model.case(
        *texts, request=Request(target=chosen.target, score=chosen.score or None, baseline=chosen.baseline)
    )
    assert (again.target_name, again.baseline, again.chosen) == (case.target_name, case.baseline, chosen)
    assert torch.equal(again.ends.start, case.ends.start)
    assert torch.equal(again.score(case.ends.end[None], [again]), case.score(case.ends.end[None], [case]))


def test_a_wrapper_is_its_inner_model_but_for_what_it_changes():
    class Renamed(Wrapped):
        def case(self, text, text_b=None, *, request):
            return replace(super().case(text, text_b, request=request), target_name="renamed")

    inner = load(models.encoder())
    model = Renamed(inner)
    assert (model.kind, model.default_method, model.tokenizer) == (inner.kind, "ij", inner.tokenizer)
    assert model.two_texts_are_a_pair() and model.sides() == (model, model)
    dual = Renamed(pl.DualEncoder(inner, load(models.encoder())))
    pair = pl.explain(dual, TEXTS[0], TEXTS[1], n_steps=2, tolerance=1)
    assert [type(side) for side in dual.sides()] == [Renamed, Renamed] and pair.target == "cosine similarity"
    named = pl.explain(Renamed(load(models.classifier("bert"))), TEXTS[0], n_steps=2, tolerance=1)
    assert named.target == "renamed"
    with pytest.raises(AttributeError, match="no_such"):
        model.no_such  # noqa: B018


def test_a_fingerprint_changes_with_every_weight_and_setting_and_with_nothing_else():
    module, tokenizer = models.encoder()
    plain = fingerprint(load((module, tokenizer)))
    assert plain == fingerprint(load((module, tokenizer))) == fingerprint(Wrapped(load((module, tokenizer))))
    others = [
        load((module, tokenizer), pooling="cls"),
        pl.Shifted(load((module, tokenizer))),
        pl.Shifted(load((module, tokenizer)), scale=2.0),
        load(models.encoder("roberta")),
        pl.DualEncoder(load((module, tokenizer)), load((module, tokenizer), pooling="cls")),
    ]
    weight = module.get_parameter("encoder.layer.0.output.dense.weight")
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight[1, 2] = torch.nextafter(weight[1, 2], torch.tensor(1.0))  # the last bit of one number
        prints = [plain, fingerprint(load((module, tokenizer))), *map(fingerprint, others[1:])]
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    prints.append(fingerprint(others[0]))
    assert len(set(prints)) == len(prints) and fingerprint(load((module, tokenizer))) == plain


def test_a_fingerprint_counts_what_a_module_keeps_besides_its_parameters():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = fingerprint(load(net))
    net[1].running_mean += 1
    assert fingerprint(load(net)) != before


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_fingerprint_adds_whole_numbers_so_that_no_order_of_summation_shows(dtype):
    table = np.random.default_rng(0).normal(size=(4000, 8)).astype(dtype)
    bits = table.view(f"int{8 * table.itemsize}").flatten()
    total = (sum(map(int, reversed(bits))) + 2**63) % 2**64 - 2**63  # sums of 64 bits wrap around
    twin = sha256(f"table(4000, 8)torch.{dtype}{total}".encode() + bits[::32].tobytes())
    assert table_fingerprint(torch.from_numpy(table)) == twin.hexdigest()[:16]


def test_built_in_models_are_the_same_on_every_machine(sentiment):
    assert fingerprint(sentiment) == "ba82b673987ed1c2"


def test_options_of_a_kind_are_fields_with_help_and_close_names_are_suggested():
    generator = load(models.generator())
    assert [each.name for each in options_of(generator.options)] == ["contrast", "generate", "sink"]
    for kind in (
        generator,
        load(models.encoder()),
        load(nn.Linear(2, 1)),
        pl.DualEncoder(*[load(models.encoder())] * 2),
    ):
        assert all(each.help for each in options_of(kind.options)) and options_of(kind.options)
    assert not options_of(load(models.classifier("bert")).options)
    with pytest.raises(pl.InputError, match="did you mean 'sink'"):
        pl.explain(generator, TEXTS[0], sinc=None)
    with pytest.raises(pl.InputError, match="generate must be a whole number"):
        pl.explain(generator, TEXTS[0], generate=0)


def test_a_run_and_an_index_know_a_model_by_its_configuration_and_tokenizer_too(tmp_path):
    """The same weights with other positions, or with other tokens, are another model."""
    from tokenizers import normalizers

    module, tokenizer = models.classifier("llama")
    settings = models.config("llama", num_labels=3)
    settings.rope_parameters = {"rope_type": "default", "rope_theta": 2.0}
    turned = type(module)(settings).eval()
    turned.load_state_dict(module.state_dict())
    rewritten = deepcopy(tokenizer)
    rewritten.backend_tokenizer.normalizer = normalizers.Replace("not", "very")
    others = [(module, tokenizer), (turned, tokenizer), (module, rewritten)]
    assert len({fingerprint(load(each)) for each in others}) == 1, "their weights are the same"
    prints = [whole_fingerprint(load(each)) for each in others]
    assert len(set(prints)) == 3 and prints[0] == whole_fingerprint(load((deepcopy(module), tokenizer)))
    tokenizer(
        ["a longer text", "one"], padding=True, truncation=True, max_length=9
    )  # leaves its marks on the tokenizer
    assert prints[0] == whole_fingerprint(load((module, tokenizer)))
    file = tmp_path / "texts.csv"
    file.write_text("text\nthe movie was good\na bad film\ngreat !\n", encoding="utf-8")
    choices = {"rows_per_shard": 2, "target": 0, "show_progress": False}
    pl.corpus.run((module, tokenizer), str(file), tmp_path / "run", limit=2, **choices)
    for other in others[1:]:
        with pytest.raises(pl.PathlensError, match="configuration or tokenizer differ"):
            pl.corpus.run(other, str(file), tmp_path / "run", **choices)
