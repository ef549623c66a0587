"""Rotary embeddings scaled to a longer context: each pair's wavelength against the window. Chapter
15.

The browser computes what it draws; the kernel, where one runs, reads a pasted configuration.
"""

import inspect
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_utils.plots import rope_scaling as draw
from course_utils.rope import RopeConfig, from_config, rope_frequencies, yarn_paper_ramp
from course_utils.rope.scaling import METHODS as ROPE_METHODS
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
# the keys that each rope_type of a configuration cannot do without
REQUIRED = {
    name: [
        key.name
        for key in inspect.signature(method).parameters.values()
        if key.default is key.empty
    ][1:]
    for name, method in ROPE_METHODS.items()
}


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
    """Return the wavelengths of every pair under the chosen methods, ready to display.

    Args:
        methods: which to compare:
            ``linear, abf, ntk, dynamic, yarn, yarn_paper, llama3, proportional``.
        config: the text of a ``config.json``, or of its part on RoPE, or its contents; its own
            base, window and head dimension then stand in for those below.
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
    return _RopeScaling(
        state, {"methods": METHODS, "stops": STOPS, "examples": EXAMPLES, "required": REQUIRED}
    )


class _RopeScaling(AnsweringWidget):
    _esm = browser_module("rope_methods", "rope_scaling")

    @property
    def x(self) -> Tensor:
        """The wavelengths of the pairs as trained, in positions: (pairs,), float64."""
        return self.wavelengths["as trained"]

    @property
    def wavelengths(self) -> dict[str, Tensor]:
        """The wavelengths that are seen, by the name of their line, infinite where a pair stands
        still."""
        found = _wavelengths(self.state, self.answer["own"])
        return {name: torch.tensor(values).double() for name, values in found.items()}

    def without_kernel(self) -> dict[str, Any]:
        return {
            "readings": {
                text: reading({**self.state, "config": text}) for text in EXAMPLES.values()
            }
        }

    def answer_to_state(self) -> dict[str, Any]:
        return {"config": self.state["config"], **reading(self.state)}

    def picture(self) -> tuple[Figure, str]:
        state, read = self.state, self.answer
        own, names = read["own"], ", ".join(METHODS[name] for name in state["methods"])
        says = (
            f" The configuration asks for {own['rope_type']}."
            if own
            else read["problem"] and f" {read['problem']}"
        )
        window = own["window"] if own else state["window"]
        return draw(_wavelengths(state, own), window, state["length"] * window), (
            f"Wavelengths of rotary pairs trained on {window:,} positions, stretched for "
            f"{state['length'] * window:,}, under "
            f"{names or 'no method'}.{says}"
        )


def reading(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pasted text says, as ``own``, or the ``problem`` with it; ``remarks`` tell
    what was assumed."""
    if not state["config"].strip():
        return {"own": None, "problem": "", "remarks": []}
    try:
        with warnings.catch_warnings():  # what looks wrong in a pasted text is among the remarks
            warnings.simplefilter("ignore")
            read, remarks = _read(state["config"], state["head_dim"], state["window"])
    except ValueError as error:
        return {"own": None, "problem": str(error), "remarks": []}
    main, parameters = read.main, read.rope_parameters
    share = parameters.get("partial_rotary_factor", 1.0)
    window = read.max_position_embeddings or state["window"]
    own = {
        "rope_type": main.rope_type,
        "dim": main.head_dim if main.rope_type == "proportional" else int(main.head_dim * share),
        "head_dim": main.head_dim,
        "base": parameters.get("rope_theta", 10_000.0),
        "keys": {
            "max_position_embeddings": window,
            "original_max_position_embeddings": window,
            **parameters,
        },
        "window": main.trained_length or state["window"],
        "factor": main.factor,
    }
    return {"own": own, "problem": "", "remarks": remarks}


def _wavelengths(state: Mapping[str, Any], own: Mapping[str, Any] | None) -> dict[str, list[float]]:
    """Positions per turn of each pair, by label, infinite where one stands still."""
    window = own["window"] if own else state["window"]
    base, head_dim = (own["base"], own["head_dim"]) if own else (state["base"], state["head_dim"])
    share = own["keys"].get("partial_rotary_factor", 1.0) if own else state["share"]
    keys = {"rope_theta": base, "partial_rotary_factor": share, "factor": state["factor"]}
    keys |= {
        "original_max_position_embeddings": window,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }

    def frequencies(rope_type: str, **changed: Any) -> Tensor:
        known = {**keys, "rope_type": rope_type, **changed}
        return rope_frequencies(known, head_dim, window, state["length"] * window)[0]

    with warnings.catch_warnings():  # every method is given the keys of all
        warnings.simplefilter("ignore")
        trained = frequencies("default")
        found = {"as trained": trained}
        for name in state["methods"]:
            if name == "abf":
                found[METHODS[name]] = frequencies("default", rope_theta=state["new_base"])
            elif name == "yarn_paper":
                kept = yarn_paper_ramp(trained, window)
                found[METHODS[name]] = kept * trained + (1 - kept) * trained / state["factor"]
            elif (
                name not in ("ntk", "dynamic") or int(head_dim * share) > 2
            ):  # they have no base for a single pair
                found[METHODS[name]] = frequencies(name)
        if own:
            parameters, longest = (
                {**own["keys"], "rope_type": own["rope_type"]},
                own["keys"]["max_position_embeddings"],
            )
            found["config"] = rope_frequencies(
                parameters, head_dim, longest, state["length"] * window
            )[0]
    return {label: (2 * math.pi / inv_freq).tolist() for label, inv_freq in found.items()}


def _read(text: str, head_dim: int, window: int) -> tuple[RopeConfig, list[str]]:
    """The configuration in a text, with as few of the two sizes as it takes, and what was assumed
    in reading it."""
    contents, sizes = (
        _object_in(text.strip()),
        {"head_dim": head_dim, "max_position_embeddings": window},
    )
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
    layers = (
        [f"shown are the layers of type {main}, of {', '.join(read.layers)}"]
        if len(read.layers) > 1
        else []
    )
    bare = read.without_positions
    which = ", ".join(map(str, bare[:3])) + ", …" * (len(bare) > 3)
    without = (
        [f"nothing of this is for the {len(bare)} layers without positions: {which}"]
        if bare
        else []
    )
    return read, [*read.warnings, *layers, *without, *taken]


def _object_in(text: str) -> dict[str, Any]:
    """The JSON object in a text, which may lack its braces: a few lines out of the middle of a
    file."""
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
