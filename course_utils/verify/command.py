"""``course diagnose``: what a class or a function of any installed package computes."""

import argparse
import ast
import importlib
import sys
from typing import Any

import torch

from course_utils.verify.diagnosis import diagnose

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Make the object from its arguments, diagnose it, print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="course diagnose",
        description="Say what a norm, a rotation, a bias or a code computes, by calling it.",
        epilog="course diagnose timm.layers:RmsNorm --args 64 eps=1e-5",
    )
    parser.add_argument("target", help="MODULE:NAME of a class, a function or a method")
    parser.add_argument("--args", nargs="*", default=[], help="of the class, names as NAME=VALUE")
    parser.add_argument("--shape", help="of x, such as 2,8,64,128, where it cannot be guessed")
    options = parser.parse_args(argv)
    module, colon, name = options.target.partition(":")
    if not colon:  # torch.nn.LayerNorm
        module, _, name = module.rpartition(".")
    try:
        target: Any = importlib.import_module(module)
        positional = [_value(text) for text in options.args if "=" not in text]
        pairs = (text.split("=", 1) for text in options.args if "=" in text)
        named = {key: _value(text) for key, text in pairs}
        for part in name.split("."):
            if isinstance(target, type):  # a method: of a layer that is made
                target = target(*positional, **named)
            target = getattr(target, part)
        if isinstance(target, type) or (options.args and "." not in name):
            target = target(*positional, **named)
        example = []
        if options.shape:
            sizes = [int(size) for size in options.shape.split(",")]
            example = [torch.zeros(sizes)]
        print(diagnose(target, *example))
    except Exception as error:
        print(f"course diagnose: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _value(text: str) -> Any:
    """A literal of Python where it is one, the text itself where not."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
