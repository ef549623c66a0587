"""Rotary embeddings scaled to a longer context: each pair's wavelength against the window. Chapter 13.

The kernel computes what the browser draws: the methods are those of ``course_utils.rope``.
"""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots import rope_scaling as draw
from course_utils.rope import RopeConfig, from_config, rope_frequencies, turns, yarn_paper_ramp
from course_utils.widgets.base import AnsweringWidget, CourseWidget, browser_module, one_of
from course_utils.widgets.scaling_examples import EXAMPLES

__all__ = ["rope_scaling"]

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


def rope_scaling(
    methods: Sequence[str] = ("linear", "ntk", "yarn"),
    *,
    config: str | Mapping[str, Any] = "",
    factor: float = 8,
    base: float = 10_000,
    new_base: float = 500_000,
    window: int = 4096,
    length: int = 8,
    head_dim: int = 128,
    share: float = 1.0,
) -> CourseWidget:
    """Return the wavelengths of every pair under the chosen methods, ready to display; its ``answer`` is the numbers.

    Args:
        methods: which to compare: ``linear, abf, ntk, dynamic, yarn, yarn_paper, llama3, proportional``.
        config: the text of a ``config.json``, or of its part on RoPE, or its contents; its own base, window and head
            dimension then stand in for those below.
        factor: how far the methods scale.
        base: the base that was trained.
        new_base: the base that ABF changes it to.
        window: the window that was trained, in positions.
        length: how long a sequence is asked for, in windows.
        head_dim: the dimension of a head.
        share: the share of a head that rotates.
    """
    if isinstance(methods, str) or not set(methods) <= set(METHODS):
        raise ValueError(f"methods must be among {', '.join(METHODS)}: got {methods!r}")
    sizes = {"base": base, "new_base": new_base, "window": window, "head_dim": head_dim}
    chosen = one_of(STOPS, factor=factor, length=length, share=share, **sizes)
    text = config if isinstance(config, str) else json.dumps(config)
    state = {"methods": [name for name in METHODS if name in methods], **chosen, "config": text}
    return _RopeScaling(state, {"methods": METHODS, "kinds": KINDS, "stops": STOPS, "examples": EXAMPLES})


class _RopeScaling(AnsweringWidget):
    _esm = browser_module("rope_scaling")

    def answer_to_state(self) -> dict[str, Any]:
        with warnings.catch_warnings():  # what looks wrong in a pasted text is among the remarks
            warnings.simplefilter("ignore")
            return compare(self.state)

    def picture(self) -> tuple[Figure, str]:
        shown: dict[str, Any] = self.answer
        summaries = "; ".join(f"{method['label']}: {method['summary']}" for method in shown["methods"])
        problem = f" {shown['problem']}" if shown["problem"] else ""
        return draw(shown), (
            f"Wavelengths of {len(shown['trained'])} rotary pairs trained on {shown['window']:,} positions, stretched "
            f"for {shown['length']:,}. {summaries}.{problem}"
        )


def compare(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the widget shows; never raises: a bad configuration is a problem in the picture.

    Returns:
        ``pairs`` in a head; ``trained``, positions per turn of each pair before scaling, None for one that stands
        still; the trained ``window`` and the ``length`` asked for, in positions; ``methods``, what each makes of it, a
        pasted configuration's own last; the ``problem`` with the text, or ``""``; ``remarks`` on reading it.
    """
    own, problem, remarks = None, "", list[str]()
    base, head_dim, share, window = (state[name] for name in ("base", "head_dim", "share", "window"))
    if state["config"].strip():
        try:
            own, remarks = _read(state["config"], {"head_dim": head_dim, "max_position_embeddings": window})
        except ValueError as error:
            problem = str(error)
    if own is not None:
        parameters, head_dim = own.rope_parameters, own.head_dim
        base, share = parameters.get("rope_theta", 10_000.0), parameters.get("partial_rotary_factor", 1.0)
        window = own.main.trained_length or window
    length = state["length"] * window

    def frequencies(rope_type: str, **keys: Any) -> tuple[Tensor, float]:
        keys = {"rope_type": rope_type, "rope_theta": base, "partial_rotary_factor": share, **keys}
        return rope_frequencies(keys, head_dim, window, length)

    def trained(rope_type: str) -> Tensor:
        return frequencies("proportional" if rope_type == "proportional" else "default")[0]

    original = {"original_max_position_embeddings": window}
    options = {"yarn": original, "llama3": {**original, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}

    def scaled(name: str, factor: float) -> tuple[Tensor, float]:
        if name == "abf":
            return frequencies("default", rope_theta=state["new_base"])
        if name == "yarn_paper":
            kept = yarn_paper_ramp(trained(name), window)
            inv_freq = kept * trained(name) + (1 - kept) * trained(name) / factor
            return inv_freq, frequencies("yarn", factor=factor, **original)[1]
        return frequencies(name, factor=factor, **options.get(name, {}))

    methods = []
    for name in state["methods"]:
        try:
            found = scaled(name, state["factor"])
        except ValueError as error:  # a head of two dimensions, as a pasted configuration may have
            remarks.append(f"{METHODS[name]} is left out: {error}")
            continue
        factor = _reached(name, state["factor"], state["length"])
        methods.append(_described(name, METHODS[name], trained(name), *found, factor, window))
    own_type = "default" if own is None else own.main.rope_type
    if own is not None:
        factor = _reached(own_type, own.main.factor, state["length"])
        found = own.frequencies(length)
        methods.append(_described("config", f"config: {own_type}", trained(own_type), *found, factor, window))
    return {
        "pairs": head_dim // 2,
        "trained": _wavelengths(trained(own_type)),
        "window": window,
        "length": length,
        "methods": methods,
        "problem": problem,
        "remarks": remarks,
    }


def first_new_position(trained: Tensor, scaled: Tensor, window: int) -> int | None:
    """Return the first position at which some pair's angle lies outside what training saw; None where it never does.

    A pair that makes a full turn in the window has seen every angle; of another, training saw those below window · f.

    Args:
        trained: (pairs,), the frequencies of the training.
        scaled: (pairs,), those that are used now.
        window: positions seen in training.
    """
    partial_circle = (turns(trained, window) < 1) & (scaled > 0)
    if not bool(partial_circle.any()):
        return None
    leaves = float((trained[partial_circle] / scaled[partial_circle]).min()) * window
    return math.ceil(leaves * (1 - _EXACT))


def _described(
    name: str, label: str, trained: Tensor, inv_freq: Tensor, attention_factor: float, factor: float, window: int
) -> dict[str, Any]:
    """What one method makes of the frequencies: ``reach`` is the first position with a new angle, ``summary`` words."""
    ratios = [new / old if old else 0.0 for new, old in zip(inv_freq.tolist(), trained.tolist(), strict=True)]
    kinds = [_kind(ratio, factor) for ratio in ratios]
    reach = first_new_position(trained, inv_freq, window)
    bands = ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds)
    until = "no new angle anywhere" if reach is None else f"first new angle at position {reach:,}"
    return {
        "name": name,
        "label": label,
        "wavelengths": _wavelengths(inv_freq),
        "kinds": kinds,
        "attention_factor": attention_factor,
        "reach": reach,
        "summary": f"{bands}; cosine and sine × {attention_factor:.3f}; {until}",
    }


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


def _reached(rope_type: str, factor: float, windows: float) -> float:
    """By how much a method scales: dynamic scaling's factor grows with the sequence, of ``windows`` windows."""
    return factor * windows - (factor - 1) if rope_type == "dynamic" else factor


# --- a pasted configuration ---


def _read(text: str, sizes: Mapping[str, int]) -> tuple[RopeConfig, list[str]]:
    """The configuration in a text, with as few of ``sizes`` as it takes, and what was assumed in reading it."""
    contents = _object_in(text.strip())
    for names in ([], ["head_dim"], ["max_position_embeddings"], list(sizes)):
        try:
            read = from_config(contents, **{name: sizes[name] for name in names})
            break
        except ValueError as error:
            refusal = error
    else:
        raise refusal
    if read.main.trained_length is None:
        names = [*names, "max_position_embeddings"]
    taken = [f"{name}={sizes[name]}, where the text gives none" for name in names]
    main = next(name for name, layer in read.layers.items() if layer is read.main)
    layers = [f"shown are the layers of type {main}, of {', '.join(read.layers)}"] if len(read.layers) > 1 else []
    return read, [*read.warnings, *layers, *taken]


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object in a text, which may lack its braces: a few lines out of the middle of a file."""
    try:
        try:
            contents = json.loads(text)
        except ValueError:
            if text.startswith("{"):
                raise
            contents = json.loads("{" + text.rstrip(",") + "}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not JSON: {error}") from error
    if not isinstance(contents, dict):
        raise ValueError(f"This must be a JSON object: got {text:.80}")
    return contents
