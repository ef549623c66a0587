"""The ladder and course bench: every implementation is right, what is wrong is refused, a run
survives its end."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from chapters.c10_where_the_time_goes import bench, ladder, records
from chapters.c10_where_the_time_goes.bench import cases, main
from chapters.c10_where_the_time_goes.ladder import OPERATIONS, Case, Implementation, measuring
from course_utils import runs

DIRECTIONS = ("forward", "forward+backward")
# small enough for loops in Python
TINY = {
    "layer_norm": (8, 16),
    "rms_norm": (8, 16),
    "batch_norm": (4, 4, 3, 3),
    "rope": (1, 2, 4, 8),
}
# too large for loops, quick in every other way
SMALL = {
    "layer_norm": (64, 100),
    "rms_norm": (64, 100),
    "batch_norm": (8, 16, 5, 5),
    "rope": (1, 4, 32, 16),
}


def tiny(operation="layer_norm", direction="forward", dtype="float32"):
    return Case(operation, direction, TINY[operation], dtype)


def check_and_time(case, device="cpu", seed=0, rounds=1, seconds=0.0):
    return ladder.check_and_time(case, device, seed, min(rounds, 3), 0.0)


@pytest.fixture
def implementations(monkeypatch):
    """Return a function that replaces the implementations of layer norm."""

    def take(*chosen):
        monkeypatch.setattr(ladder.Operation, "implementations", lambda self, shape, device: chosen)

    return take


def builtin(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_implementation_from_the_loops_up_is_right(operation, direction):
    results, left_out = check_and_time(tiny(operation, direction))
    assert left_out == []
    names = [item["implementation"] for item in results]
    assert names[0] == "loops"
    assert {"built-in", "peer: transformers"} & set(names)
    for item in results:
        assert max(item["errors"].values()) < 1e-6, item["implementation"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "dtype"),
    [("layer_norm", "float16"), *((operation, "bfloat16") for operation in OPERATIONS)],
)
def test_half_precisions_are_right_to_their_rounding(monkeypatch, operation, dtype):
    # what is compiled is traced, and nothing waits for machine code
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    results, left_out = check_and_time(Case(operation, "forward+backward", SMALL[operation], dtype))
    assert left_out == []
    assert all(item["tolerances"].keys() == item["errors"].keys() for item in results)


def test_loops_are_for_few_numbers_and_the_compiler_is_for_many():
    few, many = (
        [rung.name for rung in OPERATIONS["layer_norm"].implementations(shape, "cpu")]
        for shape in ((8, 16), (64, 100))
    )
    assert few[0] == "loops"
    assert "loops" not in many
    assert set(many) - set(few) == {"compiled"}


@pytest.mark.slow
def test_the_tenth_shape_is_compiled_too(monkeypatch):
    graphs = []
    monkeypatch.setattr(
        torch,
        "compile",
        partial(torch.compile, backend=lambda graph, _: graphs.append(graph) or graph),
    )
    for rows in range(60, 70):  # the compiler gives up after eight versions of a function
        results, _ = check_and_time(Case("rms_norm", "forward", (rows, 100), "float32"))
        assert "compiled" in [result["implementation"] for result in results]
    assert len(graphs) == 10


@pytest.mark.parametrize(
    ("operation", "shape", "dtype", "forward", "both"),
    [
        # x read and y written, weight and bias read; then dy, x and weight read, dx, dweight and
        # dbias written
        ("layer_norm", (10, 100), "float32", 2 * 4000 + 2 * 400, 5 * 4000 + 5 * 400),
        ("rms_norm", (10, 100), "float32", 2 * 4000 + 400, 5 * 4000 + 3 * 400),
        ("batch_norm", (2, 5, 10, 10), "float32", 2 * 4000 + 2 * 20, 5 * 4000 + 5 * 20),
        # q and k read and written, cosine and sine read in float32; the gradient needs no q and k
        ("rope", (2, 3, 10, 8), "float32", 4 * 1920 + 2 * 160, 8 * 1920 + 4 * 160),
        ("rope", (2, 3, 10, 8), "bfloat16", 4 * 960 + 2 * 160, 8 * 960 + 4 * 160),
    ],
)
def test_the_bytes_that_must_move_are_counted_once(operation, shape, dtype, forward, both):
    inputs = OPERATIONS[operation].inputs(shape, getattr(torch, dtype), "cpu", 0)
    assert OPERATIONS[operation].bytes_moved(inputs, False) == forward
    assert OPERATIONS[operation].bytes_moved(inputs, True) == both


# -- checks


def refused(case):
    """Why the only implementation of a case was left out."""
    results, [left_out] = check_and_time(case)
    assert results == []
    return left_out["reason"]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_is_wrong_or_cannot_run_is_left_out_with_its_reason_and_the_rest_is_measured(
    implementations, direction
):
    def broken(x, w, b):
        raise NotImplementedError("needs 8 features\nand more text")

    forgetful = Implementation("forgets the bias", lambda x, w, b: builtin(x, w, 0 * b))
    implementations(Implementation("broken", broken), forgetful, Implementation("good", builtin))
    [good], [cannot, wrong] = check_and_time(tiny(direction=direction))
    assert good["implementation"] == "good"
    assert cannot["reason"] == "NotImplementedError: needs 8 features"
    assert wrong["reason"].startswith("CheckFailed: forgets the bias, layer_norm")
    quantity = "y" if direction == "forward" else "dbias"
    assert re.search(rf"relative error of {quantity} .* is (1|0\.)", wrong["reason"])


def test_an_error_just_above_the_tolerance_is_refused_and_just_below_passes(implementations):
    implementations(Implementation("off", lambda x, w, b: builtin(x, w, b) * (1 + 1.2e-5)))
    assert "is 1.2e-05, allowed are 1e-05" in refused(tiny())
    implementations(Implementation("off", lambda x, w, b: builtin(x, w, b) * (1 + 0.8e-5)))
    assert check_and_time(tiny())[0]
    implementations(Implementation("NaN", lambda x, w, b: builtin(x, w, b) / 0 * 0))
    assert "is nan" in refused(tiny())


@pytest.mark.parametrize("operation", ["layer_norm", "rms_norm"])
def test_in_parts_of_rows_the_errors_are_those_of_the_whole(monkeypatch, operation):
    case = tiny(operation, "forward+backward")
    whole = {item["implementation"]: item["errors"] for item in check_and_time(case)[0]}
    monkeypatch.setattr(measuring, "_PART", 3 * case.shape[1])  # 8 rows: 3, 3 and 2
    for item in check_and_time(case)[0]:
        assert item["errors"] == pytest.approx(whole[item["implementation"]], rel=1e-6, abs=1e-12)


def test_other_people_may_sum_a_weight_gradient_in_half_precision_and_the_course_may_not(
    implementations,
):
    def coarse(x, w, b):
        return builtin(x, w, b.detach() + 1.2 * (b - b.detach()))  # dbias 20 % off

    implementations(Implementation("theirs", coarse, ours=False))
    (item,), _ = check_and_time(tiny(direction="forward+backward", dtype="bfloat16"))
    assert item["errors"]["dbias"] == pytest.approx(0.2, rel=0.05)
    assert "dbias" in refused(tiny(direction="forward+backward", dtype="float32"))
    implementations(Implementation("mine", coarse))
    assert "dbias" in refused(tiny(direction="forward+backward", dtype="bfloat16"))


def test_an_implementation_that_writes_over_its_inputs_disturbs_no_other(implementations):
    def in_place(x, w, b):
        return x.copy_(builtin(x, w, b))

    implementations(
        Implementation("in place", in_place, in_place=True), Implementation("good", builtin)
    )
    results, _ = check_and_time(tiny(), rounds=3)
    assert results[1]["errors"]["y"] < 1e-6


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_sweep_has_every_operation_in_both_directions_and_no_case_twice(device):
    sweep = cases(device)
    assert len(set(sweep)) == len(sweep)
    assert {(case.operation, case.direction) for case in sweep} == {
        (o, d) for o in OPERATIONS for d in DIRECTIONS
    }


# -- a run

PLAN = [tiny(), tiny("rms_norm"), tiny("rope")]


@pytest.fixture
def bench_here(monkeypatch):
    """Run ``course bench`` on three small cases with one round, in two threads instead of five
    processes."""
    monkeypatch.setattr(bench, "cases", lambda device, quick: PLAN)
    monkeypatch.setattr(bench, "check_and_time", check_and_time)
    monkeypatch.setattr(bench, "new_process", lambda threads: ThreadPoolExecutor(1))
    monkeypatch.setattr(bench, "PROCESSES", 2)
    monkeypatch.setattr(bench, "keep_freed_memory", lambda: True)
    return lambda out: exit_status("--device", "cpu", "--out", out)


def exit_status(*arguments):
    try:
        return main([*map(str, arguments)])
    except SystemExit as stopped:
        return stopped.code


def test_a_run_writes_a_record_with_a_line_for_each_case(tmp_path, capfd, bench_here):
    out = tmp_path / "mine.jsonl"
    assert bench_here(out) == 0
    record = records.read(out)
    assert list(tmp_path.iterdir()) == [out]
    assert len(runs.read(out)[1]) == len(PLAN)
    assert {item["operation"] for item in record.results} == {"layer_norm", "rms_norm", "rope"}
    (eager,) = record.select(implementation="eager", shape=(1, 2, 4, 8))
    assert eager["range_ms"][0] < eager["median_ms"] < eager["range_ms"][1]  # the mean of two times
    assert record.provenance["command"] == f"course bench --device cpu --out {out}"
    assert record.origin.endswith(f"(torch {torch.__version__}, {record.provenance['date'][:10]})")
    printed = capfd.readouterr().out
    assert f"{len(record.results)} results in {out}" in printed
    assert "rope (1, 2, 4, 8) float32 forward, eager: " in printed
    assert bench_here(out) == 0  # it is finished
    assert records.read(out) == record


def test_an_interrupted_run_keeps_what_it_has_and_goes_on_from_there(
    tmp_path, capsys, monkeypatch, bench_here
):
    out, measured = tmp_path / "mine.jsonl", []

    def interrupted(case, *how):
        if case.operation == "rms_norm":
            raise KeyboardInterrupt
        return check_and_time(case)

    def noting(case, *how):
        measured.append(case.operation)
        return check_and_time(case)

    monkeypatch.setattr(bench, "check_and_time", interrupted)
    assert bench_here(out) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    monkeypatch.setattr(bench, "check_and_time", noting)
    assert bench_here(out) == 0
    assert measured == ["rms_norm", "rope", "layer_norm", "rms_norm", "rope"]


def test_a_wrong_result_is_no_result_and_the_run_says_so_at_its_end(
    tmp_path, capsys, implementations, bench_here
):
    implementations(Implementation("forgets the bias", lambda x, w, b: builtin(x, w, 0 * b)))
    assert bench_here(tmp_path / "mine.jsonl") == 1
    record = records.read(tmp_path / "mine.jsonl")
    assert record.results == []
    assert {item["operation"] for item in record.left_out} == {"layer_norm", "rms_norm", "rope"}
    printed = capsys.readouterr()
    assert "left out: CheckFailed: forgets the bias, layer_norm (8, 16)" in printed.out
    assert "results are wrong" in printed.err


def test_a_case_that_does_not_fit_into_memory_is_left_out(tmp_path, monkeypatch, bench_here):
    turns = iter(range(9))

    def too_large(case, *how):
        if case.operation == "rope" and next(turns):  # in the second process
            raise torch.OutOfMemoryError("tried to allocate 90 GiB\nand so on")
        return check_and_time(case)

    monkeypatch.setattr(bench, "check_and_time", too_large)
    assert bench_here(tmp_path / "mine.jsonl") == 0
    (item,) = records.read(tmp_path / "mine.jsonl").left_out
    assert (item["operation"], item["implementation"], item["reason"]) == (
        "rope",
        "all",
        "tried to allocate 90 GiB",
    )


@pytest.fixture
def stand_in(monkeypatch):
    """A GPU that computes on the CPU, with a gigabyte free: what is Python about a GPU runs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench.runs, "machine", lambda device: {"device": "a stand-in"})
    for name in ("reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**30))
    there = measuring.measure_in_turns
    monkeypatch.setattr(
        measuring, "measure_in_turns", lambda calls, device, **how: there(calls, "cpu", **how)
    )
    for name, operation in list(OPERATIONS.items()):
        monkeypatch.setitem(OPERATIONS, name, replace(operation, inputs=partial(on_cpu, operation)))


def on_cpu(operation, shape, dtype, device, seed):
    return operation.inputs(shape, dtype, "cpu", seed)


def test_on_a_gpu_every_case_has_its_process_and_what_has_no_memory_is_left_out(
    tmp_path, capsys, monkeypatch, implementations, bench_here, stand_in
):
    implementations(Implementation("good", builtin))
    started = []
    monkeypatch.setattr(
        bench, "new_process", lambda threads: started.append(1) or ThreadPoolExecutor(1)
    )
    out = ["--device", "cuda", "--out", tmp_path / "mine.jsonl"]
    assert exit_status(*out) == 2
    assert "--without-triton measures what remains" in capsys.readouterr().err
    monkeypatch.setattr(bench, "cases", lambda device, quick: PLAN[:2])
    assert exit_status(*out, "--without-triton") == 0  # of RMS norm, which has no bias, none runs
    assert len(started) == 1 + 2
    record = records.read(tmp_path / "mine.jsonl")
    assert [item["operation"] for item in record.results] == ["layer_norm"]
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 2**30)
    _, [left_out] = check_and_time(PLAN[0], "cuda")
    assert left_out["reason"] == "MemoryError: wants 2.0 GiB, 1.0 GiB are free"


@pytest.mark.slow
def test_a_new_process_measures_with_its_threads_and_the_interpreter_off(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with ladder.new_process(threads=1) as process:
        results, left_out = process.submit(
            ladder.check_and_time, tiny("batch_norm"), "cpu", 0, 5, 0.05
        ).result()
        assert process.submit(os.getenv, "TRITON_INTERPRET").result() == "0"
        assert process.submit(torch.get_num_threads).result() == 1
    assert left_out == []
    assert all(result["median_ms"] > 0 for result in results)


def test_what_it_cannot_do_is_said_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert exit_status("--device", "cuda", "--out", tmp_path / "mine.jsonl") == 2
    assert exit_status("--device", "cpu", "--out", "no/such/folder.jsonl") == 2

    def ended(*args, **kwargs):
        raise BrokenProcessPool

    monkeypatch.setattr(bench, "run", ended)
    assert exit_status("--device", "cpu", "--out", tmp_path / "mine.jsonl") == 1
    no_gpu, no_folder, killed = capsys.readouterr().err.splitlines()
    assert "PyTorch sees none: `course doctor` says why; --device cpu runs anywhere" in no_gpu
    assert "--out must be a file in a folder that exists: got no/such/folder.jsonl" in no_folder
    assert "the same command goes on from there" in killed


# -- records


@pytest.mark.parametrize("name", records.available("cpu") + records.available("cuda"))
def test_every_record_of_the_course_holds_results_that_passed_their_checks(name):
    record = records.load(name)
    for result in record.results:
        assert all(
            error <= result["tolerances"][quantity] for quantity, error in result["errors"].items()
        )
        low, high = result["range_ms"]
        assert 0 < low <= result["median_ms"] <= high
        assert 0 < result["p10_ms"] <= result["median_ms"]
    device = record.provenance["device_type"]
    measured = {
        (r["operation"], r["direction"], tuple(r["shape"]), r["dtype"])
        for r in (*record.results, *record.left_out)
    }
    plan = cases(device, record.provenance.get("quick", False))
    planned = {(c.operation, c.direction, c.shape, c.dtype) for c in plan}
    # that of a GPU may have been ended before it was through
    assert measured == planned if device == "cpu" else measured <= planned
    assert name in records.describe(device)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_implementation_on_the_gpu_is_right_and_can_be_captured(operation, direction):
    case = Case(operation, direction, SMALL[operation], "bfloat16")
    results, left_out = ladder.check_and_time(case, "cuda", seed=0, rounds=3, seconds=0.0)
    assert [item for item in left_out if not item["implementation"].startswith("peer")] == []
    assert all(item["median_ms"] > 0 for item in results)
