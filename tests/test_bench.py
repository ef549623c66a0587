"""course bench: what is compared, what is refused, and what survives the end of a run."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch
import torch.nn.functional as F
from test_recorded import content, result

from course_utils import recorded
from course_utils.recorded import RecordError
from course_utils.timing.bench import Case, CheckFailed, cases, command, goals, main, peers, processes, run, trial
from course_utils.timing.bench import run as run_function
from course_utils.timing.bench.ladder import OPERATIONS, Rung
from course_utils.timing.bench.sweep import TINY

run_module = sys.modules["course_utils.timing.bench.run"]
DIRECTIONS = ("forward", "forward+backward")
# too large for loops, quick in every other way
SMALL = {"layer_norm": (64, 100), "rms_norm": (64, 100), "batch_norm": (8, 16, 5, 5), "rope": (1, 4, 32, 16)}


def tiny(operation="layer_norm", direction="forward", dtype="float32"):
    return Case(operation, direction, TINY[operation], dtype)


def attempt(case, rounds=1):
    return trial.attempt(case, "cpu", seed=0, rounds=rounds, seconds=0.0)


@pytest.fixture
def rungs(monkeypatch):
    """Return a function that replaces the rungs of layer norm."""

    def replace(*implementations):
        operation = OPERATIONS["layer_norm"]
        monkeypatch.setattr(type(operation), "rungs", lambda self, shape, device: iter(implementations))

    return replace


def builtin(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)


# -- the ladder


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_rung_from_the_loops_up_is_right(operation, direction):
    results, left_out = attempt(tiny(operation, direction))
    assert left_out == []
    names = [item["implementation"] for item in results]
    assert names[0] == "loops"
    assert {"built-in", "peer: transformers"} & set(names)
    for item in results:
        assert max(item["errors"].values()) < 1e-6, item["implementation"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_half_precisions_are_right_to_their_rounding(operation, dtype):
    with torch.compiler.set_stance("force_eager"):
        results, left_out = attempt(Case(operation, "forward+backward", SMALL[operation], dtype))
    assert left_out == []
    assert all(item["tolerances"].keys() == item["errors"].keys() for item in results)


def test_results_are_checked_in_both_directions_by_name():
    forward, _ = attempt(tiny("layer_norm"))
    both, _ = attempt(tiny("layer_norm", "forward+backward"))
    rotated, _ = attempt(tiny("rope", "forward+backward"))
    assert set(forward[0]["errors"]) == {"y"}
    assert set(both[0]["errors"]) == {"dx", "dweight", "dbias"}
    assert set(rotated[0]["errors"]) == {"dq", "dk"}


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_the_compiler_makes_of_it_is_right(operation):
    results, left_out = attempt(Case(operation, "forward+backward", SMALL[operation], "float32"))
    assert left_out == []
    assert "compiled" in [item["implementation"] for item in results]
    assert "loops" not in [item["implementation"] for item in results]


@pytest.mark.parametrize(
    ("operation", "shape", "dtype", "forward", "both"),
    [
        # x read and y written, weight and bias read; then dy, x and weight read, dx, dweight and dbias written
        ("layer_norm", (10, 100), "float32", 2 * 4000 + 2 * 400, 5 * 4000 + 5 * 400),
        ("layer_norm", (10, 100), "bfloat16", 2 * 2000 + 2 * 200, 5 * 2000 + 5 * 200),
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"operation": "layernorm"},
            "operation must be one of layer_norm, rms_norm, .*: got 'layernorm'",
        ),
        ({"direction": "backward"}, r"direction must be one of forward, forward\+backward: got 'backward'"),
        ({"direction": "Forward"}, r"direction must be one of forward, forward\+backward: got 'Forward'"),
        ({"dtype": "fp32"}, "dtype must be one of float32, bfloat16, float16: got 'fp32'"),
        ({"dtype": torch.float32}, "dtype must be one of float32, bfloat16, float16: got torch.float32"),
        ({"operation": "rope"}, r"shape must be \(B, H, T, D\), whole .* at least 1, for rope: got \(8, 16\)"),
        ({"operation": "batch_norm", "shape": (8,)}, r"shape must be \(N, C, \*\), .* for batch_norm: got \(8,\)"),
        ({"shape": ()}, r"shape must be \(\*, C\), .* for layer_norm: got \(\)"),
        ({"shape": 16}, "shape must be .*: got 16"),
        ({"shape": (8, 0)}, r"shape must be .*: got \(8, 0\)"),
        ({"shape": (8, 16.0)}, r"shape must be .*: got \(8, 16\.0\)"),
    ],
)
def test_a_case_that_cannot_be_measured_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        Case(**{"operation": "layer_norm", "direction": "forward", "shape": (8, 16), "dtype": "float32", **change})


@pytest.mark.parametrize(
    ("operation", "shape"), [("layer_norm", (2, 8, 16)), ("rms_norm", (16,)), ("batch_norm", (8, 3))]
)
def test_a_norm_takes_any_number_of_axes_beside_its_own(operation, shape):
    assert Case(operation, "forward", shape, "float32").shape == shape


def test_inputs_are_random_repeatable_and_not_the_identity():
    x, w, b = OPERATIONS["layer_norm"].inputs((8, 16), torch.float32, "cpu", 0)
    again = OPERATIONS["layer_norm"].inputs((8, 16), torch.float32, "cpu", 0)
    assert all(torch.equal(one, other) for one, other in zip((x, w, b), again, strict=True))
    assert x.unique().numel() == 128
    assert not torch.equal(w, torch.ones(16))
    assert not torch.equal(b, torch.zeros(16))


def test_queries_lie_in_memory_as_a_projection_leaves_them():
    q, k, cos, sin = OPERATIONS["rope"].inputs((2, 3, 5, 8), torch.bfloat16, "cpu", 0)
    assert q.shape == k.shape == (2, 3, 5, 8)
    assert q.transpose(1, 2).is_contiguous()
    assert cos.dtype == sin.dtype == torch.float32


# -- checks


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_wrong_implementation_ends_the_case(rungs, direction):
    rungs(Rung("good", builtin), Rung("forgets the bias", lambda x, w, b: builtin(x, w, 0 * b)))
    quantity = "y" if direction == "forward" else "dbias"
    with pytest.raises(CheckFailed, match=rf"forgets the bias, layer_norm .* relative error of {quantity} .* is 1|0\."):
        attempt(tiny(direction=direction))


def test_a_right_output_with_a_wrong_gradient_ends_the_case(rungs):
    rungs(Rung("detached", lambda x, w, b: builtin(x, w, b) + x.detach().mean() * (x - x.detach())))
    attempt(tiny())
    with pytest.raises(CheckFailed, match="relative error of dx"):
        attempt(tiny(direction="forward+backward"))


def test_nan_is_wrong(rungs):
    rungs(Rung("NaN", lambda x, w, b: builtin(x, w, b) / 0 * 0))
    with pytest.raises(CheckFailed, match="is nan"):
        attempt(tiny())


def test_an_error_just_above_the_tolerance_is_refused_and_just_below_passes(rungs):
    rungs(Rung("off", lambda x, w, b: builtin(x, w, b) * (1 + 1.2e-5)))
    with pytest.raises(CheckFailed, match=r"is 1\.2e-05, allowed are 1e-05"):
        attempt(tiny())
    rungs(Rung("off", lambda x, w, b: builtin(x, w, b) * (1 + 0.8e-5)))
    assert attempt(tiny())[0]


def test_other_people_may_sum_a_weight_gradient_in_half_precision_and_the_course_may_not(rungs):
    def coarse(x, w, b):
        return builtin(x, w, b.detach() + 1.2 * (b - b.detach()))  # dbias 20 % off

    rungs(Rung("theirs", coarse, ours=False))
    (item,), _ = attempt(tiny(direction="forward+backward", dtype="bfloat16"))
    assert item["errors"]["dbias"] == pytest.approx(0.2, rel=0.05)
    with pytest.raises(CheckFailed, match="dbias"):
        attempt(tiny(direction="forward+backward", dtype="float32"))
    rungs(Rung("mine", coarse))
    with pytest.raises(CheckFailed, match="dbias"):
        attempt(tiny(direction="forward+backward", dtype="bfloat16"))


def test_what_cannot_run_is_left_out_with_its_reason_and_the_rest_is_measured(rungs):
    def broken(x, w, b):
        raise NotImplementedError("needs 8 features\nand more text")

    rungs(Rung("broken", broken), Rung("good", builtin))
    results, left_out = attempt(tiny())
    assert [item["implementation"] for item in results] == ["good"]
    assert [(item["implementation"], item["reason"]) for item in left_out] == [
        ("broken", "NotImplementedError: needs 8 features")
    ]


def test_an_implementation_that_writes_over_its_inputs_disturbs_no_other(rungs):
    def in_place(x, w, b):
        return x.copy_(builtin(x, w, b))

    rungs(Rung("in place", in_place, in_place=True), Rung("good", builtin))
    results, _ = attempt(tiny(), rounds=3)
    assert results[1]["errors"]["y"] < 1e-6


def test_all_implementations_are_timed_in_turns_beside_a_copy(rungs):
    rungs(Rung("one", builtin), Rung("two", builtin))
    results, _ = attempt(tiny(), rounds=3)
    assert [item["implementation"] for item in results] == ["one", "two"]
    assert results[0]["copy_gbps"] == results[1]["copy_gbps"] > 0
    assert all(item["runs"] == 3 and 0 < item["p10_ms"] <= item["median_ms"] for item in results)


# -- a run

PLAN = [tiny(), tiny("rms_norm"), tiny("rope")]


@pytest.fixture
def quickly(monkeypatch):
    """Measure with one round and no large copies."""
    monkeypatch.setattr(run_module, "copy_bandwidth", lambda device, dtype: 12.0)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(processes, "attempt", lambda case, device, seed, rounds, seconds: attempt(case))
    monkeypatch.setattr(command, "run", lambda *args, **kwargs: run_function(*args, **kwargs, plan=PLAN))


@pytest.mark.usefixtures("quickly")
def test_a_run_writes_a_sound_record_and_removes_what_it_kept_meanwhile(tmp_path, capfd):
    out = tmp_path / "record.json"
    assert main(["--device", "cpu", "--quick", "--out", str(out)]) == 0

    record = recorded.read(out)
    assert list(tmp_path.iterdir()) == [out]
    assert {item["operation"] for item in record.results} == {"layer_norm", "rms_norm", "rope"}
    assert record.provenance["command"] == f"course bench --device cpu --quick --out {out}"
    assert record.provenance["torch"] == torch.__version__
    assert record.sessions[0]["copy_gbps"] == {"float32": 12.0}
    printed = capfd.readouterr()
    assert "results in" in printed.out
    assert "layer_norm (8, 16) float32 forward" in printed.out
    assert "case/s" in printed.err or "s/case" in printed.err


@pytest.mark.usefixtures("quickly")
def test_an_interrupted_run_keeps_what_it_has_and_goes_on_from_there(tmp_path, capsys, monkeypatch):
    out, measured = tmp_path / "record.json", []

    def interrupted(case, device, seed, rounds, seconds):
        if case.operation == "rms_norm":
            raise KeyboardInterrupt
        return attempt(case)

    def noting(case, device, seed, rounds, seconds):
        measured.append(case.operation)
        return attempt(case)

    monkeypatch.setattr(processes, "attempt", interrupted)
    assert main(["--device", "cpu", "--processes", "1", "--out", str(out)]) == 130
    assert not out.exists()
    assert "the same command goes on from there" in capsys.readouterr().err
    kept = [json.loads(line) for line in (tmp_path / "record.json.partial").read_text().splitlines()]
    assert [line["case"] for line in kept if "case" in line] == ["layer_norm (8, 16) float32 forward"]

    monkeypatch.setattr(processes, "attempt", noting)
    assert main(["--device", "cpu", "--processes", "1", "--out", str(out)]) == 0
    assert measured == ["rms_norm", "rope"]
    record = recorded.read(out)
    assert len(record.sessions) == 2
    assert {item["session"] for item in record.select(operation="layer_norm")} == {0}
    assert {item["session"] for item in record.select(operation="rope")} == {1}


def test_a_run_that_is_killed_outright_keeps_every_finished_case(tmp_path):
    out = tmp_path / "record.json"
    program = (
        "from pathlib import Path; from course_utils.timing.bench import run, Case;"
        "plan = [Case('layer_norm', 'forward', (8, 10 + i), 'float32') for i in range(300)];"
        f"run('cpu', Path({str(out)!r}), quick=True, plan=plan)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    kept = tmp_path / "record.json.partial"
    deadline = time.monotonic() + 60
    while not (kept.exists() and kept.read_text().rpartition("\n")[0].count('"case":') >= 2):  # whole lines
        assert time.monotonic() < deadline, "no case finished in a minute"
        assert process.poll() is None, "the run ended by itself"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert not out.exists()
    whole = [line for line in kept.read_text().splitlines(keepends=True) if line.endswith("\n")]
    entries = [json.loads(line) for line in whole]
    assert sum("case" in entry for entry in entries) >= 2
    assert all(entry["results"] for entry in entries if "case" in entry)


@pytest.mark.usefixtures("quickly")
def test_a_wrong_result_ends_the_run_without_a_record(tmp_path, capsys, rungs):
    rungs(Rung("forgets the bias", lambda x, w, b: builtin(x, w, 0 * b)))
    assert main(["--device", "cpu", "--processes", "1", "--out", str(tmp_path / "record.json")]) == 1
    assert not (tmp_path / "record.json").exists()
    message = capsys.readouterr().err
    assert "no record is written, because a check failed: forgets the bias, layer_norm (8, 16)" in message


@pytest.mark.usefixtures("quickly")
def test_a_partial_file_of_another_run_is_not_continued(tmp_path, capsys, monkeypatch):
    out = tmp_path / "record.json"
    monkeypatch.setattr(processes, "attempt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["--device", "cpu", "--processes", "1", "--out", str(out)]) == 130
    assert main(["--device", "cpu", "--quick", "--out", str(out)]) == 2
    assert "record.json.partial was begun with quick False" in capsys.readouterr().err
    with pytest.raises(RecordError, match="was begun with cases"):
        run("cpu", out, plan=PLAN[:1])


@pytest.mark.usefixtures("quickly")
def test_a_case_that_does_not_fit_into_memory_is_left_out(tmp_path, monkeypatch):
    def too_large(case, device, seed, rounds, seconds):
        if case.operation == "rope":
            raise torch.OutOfMemoryError("tried to allocate 90 GiB\nand so on")
        return attempt(case)

    monkeypatch.setattr(processes, "attempt", too_large)
    record = run("cpu", tmp_path / "record.json", plan=PLAN)
    assert [(item["operation"], item["implementation"], item["reason"]) for item in record.left_out] == [
        ("rope", "all", "tried to allocate 90 GiB")
    ]


@pytest.mark.usefixtures("quickly")
def test_what_is_measured_outlives_a_record_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    def full(content, path):
        raise OSError("no space left on device")

    out = tmp_path / "record.json"
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "write", full)
        assert main(["--device", "cpu", "--processes", "1", "--out", str(out)]) == 2
    assert "no space left on device" in capsys.readouterr().err
    monkeypatch.setattr(processes, "attempt", None)  # nothing is left to measure
    assert main(["--device", "cpu", "--processes", "1", "--out", str(out)]) == 0


# -- several processes


def of_a_process(**times):
    """Return what one process has measured: the median times by implementation, with what belongs to them."""
    return [result(name, median_ms=ms, p10_ms=ms / 2, range_ms=[ms, ms], runs=7) for name, ms in times.items()], []


def test_times_of_several_processes_are_their_medians_and_the_range_is_kept():
    results, left_out = processes.merged(
        [of_a_process(a=3.0, b=10.0), of_a_process(a=1.0, b=30.0), of_a_process(a=8.0, b=20.0)]
    )
    assert [(item["implementation"], item["median_ms"], item["p10_ms"]) for item in results] == [
        ("a", 3.0, 1.5),
        ("b", 20.0, 10.0),
    ]
    assert [item["range_ms"] for item in results] == [[1.0, 8.0], [10.0, 30.0]]
    assert [item["runs"] for item in results] == [21, 21]
    assert all(item["launch_ms"] is None for item in results)
    assert left_out == []


def test_of_several_processes_the_largest_error_counts_and_what_one_left_out_is_left_out():
    (first, _), (second, _), (third, _) = of_a_process(a=1.0, b=2.0), of_a_process(a=1.0), of_a_process(a=1.0, b=2.0)
    first[0]["errors"], second[0]["errors"] = {"y": 1e-8, "dx": 3e-8}, {"y": 2e-8, "dx": 1e-8}
    third[0]["errors"] = {"y": 1e-8, "dx": 1e-8}
    first[0]["launch_ms"], second[0]["launch_ms"], third[0]["launch_ms"] = 0.1, 0.7, 0.2
    missing = [{"implementation": "b", "reason": "no compiler"}]
    results, left_out = processes.merged([(first, []), (second, missing), (third, [])])
    (only,) = results
    assert only["errors"] == {"y": 2e-8, "dx": 3e-8}
    assert only["launch_ms"] == 0.2
    assert left_out == missing


def test_several_processes_measure_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "copy_bandwidth", lambda device, dtype: 12.0)
    plan = [Case("rope", "forward", (1, 2, 4, 8), "float32")]
    record = run("cpu", tmp_path / "record.json", quick=True, processes=2, plan=plan)
    assert record.provenance["processes"] == 2
    (eager,) = record.select(implementation="eager")
    assert eager["range_ms"][0] < eager["median_ms"] < eager["range_ms"][1]  # the mean of two times
    assert "to" in str(record.table(implementation="eager").rows[0])


def how_it_was_begun(*_):
    """Say, in place of ``trial.attempt``, how the process that runs this was prepared."""
    return os.getpid(), signal.getsignal(signal.SIGINT), torch.get_num_threads()


def test_each_process_is_started_once_with_the_callers_threads_and_leaves_interruptions_to_it(monkeypatch):
    monkeypatch.setattr(processes, "attempt", how_it_was_begun)
    monkeypatch.setattr(processes, "merged", list)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)  # no process's own choice here
    with processes.started(2, "cpu", 0, 1, 1.0) as attempt_in_turns:
        first, second = attempt_in_turns(tiny()), attempt_in_turns(tiny())
    assert first == second
    assert len({os.getpid(), *(pid for pid, _, _ in first)}) == 3
    assert {(interrupted, threads) for _, interrupted, threads in first} == {(signal.SIG_IGN, 3)}


def attempt_for_a_minute(begun, *_):
    """Say that it has begun and take its time, in place of ``trial.attempt``; a process of its own imports it."""
    begun.touch()
    time.sleep(60)


def test_an_interruption_does_not_wait_for_what_a_process_has_begun(tmp_path, monkeypatch):
    def interrupt_when_begun():
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(processes, "attempt", attempt_for_a_minute)
    threading.Thread(target=interrupt_when_begun, daemon=True).start()
    with pytest.raises(KeyboardInterrupt), processes.started(2, "cpu", 0, 1, 1.0) as attempt_in_turns:
        attempt_in_turns(tmp_path / "begun")
    assert time.time() - (tmp_path / "begun").stat().st_mtime < 30
    assert multiprocessing.active_children() == []


def test_a_process_that_ends_by_itself_ends_the_run_in_one_line(tmp_path, capsys, monkeypatch):
    out = tmp_path / "record.json"

    def run_into_the_wall(*args, **kwargs):
        raise BrokenProcessPool

    monkeypatch.setattr(command, "run", run_into_the_wall)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    assert main(["--device", "cpu", "--out", str(out)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"what is measured is kept in {out}.partial: the same command goes on from there" in line


@pytest.mark.parametrize(
    ("device", "count", "message"),
    [
        ("cpu", "0", "--processes must be at least 1: got 0"),
        ("cuda", "0", "--processes must be 1 with --device cuda: got 0"),
        ("cuda", "2", "--processes must be 1 with --device cuda: got 2"),
    ],
)
def test_a_number_of_processes_that_cannot_be_is_refused(tmp_path, capsys, monkeypatch, device, count, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert main(["--device", device, "--processes", count, "--out", str(tmp_path / "record.json")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "count", "message"), [("cpu", 0, "at least 1: got 0"), ("cuda", 2, "1 on a GPU: got 2")]
)
def test_a_run_begins_nothing_with_a_number_of_processes_that_cannot_be(tmp_path, device, count, message):
    with pytest.raises(ValueError, match=f"processes must be {message}"):
        run(device, tmp_path / "record.json", processes=count, plan=PLAN)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "count"), [([], 5), (["--quick"], 1), (["--quick", "--processes", "3"], 3), (["--processes", "2"], 2)]
)
def test_a_full_run_on_a_cpu_takes_several_processes_unless_told_otherwise(tmp_path, monkeypatch, options, count):
    asked = {}
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(command, "run", lambda *args, **kwargs: asked.update(kwargs))
    monkeypatch.setattr(command, "_report", lambda record, out: None)
    assert main(["--device", "cpu", *options, "--out", str(tmp_path / "record.json")]) == 0
    assert asked["processes"] == count


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_measured(tmp_path, capsys):
    assert main(["--device", "cpu", "--out", str(tmp_path / "no" / "record.json")]) == 2
    assert "--out must be a file in a folder that exists" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_missing_gpu_is_told_in_one_line(tmp_path, capsys):
    assert main(["--device", "cuda", "--out", str(tmp_path / "record.json")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "course bench: --device cuda needs a CUDA device, and PyTorch sees none; --device cpu runs anywhere"
    ]


# -- cases, peers, goals


@pytest.mark.parametrize(("device", "quick"), [("cpu", False), ("cpu", True), ("cuda", False), ("cuda", True)])
def test_a_sweep_has_every_operation_in_both_directions_and_no_case_twice(device, quick):
    sweep = cases(device, quick)
    assert len(set(sweep)) == len(sweep)
    assert {(case.operation, case.direction) for case in sweep} == {(o, d) for o in OPERATIONS for d in DIRECTIONS}


def test_no_sweep_stands_in_for_that_of_an_unknown_device():
    with pytest.raises(ValueError, match="device must be cpu or cuda: got 'gpu'"):
        cases("gpu")


def test_the_gpu_sweep_spans_rows_features_and_dtypes():
    shapes = [
        case.shape for case in cases("cuda") if case.operation == "layer_norm" and case.shape != TINY["layer_norm"]
    ]
    rows, features = {shape[0] for shape in shapes}, {shape[1] for shape in shapes}
    assert (min(rows), max(rows)) == (4096, 65536)
    assert (min(features), max(features)) == (512, 16384)
    assert any(n % 2 for n in features)
    assert {case.dtype for case in cases("cuda")} == {"float32", "bfloat16", "float16"}


def test_libraries_are_named_where_they_are_installed_and_can_run(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda library: library in ("liger_kernel", "transformers"))
    assert [peer.library for peer in peers.installed("layer_norm", "cuda")] == ["liger_kernel"]
    assert [peer.library for peer in peers.installed("rope", "cuda")] == ["liger_kernel", "transformers"]
    assert [peer.library for peer in peers.installed("layer_norm", "cpu")] == []
    assert [peer.library for peer in peers.installed("rope", "cpu")] == ["transformers"]


def test_a_library_under_another_name_is_recorded_all_the_same(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda library: library == "quack")  # quack-kernels is not installed
    assert peers.versions() == {"quack": "unknown"}


def record_of(tmp_path, device_type, *results):
    data = content(*results)
    data["provenance"]["device_type"] = device_type
    data["sessions"][0]["copy_gbps"] = {"float32": 50.0, "bfloat16": 50.0}
    recorded.write(data, tmp_path / "record.json")
    return recorded.read(tmp_path / "record.json")


def test_goals_on_a_cpu_compare_tenth_percentiles_of_one_case(tmp_path):
    both = {"direction": "forward+backward"}
    record = record_of(
        tmp_path,
        "cpu",
        result("built-in", p10_ms=1.0),
        result("compiled, tuned", p10_ms=0.8),
        result("eager, two passes", p10_ms=5.0, median_ms=5.0),
        result("built-in", **both, p10_ms=1.0),
        result("compiled, tuned", **both, p10_ms=1.25),
        result("compiled, tuned", shape=[4096, 1023], p10_ms=1.9),
    )
    rows = {what: (wanted, measured, met) for what, wanted, measured, met in goals.table(record).rows}
    assert rows == {
        "layer norm forward: compiled, tuned / built-in": ("at most 1", 0.8, True),
        "layer norm forward: eager, two passes / built-in": ("at most 4.5", 5.0, False),
        "layer norm with backward: compiled, tuned / built-in": ("at most 1.5", 1.25, True),
    }


def test_goals_on_a_gpu_hold_for_the_worst_shape(tmp_path):
    wide, narrow = {"shape": [4096, 8192]}, {"shape": [4096, 512]}
    record = record_of(
        tmp_path,
        "cuda",
        result("Triton", **wide, median_ms=0.8, p10_ms=0.8),  # 50 GB/s: all of a large copy
        result("built-in", **wide, median_ms=1.0, p10_ms=1.0),
        result("Triton", **narrow, median_ms=8.0, p10_ms=8.0),
        result("built-in", **narrow, median_ms=6.0, p10_ms=6.0),
        result("built-in", shape=[4096, 1023]),  # without a kernel to compare with
    )
    rows = {what: (wanted, measured, met) for what, wanted, measured, met in goals.table(record).rows}
    assert rows == {
        "layer norm forward, 4096 features and more: share of a large copy": ("at least 0.9", 1.0, True),
        "layer norm forward, every shape: built-in / Triton": ("at least 1", 0.75, False),
    }


def test_goals_on_a_gpu_compare_the_errors_of_the_weight_gradient(tmp_path):
    case = {"shape": [8192, 4096], "dtype": "bfloat16", "direction": "forward+backward"}
    tolerances = {"tolerances": {"dweight": 0.5}}
    record = record_of(
        tmp_path,
        "cuda",
        result("built-in", **case, errors={"dweight": 0.08}, **tolerances),
        result("Triton", **case, errors={"dweight": 0.002}, **tolerances),
    )
    ((_, _, measured, met),) = [row for row in goals.table(record).rows if "error of dweight" in row[0]]
    assert measured == pytest.approx(40.0)
    assert met


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_implementation_on_the_gpu_is_right_and_can_be_captured(operation, direction):
    case = Case(operation, direction, SMALL[operation], "bfloat16")
    results, left_out = trial.attempt(case, "cuda", seed=0, rounds=3, seconds=0.0)
    assert [item for item in left_out if not item["implementation"].startswith("peer")] == []
    assert all(item["launch_ms"] > 0 for item in results)
