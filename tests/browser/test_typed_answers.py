"""What a learner is told: every exercise of every notebook, untouched, answered wrongly, and answered rightly."""

import ast
from pathlib import Path

import nbformat
import pytest
from jupyterlab_driver import OpenNotebook

from tools.notebooks import SOLUTION_SUFFIX, Exercise, find_exercises, read_notebook

# Mistakes that people make, each typed into the stub of a chapter, with words of the answer that it must get.
KNOWN_MISTAKES = {
    ("00_start_here", "centre"): (
        "def centre(x):\n    return x - x.mean()",
        "one mean over the whole tensor",
    ),
    ("01_why_normalize", "normalize"): (
        "def normalize(x, dims, eps=1e-5):\n"
        "    return (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)",
        "divided by n − 1",
    ),
    ("02_layer_norm", "layer_norm"): (
        "def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    dims = tuple(range(-len(normalized_shape), 0))\n"
        "    y = (x - x.mean(dims, keepdim=True)) / (x.std(dims, keepdim=True) + eps)\n"
        "    y = y if weight is None else y * weight\n"
        "    return y if bias is None else y + bias",
        "divided by n − 1",
    ),
    ("03_batch_norm", "batch_norm"): (
        "def batch_norm(\n"
        "    x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5\n"
        "):\n"
        "    return F.batch_norm(x, running_mean, running_var, weight, bias, training, 1 - momentum, eps)",
        "momentum",
    ),
    ("04_running_statistics", "ema"): (
        'def ema(average, value, momentum, convention="torch"):\n'
        "    return momentum * average + (1 - momentum) * value",
        "is the old average's",
    ),
    ("04_running_statistics", "merge_moments"): (
        "def merge_moments(a, b):\n"
        "    n = a.count + b.count\n"
        "    mean = (a.count * a.mean + b.count * b.mean) / n.clamp(min=1)\n"
        "    return n, mean, a.m2 + b.m2",
        "adds nothing",
    ),
    ("05_backward_by_hand", "layer_norm_backward"): (
        "def layer_norm_backward(dy, x, normalized_shape, weight=None, eps=1e-5):\n"
        "    n = len(normalized_shape)\n"
        "    dims, rows = tuple(range(-n, 0)), tuple(range(x.ndim - n))\n"
        "    rstd = torch.rsqrt(x.var(dims, correction=0, keepdim=True) + eps)\n"
        "    x_hat = (x - x.mean(dims, keepdim=True)) * rstd\n"
        "    dx = dy - dy.mean(dims, keepdim=True) - x_hat * (dy * x_hat).mean(dims, keepdim=True)\n"
        "    dx = rstd * dx if weight is None else rstd * dx * weight\n"
        "    return dx, (dy * x_hat).sum(rows) if rows else dy * x_hat, dy.sum(rows) if rows else dy.clone()",
        "multiplied by the weight at the end",
    ),
    ("05_backward_by_hand", "batch_norm_backward"): (
        "def batch_norm_backward(dy, x, weight=None, eps=1e-5):\n"
        "    dims, shape = (0, *range(2, x.ndim)), (-1, *[1] * (x.ndim - 2))\n"
        "    rstd = torch.rsqrt(x.var(dims, correction=0, keepdim=True) + eps)\n"
        "    x_hat = (x - x.mean(dims, keepdim=True)) * rstd\n"
        "    dx = dy * rstd if weight is None else dy * rstd * weight.reshape(shape)\n"
        "    return dx, (dy * x_hat).sum(dims), dy.sum(dims)",
        "no gradient flows through the statistics",
    ),
    ("05_backward_by_hand", "rms_norm_backward"): (
        "def rms_norm_backward(dy, x, normalized_shape, weight=None, eps=None):\n"
        "    eps = torch.finfo(torch.float32).eps if eps is None else eps\n"
        "    leaves = [x.clone().requires_grad_(), torch.ones(normalized_shape, dtype=x.dtype, requires_grad=True)]\n"
        "    y = F.rms_norm(leaves[0], normalized_shape, leaves[1], eps)\n"
        "    return torch.autograd.grad(y, leaves, dy)",
        "does not depend on the weight",
    ),
    ("06_the_family", "group_norm"): (
        "def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):\n"
        "    return F.group_norm(x, x.shape[1] // num_groups, weight, bias, eps)",
        "number of channels in a group",
    ),
    ("06_the_family", "instance_norm"): (
        "def instance_norm(\n"
        "    x, running_mean=None, running_var=None, weight=None, bias=None,\n"
        "    use_input_stats=True, momentum=0.1, eps=1e-5,\n"
        "):\n"
        "    return F.instance_norm(\n"
        "        x, running_mean, running_var, weight, bias, use_input_stats, 1 - momentum, eps\n"
        "    )",
        "momentum",
    ),
    ("06_the_family", "rms_norm"): (
        "def rms_norm(x, normalized_shape, weight=None, eps=None):\n"
        "    eps = torch.finfo(x.dtype).eps if eps is None else eps\n"
        "    return F.rms_norm(x, normalized_shape, weight, eps)",
        "machine epsilon of the input's dtype",
    ),
    ("11_why_position", "sinusoidal"): (
        "def sinusoidal(positions, dim, base=10_000.0):\n"
        "    positions = positions if isinstance(positions, torch.Tensor) else torch.arange(positions)\n"
        "    angles = positions[:, None] / base ** (torch.arange(0, dim, 2).double() / dim)\n"
        "    return torch.cat((angles.sin(), angles.cos()), dim=-1).float()",
        "All the sines come first",
    ),
    ("11_why_position", "alibi_slopes"): (
        "def alibi_slopes(num_heads):\n    return 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)",
        "also where H is no power of two",
    ),
    ("07_norms_at_work", "linear_scan"): (
        "def linear_scan(a, b, h0=None):\n"
        "    product = a.cumprod(dim=1)\n"
        "    start = 0 if h0 is None else h0.unsqueeze(1)\n"
        "    return product * (start + (b / product).cumsum(dim=1))",
        "divides b by the running product",
    ),
    ("08_batch_norm_across_machines", "sync_backward"): (
        "def sync_backward(g, x_hat, rstd, count, all_reduce):\n"
        "    return rstd * (g - g.mean(0) - x_hat * (g * x_hat).mean(0))",
        "this rank's shard only",
    ),
    ("12_rope", "rope"): (
        "def rope(x, positions, base=10_000.0):\n"
        "    inv_freq = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])\n"
        "    angles = (positions[:, None] * inv_freq).repeat_interleave(2, dim=-1)\n"
        "    first, second = x.chunk(2, dim=-1)\n"
        "    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()",
        "laid out for one pairing of the dimensions",
    ),
    ("12_rope", "half_to_interleaved"): (
        "def half_to_interleaved(weight, num_heads):\n"
        "    return weight.view(2, -1, weight.shape[-1]).transpose(0, 1).reshape(weight.shape)",
        "as if there were one head",
    ),
    ("13_scaling_rope", "ntk_inv_freq"): (
        "def ntk_inv_freq(dim, base, factor):\n    return rope_inv_freq(dim, base * factor)",
        "multiplied by s and not by s^(d/(d-2))",
    ),
    ("13_scaling_rope", "yarn_frequencies"): (
        "def yarn_frequencies(dim, base, factor, original_length, beta_fast=32.0, beta_slow=1.0, truncate=True):\n"
        "    inv_freq = rope_inv_freq(dim, base)\n"
        "    r = turns(inv_freq, original_length)\n"
        "    kept = ((r - beta_slow) / (beta_fast - beta_slow)).clamp(0, 1)\n"
        "    return kept * inv_freq + (1 - kept) * inv_freq / factor, 0.1 * math.log(factor) + 1",
        "straight in the number of turns, as in the paper",
    ),
    ("13_scaling_rope", "rope_frequencies"): (
        "def rope_frequencies(rope_parameters, head_dim, max_position_embeddings, seq_len=None):\n"
        "    p = rope_parameters\n"
        "    dim = int(head_dim * p.get('partial_rotary_factor', 1))\n"
        "    inv_freq = rope_inv_freq(dim, p.get('rope_theta', 10_000.0))\n"
        "    return (inv_freq * p['factor'] if p['rope_type'] == 'linear' else inv_freq), 1.0",
        "multiplies the frequencies by the factor",
    ),
    ("09_where_the_time_goes", "predicted_ms"): (
        "def predicted_ms(bytes_moved, operations, bandwidth_gbps, peak_gflops):\n"
        "    return (bytes_moved / bandwidth_gbps + operations / peak_gflops) / 1e6",
        "adds the time of the bytes",
    ),
    ("09_where_the_time_goes", "norm_bytes"): (
        "def norm_bytes(rows, features, itemsize=4, backward=False):\n"
        "    return (3 if backward else 1) * 2 * (rows + 1) * features * itemsize",
        "backward pass for twice the forward",
    ),
    ("09_where_the_time_goes", "to_keep"): (
        "def to_keep(x_is_kept, y_is_kept):\n    return {'x', 'mean', 'rstd'}",
        "keeps x, mean and rstd in every case",
    ),
    ("10_fused_kernels", "masked_layer_norm"): (
        "def masked_layer_norm(block, n_cols, eps=1e-5):\n"
        "    inside = torch.arange(block.shape[-1]) < n_cols\n"
        "    x = torch.where(inside, block.float(), 0.0)\n"
        "    x = x - x.sum(-1, keepdim=True) / n_cols\n"
        "    variance = x.square().sum(-1, keepdim=True) / n_cols\n"
        "    return torch.where(inside, x * torch.rsqrt(variance + eps), 0.0).to(block.dtype)",
        "not masked a second time",
    ),
    ("14_longer_context", "critical_dimension"): (
        "def critical_dimension(head_dim, base, window):\n"
        "    turning = window * base ** (-torch.arange(0, head_dim, 2).double() / head_dim) >= 2 * torch.pi\n"
        "    return int(turning.sum())",
        "two for each pair",
    ),
    ("15_a_real_llama", "layer_norm"): (
        "def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):\n"
        "    return F.layer_norm(x, normalized_shape, weight, None, eps)",
        "bias",
    ),
    ("15_a_real_llama", "rms_norm"): (
        "def rms_norm(x, normalized_shape, weight=None, eps=None):\n"
        "    return F.layer_norm(x, normalized_shape, weight, None, 1e-6 if eps is None else eps)",
        "mean",
    ),
    ("15_a_real_llama", "rope"): (
        "def rope(x, positions, base=10_000.0):\n"
        "    cos_sin = course_utils.rope.rotation.rope_cos_sin(\n"
        "        x.shape[-2], course_utils.rope.rotation.rope_inv_freq(x.shape[-1], base)\n"
        "    )\n"
        "    return course_utils.rope.rotation.apply_rope(x, *cos_sin)",
        "position",
    ),
    ("16_on_trial", "largest_error"): (
        "def largest_error(y, truth):\n    return (y.double() - truth).max().item()",
        "the largest difference with its sign",
    ),
    ("17_find_the_bug", "input_a"): (
        'def input_a(ordinary):\n    return {"x": 1000 * ordinary["x"]}',
        "What about their mean?",
    ),
    ("17_find_the_bug", "input_b"): (
        'def input_b(ordinary):\n    return {"x": 0.1 * ordinary["x"]}',
        "The difference grows as the spread shrinks",
    ),
    ("17_find_the_bug", "input_c"): (
        'def input_c(ordinary):\n    return {"x": 0.01 * ordinary["x"].float()}',
        "the dtype makes no difference yet",
    ),
    ("17_find_the_bug", "input_d"): (
        'def input_d(ordinary):\n    return {"x": 5 * ordinary["x"]}',
        "as it was",
    ),
    ("17_find_the_bug", "input_e"): (
        'def input_e(ordinary):\n    return {"batches": ordinary["batches"][:, :200]}',
        "the closer its two variances are",
    ),
    ("17_find_the_bug", "input_f"): (
        'def input_f(ordinary):\n    return {"x": ordinary["x"] + 7}',
        "say the same here",
    ),
    ("17_find_the_bug", "input_g"): (
        'def input_g(ordinary):\n    return {"a": ordinary["a"][:100]}',
        "What else can they differ in?",
    ),
    ("17_find_the_bug", "input_h"): (
        'def input_h(ordinary):\n    return {"start": 200}',
        "you stay below",
    ),
    ("17_find_the_bug", "input_i"): (
        'def input_i(ordinary):\n    return {"rotary_dim": 2}',
        "the exponent is zero",
    ),
    ("17_find_the_bug", "input_j"): (
        'def input_j(ordinary):\n    return {"query_length": 5, "key_length": 5}',
        "As many queries as keys",
    ),
    ("17_find_the_bug", "input_k"): (
        'def input_k(ordinary):\n    return {"lengths": [9000, 100]}',
        "Is that every kind of short?",
    ),
    ("17_find_the_bug", "input_l"): (
        "def input_l(ordinary):\n"
        '    return {"rope_parameters": {"full_attention": {"factor": 8.0}}, "layer_type": "full_attention"}',
        "original_max_position_embeddings",
    ),
    ("17_find_the_bug", "input_m"): (
        'def input_m(ordinary):\n    return {"x": torch.ones(2, 192)}',
        "fill whole blocks",
    ),
    ("17_find_the_bug", "input_n"): (
        'def input_n(ordinary):\n    return {"dy": ordinary["dy"][:100], "x_hat": ordinary["x_hat"][:100]}',
        "few rows to add up",
    ),
}


def test_each_exercise_answers_to_what_is_typed(opened: OpenNotebook, notebook_path: Path) -> None:
    notebook = read_notebook(notebook_path)
    exercises = list(find_exercises(notebook))
    if not exercises:
        pytest.skip(f"{opened.name} has no exercise")
    for exercise in exercises:
        assert "not attempted yet" in opened.text_of_output(exercise.check)
        assert "not yet" in answer(opened, exercise, gives_back_its_argument(notebook, exercise))
        assert "passed" in answer(opened, exercise, the_solution_as_the_learners_own(notebook, exercise))
        opened.run_cell(exercise.solution)
        assert "Using your" in opened.text_of_output(exercise.solution)


def test_a_known_mistake_is_called_by_its_name(opened: OpenNotebook, notebook_path: Path) -> None:
    mistakes = {name: typed for (chapter, name), typed in KNOWN_MISTAKES.items() if chapter == notebook_path.stem}
    if not mistakes:
        pytest.skip(f"no known mistake is tried in {opened.name}")
    exercises = {exercise.names[0]: exercise for exercise in find_exercises(read_notebook(notebook_path))}
    for name, (code, words) in mistakes.items():
        assert words in answer(opened, exercises[name], code)


def answer(opened: OpenNotebook, exercise: Exercise, code: str) -> str:
    """Type ``code`` into the stub, run it and the check, and return what the check shows."""
    opened.type_into(exercise.stub, code)
    opened.run_cell(exercise.stub)
    opened.run_cell(exercise.check)
    return opened.text_of_output(exercise.check)


def the_solution_as_the_learners_own(notebook: nbformat.NotebookNode, exercise: Exercise) -> str:
    """Return the definitions of the folded solution under the names that the learner is asked for."""
    tree = ast.parse(notebook.cells[exercise.solution].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = node.name.removesuffix(SOLUTION_SUFFIX)
            node.decorator_list = []
        elif isinstance(node, ast.Name):
            node.id = node.id.removesuffix(SOLUTION_SUFFIX)
    kept = [node for node in tree.body if not _chooses(node)]
    return "\n\n".join(ast.unparse(node) for node in kept)


def gives_back_its_argument(notebook: nbformat.NotebookNode, exercise: Exercise) -> str:
    """Return the stub with a body that gives back its first argument: attempted, and wrong."""
    tree = ast.parse(notebook.cells[exercise.stub].source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse(f"return {node.args.args[0].arg}").body
    return ast.unparse(tree)


def _chooses(node: ast.stmt) -> bool:
    """Whether a line of the solution picks whose version to go on with, or checks: no part of an answer."""
    return any(isinstance(part, ast.Name) and part.id == "check" for part in ast.walk(node))


def test_what_a_learner_would_type_is_made_from_the_solution() -> None:
    source = (
        "def halve_solution(x):\n    return x / 2\n\n\nhalve = check.halve.choose(halve, halve_solution)\n"
        "check.halve(halve).require()"
    )
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("def halve(x, y=1):\n    '''Halve.'''\n    ..."),
            nbformat.v4.new_code_cell(source),
        ]
    )
    exercise = Exercise(("halve",), 0, None, 1)
    assert the_solution_as_the_learners_own(notebook, exercise) == "def halve(x):\n    return x / 2"
    assert gives_back_its_argument(notebook, exercise) == "def halve(x, y=1):\n    return x"
