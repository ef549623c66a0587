"""Proofs of the conventions of normalization layers: running statistics, ε, weights, axes, ONNX
(chapter 22)."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def momentum() -> str:
    theirs, running = 0.9, torch.zeros(1)
    F.batch_norm(
        torch.full((4, 1), 5.0), running, torch.ones(1), training=True, momentum=1 - theirs
    )
    assert math.isclose(running.item(), theirs * 0.0 + (1 - theirs) * 5.0, rel_tol=1e-6)
    assert nn.BatchNorm1d(1).momentum == 0.1
    return f"from 0, one batch with mean 5 leads to {running.item():.1f}"


def stored_variance() -> str:
    x, running_var = torch.tensor([[1.0], [3.0]]), torch.ones(1)
    y = F.batch_norm(x, torch.zeros(1), running_var, training=True, momentum=1.0)
    # (1 - 2) / sqrt(1): the biased variance is 1
    assert torch.allclose(y, torch.tensor([[-1.0], [1.0]]), atol=1e-5)
    assert running_var.item() == x.var(correction=0).item() * 2 / (2 - 1)
    theirs = (x - 2) / (4 + 1e-5) ** 0.5  # evaluation with a stored mean of 2, variance of 4
    for stored, equal in ((4.0, True), (4.0 * 2 / (2 - 1), False)):
        mean, variance = torch.tensor([2.0]), torch.tensor([stored])
        assert torch.allclose(F.batch_norm(x, mean, variance), theirs) is equal
    return f"of 1 and 3: divided by the root of 1, stored {running_var.item():.0f}; a copied 4 is 4"


def start() -> str:
    x, running_mean = torch.tensor([[5.0, -3.0], [5.0, -3.0]]), torch.zeros(2)
    assert torch.allclose(nn.BatchNorm1d(2).eval()(x), x, rtol=1e-5)
    for _ in range(3):
        F.batch_norm(x, running_mean, torch.ones(2), training=True, momentum=0.1)
    weight = (1 - 0.1) ** 3
    assert torch.allclose((running_mean - 0.0 * weight) / (1 - weight), x[0])
    return f"after 3 batches with mean 5: {running_mean[0]:.2f}"


def cumulative() -> str:
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        layer(torch.full((2, 1), value))
    state = layer.state_dict()
    assert state["running_mean"].item() == 3.0
    # the mean of three zeros, where the variance of the six values is 5.6
    assert state["running_var"].item() == 0.0
    return "batches of 1, 2 and 6: mean 3, variance 0"


def instance() -> str:
    assert not nn.InstanceNorm2d(3).state_dict()
    assert len(nn.InstanceNorm2d(3, affine=True, track_running_stats=True).state_dict()) == 5
    assert list(nn.GroupNorm(1, 3).state_dict()) == ["weight", "bias"]
    assert nn.BatchNorm2d(3).affine
    assert nn.BatchNorm2d(3).track_running_stats
    return "an empty state_dict"


def default_eps() -> str:
    layers = nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4)
    assert {layer.eps for layer in layers} == {1e-5}
    x = 1e-3 * torch.tensor([[-1.0, 1.0]])  # variance 1e-6
    ours, keras = (F.layer_norm(x, (2,), eps=eps)[0, 1].item() for eps in (1e-5, 1e-3))
    assert ours > 5 * keras
    return f"of ±0.001: {ours:.2f} with 1e-5, {keras:.3f} with 1e-3"


def rms_eps() -> str:
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        eps = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        x = torch.full((1, 4), eps**0.5, dtype=dtype)
        shares_x_and_eps = 0.5**0.5  # x / sqrt(x² + ε) where x² = ε
        assert abs(F.rms_norm(x, (4,))[0, 0].item() - shares_x_and_eps) < 1e-2
    return (
        f"for bfloat16 {torch.finfo(torch.float32).eps:.1e}, not "
        f"{torch.finfo(torch.bfloat16).eps:.1e}"
    )


def inside() -> str:
    x = torch.tensor([[-1e-3, 1e-3]])
    inside, outside = 1e-3 / (1e-6 + 1e-5) ** 0.5, 1e-3 / (1e-3 + 1e-5)
    assert math.isclose(F.layer_norm(x, (2,))[0, 1].item(), inside, rel_tol=1e-4)
    return f"of ±0.001: {inside:.2f}, and outside it would be {outside:.2f}"


def config_eps() -> str:
    import transformers

    def defaults(key: str, *models: str) -> list[float]:
        return [getattr(getattr(transformers, f"{model}Config")(), key) for model in models]

    assert defaults("rms_norm_eps", "Llama", "Qwen3", "Gemma") == [1e-6, 1e-6, 1e-6]
    assert defaults("layer_norm_eps", "Bert", "ViT", "GPTNeoX") == [1e-12, 1e-12, 1e-5]
    assert defaults("layer_norm_epsilon", "GPT2", "T5") == [1e-5, 1e-6]
    return "three names, 1e-12 to 1e-5"


def one_plus_weight() -> str:
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    llama, gemma, torch_norm = (
        norm(4, eps=1e-6) for norm in (LlamaRMSNorm, GemmaRMSNorm, nn.RMSNorm)
    )
    assert [norm.weight[0].item() for norm in (torch_norm, llama, gemma)] == [1, 1, 0]
    x = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
    gemma.weight.data = torch.tensor([0.0, 0.5, -0.25, 1.0])
    torch_norm.weight.data = 1 + gemma.weight.data
    llama.weight.data = torch_norm.weight.data
    assert torch.allclose(llama(x), torch_norm(x))
    error = (gemma(x) - torch_norm(x)).abs().max().item()
    assert error < 1e-6
    assert (gemma(x) - F.rms_norm(x, (4,), gemma.weight, 1e-6)).abs().max() > 0.1
    return "equal within 1e-6 once 1 is added"


def cast_order() -> str:
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(size, generator=generator).bfloat16() for size in ((64, 64), (64,)))
    llama, gemma = LlamaRMSNorm(64, eps=1e-6), GemmaRMSNorm(64, eps=1e-6)
    llama.weight.data = gemma.weight.data = weight
    x_hat = F.rms_norm(x.float(), (64,), eps=1e-6)
    assert torch.equal(gemma(x), (x_hat * (1 + weight.float())).bfloat16())
    assert torch.equal(F.rms_norm(x, (64,), weight, 1e-6), (x_hat * weight.float()).bfloat16())
    differ = (llama(x) != F.rms_norm(x, (64,), weight, 1e-6)).float().mean().item()
    assert torch.equal(llama(x), x_hat.bfloat16() * weight)
    assert 0.1 < differ < 0.5
    return f"bfloat16: {differ:.0%} of the values differ"


def weight_shape() -> str:
    by_channel = nn.BatchNorm2d(3), nn.GroupNorm(1, 3), nn.InstanceNorm2d(3, affine=True)
    assert {norm((3, 8, 8)).weight.shape for norm in (nn.LayerNorm, nn.RMSNorm)} == {(3, 8, 8)}
    assert {layer.weight.shape for layer in by_channel} == {(3,)}
    x = torch.arange(192.0).reshape(1, 3, 8, 8)
    assert torch.allclose(F.group_norm(x, 1), F.layer_norm(x, (3, 8, 8)), atol=1e-6)
    return "(3, 8, 8) against (3,)"


def channel() -> str:
    x = torch.arange(24.0).reshape(2, 4, 3)  # (B, T, C): Keras' order
    y = F.batch_norm(x.movedim(-1, 1), None, None, training=True).movedim(1, -1)
    assert torch.allclose(y.mean((0, 1)), torch.zeros(3), atol=1e-6)
    # the 4 positions, no error
    assert F.batch_norm(x, None, None, training=True).mean((0, 2)).abs().max() < 1e-6
    for by_dim_1 in (F.group_norm(x, 4), F.instance_norm(x)):
        assert by_dim_1.mean(2).abs().max() < 1e-6
    assert F.layer_norm(x, (3,)).mean(-1).abs().max() < 1e-6
    assert torch.allclose(F.rms_norm(x, (3,)).square().mean(-1), torch.ones(2, 4))
    return "(B, T, C) as it is: positions are taken for channels, without an error"


def names() -> str:
    names = list(nn.BatchNorm2d(3).state_dict())
    assert names == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    for momentum, matters in ((0.1, False), (None, True)):
        fresh, old = (nn.BatchNorm1d(1, momentum=momentum) for _ in range(2))
        old.load_state_dict(old.state_dict() | {"num_batches_tracked": torch.tensor(9)})
        for layer in (fresh, old):
            layer(torch.tensor([[1.0], [3.0]]))
        means = [layer.state_dict()["running_mean"] for layer in (fresh, old)]
        assert torch.equal(*means) is not matters
    return f"{len(names)} entries in a BatchNorm's state_dict"


def t5() -> str:
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    assert torch.allclose(T5LayerNorm(4)(x), nn.RMSNorm(4, eps=1e-6)(x))
    assert (T5LayerNorm(4)(x) - nn.LayerNorm(4, eps=1e-6)(x)).abs().max() > 0.5
    return "T5LayerNorm equals nn.RMSNorm"


gguf_weight = one_plus_weight  # the same numbers, whoever adds the 1


def onnx() -> str:
    x = torch.arange(24.0).reshape(2, 3, 4).sin()
    axes = (1, 2)  # axis=1 of LayerNormalization
    mean, var = torch.zeros(3), torch.ones(3)
    centred = x - x.mean(axes, keepdim=True)
    theirs = centred / (centred.square().mean(axes, keepdim=True) + 1e-5).sqrt()
    assert torch.allclose(F.layer_norm(x, x.shape[1:]), theirs, atol=1e-6)
    F.batch_norm(x, mean, var, training=True, momentum=1 - 0.9)
    kept = 0.9 * 1 + 0.1 * x.var((0, 2), correction=0)  # momentum 0.9 of BatchNormalization, n = 8
    assert torch.allclose(mean, 0.9 * 0 + 0.1 * x.mean((0, 2)))
    assert torch.allclose((var - 0.9) / (kept - 0.9), torch.tensor(8 / 7))
    theirs = (x - mean[:, None]) / (kept[:, None] + 1e-5).sqrt()  # evaluation
    assert torch.allclose(F.batch_norm(x, mean, kept), theirs, atol=1e-6)
    return "axis=1 is normalized_shape (3, 4); of 8 values, PyTorch adds 8/7 of ONNX's variance"


def floor() -> str:
    x = torch.tensor([[3e-13, 4e-13]])  # of length 5e-13
    assert torch.allclose(F.normalize(x), x / 1e-12)
    assert torch.allclose(F.normalize(1e6 * x), torch.tensor([[0.6, 0.8]]))
    zeros = torch.zeros(1, 2)
    assert F.normalize(zeros.half()).isnan().all()
    assert not F.normalize(zeros.bfloat16()).any()
    return "a row of length 5e-13 keeps half of it; zeros in float16 give NaN"


def l2_norm() -> str:
    x = torch.tensor([[3.0, 4.0, 0.0, 0.0]])
    lengths = F.normalize(x).norm(), F.rms_norm(x, (4,), eps=0.0).norm()
    assert torch.allclose(torch.stack(lengths), torch.tensor([1.0, 4**0.5]))
    return "of four features: 1 and 2"


def strided_groups() -> str:
    x, groups = torch.randn(1, 8, 3, generator=torch.Generator().manual_seed(0)), 2
    moved = x.clone()
    moved[0, 0, 0] += 1
    change = (F.group_norm(moved, groups) - F.group_norm(x, groups)).abs().amax((0, 2))
    assert change.nonzero().flatten().tolist() == [0, 1, 2, 3]
    reordered = torch.arange(8).view(1, 8, 1).unflatten(1, (-1, groups)).transpose(1, 2)
    assert reordered.flatten().tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    return "channel 0 moved: 0, 1, 2, 3 move"


def one_pass() -> str:
    x = torch.tensor([[9999.0, 10001.0]])
    assert torch.allclose(F.layer_norm(x, (2,)), torch.tensor([[-1.0, 1.0]]), atol=1e-4)
    tenths = 10_000 + torch.tensor([[-0.1, 0.1]])
    one_pass = (tenths.square().mean() - tenths.mean().square()).item()
    assert not 0.005 < one_pass < 0.015
    assert torch.allclose(tenths.var(correction=0), torch.tensor(0.01), rtol=0.05)
    return "of 10,000 ± 0.1: 0.01, and in one pass nothing like it"


def dx_over_dy() -> str:
    x, dy = torch.linspace(-1, 1, 8).requires_grad_(), torch.arange(8.0)
    for norm in (F.layer_norm, F.rms_norm):
        norm(x, (8,)).backward(dy)
        assert torch.equal(dy, torch.arange(8.0))
    return "dy is what it was, in layer norm and RMS norm"
