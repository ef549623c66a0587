"""Exercises to write on a page: what the page needs to judge an answer, found by torch.

A probe that needs gradients is left to JupyterLab. For the others the page gets
the inputs, the right outputs, and a few numbers of what each known mistake gives: alone, everyday
ones also two or three at once. It holds an answer against these as `course_utils.check` does, and
runs the mistake itself to compare the other numbers. Of any other two it gets sums, and runs those
whose sums are an answer's, as far as a check would try them.
"""

import gzip
import inspect
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import combinations, product
from math import isclose, isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chapters import check
from chapters.c21_find_the_bug.bugs import reply
from chapters.c21_find_the_bug.bugs.judge import Judge
from chapters.c21_find_the_bug.bugs.piece import Piece
from course_utils.check import relations
from course_utils.check.catalogue import Mistake, source_of, spans_of
from course_utils.check.comparison import Comparison
from course_utils.check.diagnosis import Slips, Stage, function_with
from course_utils.check.engine import Check
from course_utils.check.exercise import Exercise
from course_utils.check.functions import argument_names
from course_utils.check.probes import Call, Probe, same
from course_utils.check.report import evidence_for
from course_utils.check.runner import Runner, Trial, trusted
from course_utils.check.sandbox import usual_modes
from course_utils.check.smallest import Shrink
from course_utils.norms.statistics import Moments
from course_utils.table import format_number

__all__ = [
    "WRITE",
    "WRITTEN_ON_PAGE",
    "editor",
    "exercise_data",
    "python_files",
    "write_python",
]

WRITE = Path(__file__).with_name("write")
# a worker of a page that is read from a file is no module
_AS_SCRIPT = {
    "export default _createMicroPythonModule;": "",
    "export async function": "async function",
    "import.meta.url": '""',
}
_INTERPRETER = WRITE / "micropython"

WRITTEN_ON_PAGE = (
    "centre", "normalize", "layer_norm", "ema", "rms_norm", "merge_moments", "sinusoidal",
    "alibi_slopes", "rope", "ntk_inv_freq", *(f"input_{letter}" for letter in "bcfil"),
)  # fmt: skip
_MOST_NUMBERS = 8  # of what a mistake gives: where these agree, the page makes it and compares all
_FLOAT32_HOLDS = 1e-7  # what is compared less closely is stored in float32; so reads judge.js
_TELLING = 3  # probes whose sums tell most of two mistakes at once from the others


def write_python(scripts: Path) -> None:
    """Put what runs and judges answers into ``scripts``, as one script: a page that is read from a
    file may load no module and fetch nothing."""
    module = (_INTERPRETER / "micropython.mjs").read_text(encoding="utf-8")
    for modular, plain in _AS_SCRIPT.items():
        module = module.replace(modular, plain)
    worker = (WRITE / "worker.js").read_text(encoding="utf-8")
    parts = {
        "module": _packed(
            f"(async () => {{\n{module}\n{worker}\nserve(loadMicroPython);\n}})();".encode()
        ),
        "wasm": _packed((_INTERPRETER / "micropython.wasm").read_bytes()),
        "files": python_files(),
    }
    licence = (_INTERPRETER / "LICENSE").read_text(encoding="utf-8")
    judge = (WRITE / "judge.js").read_text(encoding="utf-8")
    notice = f"/* MicroPython is in this file:\n{licence}*/\n"
    text = f"{notice}{judge}const coursePython = {json.dumps(parts)};\n"
    (scripts / "python.js").write_text(text, encoding="utf-8")


def python_files() -> dict[str, str]:
    """Return what the page's Python runs, by name."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(WRITE.glob("*.py"))}
    for module, needed in ((reply, format_number), (relations, same)):
        text = inspect.getsource(needed) + inspect.getsource(module)
        texts[Path(str(module.__file__)).name] = re.sub(r"^from .*\n", "", text, flags=re.M)
    return texts


def _packed(data: bytes) -> str:
    return b64encode(gzip.compress(data, mtime=0)).decode()


def editor(name: str, stub: str, scripts: Path, address: str, start: str = "") -> str:
    """Return the HTML of the place where an exercise is written, and put what judges it into
    ``scripts``.

    Args:
        name: the exercise.
        stub: what stands in the editor at first, unless ``start`` does.
        scripts: the folder of the page's scripts.
        address: the folder's address, seen from the page.
        start: a beginning to mend.
    """
    file = scripts / f"write_{name}.js"
    if not file.exists():
        data = json.dumps(exercise_data(name), separators=(",", ":"), ensure_ascii=False)
        file.write_text(f"(globalThis.courseExercises ??= {{}}).{name} = {data};\n", "utf-8")
    probes = check[name].exercise.probes
    count = sum(map(_can_be_run, probes))
    checked = f" on {count} of {len(probes)} probes" if probes else ""
    rest = ", the rest in JupyterLab" if count < len(probes) else ""
    texts: dict[str, Any] = {"stub": stub}
    if start:
        texts |= {"start": start, "told": _told_of(name, start)}
    values = json.dumps(texts, ensure_ascii=False).replace("</", "<\\/")
    return (
        f'<div class="course-write" data-exercise="{name}" data-static="{address}">'
        f'<script type="application/json">{values}</script></div>\n'
        f'<p class="course-note">Checked here{checked}{rest}. It runs in '
        "your browser, in MicroPython, and nothing leaves the page; under 1 MB comes with the "
        "first click.</p>"
    )


def _told_of(name: str, source: str) -> dict[str, Any]:
    """Return what is said of a beginning, so that it stands there before anything is run."""
    exercise = check[name].exercise
    names: dict[str, Any] = {"torch": torch}
    exec(source, names)
    here = Check(replace(exercise, probes=list(filter(_can_be_run, exercise.probes))))
    report = here(names[name], record=False)
    return {
        "name": name,
        "probes": len(report.probes),
        "right": sum(probe.passed for probe in report.probes),
        "message": report.message,
        "keys": report.misconceptions,
        "mistakes": {mistake.key: _words(mistake) for mistake in report.mistakes},
        "evidence": report.evidence and report.evidence.lines(),
    }


@usual_modes()
def exercise_data(name: str) -> dict[str, Any]:
    """Return what a page needs to judge an answer to an exercise, ready for JSON."""
    exercise = check[name].exercise
    if isinstance(exercise.judge, Judge):
        return {"name": name, "piece": _piece_data(exercise.judge.piece)}
    probes = list(filter(_can_be_run, exercise.probes))
    here = replace(exercise, probes=probes)
    runners = [Runner(each, torch.device("cpu")) for each in (here, *here.by_convention.values())]
    trials = [
        _trial(runner, words)
        for runner, words in zip(runners, ("", *here.conventions), strict=True)
    ]
    pairs = _pairs(exercise)
    twos = [pair for pair in pairs if function_with(here, pair)]
    for runner, trial in zip(runners, trials, strict=True):
        trial["reached"] = _reached(runner, trial, twos)
    return {
        "name": name,
        "call": exercise.call_form,
        "required": argument_names(exercise.oracle)[0],
        "returns": list(exercise.returns),
        "elsewhere": len(exercise.probes) - len(probes),
        "most": _MOST_NUMBERS,
        "mistakes": {key: _words(mistake) for key, mistake in exercise.catalogue.items()},
        "probes": [_probe(here, probe) for probe in probes],
        "trials": trials,
        "twos": _bits(function_with(here, pair) is not None for pair in pairs),
        **_sums(here, trials[0], twos),
    }


def _piece_data(piece: Piece) -> dict[str, Any]:
    """Return what a page needs to say whether an input shows what is wrong with a piece; what has
    an order as pairs."""
    ordered = ("near", "unanswerable", "arguments", "limits")
    plain = ("function", "source", "sizes", "tolerance")
    return {
        **{name: [*getattr(piece, name).items()] for name in ordered},
        **{name: getattr(piece, name) for name in plain},
        "mended": piece.mended_source,
        "usual_ratio": piece.usual_ratio(),
        "ordinary": [(name, _coded(value)) for name, value in piece.ordinary().items()],
    }


def _can_be_run(probe: Probe) -> bool:
    return not probe.gradients


def _words(mistake: Mistake) -> dict[str, Any]:
    names = ("title", "wrong", "matters", "hint", "everyday")
    return {name: getattr(mistake, name) for name in names}


def _probe(exercise: Exercise, probe: Probe) -> dict[str, Any]:
    return {
        "name": probe.name,
        "stage": probe.stage,
        "rough": probe.rough,
        "compares": probe.compares,
        "remark": probe.remark,
        "beyond": probe.remark_beyond and asdict(probe.remark_beyond),
        **_call(exercise, probe.call),
    }


def _call(exercise: Exercise, call: Call) -> dict[str, Any]:
    """Return a call: its arguments for the page's Python, and as a report shows them."""
    evidence = evidence_for(
        exercise.name, exercise.arguments[0], call, format_call=exercise.format_call
    )
    arguments = {name: _argument(exercise, value) for name, value in call.arguments.items()}
    return {"arguments": arguments, "shown": [evidence.call, *evidence.inputs]}


def _argument(exercise: Exercise, value: Any) -> Any:
    if isinstance(value, Tensor) and exercise.name == "merge_moments":
        return ["moments", *map(_coded, Moments.of(value))]
    return _coded(value)


def _coded(value: Any) -> Any:
    if isinstance(value, Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        # in the order of memory, which strides then read
        size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
        memory = value.as_strided((size if value.numel() else 0,), (1,))
        numbers = _numbers(memory, value.dtype in (torch.float64, torch.int64))
        return ["tensor", kind, list(value.shape), list(value.stride()), numbers]
    if isinstance(value, tuple):
        return ["tuple", *value]
    return (
        ["double", _numbers(torch.tensor(value, dtype=torch.float64))]
        if isinstance(value, float)
        else value
    )


def _numbers(values: Tensor, exact: bool = True) -> str:
    """Return float64, or float32, in base64."""
    values = (values.double() if exact else values.float()).contiguous()
    return b64encode(values.numpy().tobytes()).decode()


def _trial(runner: Runner, convention: str) -> dict[str, Any]:
    """Return what is right by a convention, and what the known mistakes give beside it."""
    found = _Candidates(runner)
    found.add_least()
    catalogue = runner.exercise.catalogue
    for key, mistake in catalogue.items():
        for form in range(len(mistake.examples)):
            found.add(((key, form),))
    everyday = [found.forms[key] for key in found.forms if catalogue[key].everyday]
    for first, second in combinations(everyday, 2):
        for two in product(first, second):
            found.add(two)
    for three in combinations([forms[0] for forms in everyday], 3):
        found.add(three)
    right = [runner.compare(runner.exercise.oracle, probe) for probe in runner.exercise.probes]
    return {
        "convention": convention,
        "expected": [_expected(each) for each in right],
        "tables": [[_observation(each) for each in table] for table in found.tables],
        "candidates": found.candidates,
        "smallest": found.calls,
    }


def _pairs(exercise: Exercise) -> list[Slips]:
    """Return any two mistakes that edits make, whether or not they can be made at once."""
    slips = [
        (key, form) for key, each in exercise.catalogue.items() for form in range(len(each.edits))
    ]
    return [pair for pair in combinations(slips, 2) if len(dict(pair)) == 2]


def _bits(flags: Iterable[bool]) -> str:
    return b64encode(np.packbits(list(flags), bitorder="little").tobytes()).decode()


def _reached(runner: Runner, trial: dict[str, Any], twos: list[Slips]) -> dict[str, str]:
    """Return by stage, where that is the first that is wrong, which candidates a check tries, and
    which two at once."""
    exercise = runner.exercise
    right = Trial(runner, "", [runner.compare(exercise.oracle, each) for each in exercise.probes])
    several = [*(each["slips"] for each in trial["candidates"]), *twos]
    reached = {}
    for name in dict.fromkeys(probe.stage for probe in exercise.probes):
        tried = set(map(frozenset, Stage(right, name).tried()))
        reached[name] = _bits(frozenset(slips) in tried for slips in several)
    return reached


def _sums(exercise: Exercise, trial: dict[str, Any], twos: list[Slips]) -> dict[str, Any]:
    """Return what the page needs to make any two mistakes at once, and sums of what they give."""
    reference = next(iter(exercise.catalogue.values())).reference
    source = source_of(reference)
    edits = {
        key: [[*spans_of(edit, source)] for edit in mistake.edits]
        for key, mistake in exercise.catalogue.items()
    }
    telling = _telling(exercise, trial)
    runner = Runner(exercise, torch.device("cpu"))
    functions = [function_with(exercise, pair) for pair in twos]
    sums = [
        _sum(runner.compare(function, exercise.probes[at]))
        for function in functions
        if function
        for at in telling
    ]
    return {
        "reference": reference.__name__,
        "source": source,
        "edits": edits,
        "telling": telling,
        "sums": _numbers(torch.tensor(sums), exact=False),
    }


def _telling(exercise: Exercise, trial: dict[str, Any]) -> list[int]:
    """Return the probes on which the most candidates differ."""
    exact = [i for i, probe in enumerate(exercise.probes) if not probe.rough]
    rows = [candidate["rows"] for candidate in trial["candidates"]]
    telling: list[int] = []
    for _ in range(_TELLING):
        telling.append(
            max(
                exact, key=lambda i: len({(*map(row.__getitem__, telling), row[i]) for row in rows})
            )
        )
    return telling


def _sum(comparison: Comparison) -> float:
    """Return a sum that values in other places change, or letters of a finding that leaves none;
    NaN for an error."""
    if comparison.error:
        return nan
    finding, values = comparison.observed.finding, comparison.observed.values
    parts = [value.flatten() for value in values.values()]
    if finding and not finding.leaves_values:
        parts = [torch.tensor([*map(ord, finding.kind + finding.what)])]
    numbers = torch.cat(parts)
    return float(numbers.double() @ torch.arange(1, len(numbers) + 1).double())


class _Candidates:
    """What an answer is held against: known mistakes, alone or together, with what they show on
    each probe, and the smallest input that shows it."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.tables: list[list[Comparison]] = [[] for _ in runner.exercise.probes]
        self.candidates: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []  # the smallest inputs
        self.smallest: dict[Any, tuple[int, Call]] = {}  # by what is shown, and by a first mistake
        self.forms: dict[str, list[tuple[str, int]]] = {}  # of each mistake, those that differ

    def add(self, slips: Slips) -> None:
        """Run a function that makes these mistakes at once, if it shows anything and ends."""
        function = function_with(self.runner.exercise, slips)
        comparisons = self.runner.run(function) if function else []
        failed = next((each for each in comparisons if not each.passed), None)
        if function is None or failed is None or len(comparisons) < len(self.tables):
            return
        rows = list(map(_place, self.tables, comparisons))
        if len(slips) == 1:
            self._add_form(slips[0], rows)
        smallest = self._smallest(slips, function, failed)
        self.candidates.append({"slips": slips, "rows": rows, "smallest": smallest})

    def _add_form(self, slip: tuple[str, int], rows: list[int]) -> None:
        key, form = slip
        alike = [other for other in self.candidates if other["rows"] == rows]
        is_new = not any(other["slips"][0][0] == key for other in alike)
        if is_new and form < len(self.runner.exercise.catalogue[key].edits):
            self.forms.setdefault(key, []).append(slip)

    def _smallest(self, slips: Slips, function: Callable[..., Any], failed: Comparison) -> int:
        """Return the place of the smallest input that shows mistakes: of several, that of the
        first, where it does."""
        first = slips[:1]
        mistake = self.runner.exercise.catalogue[slips[0][0]] if len(slips) > 1 else None
        shrink = Shrink(self.runner, function, trusted, failed, mistake)
        of = self.runner.exercise.probes.index(failed.probe)
        place, call = self.smallest.get((of, first), (-1, None))
        if call is not None and shrink.fails(call):
            return place
        found = self._keep(failed, shrink.smallest())
        self.smallest.setdefault((of, first), found)
        return found[0]

    def add_least(self) -> None:
        """Keep, of the first probe of each stage, the smallest input that shows a result that is
        wrong on any."""
        probes = {probe.stage: probe for probe in reversed(self.runner.exercise.probes)}
        for probe in probes.values():
            failed = self.runner.compare(_wrong_on_any, probe)
            self._keep(failed, Shrink(self.runner, _wrong_on_any, trusted, failed).smallest())

    def _keep(self, failed: Comparison, shown: Comparison) -> tuple[int, Call]:
        """Return the place and the call of a smallest input, kept once."""
        exercise, call = self.runner.exercise, shown.probe.call
        coded, of = _call(exercise, call), exercise.probes.index(failed.probe)
        text = repr((of, coded["shown"]))
        if text not in self.smallest:
            self.calls.append({"of": of, **coded, **_expected(shown)})
            self.smallest[text] = len(self.calls) - 1, call
        return self.smallest[text]


def _wrong_on_any(*_: Any, **__: Any) -> Tensor:
    return torch.zeros(2, 3, 5, 7)


def _place(table: list[Comparison], comparison: Comparison) -> int:
    """Return where in the table what is shown stands, and put it there if it does not yet."""
    for place, known in enumerate(table):  # most show on most probes what another one has shown
        if (
            _may_agree(comparison, known)
            and comparison.agrees_with(known)
            and known.agrees_with(comparison)
        ):
            return place
    table.append(comparison)
    return len(table) - 1


def _may_agree(comparison: Comparison, known: Comparison) -> bool:
    """Return whether two are about as far off: to compare all their values takes long."""
    return comparison.probe.rough or all(
        isclose(ratio, known.ratios.get(name, 0.0), rel_tol=0.01, abs_tol=3.0)
        for name, ratio in comparison.ratios.items()
    )


def _expected(comparison: Comparison) -> dict[str, Any]:
    """Return the right quantities: shape, values, dtype, and how far off is still right."""
    names = comparison.probe.compares or comparison.expected.values
    expected = {}
    for name, values in comparison.expected.values.items():
        dtype = comparison.expected.dtypes.get(name)
        tolerance = comparison.tolerance(name)
        # a remark may be on the last digits
        exact = tolerance.absolute < _FLOAT32_HOLDS or bool(comparison.probe.remark)
        expected[name] = {
            "shape": list(values.shape),
            "values": _numbers(values, exact),
            "exact": exact,
            "dtype": str(dtype).removeprefix("torch.") if dtype else "",
            "relative": tolerance.relative,
            "absolute": tolerance.absolute,
            "compared": name in names,
        }
    return {"expected": expected}


def _observation(comparison: Comparison) -> dict[str, Any]:
    """Return what a mistake shows on a probe: a finding, and where it leaves values, of what is
    wrong the ratio and the values, which a rough probe does not need."""
    finding = comparison.observed.finding
    shown = {"finding": [finding.kind, finding.what]} if finding else {}
    if finding and not finding.leaves_values:
        return shown
    wrong = {}
    for name, ratio in comparison.ratios.items():
        if ratio > 1:
            wrong[name] = [float(f"{ratio:.3g}") if isfinite(ratio) else "inf"]
        if ratio > 1 and not comparison.probe.rough:
            values = comparison.observed.values[name].flatten()
            count = min(len(values), _MOST_NUMBERS)
            places = torch.arange(count) * len(values) // count
            largest = values.nan_to_num(0.0, 0.0, 0.0).abs().max().item()
            exact = comparison.tolerance(name).absolute < _FLOAT32_HOLDS
            wrong[name] += [largest, _numbers(values[places], exact)]
    return {**shown, "wrong": wrong}
