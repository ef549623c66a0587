"""What chapters measure on a GPU: there, and as recorded where there is none."""

import pytest
import torch
from devices import needs_cuda
from torch.nn import functional as F

from chapters import gpu_results_of
from chapters.c10_where_the_time_goes import on_gpu
from course_utils import runs


@pytest.mark.parametrize(
    ("chapter", "key"),
    [
        ("05", "05-half"),
        *(("10", f"10-{k}") for k in ("block", "launches", "levels", "limits", "trace", "update")),
        *(("11", f"11-{k}") for k in ("atomic", "counters", "rates")),
        ("12", "12-scan"),
    ],
)
def test_what_was_recorded_says_where(chapter, key):
    found, where = gpu_results_of(chapter)(key, lambda: 1 / 0, live=False)
    assert found
    assert where.startswith("NVIDIA H100 80GB HBM3 (torch 2.11.0+cu130, driver ")


def test_a_result_is_recorded_on_request_and_only_what_was_is_read(tmp_path, monkeypatch):
    def result(key, compute):
        origin = {"device": "abacus", "driver": "7", "torch": "2.13", "date": "2026-01-02T03"}
        given = {"record": tmp_path / "gpu.jsonl", "live": False}
        return runs.result(key, compute, provenance=lambda: origin, **given)

    with pytest.raises(KeyError, match="never recorded: run its notebook with COURSE_RECORD=10-x"):
        result("10-x", lambda: 1)
    monkeypatch.setenv("COURSE_RECORD", "10-x")
    assert result("10-x", lambda: (1, 2))["result"] == [1, 2]
    with pytest.raises(KeyError, match="10-y"):
        result("10-y", lambda: 3)
    monkeypatch.delenv("COURSE_RECORD")
    line = result("10-x", lambda: 4)
    assert line["result"] == [1, 2]
    assert runs.origin(line) == "abacus (torch 2.13, driver 7, 2026-01-02)"


@pytest.mark.parametrize("_", [pytest.param(0, marks=needs_cuda)])
def test_a_trace_has_every_launch_and_times_grow_with_the_work(_):
    x = torch.ones(1024, 1024, device="cuda")
    seen = on_gpu.trace(lambda: (x + 1).mean())
    assert [name for name, _, _ in seen["operators"]] == ["aten::add", "aten::mean"]
    assert len(seen["launches"]) == len(seen["kernels"]) == 2
    assert all(0 <= begin < end for spans in seen.values() for _, begin, end in spans)
    small, large = on_gpu.launches([1024, 2**24], count=20, repeats=5)
    assert small["kernel"] < small["graph"] < small["done"]
    assert large["kernel"] > 5 * small["kernel"]
    assert on_gpu.copies([0.0625, 64.0])[0] < on_gpu.copies([64.0])[0]
    norms = {"built-in": lambda x, w, b: F.layer_norm(x, w.shape, w, b)}
    ms = on_gpu.share_of_a_block(norms, width=256, tokens=1024)
    assert 0 < ms["built-in"] < ms["the block"]
