"""Chapter 11: what a right kernel moves beside what it must: the bytes that it asks to read and to
write."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chapters.c11_fused_kernels.workbench import Requested

__all__ = ["remarks_on"]

_ENOUGH = 1.05  # times the least: nothing is said of what is within
_MENTIONED = 0.1  # of what is too much: a tensor with less is not named
_SINGLY = 0.2  # of what is moved; a number or two for each row are a few hundredths


def remarks_on(asked: Mapping[str, Requested], least: Mapping[str, Requested]) -> list[str]:
    """Return what is worth knowing about the bytes that a kernel has ``asked`` for, of each tensor,
    where ``least`` is enough."""
    moved = sum(count.moved for count in asked.values())
    enough = sum(count.moved for count in least.values())
    remarks = []
    if moved > _ENOUGH * enough:
        too_much = ", ".join(_excess(asked, least, _MENTIONED * (moved - enough)))
        remarks.append(
            f"right, and moves {moved / enough:.1f} times what it must: {moved:,} bytes, where "
            f"{enough:,} are enough. It {too_much}. A cache may answer what is asked for again."
        )
    singly = sum(count.singly for count in asked.values())
    if singly > _SINGLY * moved:
        remarks.append(
            f"{singly / moved:.0%} of its bytes it moves one number at a time. A program is more "
            "than a hundred threads: a scalar keeps one of them busy, and the others wait."
        )
    return remarks


def _excess(
    asked: Mapping[str, Requested], least: Mapping[str, Requested], beyond: float
) -> Iterator[str]:
    """Yield what is done too often, where it is more than ``beyond`` bytes too many."""
    names = defaultdict[tuple[str, str], list[str]](list)
    for name, count in asked.items():
        needed = least.get(name, Requested())
        for does, number, fewest in (
            ("reads", count.read, needed.read),
            ("writes", count.written, needed.written),
        ):
            if number - fewest > beyond:
                times = f" {number / fewest:.3g} times as often as it must" if fewest else ""
                names[does, times or ", which it need not"].append(name)
    for (does, times), tensors in names.items():
        yield f"{does} {' and '.join(tensors)}{times}"
