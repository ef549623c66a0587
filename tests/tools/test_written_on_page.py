"""An exercise on a page is judged as in JupyterLab, and its small torch computes as torch does."""

import random
from itertools import filterfalse

import numpy as np
import pytest
import torch
from written_on_page import (
    data_of,
    mistakes_of,
    named_otherwise,
    reports,
    results,
    solutions,
)

from chapters import check
from course_utils.check.functions import signature_of
from tools.site import exercises
from tools.site.exercises import WRITTEN_ON_PAGE

CPU = torch.device("cpu")
# of x and y (B, T, C), a row z (C,) and whole numbers n (B, T)
FORMS = (
    """
x + y; x - 2; 3 - x; x * y; 2 * x; 1 / x; x / y; x ** 2; x.square(); 2.0 ** x; -x; x + z
x / n[..., None]; n // 2; n % 3; n / 2; n * 0.5; n + x[..., 0]; x > y; x == x; n.float() ** 0.5
x.mean(); x.mean(-1); x.mean((0, 2), keepdim=True); x.mean([1]); x.sum(0); x.sum(); n.sum(-1)
x.var(-1); x.var((0, 1), unbiased=False); x.var(-1, correction=0, keepdim=True); x.std(-1)
torch.std(x, 0); x.std(-1, correction=0); x.amax(-1, keepdim=True); x.max(); x.amin(0)
x.max(-1).values; x.median(-1).values; x.sort(1).values; x.cumsum(1); (x > 0).any(-1)
(x > 0).all(); n.max(); x.abs().sqrt(); x.abs().rsqrt(); x.exp(); x.abs().log(); x.sin()
torch.cos(x); x.clamp(min=0); x.clamp(-1, 1); x.round(); torch.pow(x, 2); torch.maximum(x, y)
torch.lerp(x, y, 0.3); x.mul(2).add(y, alpha=3); torch.where(x > 0, x, y)
torch.where(x > 0, x, 0.0); torch.stack((x, y)); torch.stack((x, y), -1).flatten(-2)
torch.cat((x, y), -1); torch.cat((x, y)); x[0]; x[:, 0]; x[..., ::2]; x[..., 1::2]; x[:, None]
x[:, -1:, 0]; x[n[0] % 2]; x[:, [-1]]; z[n % 2]; x[..., [-1, 0]]; x[..., [0], :]
x.reshape(-1); x.view(x.shape[0], -1); x.transpose(1, 2).reshape(x.shape[0], -1); x.flatten(1)
x.unflatten(0, (1, -1)); x.unsqueeze(1); x[:1].squeeze(0); x.permute(2, 0, 1); z[None].T
x.chunk(2, -1)[0]; torch.cat(x.split(2, -1)); x.unbind(1)[0]; x.flip(-1); x.repeat(1, 2, 1)
x.repeat_interleave(2, -1); x.expand(2, -1, -1, -1); torch.einsum("btc,bsc->bts", x, y)
torch.einsum("btc->b", x); torch.einsum("btc,c->bt", x, z); torch.outer(z, z); torch.arange(5)
torch.arange(0, 7, 2); torch.arange(1.5); torch.arange(0, 8, 2, dtype=torch.float64) / 3
torch.linspace(0, 1, 7); torch.zeros(2, 3); torch.ones_like(x); torch.full((2,), 3.0)
torch.tensor([[1, 2], [3, 4]]); torch.tensor(2.5); x.double() / 3; x.to(torch.float64) + x
x.double().mean(-1).float(); x.half() * 3; x.bfloat16() / 3; (x * 1000).half().square(); x.long()
n.double(); x.contiguous(); torch.tensor(x[0, 0, 0].item()); x.clone()
""".replace("; ", "\n")
    .strip()
    .splitlines()
)


def coded(value):
    return exercises._argument(check.centre.exercise, value)


@pytest.mark.slow
def test_the_small_torch_computes_what_torch_does(tmp_path):
    generator = torch.Generator().manual_seed(0)
    calls, expected = [], []
    for form in FORMS:
        shape = torch.randint(1, 5, (3,), generator=generator).tolist()
        shape[2] += shape[2] % 2
        x, y = (torch.randn(shape, generator=generator) for _ in range(2))
        z = torch.randn(shape[-1], generator=generator)
        n = torch.randint(1, 9, shape[:2], generator=generator)
        if shape[0] > 1:  # as a transposed tensor lies in memory
            y = y.transpose(0, 1).contiguous().transpose(0, 1)
        values = {"x": x, "y": y, "z": z, "n": n}
        if "[n" in form:
            values["n"] = n * 0
        expected.append(eval(form, {"torch": torch}, values))
        source = f"def f(x, y, z, n):\n    return {form}\n"
        calls.append(["f", list(values), source, [{k: coded(v) for k, v in values.items()}]])
    for form, right, result in zip(FORMS, expected, results(tmp_path, calls), strict=True):
        assert "parts" in result.get("results", [{}])[0], (form, result)
        dtype, shape, text = result["results"][0]["parts"][0]
        got = torch.from_numpy(np.frombuffer(bytes.fromhex(text)).copy()).reshape(shape)
        assert f"torch.{dtype}" == str(right.dtype), form
        assert got.shape == right.shape, form
        tolerance = 4 * torch.finfo(right.dtype).eps if right.is_floating_point() else 0
        torch.testing.assert_close(got, right.double(), rtol=tolerance, atol=tolerance, msg=form)


def test_what_it_lacks_is_said_by_name(tmp_path):
    answers = {
        "torch.linalg": "torch.linalg.norm(x)",
        "torch.nn.functional.layer_norm": "F.layer_norm(x, (1,))",
        "Tensor.qr": "x.qr()",
    }
    sources = [f"def f(x):\n    return {answer}\n" for answer in answers.values()]
    x = {"x": coded(torch.ones(1))}
    told = results(tmp_path, [["f", ["x"], source, [x]] for source in sources])
    for name, answer in zip(answers, told, strict=True):
        (result,) = answer["results"]
        assert result["error"] == "NotHere"
        assert name in result["message"]


def test_a_star_that_this_python_lacks_is_said_in_words(tmp_path):
    (told,) = results(tmp_path, [["f", ["x"], "def f(x):\n    return (x, *x)\n", []]])
    assert "star" in told["message"], told


def judges_inputs(name):
    return name.startswith("input_")


# edits that only together make a text that cannot run: nobody's mistakes
STOPPED_BY_BOTH = {
    "normalize": [(("one_mean", 0), ("in_turn", 0))],
    "rms_norm": [
        (("missing_keepdim", 0), ("all_dims_but_batch", 0)),
        (("in_turn", 0), ("view_needs_contiguous", 0)),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*filterfalse(judges_inputs, WRITTEN_ON_PAGE)])
def test_solution_and_mistakes_get_the_verdict_of_check(name, tmp_path, site):
    """The solution; one way to make each of eleven mistakes, besides what the page's `Moments` and
    its Python once did not have; and some two at once. All are tried in the soak."""
    besides = ("divided_by_less_one", "wrong_axis")
    singles = [slips for slips in mistakes_of(name, 1) if slips[0][1] == 0]
    singles = singles[:11] + [each for each in singles[11:] if each[0][0] in besides]
    twos = random.Random(0).sample(mistakes_of(name, 2), 2) + STOPPED_BY_BOTH.get(name, [])
    data = data_of(site, name)
    (right,) = reports(tmp_path, data, [solutions()[name]])
    assert right["passed"], right
    assert right["remarks"] == []
    assert named_otherwise(name, tmp_path, data, singles + twos) == []


IN_WORDS = {
    "sinusoidal": {
        "-right": "minus",
        "right ** 2": "square",
        "1.5 * right": "1.5 times",
        "right / right.shape[-1]": "multiple",
        "right + 1": "none of the known",
        "right.roll(1, 0)": "moved by 1",
    },
    "centre": {"right * torch.tensor([1.0] * (right.shape[-1] - 1) + [1.5])": "all but the last"},
    # beside the layout that it comes near to, where the layouts differ
    "rope": {
        "torch.stack(x.chunk(2, -1), -1).flatten(-2)": "x itself",
        "torch.stack((1.02 * right if dim > 2 else right).chunk(2, -1), -1).flatten(-2)": "1.02",
    },
}
_OTHER_LAYOUT = "    dim, x = x.shape[-1], torch.cat((x[..., ::2], x[..., 1::2]), -1)\n"


@pytest.mark.parametrize("name", IN_WORDS)
def test_what_no_known_mistake_gives_is_told_in_the_words_of_check(name, tmp_path, site):
    solution = solutions()[name].replace(f"def {name}(", "def solved(")
    layout = _OTHER_LAYOUT if name == "rope" else ""
    head = f"{solution}\n\ndef {name}(x, *args, **named):\n{layout}"
    right = "    right = solved(x, *args, **named)\n"
    sources = [f"{head}{right}    return {value}\n" for value in IN_WORDS[name]]
    told = reports(tmp_path, data_of(site, name), sources)
    for source, words, report in zip(sources, IN_WORDS[name].values(), told, strict=True):
        names = {"torch": torch}
        exec(source, names)
        due = check[name](names[name], record=False).message
        assert words in due
        assert report["message"] == due, source


@pytest.mark.parametrize("name", [*filterfalse(judges_inputs, WRITTEN_ON_PAGE)])
def test_a_wrong_shape_is_shown_on_the_smallest_input_of_check(name, tmp_path, site):
    source = f"def {name}{signature_of(check[name].exercise.oracle)}:\n    return torch.zeros(7)\n"
    (told,) = reports(tmp_path, data_of(site, name), [source])
    names = {"torch": torch}
    exec(source, names)
    due = check[name](names[name], record=False).evidence
    assert told["evidence"][: 1 + len(due.inputs)] == due.lines()[: 1 + len(due.inputs)]


INPUTS = {
    "input_f": (
        '{"num_heads": 64, "num_kv_heads": 8}',
        '{"num_heads": 4, "num_kv_heads": 4}',
        '{"weight": torch.zeros(8, 1)}',
        '{"num_heads": 32, "num_kv_heads": 2}',
        "3",
    ),
    "input_i": ('{"x": 0.01 * ordinary["x"]}', '{"x": torch.zeros(2, 4)}', '{"x": None}'),
    "input_b": ('{"rotary_dim": 5}', '{"base": 1e9}', '{"rotary_dim": 8}', '{"y": 1}'),
    "input_c": (
        '{"x": torch.tensor([[3000.0, 3001.0], [1.0, 2.0]])}',
        '{"x": ordinary["x"] * 1000}',
        '{"x": torch.full((2, 4), 5000.0)}',
        '{"x": ordinary["x"].double()}',
        '{"x": torch.zeros(65, 16)}',
    ),
    "input_l": (
        '{"query_length": 5, "key_length": 3}',
        '{"num_heads": True}',
        '{"query_length": 2, "key_length": 4}',
        "{}",
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_shows_a_bug_or_not_gets_the_words_of_check(name, tmp_path, site):
    assert INPUTS.keys() == set(filter(judges_inputs, WRITTEN_ON_PAGE))
    typed = [f"def {name}(ordinary):\n    return {value}\n" for value in INPUTS[name]]
    sources = [solutions()[name], *typed]
    told = reports(tmp_path, data_of(site, name), sources)
    assert told[0]["passed"], told[0]
    for source, report in zip(sources, told, strict=True):
        names = {"torch": torch}
        exec(source, names)
        right = check[name](names[name], record=False)
        message = right.remarks[0] if right.passed else right.message
        assert (report["passed"], report["message"]) == (right.passed, message), source
