"""The awkward inputs that separate a right norm, or a right rotation, from a nearly right one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.session import generator

__all__ = ["Case", "cases_for", "rotation_cases"]


@dataclass(frozen=True)
class Case:
    """One call: ``fn(x, **options)``. Tensors are given in float64 and cast to each dtype tried."""

    name: str
    x: Tensor
    options: Mapping[str, Any] = field(default_factory=dict)


def cases_for(reference: Callable[..., Tensor]) -> list[Case]:
    """Return the awkward inputs for one of torch's norms, functional or module.

    Ordinary and tiny values, an offset of 100 and of 10,000, constant rows, a batch of one and a
    non-contiguous input; for a functional also each combination of weight and bias.
    """
    is_module = isinstance(reference, nn.Module)
    shapes, options = (
        (_module_shapes(reference), [{}])
        if is_module
        else _functional_shapes(name_of(reference, ""))
    )
    return [
        Case(name, x, chosen)
        for shape in shapes
        for chosen in options
        for name, x in _awkward_inputs(shape)
        # The awkward values matter for the full call; for the others one ordinary input shows what
        # is switched off.
        if chosen is options[0] or name.startswith("ordinary")
    ]


def _awkward_inputs(shape: tuple[int, ...]) -> Iterator[tuple[str, Tensor]]:
    normal = torch.randn(shape, generator=generator(0), dtype=torch.float64)
    yield f"ordinary {shape}", 1.5 * normal + 0.5
    yield f"tiny {shape}", 1e-3 * normal
    yield f"offset 100 {shape}", 100 + normal
    yield f"offset 10,000 {shape}", 10_000 + normal
    yield f"constant {shape}", torch.full(shape, 3.7, dtype=torch.float64)
    yield f"batch of one {(1, *shape[1:])}", 1.5 * normal[:1] + 0.5
    yield f"non-contiguous {shape}", (1.5 * normal + 0.5).mT.contiguous().mT


def _functional_shapes(name: str) -> tuple[list[tuple[int, ...]], list[dict[str, Any]]]:
    def drawn(seed: int) -> Tensor:
        return torch.randn(6, generator=generator(seed), dtype=torch.float64)

    weight, bias = {"weight": 1 + 0.5 * drawn(1)}, {"bias": drawn(2)}
    both = weight | bias
    affine = [both, weight, bias, {}]
    variance = 0.5 + torch.rand(6, generator=generator(4), dtype=torch.float64)
    running = {"running_mean": drawn(3), "running_var": variance}
    images = [(4, 6, 5), (2, 6, 3, 4)]
    match name:
        case "layer_norm":
            return [(4, 6), (2, 3, 6), (8, 6)], [{"normalized_shape": (6,), **a} for a in affine]
        case "rms_norm":
            # the default epsilon is the dtype's: another in float64, which tiny rows would show
            own = {"normalized_shape": (6,)}
            return [(4, 6), (2, 3, 6)], [{**own, **weight, "eps": 1e-6}, own]
        case "group_norm":
            # before torch 2.14 its own backward pass stops on a CPU where there is a bias and no
            # weight
            return images, [{"num_groups": 3, **a} for a in (both, weight, {})]
        case "instance_norm":
            return images, affine
        case "batch_norm":
            trains = [{**running, "training": True, **a} for a in affine]
            alone = {"running_mean": None, "running_var": None, "training": True}
            return [(8, 6), *images], [*trains, {**running, **both}, alone]
    raise ValueError(
        "cases must be given for a reference that is not one of torch's norms: got "
        f"{name or 'unnamed'}"
    )


def _module_shapes(module: Any) -> list[tuple[int, ...]]:
    kind = type(module).__name__
    if kind in ("LayerNorm", "RMSNorm"):
        return [(4, *module.normalized_shape), (2, 3, *module.normalized_shape)]
    spatial = {
        f"{norm}{n}d": [(5, 3, 4)[:n]] for norm in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)
    }
    spatial |= {"BatchNorm1d": [(), (5,)], "GroupNorm": [(5,), (3, 4)]}
    if kind not in spatial:
        raise ValueError(
            f"cases must be given for a reference that is not one of torch's norms: got {kind}"
        )
    channels = module.num_channels if kind == "GroupNorm" else module.num_features
    return [(4, channels, *sizes) for sizes in spatial[kind]]


def rotation_cases(head_dim: int, axes: str = "BHTD", positions: bool = False) -> list[Case]:
    """Return queries to rotate, of shape ``axes``: one position, many, more than half precision
    counts, non-contiguous.

    ``axes`` orders B batch, H heads, T positions and D = ``head_dim``; B and H may be missing. With
    ``positions`` each call is handed those of its tokens under this name, and ``compare`` decodes.
    """
    lengths = {"one position": 1, "64 positions": 64, "600 positions": 600}
    cases = []
    for name, length in lengths.items():
        sizes = {"B": 2, "H": 3, "T": length, "D": head_dim}
        x = torch.randn([sizes[axis] for axis in axes], generator=generator(0)).double()
        cases.append(Case(name, x, {"positions": torch.arange(length)} if positions else {}))
    turned = cases[1].x.mT.contiguous().mT
    return [*cases, Case("non-contiguous", turned, cases[1].options)]


def name_of(fn: Any, otherwise: str) -> str:
    """The class of a module, or the name of a function."""
    return type(fn).__name__ if isinstance(fn, nn.Module) else getattr(fn, "__name__", otherwise)
