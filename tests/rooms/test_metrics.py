"""Every metric against its formula, loop by loop, on real architectures; and the laws a metric must keep."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from experiments.faithfulness_tables import baseline_sensitivity
from pathlens.errors import InputError
from pathlens.metrics import extras
from pathlens.metrics.contenders import Contender, contenders, leave_one_out, score_texts
from pathlens.metrics.deletion import PROTOCOLS, SHARES, Question, curves, ordered, outputs, places, repacked
from pathlens.metrics.evaluate import completeness, evaluate, judge
from pathlens.metrics.statistics import estimate, spearman
from pathlens.text.adapter import Request
from pathlens.text.load import load
from tests.support import models
from tests.support.twins import faithfulness as twin

# what replaces a token, where the model itself treats no id specially (RoBERTa counts positions by its pad id)
REFERENCE = {"bert": "pad", "roberta": "mask", "distilbert": "mask", "gpt2": "unk", "llama": "unk"}


def scored(name, methods=("sig",), texts=models.TEXTS, **choices):
    model = load(models.classifier(name))
    rows = contenders(methods, (REFERENCE[name],))
    pairs = [(t, None) for t in texts]
    texts_with_scores, failed = score_texts(model, rows, pairs, reference=REFERENCE[name], choices=choices)
    assert not failed
    return model, rows, texts_with_scores


def changes_of(texts, shares, protocol):
    cases, tables = [t.likelihood for t in texts], [t.table for t in texts]
    return curves(cases, texts[0].references, tables, shares, PROTOCOLS[protocol])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", REFERENCE)
def test_deletion_metrics_are_their_formulas(name, protocol):
    _, rows, texts = scored(name)
    result = changes_of(texts, SHARES, protocol)
    module, tokenizer = models.classifier(name)
    token = getattr(tokenizer, f"{REFERENCE[name]}_token_id")
    for text, one, got in zip(models.TEXTS, texts, result, strict=True):
        reader = twin.Reader(module, tokenizer, text)
        for w in range(len(rows)):
            for s, share in enumerate(SHARES):
                wanted = twin.deletion(reader, one.table[w], share, protocol, token)
                metrics = (f"log-odds ({REFERENCE[name]})", "comprehensiveness", "sufficiency")
                here = [got[metric][w, s] for metric in metrics]
                assert np.allclose(here, wanted, atol=2e-6), (rows[w].label, share)


def test_packing_changes_nothing():
    _, _, texts = scored("bert")
    plan = [Question(t.likelihood, tuple(i for i in range(len(t.case)) if i % step)) for t in texts for step in (2, 3)]
    together = outputs(plan)
    assert np.allclose(together, [outputs([question])[0] for question in plan], atol=2e-6)
    assert np.allclose(together, outputs(plan, tokens=1), atol=2e-6)
    assert np.allclose(outputs(plan[::-1])[::-1], together, atol=2e-6)


def test_equal_questions_are_asked_once():
    _, _, texts = scored("bert")
    case, asked = texts[0].likelihood, []
    original = case.score
    case = replace(case, score=lambda points, cases: asked.append(len(points)) or original(points, cases))
    same = [Question(case, (0, 2, 3)) for _ in range(5)]
    values = outputs([*same, Question(case, (0, 1, 3))])
    assert sum(asked) == 2 and len(set(values[:5])) == 1 and values[5] != values[0]


def test_deleting_is_repacking_and_not_masking():
    """The tokens after a hole move up: the same as a text written without it, not as one with a gap."""
    model, (text,) = load(models.classifier("bert")), models.TEXTS[:1]
    with model.quiet():
        case = model.case(text, request=Request())
        written = model.case(text.replace("not ", "", 1), request=Request(target=case.target))
        gone = text.split().index("not") + 1
        left = tuple(i for i in range(len(case)) if i != gone)
        shorter = repacked(case, left)
        assert shorter.tokens == written.tokens
        value = outputs([Question(case, left), Question(written, tuple(range(len(written))))])
    assert np.isclose(value[0], value[1], atol=1e-6)


def test_a_decoder_still_reads_at_the_token_it_read_at():
    """What follows is padding; where the token itself is gone, the last one left before it is read."""
    model = load(models.classifier("gpt2"))
    case = model.case(models.TEXTS[0], request=Request())
    case = replace(case, meta={**case.meta, "read_at": 4})
    every = list(range(len(case)))
    for gone, now in (({2}, 3), ({7}, 4), ({4}, 3), ({0, 1, 9}, 2), ({0, 1, 2, 3, 4}, 0)):
        assert repacked(case, [i for i in every if i not in gone]).meta["read_at"] == now


@pytest.mark.parametrize("count", range(1, 42))
def test_how_many_tokens_twenty_percent_are(count):
    assert PROTOCOLS["default"].count(0.2, count) == max(1, count // 5)
    assert PROTOCOLS["paper"].count(0.2, count) == count // 5
    assert PROTOCOLS["default"].count(1.0, count) == count


def test_the_papers_protocol_with_too_short_a_text_changes_nothing():
    _, _, texts = scored("bert", texts=["great !"])  # 4 tokens: ⌊0.8⌋ = 0
    (result,) = changes_of(texts, [0.2], "paper")
    assert len(result) == 3
    for values in result.values():
        assert np.allclose(values, 0)


def test_special_tokens_are_deletable_only_as_published():
    special = (True, False, False, True)
    assert PROTOCOLS["default"].candidates(special).tolist() == [1, 2]
    assert PROTOCOLS["paper"].candidates(special).tolist() == [0, 1, 2, 3]


def test_order_is_by_signed_score_and_ties_by_place():
    scores = np.array([0.0, -9.0, 2.0, 0.0, 2.0, 1.0])
    assert ordered(scores, np.arange(6)).tolist() == [2, 4, 5, 0, 3, 1]


def test_a_text_of_which_nothing_is_left_has_one_reference_token():
    """A decoder without a beginning token: at 100 % there would be nothing to run."""
    module, tokenizer = models.classifier("llama")
    _, _, texts = scored("llama", texts=["great !"])
    (result,) = changes_of(texts, [1.0], "paper")
    reader = twin.Reader(module, tokenizer, "great !")
    p, only = reader.log_p(reader.ids, None), reader.log_p([tokenizer.unk_token_id], None)
    assert np.allclose(result["comprehensiveness"], np.exp(p) - np.exp(only), atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_controls_and_sig_are_their_formulas(name):
    model, rows, texts = scored(name)
    module, tokenizer = models.classifier(name)
    token = getattr(tokenizer, f"{REFERENCE[name]}_token_id")
    for text, one in zip(models.TEXTS, texts, strict=True):
        reader = twin.Reader(module, tokenizer, text)
        assert np.allclose(one.scores[1].values, twin.leave_one_out(reader), atol=1e-5)
        assert np.allclose(one.scores[2].values, twin.replace_one(reader, token), atol=1e-5)
    again, _ = score_texts(model, rows, [(t, None) for t in models.TEXTS], reference=REFERENCE[name])
    for one, other in zip(texts, again, strict=True):
        assert (one.scores[0].values == other.scores[0].values).all()
        assert one.scores[0].values[list(one.case.special)].tolist() == [0.0] * sum(one.case.special)


def test_gradient_times_input_is_just_that():
    _, _, texts = scored("bert", methods=("gradient-x-input",))
    module, tokenizer = models.classifier("bert")
    for text, one in zip(models.TEXTS, texts, strict=True):
        given = tokenizer(text, return_tensors="pt")
        rows = module.get_input_embeddings()(given.pop("input_ids")).detach().requires_grad_()
        logits = module(inputs_embeds=rows, **given).logits[0]
        (slope,) = torch.autograd.grad(logits[int(logits.argmax())], rows)
        wanted = (slope * rows).sum(-1)[0].detach().numpy() * ~np.array(one.case.special)
        assert np.allclose(one.scores[2].values, wanted, atol=1e-5)
        assert one.scores[2].certificate is None


def test_infidelity_is_its_formula_and_zero_for_perfect_scores():
    _, _, texts = scored("bert", methods=("ig", "sig"))
    module, tokenizer = models.classifier("bert")
    cases, row = [t.case for t in texts], texts[0].references["pad"]
    plain, scaled = extras.infidelity(cases, row, [t.table for t in texts], seed=3)
    for n, text in enumerate(models.TEXTS):
        reader = twin.Reader(module, tokenizer, text)
        sets = extras.subsets(cases[n], 3, n)
        for w in range(plain.shape[0]):
            wanted = twin.infidelity(reader, texts[n].table[w], sets, tokenizer.pad_token_id)
            assert np.isclose(plain[w, n], wanted, rtol=1e-3, atol=1e-7)
    assert ((scaled >= -1e-9) & (scaled <= 1 + 1e-9)).all()
    doubled, same = extras.infidelity(cases, row, [2 * t.table for t in texts], seed=3)
    assert np.allclose(same, scaled, atol=1e-6) and not np.allclose(doubled, plain)


def test_completeness_is_the_gap_of_the_sum():
    _, _, texts = scored("bert", methods=("ig", "sig"), n_steps=2, rule=None)
    for one in texts:
        ig, sig = one.scores[2], one.scores[3]
        proof = ig.certificate
        gap, percent = completeness(proof)
        change = proof.f_input - proof.f_baseline
        assert np.isclose(gap, abs(ig.values.sum() - change), atol=1e-9)
        assert np.isclose(percent, 100 * gap / abs(change))
        assert np.isnan(completeness(sig.certificate)).all()  # its sum is of single tokens
    assert np.isnan(completeness(None)).all()


@pytest.mark.parametrize("contender", [Contender("ig", "pad"), Contender("udig", "pad", {"steps": 3, "neighbours": 6})])
def test_word_approximation_error_is_its_formula(contender):
    from pathlens.engine.methods import route_of
    from pathlens.engine.options import build
    from pathlens.path.words.store import PathCache

    model = load(models.classifier("bert"))
    with model.quiet():
        case = model.case(models.TEXTS[1], request=Request(baseline="pad"))
    result = extras.word_approximation_error(contender, case, PathCache())
    table = model.network.embedding.weight.detach().double().numpy()
    route = route_of(build(contender.method, contender.options), case.ends)
    corners = [route.corner(i).double().numpy() for i in range(route.corners)]
    parts = 2**extras.LINE_FACTOR if contender.method == "ig" else 2
    points = [a + t / parts * (b - a) for a, b in pairwise(corners) for t in range(parts)]
    points.append(corners[-1])
    moving = [i for i in range(len(case)) if not case.ends.held[i]]
    wanted = np.mean([twin.word_error(table, [point[i] for point in points]) for i in moving])
    assert np.isclose(result, wanted, rtol=1e-5)
    assert np.isnan(extras.word_approximation_error(Contender("sig", "pad"), case, PathCache()))


def test_intervals_are_seeded_and_hold_the_mean():
    values = np.random.default_rng(0).normal(3, 1, 200)
    one, same, other = estimate(values, seed=5), estimate(values, seed=5), estimate(values, seed=6)
    assert one == same and one != other
    assert one.value == pytest.approx(values.mean()) and one.low < one.value < one.high and one.n == 200
    width = 2 * 1.96 * values.std(ddof=1) / np.sqrt(200)
    assert 0.8 * width < one.high - one.low < 1.2 * width
    drawn = np.random.default_rng(5).integers(0, 200, size=(2000, 200))
    means = []
    for chosen in drawn:
        total = 0.0
        for i in chosen:
            total += values[i]
        means.append(total / 200)
    assert np.allclose((one.low, one.high), np.quantile(means, [0.025, 0.975]))
    assert estimate(np.array([np.nan, np.nan])).n == 0
    assert estimate(np.array([1.0, np.nan, 3.0, 50.0]), median=True).value == 3.0


def test_max_sensitivity_is_its_formula():
    """SIG by hand at nudged rows: differences of outputs."""
    model, rows, texts = scored("bert")
    before = [t.scores[2].values for t in texts]
    result = extras.max_sensitivity(extras.Trial(model, rows, texts, seed=4), 2, nudges=3)
    for n, one in enumerate(texts):
        with model.quiet():
            case = model.case(*one.pair, request=Request(baseline="pad"))
        worst = 0.0
        for draw in range(3):
            end = extras.nudged(case, 4, draw, extras.RADIUS)
            assert torch.equal(end[case.ends.held], case.ends.end[case.ends.held])
            scores = np.zeros(len(case))
            with torch.no_grad():
                whole = float(case.score(end[None], [case])[0])
                for i in range(len(case)):
                    point = end.clone()
                    point[i] = case.ends.start[i]
                    scores[i] = 0.0 if case.special[i] else whole - float(case.score(point[None], [case])[0])
            worst = max(worst, np.linalg.norm(scores - before[n]) / np.linalg.norm(before[n]))
        assert result[n] == pytest.approx(worst, rel=1e-3)
    still = extras.max_sensitivity(extras.Trial(model, rows, texts), 2, radius=0.0)
    assert np.allclose(still, 0, atol=1e-4)
    words = extras.max_sensitivity(extras.Trial(model, [*rows[:2], Contender("udig", "pad")], texts), 2)
    assert np.isnan(words).all()  # a nudged row is no word


def test_stability_is_its_formula():
    model, rows, texts = scored("bert")
    module, tokenizer = models.classifier("bert")
    before = [t.scores[2].values for t in texts]
    left_out = [t.scores[1].values for t in texts]
    result = extras.stability(extras.Trial(model, rows, texts), 2, edits=1)
    for n, text in enumerate(models.TEXTS):
        reader = twin.Reader(module, tokenizer, text)
        real = [i for i, flag in enumerate(reader.special) if not flag]
        gone = min(real, key=lambda i: abs(left_out[n][i]))
        if len(real) == 2:
            continue  # one token is left: no order to compare
        label = reader.label
        reader.ids, reader.types = reader.without({gone})
        reader.special = [flag for i, flag in enumerate(reader.special) if i != gone]
        assert reader.label == label
        after = twin.replace_one(reader, tokenizer.pad_token_id)
        keep = ~np.array(reader.special)
        assert result[n] == pytest.approx(spearman(np.delete(before[n], gone)[keep], after[keep]), abs=1e-6)


def test_randomised_layers_end_the_agreement_and_the_model_is_restored():
    model, rows, texts = scored("bert", methods=("ig", "sig"))
    module = models.classifier("bert")[0]
    state = {name: value.clone() for name, value in module.state_dict().items()}
    training = [part.training for part in module.modules()]
    randomised = extras.randomisation(extras.Trial(model, rows, texts, seed=1))
    rho = randomised.values
    assert randomised.stages == ("head", "block 2", "block 1", "block 0")
    assert np.isnan(rho[:2]).all()  # controls
    assert np.isfinite(rho[2:]).all() and (rho[2:].mean(axis=2) < 0.95).all()
    after = module.state_dict()
    assert all(torch.equal(state[name], after[name]) for name in state)
    assert training == [part.training for part in module.modules()]


def test_the_model_is_restored_after_an_error_in_the_middle():
    model = load(models.classifier("bert"))
    plan = [parameter for _, expected in extras.stages(model) for parameter in expected]
    before = [parameter.detach().clone() for parameter in plan]
    table = model.network.embedding.weight.detach().clone()
    with pytest.raises(KeyboardInterrupt), extras.restored(plan):
        extras.redraw(plan, torch.Generator().manual_seed(0))
        assert not torch.equal(plan[0], before[0])
        assert torch.equal(model.network.embedding.weight, table)
        raise KeyboardInterrupt
    assert all(torch.equal(now, old) for now, old in zip(plan, before, strict=True))


def test_rank_agreement_is_the_mean_over_texts():
    _, rows, texts = scored("bert", methods=("ig", "sig"))
    result = judge(rows, texts, PROTOCOLS["default"])
    each = []
    for one in texts:
        real = ~np.array(one.case.special)
        each.append(spearman(one.scores[2].values[real], one.scores[3].values[real]))
    assert result.agreement[2, 3] == result.agreement[3, 2] == pytest.approx(np.mean(each))
    two = evaluate(models.classifier("bert"), models.TEXTS, methods=["sig"], baselines=["mask", "pad"])
    assert baseline_sensitivity(two) == {"sig": pytest.approx(two.agreement[2, 3])}


def test_an_answers_ends_are_never_deleted():
    """Extractive answers: p = p(start)·p(end) at the predicted span, whose two tokens must stay."""
    module, tokenizer = models.answerer()
    question, passage = "what was funny ?", "the film was not moving but it was really very funny ."
    model = load((module, tokenizer))
    texts, _ = score_texts(model, contenders(("sig",), ("mask",)), [(question, passage)], reference="mask", choices={})
    case = texts[0].likelihood
    start, end = case.target
    for protocol in PROTOCOLS.values():
        assert not {start, end} & set(protocol.candidates(case.special, places(case)).tolist())
    with pytest.raises(InputError, match="cannot be deleted"):
        repacked(case, [i for i in range(len(case)) if i != start])
    gone = {i for i in range(len(case)) if not case.special[i] and i not in (start, end)}
    gone = set(sorted(gone)[:3])
    result = outputs([Question(case, tuple(i for i in range(len(case)) if i not in gone))])[0]
    reader = tokenizer(question, passage)
    left = [i for i in range(len(case)) if i not in gone]
    with torch.no_grad():
        output = module(
            input_ids=torch.tensor([[reader["input_ids"][i] for i in left]]),
            token_type_ids=torch.tensor([[reader["token_type_ids"][i] for i in left]]),
        )
    wanted = (
        torch.log_softmax(output.start_logits[0], -1)[left.index(start)]
        + torch.log_softmax(output.end_logits[0], -1)[left.index(end)]
    )
    assert result == pytest.approx(float(wanted), abs=1e-5)


def test_leave_one_out_of_one_token_is_nothing():
    model = load(models.classifier("gpt2"))
    with model.quiet():
        case = model.case("great", request=Request())
    assert leave_one_out([repacked(case, [len(case) - 1])])[0].values.tolist() == [0.0]
