"""Every known mistake is rejected, and by name; so are everyday slips made several at once."""

import pytest
import torch
from naming import assert_named_among, keys_of, wrongly_named

from chapters import check
from course_utils.check.catalogue import with_edits

# the kernels' are in c11/test_exercises.py, which has a process with Triton's interpreter
CHECKS = {
    name: its_check
    for name, its_check in check.items()
    if its_check.catalogue and not name.endswith("_kernel")
}
EVERYDAY = {
    name: everyday
    for name, its_check in CHECKS.items()
    if (everyday := [key for key, mistake in its_check.catalogue.items() if mistake.everyday])
}


# by name first: what a process has seen of an exercise's mistakes it does not compute again
for_every_check = pytest.mark.parametrize("name", CHECKS, scope="module")


@for_every_check
def test_every_mistake_is_rejected_and_named_and_nothing_else_is(name):
    """By its first example; the others are in tests/soak."""
    assert wrongly_named(name) == []


@for_every_check
def test_the_first_example_gets_a_full_report(name):
    key, mistake = next(iter(CHECKS[name].catalogue.items()))
    report = CHECKS[name](mistake.examples[0], record=False)
    assert (report.passed, report.misconception) == (False, key)
    assert mistake.wrong in report.points
    assert report.evidence.lines()


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYDAY, scope="module")
def test_everyday_slips_made_at_once_are_rejected_and_what_is_named_is_among_them(name):
    """Two and five at once; all pairs, threes and fours in tests/soak."""
    for count in (2, 5):
        assert_named_among(CHECKS[name], EVERYDAY[name][:count])


def test_every_norm_rope_and_ema_know_five_slips_that_meet():
    names = {"layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm", "rope", "ema"}
    assert {name for name, everyday in EVERYDAY.items() if len(everyday) >= 5} >= names


def dims_of(normalized_shape):
    return tuple(range(-len(normalized_shape), 0))


def affine(y, weight, bias, column=None):
    weight, bias = (p if p is None or column is None else p.view(column) for p in (weight, bias))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


# Mistakes as they are published or first written, several at once: what is named is the one to mend
# first.
def annotated_transformer(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = dims_of(normalized_shape)
    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)
    return affine(y, weight, bias)


def llama(x, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    dims = dims_of(normalized_shape)
    z = x.to(torch.float32)
    z = z * torch.rsqrt(z.pow(2).mean(dims, keepdim=True) + eps)
    return z.to(x.dtype) if weight is None else weight * z.to(x.dtype)


def d2l_batch_norm(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    """The mode from is_grad_enabled, the biased variance stored."""
    dims, column = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2)
    if torch.is_grad_enabled():
        mean = x.mean(dims)
        var = ((x - mean.view(column)) ** 2).mean(dims)
        if running_mean is not None:
            running_mean.data.lerp_(mean.data, momentum)
            running_var.data.lerp_(var.data, momentum)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.view(column)) / torch.sqrt(var.view(column) + eps)
    return affine(y, weight, bias, column)


@pytest.mark.parametrize(
    ("its_check", "function", "keys"),
    [
        (
            check.layer_norm,
            annotated_transformer,
            ["unbiased_variance", "eps_outside_root", "half_statistics"],
        ),
        (check.rms_norm, llama, ["rounds_twice"]),
        (check.batch_norm, d2l_batch_norm, ["eval_uses_batch"]),
    ],
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", value),
)
def test_published_code_is_told_what_it_gets_wrong_stage_by_stage(its_check, function, keys):
    assert keys_of(its_check, function)[: len(keys)] == keys


def test_edits_of_one_line_go_together_where_they_change_different_words():
    line = "v = (x - m).square().mean(dims, keepdim=True)\n"
    n_minus_one = {"(x - m).square().mean(dims, keepdim=True)": "x.var(dims, keepdim=True)"}
    no_keepdim = {".mean(dims, keepdim=True)": ".mean(dims)"}
    assert with_edits(line, n_minus_one, no_keepdim) == "v = x.var(dims)\n"
    with pytest.raises(ValueError, match="must not overlap"):
        with_edits(line, n_minus_one, {"square": "abs"})


@pytest.mark.parametrize("name", CHECKS)
def test_the_texts_are_plain_words(name):
    for mistake in CHECKS[name].catalogue.values():
        text = (mistake.title, mistake.wrong, mistake.matters, mistake.hint)
        assert not any("`" in part or "{" in part for part in text), mistake.key


def over_sizes(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    mean = x.mean(normalized_shape, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(normalized_shape, keepdim=True) + eps)


def if_weight(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    y = torch.nn.functional.layer_norm(x, normalized_shape, eps=eps)
    y = y * weight if weight else y
    return y if bias is None else y + bias


def centres_in_place(x):
    x -= x.mean(0)
    return x


def pops(rope_parameters, head_dim, max_position_embeddings, seq_len=None):
    kind = rope_parameters.pop("rope_type")
    given = {**rope_parameters, "rope_type": kind}
    return check.rope_frequencies.oracle(given, head_dim, max_position_embeddings, seq_len)


def halves_m2(a, b):
    count, mean, m2 = check.merge_moments.oracle(a, b)
    return count, mean, m2 / 2


def rotates_whole_positions(x, positions, base=10_000.0):
    return check.rope.oracle(x, positions.long(), base)


def one_pass(x, dims, eps=1e-5):
    mean = x.mean(dims, keepdim=True)
    return (x - mean) / (x.square().mean(dims, keepdim=True) - mean.square() + eps).sqrt()


def in_dtype_of_x(name):
    def gradients(dy, x, *shape, **others):
        every = CHECKS[name].oracle(dy, x, *shape, **others)
        return tuple(gradient.to(x.dtype) for gradient in every)

    return gradients


def summed_by(name, total):
    """Return a backward pass whose terms for the parameters are added up by ``total``."""
    normalize = getattr(torch.nn.functional, name.removesuffix("_backward"))

    def gradients(dy, x, normalized_shape, weight=None, **eps):
        dx, dweight, *dbias = CHECKS[name].oracle(dy, x, normalized_shape, weight, **eps)
        terms = (dy * normalize(x, normalized_shape, **eps), *(dy for _ in dbias))
        return dx, *(total(each).to(dweight.dtype) for each in terms)

    return gradients


NAMES = ("layer_norm_backward", "rms_norm_backward", "batch_norm_backward")
BACKWARD = [
    *((name, in_dtype_of_x(name), {"dtype_of_x"}) for name in NAMES),
    *(
        (name, summed_by(name, lambda terms: terms.sum(0)), {"sums_over_wrong_dims"})
        for name in NAMES[:2]
    ),
    *((name, summed_by(name, torch.clone), {"not_summed"}) for name in NAMES[:2]),
]


@pytest.mark.parametrize(
    ("name", "function", "keys"),
    [
        *BACKWARD,
        ("layer_norm", over_sizes, {"sizes_for_dims"}),
        ("layer_norm", if_weight, {"truth_of_tensor"}),
        ("centre", centres_in_place, {"mutates_input"}),
        ("rope_frequencies", pops, {"mutates_parameters"}),
        ("rope", rotates_whole_positions, {"whole_positions"}),
        ("normalize", one_pass, {"one_pass_variance"}),
    ],
    ids=lambda value: (
        getattr(value, "__name__", None)
        if callable(value)
        else value
        if isinstance(value, str)
        else ""
    ),
)
def test_likely_slips_written_in_other_words_are_named(name, function, keys):
    assert keys <= set(keys_of(CHECKS[name], function))


@pytest.mark.parametrize(
    ("name", "function", "keys"),
    [
        # x itself: also what whole turns by one angle at whole positions give
        ("rope", lambda x, positions, base=10_000.0: x, []),
        ("effective_window", lambda gaps, costs, enough=1.0: (float("nan"),) * 2, []),
        ("half_to_interleaved", lambda weight, num_heads: -weight, []),
        ("merge_moments", halves_m2, []),
    ],
)
def test_what_two_or_three_known_mistakes_give_by_chance_is_not_called_so(name, function, keys):
    assert keys_of(CHECKS[name], function) == keys


def channels_strided_and_positions_apart(x, num_groups, weight=None, bias=None, eps=1e-5):
    z = x.float().reshape(len(x), -1, num_groups, *x.shape[2:])
    z = (z - z.mean(1, keepdim=True)) / (z.var(1, correction=0, keepdim=True) + eps).sqrt()
    return affine(z.reshape(x.shape), weight, bias, (1, -1) + (1,) * (x.ndim - 2)).to(x.dtype)


def confused_without_eps(x, num_groups, weight=None, bias=None, eps=1e-5):
    return torch.nn.functional.group_norm(x, x.shape[1] // num_groups, weight, bias, 0.0)


def swapped_and_from_y(dy, x, normalized_shape, weight=None, eps=1e-5):
    dx, _, dbias = CHECKS["layer_norm_backward"].oracle(dy, x, normalized_shape, weight, eps)
    g = dy if weight is None else dy * weight
    terms = g.float() * torch.nn.functional.layer_norm(x.float(), normalized_shape, eps=eps)
    lead = tuple(range(x.ndim - len(normalized_shape)))
    return dx, dbias, (terms.sum(lead) if lead else terms).to(dbias.dtype)


def tensor2tensor(positions, dim, base=10_000.0):
    positions = torch.arange(positions) if isinstance(positions, int) else positions
    count = dim // 2
    frequencies = base ** -(torch.arange(count).double() / (torch.tensor(count) - 1))
    angles = positions[:, None] * frequencies
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def own_slopes_from_zero(num_heads):
    return 2.0 ** (-8 * torch.arange(num_heads) / num_heads)


def positions_compared(positions):
    return positions[:, :, None] >= positions[:, None, :]


def second_minus_first_over_n(validation, test):
    rates, mean, error = CHECKS["compare_arms"].oracle(validation, test)
    seeds = test.shape[-1]
    return rates, -mean, error * ((seeds - 1) / seeds) ** 0.5


def first_batch_norm(
    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    return weight * (x - x.mean(0)) / torch.sqrt(x.var(0) + eps) + bias


def weight_written_in_and_value_overwritten(average, value, momentum, convention="torch"):
    return value.mul_(0.9).add_(0.1 * average)


def only_in_bfloat16(make, x):
    layer = make()
    layer(x.bfloat16())
    return not torch.equal(layer(x), make()(x))


@pytest.mark.parametrize(
    ("name", "function", "keys"),
    [
        ("alibi_slopes", own_slopes_from_zero, {"starts_at_one"}),
        ("block_mask", positions_compared, {"position_for_document"}),
        ("compare_arms", second_minus_first_over_n, {"other_minus_one", "divided_by_n"}),
        # what changes an input shows one mistake, and the values another
        ("ema", weight_written_in_and_value_overwritten, {"in_place", "ignores_momentum"}),
        # more is wrong, and the error comes first
        ("batch_norm", first_batch_norm, {"needs_weight"}),
        # False in every wrong answer, and not everywhere
        ("remembers", only_in_bfloat16, {"no_other_length", "no_other_size"}),
        (
            "group_norm",
            channels_strided_and_positions_apart,
            {"positions_apart", "strided_groups"},
        ),
        # 0/0 in groups of one value, and nowhere else
        ("group_norm", confused_without_eps, {"group_size_confused", "no_eps"}),
        ("layer_norm_backward", swapped_and_from_y, {"order_swapped", "dweight_from_y"}),
        ("sinusoidal", tensor2tensor, {"exponent_reaches_one"}),
    ],
)
def test_mistakes_whose_edits_are_near_each_other_are_named_for_what_they_are(name, function, keys):
    assert set(keys_of(CHECKS[name], function)) == keys
