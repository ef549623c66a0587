"""Chapter 11: what Triton's compiler makes of a kernel for a GPU that need not be there.

Compiler, assembler (ptxas) and reader of machine code (cuobjdump) for NVIDIA's GPUs, and the
compiler for AMD's, come with Triton. A kernel keeps the first target that it met, and with the
interpreter on there is nothing to compile: so each compilation has a process of its own.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["WARPS", "Compiled", "compiled", "kernel_text"]

WARPS = (1, 2, 4, 8, 16, 32)  # of a program: what num_warps can be

# ld.global.v4.b32 loads 16 bytes a thread, cp.async copies as many past the registers as it says
_LOAD = re.compile(r"\bld\.global(?:\.[a-z][a-z0-9:_]*)*?(?:\.v(\d))?\.[bfus](\d+)\b")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global [^;]*?, (0x[0-9a-f]+|\d+)")
_AMD_LOAD = re.compile(r"\b(?:global|buffer)_load_(?:dword(x\d)?|u?(short|byte))\b")


@dataclass(frozen=True)
class Compiled:
    """A kernel in machine code. ``threads`` run a program; each has ``registers`` of 32 bits, and
    ``spilled`` bytes in memory for what these do not hold. ``loads`` are the instructions that read
    tensors, by the bytes that a thread reads at once."""

    target: str
    threads: int
    registers: int
    spilled: int
    loads: Mapping[int, int]
    assembly: str = field(repr=False)  # PTX, or AMD's

    @property
    def read(self) -> int:
        """Bytes that a program without a loop reads: all its threads, masked slots included."""
        return self.threads * sum(width * count for width, count in self.loads.items())


def compiled(
    kernel: Any, *args: Any, target: str = "sm_90", num_warps: int = 4, **constants: Any
) -> Compiled:
    """Compile ``kernel`` for ``target``: "sm_80" (A100), "sm_90" (H100), "sm_100" (B200), "sm_120"
    (RTX 50) or "gfx942" (MI300).

    ``args``: for a tensor its dtype, for a number itself, as 4096 for the length of a row: whether
    16 divides it decides how wide a load can be. ``constants`` are what the kernel has as
    ``tl.constexpr``. Needs Triton, without which or where its compiler refuses: RuntimeError.
    ValueError: ``target`` or ``num_warps`` is none. TypeError: an argument is missing, too many or
    neither dtype nor number.
    """
    if find_spec("triton") is None:
        raise RuntimeError("compiled needs Triton: pip install triton, on Linux")
    if not re.fullmatch(r"sm_\d+|gfx[0-9a-f]+", target):
        raise ValueError(f'target must be one such as "sm_90" or "gfx942": got {target!r}')
    if num_warps not in WARPS:
        raise ValueError(f"num_warps must be a power of two from 1 to 32: got {num_warps!r}")
    name = kernel.fn.__name__
    given = inspect.signature(kernel.fn).bind(*args, **constants).arguments
    task = {
        "text": kernel_text(kernel),
        "name": name,
        "signature": {
            arg: "constexpr" if arg in constants else _described(arg, what)
            for arg, what in given.items()
        },
        "constants": constants,
        "aligned": [n for n, arg in enumerate(args) if not isinstance(arg, int) or arg % 16 == 0],
        "target": target,
        "num_warps": num_warps,
    }
    done = subprocess.run(
        [sys.executable, "-P", __file__],  # by its path: there PyTorch need not be imported
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "0"},
    )
    if done.returncode:
        why = done.stderr.strip()[-2000:]
        raise RuntimeError(f"{name} does not compile for target {target!r}: {why}")
    answer = json.loads(done.stdout)
    answer["loads"] = {int(width): count for width, count in answer["loads"].items()}
    return Compiled(**answer)


def _described(name: str, what: Any) -> str:
    """Return what Triton calls the type of an argument."""
    if isinstance(what, bool | int):
        return "i32"
    if isinstance(what, float):
        return "fp32"
    dtype = str(what).removeprefix("torch.")
    if not re.fullmatch(r"b?float\d+|int\d+", dtype):
        raise TypeError(f"{name} must be a dtype, for a tensor, or a number: got {what!r}")
    return "*" + dtype.replace("bfloat", "bf").replace("float", "fp").replace("int", "i")


def kernel_text(kernel: Any) -> str:
    """Return a module with ``kernel`` and the kernels that it calls, without any decorator but
    Triton's."""
    return "\n\n".join(["import triton, triton.language as tl", *_sources(kernel).values()])


def _sources(kernel: Any, found: dict[str, str] | None = None) -> dict[str, str]:
    """Return the text of a kernel behind those of the kernels that it calls, by their names."""
    found = {} if found is None else found
    for name in kernel.fn.__code__.co_names:
        other = kernel.fn.__globals__.get(name)
        if hasattr(other, "fn") and name not in found:
            _sources(other, found)
    source = textwrap.dedent(inspect.getsource(kernel.fn))
    # without its decorators, such as a check's
    found[kernel.fn.__name__] = re.sub(r"(?ms)\A.*?(?=^def )", "@triton.jit\n", source, count=1)
    return found


def _compile(task: Mapping[str, Any]) -> Compiled:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    target, nvidia = task["target"], task["target"].startswith("sm_")
    gpu = GPUTarget("cuda", int(target[3:]), 32) if nvidia else GPUTarget("hip", target, 64)
    with tempfile.TemporaryDirectory() as folder:  # Triton reads the source from a file
        os.environ["TRITON_CACHE_DIR"] = folder
        path = Path(folder, "kernels.py")
        path.write_text(task["text"], encoding="utf-8")
        kernels: dict[str, Any] = {"__name__": "kernels"}
        exec(compile(task["text"], path, "exec"), kernels)
        source = ASTSource(
            kernels[task["name"]],
            task["signature"],
            task["constants"],
            {(place,): [["tt.divisibility", 16]] for place in task["aligned"]},
        )
        made = triton.compile(source, gpu, {"num_warps": task["num_warps"]})
        threads = gpu.warp_size * task["num_warps"]
        if not nvidia:
            return _of_amd(target, threads, made.asm["amdgcn"])
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(made.asm["cubin"])
        usage = subprocess.run(
            [triton.knobs.nvidia.cuobjdump.path, "-res-usage", cubin],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    ptx = made.asm["ptx"]
    loads = Counter(int(count or 1) * int(bits) // 8 for count, bits in _LOAD.findall(ptx))
    loads.update(int(size, 0) for size in _COPY.findall(ptx))
    return Compiled(
        target, threads, _number(r"REG:", usage), _number(r"STACK:", usage), dict(loads), ptx
    )


def _of_amd(target: str, threads: int, assembly: str) -> Compiled:
    widths = {"short": 2, "byte": 1}
    loads = Counter(
        widths.get(small) or 4 * int(many[1:] or 1) for many, small in _AMD_LOAD.findall(assembly)
    )
    registers = _number(r"\.vgpr_count:\s+", assembly)
    spilled = _number(r"\.private_segment_fixed_size:\s+", assembly)
    return Compiled(target, threads, registers, spilled, dict(loads), assembly)


def _number(before: str, text: str) -> int:
    found = re.search(rf"{before}(\d+)", text)
    if found is None:
        raise RuntimeError(f"the compiler's report has no {before}")
    return int(found[1])


if __name__ == "__main__":
    print(json.dumps(asdict(_compile(json.load(sys.stdin)))))
