"""Rotary embeddings stretched to a longer context: each pair's wavelength against the window, method by method."""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from course_utils.arguments import require_names
from course_utils.rope import (
    RopeConfig,
    RopeParameters,
    from_config,
    llama3,
    turns,
    yarn,
)
from course_utils.widgets.controls import require_stops

__all__ = [
    "KINDS",
    "METHODS",
    "STOPS",
    "MethodFigure",
    "ScalingFigure",
    "ScalingState",
    "first_new_position",
    "rope_scaling_figure",
    "summary_of",
]

METHODS = {
    "linear": "PI, linear",
    "abf": "ABF, new base",
    "ntk": "NTK-aware",
    "dynamic": "dynamic NTK",
    "yarn": "YaRN, as run",
    "yarn_paper": "YaRN, as printed",
    "llama3": "Llama 3",
    "proportional": "proportional",
}
STOPS: dict[str, list[float]] = {
    "factor": [1, 1.5, 2, 4, 8, 16, 32, 64],
    "base": [100, 1000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000],
    "new_base": [20_000, 50_000, 100_000, 500_000, 1_000_000, 10_000_000],
    "window": [64, 128, 512, 1024, 2048, 4096, 8192, 32_768, 131_072],
    "length": [1, 2, 4, 8, 16, 32, 64],
    "head_dim": [16, 32, 64, 96, 128, 256],
    "share": [0.25, 0.5, 0.75, 1.0],
}
# what becomes of a pair: as it was, slowed by less than the factor, by the factor or more, at rest, sped up
KINDS = ("kept", "blended", "stretched", "still", "faster")
_EXACT = 1e-9  # frequencies carry float64 rounding, 1e-16 of themselves for each of a few operations


@dataclass(frozen=True)
class ScalingState:
    """What the learner has chosen.

    Args:
        methods: which of ``METHODS`` are compared.
        factor: how far they stretch.
        base: the base that was trained.
        new_base: the base that ABF changes it to.
        window: the window that was trained, in positions.
        length: how long a sequence is asked for, in windows.
        head_dim: the dimension of a head.
        share: the share of a head that rotates.
        config: the pasted text of a ``config.json``, or of its RoPE part; its own base, window and head dimension then
            stand in for those above.

    Raises:
        ValueError: a value that no control can produce.
    """

    methods: Sequence[str] = ("linear", "ntk", "yarn")
    factor: float = 8
    base: float = 10_000
    new_base: float = 500_000
    window: int = 4096
    length: int = 8
    head_dim: int = 128
    share: float = 1.0
    config: str = ""

    def __post_init__(self) -> None:
        require_names("methods", self.methods, METHODS)
        require_stops(self, STOPS)
        if not isinstance(self.config, str):
            raise ValueError(f"config must be text: got {self.config!r}")
        object.__setattr__(self, "methods", tuple(method for method in METHODS if method in self.methods))


@dataclass(frozen=True)
class MethodFigure:
    """What one method makes of the frequencies.

    Args:
        name: a key of ``METHODS``, or ``"config"``.
        label: what the method is called.
        wavelengths: positions per turn of each pair; ``None`` for one that stands still.
        kinds: for each pair, one of ``KINDS``.
        attention_factor: what cosine and sine are multiplied by.
        reach: the first position at which some pair's angle lies outside what training saw; ``None`` for nowhere.
    """

    name: str
    label: str
    wavelengths: list[float | None]
    kinds: list[str]
    attention_factor: float
    reach: int | None


@dataclass(frozen=True)
class ScalingFigure:
    """Everything that the picture of a state shows.

    Args:
        pairs: pairs in a head.
        trained: positions per turn of each pair before stretching, those of the configuration where there is one.
        window: the trained window in positions.
        length: the length asked for.
        methods: what each method makes of it; a pasted configuration's own comes last.
        problem: why the pasted text cannot be read, else empty.
        remarks: what was assumed in reading it, and what looks wrong in it.
    """

    pairs: int
    trained: list[float | None]
    window: int
    length: int
    methods: list[MethodFigure]
    problem: str
    remarks: list[str]


@dataclass(frozen=True)
class _Model:
    """What is stretched."""

    base: float
    head_dim: int
    share: float
    window: int

    def method(self, rope_type: str, **options: Any) -> RopeParameters:
        parameters = {"rope_type": rope_type, "rope_theta": self.base, "partial_rotary_factor": self.share, **options}
        return RopeParameters(parameters, self.head_dim, self.window)

    def trained(self, rope_type: str = "default") -> Tensor:
        return self.method("proportional" if rope_type == "proportional" else "default").frequencies()[0]


def rope_scaling_figure(state: ScalingState) -> ScalingFigure:
    """Return what the widget shows for ``state``; never raises: a bad configuration is a problem in the picture."""
    model = _Model(state.base, state.head_dim, state.share, state.window)
    own: RopeParameters | None = None
    problem, remarks = "", list[str]()
    if state.config.strip():
        try:
            read, remarks = _read(state)
            own, model = _model_of(read, state)
        except ValueError as error:
            problem = str(error)
    length = state.length * model.window
    methods = []
    for name in state.methods:
        try:
            methods.append(_compared(name, state, model, length))
        except ValueError as error:  # a head of two dimensions, as a pasted configuration may have
            remarks.append(f"{METHODS[name]} is left out: {error}")
    trained = model.trained(own.rope_type if own else "default")
    if own is not None:
        s = own.factor
        if own.rope_type == "dynamic":
            s = s * state.length - (s - 1)
        label, found = f"config: {own.rope_type}", own.frequencies(length)
        methods.append(_method_figure("config", label, trained, *found, s, model.window))
    pairs = model.head_dim // 2
    return ScalingFigure(pairs, _wavelengths(trained), model.window, length, methods, problem, remarks)


def summary_of(method: MethodFigure) -> str:
    """Return a method's bands, attention factor and reach in words; the browser's ``summaryOf`` gives the same."""
    bands = ", ".join(f"{method.kinds.count(kind)} {kind}" for kind in KINDS if kind in method.kinds)
    reach = "no new angle anywhere" if method.reach is None else f"first new angle at position {method.reach:,}"
    return f"{bands}; cosine and sine × {method.attention_factor:.3f}; {reach}"


def first_new_position(trained: Tensor, stretched: Tensor, window: int) -> int | None:
    """Return the first position at which some pair's angle lies outside what training saw.

    A pair that makes a full turn in the window has seen every angle; of another, training saw those below window · f.

    Args:
        trained: (pairs,), the frequencies of the training.
        stretched: (pairs,), those that are used now.
        window: positions seen in training.

    Returns:
        The position; None where no pair ever leaves what it has seen.
    """
    partial_circle = (turns(trained, window) < 1) & (stretched > 0)
    if not bool(partial_circle.any()):
        return None
    leaves = float((trained[partial_circle] / stretched[partial_circle]).min()) * window
    return math.ceil(leaves * (1 - _EXACT))


def _compared(name: str, state: ScalingState, model: _Model, length: int) -> MethodFigure:
    """One of ``METHODS`` on the model.

    Raises:
        ValueError: the head has too few pairs for it.
    """
    s = state.factor
    original: dict[str, Any] = {"original_max_position_embeddings": model.window}
    if name == "abf":
        inv_freq, attention_factor = model.method("default", rope_theta=state.new_base).frequencies()
    elif name == "yarn_paper":
        dim = int(model.head_dim * model.share)
        keys: dict[str, Any] = {"factor": s, "original_max_position_embeddings": model.window}
        inv_freq, _ = llama3(dim, model.base, **keys, low_freq_factor=1.0, high_freq_factor=32.0)
        _, attention_factor = yarn(dim, model.base, **keys)
    else:
        options = {"yarn": original, "llama3": {**original, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}
        inv_freq, attention_factor = model.method(name, factor=s, **options.get(name, {})).frequencies(length)
    if name == "dynamic":
        s = s * state.length - (s - 1)
    return _method_figure(name, METHODS[name], model.trained(name), inv_freq, attention_factor, s, model.window)


def _method_figure(
    name: str, label: str, trained: Tensor, inv_freq: Tensor, attention_factor: float, factor: float, window: int
) -> MethodFigure:
    kinds = [
        _kind(new / old if old else 0.0, factor) for new, old in zip(inv_freq.tolist(), trained.tolist(), strict=True)
    ]
    reach = first_new_position(trained, inv_freq, window)
    return MethodFigure(name, label, _wavelengths(inv_freq), kinds, attention_factor, reach)


def _kind(ratio: float, factor: float) -> str:
    """What has become of a pair whose frequency is now ``ratio`` of what it was."""
    if ratio == 0:
        return "still"
    if abs(ratio - 1) <= _EXACT:
        return "kept"
    if ratio > 1:
        return "faster"
    return "stretched" if ratio * factor <= 1 + _EXACT else "blended"


def _wavelengths(inv_freq: Tensor) -> list[float | None]:
    return [2 * math.pi / f if f else None for f in inv_freq.tolist()]


def _read(state: ScalingState) -> tuple[RopeConfig, list[str]]:
    """The configuration in the pasted text, and what was assumed in reading it.

    Raises:
        ValueError: the text cannot be read; the message says why.
    """
    contents = _object_in(state.config.strip())
    read, taken = _with_sizes(contents, {"head_dim": state.head_dim, "max_position_embeddings": state.window})
    if read.max_position_embeddings is None and read.main.trained_length is None:
        taken.append(f"max_position_embeddings={state.window}, where the text gives none")
    main = next(name for name, layer in read.layers.items() if layer is read.main)
    layers = [f"shown are the layers of type {main}, of {', '.join(read.layers)}"] if len(read.layers) > 1 else []
    return read, [*read.warnings, *layers, *taken]


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object in a text, which may lack its braces.

    Raises:
        ValueError: the text is no JSON, or no object.
    """
    try:
        contents = _parsed(text)
    except ValueError:
        if text.startswith("{"):
            raise
        contents = _parsed("{" + text.rstrip(",") + "}")  # a few lines out of the middle of a file
    if not isinstance(contents, dict):
        raise ValueError(f"This must be a JSON object: got {text:.80}")
    return contents


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not JSON: {error}") from error


def _with_sizes(contents: dict[str, Any], sizes: dict[str, int]) -> tuple[RopeConfig, list[str]]:
    """Read a configuration with as few of ``sizes`` as it takes, and say which were taken.

    Raises:
        ValueError: it cannot be read with any of them.
    """
    for names in ([], ["head_dim"], ["max_position_embeddings"], list(sizes)):
        with warnings.catch_warnings():  # what they say is in the result, too
            warnings.simplefilter("ignore")
            try:
                read = from_config(contents, **{name: sizes[name] for name in names})
            except ValueError as error:
                refusal = error
            else:
                return read, [f"{name}={sizes[name]}, where the text gives none" for name in names]
    raise refusal


def _model_of(read: RopeConfig, state: ScalingState) -> tuple[RopeParameters, _Model]:
    own, parameters = read.main, read.rope_parameters
    window = own.trained_length or read.max_position_embeddings or state.window
    return own, _Model(own.base, read.head_dim, parameters.get("partial_rotary_factor", 1.0), window)
