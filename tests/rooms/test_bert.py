"""The built-in classifier is the library's BERT, number by number, without the library."""

import copy
import subprocess
import sys

import pytest
import torch

TEXTS = ["Not really funny, but moving.", "naïve Café 東京 🙂 [MASK] x", "a", "well " * 700]
HEAVY = (
    "transformers", "torch._dynamo", "torch.distributed.tensor", "sympy", "scipy", "accelerate", "matplotlib",
    "torch._decomp.decompositions_for_jvp",
)  # fmt: skip


@pytest.fixture(scope="module")
def twin(sentiment):
    import transformers

    from pathlens.text.builtin import minilm_folder

    config = transformers.BertConfig.from_pretrained(minilm_folder(), id2label=sentiment.module.config.id2label)
    model = transformers.BertForSequenceClassification(config).eval()
    model.load_state_dict(sentiment.module.state_dict())
    return model, transformers.AutoTokenizer.from_pretrained(minilm_folder())


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS[:3], [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[0])]])
def test_logits_are_the_librarys(sentiment, twin, texts):
    model, tokenizer = twin
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ours, theirs = (copy.deepcopy(each).double() for each in (sentiment.module, model))
    with torch.no_grad():  # in float64: kernels of two layouts may round differently on another processor
        assert torch.allclose(ours(**inputs).logits, theirs(**inputs).logits, rtol=0, atol=1e-10)


def test_parts_and_parameters_have_the_librarys_names(sentiment, twin):
    ours, theirs = (dict(model.named_parameters()) for model in (sentiment.module, twin[0]))
    assert {n: p.shape for n, p in ours.items()} == {n: p.shape for n, p in theirs.items()}
    assert {name for name, _ in sentiment.module.named_modules()} <= {name for name, _ in twin[0].named_modules()}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"add_special_tokens": False},
        {"truncation": True, "max_length": 9},
        {"truncation": True},
        {"text_pair": "b c"},
    ],
)
def test_tokens_are_the_librarys(sentiment, twin, text, choices):
    ours, theirs = (
        tokenizer(text, return_offsets_mapping=True, verbose=False, **choices)
        for tokenizer in (sentiment.tokenizer, twin[1])
    )
    assert ours["input_ids"] == theirs["input_ids"] and ours["token_type_ids"] == theirs["token_type_ids"]
    assert [tuple(span) for span in ours["offset_mapping"]] == theirs["offset_mapping"]
    assert list(ours.sequence_ids(0)) == theirs.sequence_ids(0)


def test_whatever_else_is_asked_of_the_tokenizer_the_library_answers(sentiment, twin):
    ours, theirs = copy.copy(sentiment.tokenizer), twin[1]
    assert len(ours) == len(theirs) and ours.model_max_length == theirs.model_max_length
    assert set(ours.all_special_ids) == set(theirs.all_special_ids)
    assert (ours.mask_token_id, ours.eos_token_id) == (theirs.mask_token_id, theirs.eos_token_id)
    assert ours.decode([2025, 2919]) == theirs.decode([2025, 2919]) == "not bad"
    assert torch.equal(ours(TEXTS[:2], padding=True, return_tensors="pt")["input_ids"],
                       theirs(TEXTS[:2], padding=True, return_tensors="pt")["input_ids"])  # fmt: skip
    for word in ("bad", ["bad", "[MASK]"], "no such word"):
        assert ours.convert_tokens_to_ids(word) == theirs.convert_tokens_to_ids(word)
    assert ours.convert_ids_to_tokens([103, 2919]) == theirs.convert_ids_to_tokens([103, 2919])
    with pytest.raises(AttributeError):
        ours.no_such_thing  # noqa: B018


def test_explaining_with_it_imports_nothing_it_does_not_need():
    run = f"""
import sys
sys.argv = ["pathlens", "explain", "sentiment", "Not really funny, but moving."]
from pathlens.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"
