"""Synchronised batch norm on processes against torch's batch norm on the whole batch; processes,
lockstep and cost."""

import os

import distributed_programs as programs
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.c09_batch_norm_across_machines import processes
from chapters.c09_batch_norm_across_machines.cost import Traffic, gather, layer_step
from chapters.c09_batch_norm_across_machines.processes import RanksFailed, run_processes
from chapters.c09_batch_norm_across_machines.simulate import simulate_ranks
from chapters.c09_batch_norm_across_machines.sync_batch_norm import (
    SyncBatchNorm,
    convert,
    merge_ranks,
)
from course_utils import norms
from course_utils.session import generator

STEPS, CHANNELS = 3, 4
PLAIN = {
    1: nn.BatchNorm1d,
    2: nn.BatchNorm1d,
    3: nn.BatchNorm1d,
    4: nn.BatchNorm2d,
    5: nn.BatchNorm3d,
}

# name: (shape after N and C, sizes of the three shards, options, dtype)
CASES = {
    "uneven shards": ((5,), (1, 6, 2), {}, torch.float64),
    "the first shard empty": ((2, 3), (0, 4, 3), {}, torch.float64),
    "the last shard alone not": ((2, 2, 2), (0, 0, 5), {}, torch.float64),
    "one value on each rank": ((), (1, 1, 1), {}, torch.float64),
    "momentum=None": ((4,), (2, 5, 0), {"momentum": None}, torch.float64),
    "momentum=0.3, eps=0.1, bias=False": (
        (4,),
        (2, 5, 1),
        {"momentum": 0.3, "eps": 0.1, "bias": False},
        torch.float64,
    ),
    "affine=False": ((4,), (2, 5, 1), {"affine": False}, torch.float64),
    "track_running_stats=False": ((4,), (4, 4, 4), {"track_running_stats": False}, torch.float64),
    "images, channels last": ((3, 2), (2, 3, 0), {}, torch.float64),
    "float32": ((3, 2), (2, 0, 3), {}, torch.float32),
    "bfloat16": ((3, 2), (2, 0, 3), {}, torch.bfloat16),
    "in groups": ((3,), (2, 3, 4), {}, torch.float64),
}
# float64 is the course's bound; float32 and bfloat16 round sums of up to 90 values and the result:
# a few units each.
WITHIN = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 6e-2}


def case_named(name):
    positions, sizes, options, dtype = CASES[name]
    rng = generator(sum(map(ord, name)))

    def draw(scale, offset):
        values = torch.randn(
            STEPS, sum(sizes), CHANNELS, *positions, generator=rng, dtype=torch.float64
        )
        values = (offset + scale * values).to(dtype)
        return (
            values.movedim(2, -1).contiguous().movedim(-1, 2) if "channels last" in name else values
        )

    case = {"x": draw(3.0, 2.0), "upstream": draw(1.0, 0.5), "sizes": sizes, "options": options}
    state = built_in(case).state_dict()
    for key, value in state.items():
        if value.is_floating_point():  # in [0.5, 1.5): values that no default can imitate
            state[key] = (0.5 + torch.rand(CHANNELS, generator=rng, dtype=torch.float64)).to(dtype)
    return case | {"state": state}


def built_in(case):
    return PLAIN[case["x"].dim() - 1](CHANNELS, **case["options"]).to(case["x"].dtype)


@pytest.fixture(scope="module")
def found():
    """What every rank found: one run_processes serves all tests."""
    return run_processes(programs.everything, 3, cases={name: case_named(name) for name in CASES})


def assert_equals_whole_batch(name, found, members):
    """What the ranks found is what torch's batch norm gives in float64 on the shards of ``members``
    put together."""
    case = case_named(name)
    layer, dtype = built_in(case).double(), case["x"].dtype
    layer.load_state_dict(case["state"])
    shards = [
        [case[key].split(case["sizes"], dim=1)[rank].double() for rank in members]
        for key in ("x", "upstream")
    ]
    truth = programs.train(layer, *(torch.cat(parts, dim=1) for parts in shards))
    close = {
        "atol": WITHIN[dtype],
        "rtol": WITHIN[dtype] if dtype != torch.float64 else 0,
        "check_dtype": False,
    }
    sizes = [case["sizes"][rank] for rank in members]
    for quantity in ("outputs", "input gradients"):
        for rank, expected in zip(members, truth[quantity].split(sizes, dim=1), strict=True):
            assert found[rank][quantity].dtype == dtype
            torch.testing.assert_close(
                found[rank][quantity], expected, msg=f"{name}: {quantity} of {rank}", **close
            )
    for rank, shard in zip(
        members, shards[0], strict=True
    ):  # without running statistics, a shard is a batch again
        evaluated = layer(shard[0]).detach()
        torch.testing.assert_close(
            found[rank]["evaluated"], evaluated, msg=f"{name}: evaluated", **close
        )
        for quantity in ("parameter gradients", "buffers"):
            torch.testing.assert_close(
                found[rank][quantity], truth[quantity], msg=f"{name}: {quantity}", **close
            )


@pytest.mark.slow
def test_shards_are_normalized_as_the_whole_batch_of_their_group_with_equal_statistics(found):
    for name in CASES:
        of_ranks = [rank[name] for rank in found]
        for members in ([0, 1], [2]) if name == "in groups" else ([0, 1, 2],):
            assert_equals_whole_batch(name, of_ranks, members)
            for key, value in of_ranks[members[0]]["buffers"].items():
                assert all(
                    torch.equal(value, of_ranks[rank]["buffers"][key]) for rank in members
                ), name


@pytest.mark.slow
def test_a_group_of_others_and_one_value_on_all_ranks_are_refused_and_move_nothing(found):
    assert "process_group must contain this process" in found[2]["outside"][0]
    for rank in found:
        message, running_mean = rank["one value"]
        assert message.startswith("Expected more than 1 value per channel when training")
        assert torch.equal(running_mean, torch.zeros(3))


@pytest.mark.slow
def test_an_empty_batch_on_all_ranks_is_counted_as_batch_norm_does_and_moves_nothing(found):
    reference = nn.BatchNorm1d(3)
    y = reference(torch.ones(0, 3, 2))
    y.sum().backward()
    for rank in found:
        shape, buffers, gradient = rank["nothing"]
        assert shape == tuple(y.shape)
        assert all(torch.equal(buffers[name], buffer) for name, buffer in reference.named_buffers())
        assert torch.equal(gradient, reference.weight.grad)


@pytest.mark.slow
def test_every_rank_computes_on_one_thread(found):
    assert [rank["threads"] for rank in found] == [1, 1, 1]


# --- in one process -------------------------------------------------------------------------------


def test_on_a_single_process_it_is_batch_norm_with_torchs_arguments_and_state(monkeypatch):
    x = torch.randn(4, 3, 5, generator=generator(0))
    mine, reference = SyncBatchNorm(3), nn.BatchNorm1d(3)
    for module in (mine, reference):
        module(x)
        module.eval()
    torch.testing.assert_close(mine(x), reference(x))
    options = {
        "eps": 1e-3,
        "momentum": None,
        "affine": True,
        "track_running_stats": True,
        "bias": False,
    }
    mine, reference = SyncBatchNorm(5, **options), nn.SyncBatchNorm(5, **options)
    assert not any(mine.load_state_dict(reference.state_dict(), strict=True))
    assert repr(mine) == repr(reference)
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    # such a build has nothing but is_available
    monkeypatch.delattr(torch.distributed, "is_initialized")
    torch.testing.assert_close(SyncBatchNorm(3)(x), F.batch_norm(x, None, None, training=True))


def test_convert_replaces_every_batch_norm_and_keeps_its_tensors():
    shared = nn.BatchNorm1d(4)
    model = nn.ModuleDict(
        {
            "stem": nn.Sequential(
                nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3, eps=0.1, momentum=None)
            ),
            "course": norms.BatchNorm3d(2, affine=False),
            "torch": nn.SyncBatchNorm(6, track_running_stats=False, bias=False),
            "one": shared,
            "other": shared,
            "left alone": nn.InstanceNorm2d(3, affine=True),
        }
    ).eval()
    tensors, keys = (
        dict((*model.named_parameters(), *model.named_buffers())),
        model.state_dict().keys(),
    )
    assert convert(model, process_group="a group") is model
    norm = model["stem"][1]
    assert (norm.eps, norm.momentum, norm.training, norm.process_group) == (
        0.1,
        None,
        False,
        "a group",
    )
    assert model["one"] is model["other"]
    assert sum(isinstance(module, SyncBatchNorm) for module in model.modules()) == 4
    assert type(model["left alone"]) is nn.InstanceNorm2d
    assert all(
        tensor is tensors[name]
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    )
    assert model.state_dict().keys() == keys
    assert convert(shared).weight is shared.weight  # a layer by itself


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13])
def test_merging_ranks_is_the_moments_of_all_their_values(ranks):
    rng = generator(ranks)
    shards = [
        torch.randn(size % 4, 3, generator=rng, dtype=torch.float64) + 100
        for size in range(1, ranks + 1)
    ]
    count = torch.tensor([[len(shard)] for shard in shards])
    mean = torch.stack([shard.mean(0) for shard in shards])  # NaN where a shard is empty
    m2 = torch.stack([(shard - shard.mean(0)).square().sum(0) for shard in shards])
    merged, values = merge_ranks(count, mean, m2), torch.cat(shards)
    assert merged.count.tolist() == [len(values)]
    torch.testing.assert_close(merged.mean, values.mean(0), atol=1e-13, rtol=0)
    torch.testing.assert_close(merged.variance(), values.var(0, correction=0), atol=1e-13, rtol=0)


def test_in_lockstep_a_rank_may_write_into_the_sum_that_it_got():
    results = simulate_ranks(
        lambda x, all_reduce: all_reduce(x).add_(x), [(torch.tensor(x),) for x in (1.0, 3.0)]
    )
    assert torch.equal(torch.stack(results), torch.tensor([5.0, 7.0]))


def test_a_step_of_a_layer_is_in_float32_unless_told_otherwise():
    for route, messages in (("ring", 7 + 14), ("doubling", 3 + 6)):
        size = 7 * 129 * 4 + 14 / 8 * 128 * 4
        assert layer_step(64, 8, route=route) == Traffic(messages, size)
    assert gather(1, 2, itemsize=0.5) == Traffic(messages=1, bytes=1.5)  # count, mean and M2
    assert Traffic(messages=3, bytes=2e6).time_ms(latency_us=0, bandwidth_gbps=2) == 1.0


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: layer_step(64, 8).time_ms(10, 0), "bandwidth_gbps"),
        (lambda: Traffic(1, 1.0).time_ms(-1, 1), "latency_us"),
        (lambda: gather(64, 0), "ranks"),
        (lambda: gather(64, 2, route="star"), "route"),
        (lambda: SyncBatchNorm(3)(torch.ones(4, 5)), "input"),
        (lambda: SyncBatchNorm(3)(torch.ones(1, 3)), "more than 1 value per channel"),
        (lambda: convert(nn.Sequential(nn.LazyBatchNorm1d())), "before converting"),
        (lambda: run_processes(programs.never_ends, 0), "ranks"),
        (lambda: run_processes(programs.never_ends, 2.0), "ranks"),
        (lambda: run_processes(3, 2), "function"),
    ],
)
def test_an_impossible_argument_is_refused_by_name(call, argument):
    with pytest.raises(ValueError, match=argument):
        call()


# --- processes ------------------------------------------------------------------------------------


def test_a_failure_has_a_line_for_each_rank_and_those_that_only_lost_contact_come_last(tmp_path):
    (tmp_path / "rank0.error").write_text("LostContact: SyncBatchNorm was exchanging statistics")
    (tmp_path / "rank1.error").write_text(
        "Timeout (0:00:20)!\nThread 0x1 (most recent first):\n  File a.py, line 3\n"
    )
    (tmp_path / "rank2.error").write_text("")
    assert processes._explain(tmp_path, [1, 1, -9, 0, None], 20.0).splitlines() == [
        "4 of 5 ranks failed",
        "rank 1: still running after 20 s, in File a.py, line 3",
        "rank 2: died without a word (killed by SIGKILL)",
        "rank 4: ended, since others had failed",
        "rank 0: LostContact: SyncBatchNorm was exchanging statistics",
    ]
    unknown = processes._explain(tmp_path / "none", [0, None], 20)
    assert "rank 1: still running after 20 s, in a place unknown" in unknown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "ranks", "timeout_s", "limit_s", "line"),
    [
        # SyncBatchNorm waits for the others no longer than the timeout, and what is not waited for
        # is ended
        (
            programs.one_rank_does_not_come,
            2,
            2,
            60,
            "rank 1: LostContact: SyncBatchNorm was exchanging .* with 1 other",
        ),
        (programs.never_ends, 1, 60, 5, "rank 0: still running after 5 s"),
        # over before it began to keep time
        (programs.never_ends, 1, 60, -4, "rank 0: still running after -4 s"),
    ],
)
def test_a_run_that_fails_says_why_and_leaves_no_process(
    tmp_path, program, ranks, timeout_s, limit_s, line
):
    with pytest.raises(RanksFailed, match=line):
        run_processes(program, ranks, timeout_s=timeout_s, limit_s=limit_s, folder=str(tmp_path))
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)
