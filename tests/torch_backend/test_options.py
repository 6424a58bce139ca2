"""Options of torch.compile(backend="lowtide"): lowtide's own beside Inductor's."""

from typing import Any

import pytest
import torch
import torch._inductor.config as inductor_config

from lowtide.options import (
    ConflictingOptionError,
    IneffectiveOptionError,
    Options,
    OptionValueError,
    UnknownOptionError,
)
from tests.torch_backend.pairs import Mlp, compile_lowtide, seeded


def test_defaults():
    assert Options.parse() == Options(lowering=None, fallback=True, inductor={})


def test_inductor_options_pass_through_beside_our_own():
    parsed = Options.parse({"fallback": False, "max-autotune": True, "cpp.simdlen": 1})
    assert parsed == Options(fallback=False, inductor={"max_autotune": True, "cpp.simdlen": 1})


def test_modes_are_torchs_own_and_options_win_over_them():
    parsed = Options.parse({"max_autotune": False}, "max-autotune-no-cudagraphs")
    assert parsed.inductor == {"max_autotune": False, "coordinate_descent_tuning": True}
    assert Options.parse(mode="default").inductor == {}


def test_unknown_option_names_the_nearest_known():
    with pytest.raises(UnknownOptionError) as found:
        Options.parse({"falback": True})
    assert found.value.name == "falback"
    assert found.value.nearest[0] == "fallback"
    with pytest.raises(UnknownOptionError, match="max_autotune"):
        Options.parse({"max_autotun": True})
    with pytest.raises(UnknownOptionError, match="reduce-overhead"):
        Options.parse(mode="reduce_overhead")
    with pytest.raises(UnknownOptionError, match="the options of lowtide are lowering, fallback"):
        Options.parse({"qqqqqqqq": 1})


def test_values_of_the_wrong_type():
    with pytest.raises(OptionValueError, match="fallback = 1, a int"):
        Options.parse({"fallback": 1})
    with pytest.raises(OptionValueError, match="max_autotune = 'yes'"):
        Options.parse({"max_autotune": "yes"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpp_wrapper", True),
        ("triton.cudagraphs", True),
        ("memory_planning", True),
        ("freezing", True),
        ("inplace_buffers", True),
        ("graph_partition", True),
    ],
)
def test_conflicting_options_say_why(name: str, value: object):
    with pytest.raises(ConflictingOptionError, match=rf"{name} = {value}; lowtide needs False because") as found:
        Options.parse({name: value})
    assert "options=" in found.value.where


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"options": {"lowering": "aten", "epilogue_fusion": False}}, "torch.compile(options=...)"),
        ({"options": {"lowering": "aten"}, "mode": "max-autotune-no-cudagraphs"}, "torch.compile(mode="),
    ],
)
def test_options_of_inductor_beside_plain_aten_calls_are_an_error(arguments: dict[str, Any], where: str) -> None:
    with pytest.raises(IneffectiveOptionError, match="no effect on plain aten calls") as found:
        Options.parse(**arguments)
    assert where in found.value.where


def test_a_mode_that_conflicts_is_named():
    with pytest.raises(ConflictingOptionError) as found:
        Options.parse(mode="reduce-overhead")
    assert "mode='reduce-overhead'" in found.value.where


def test_a_conflict_set_for_the_whole_process_is_found():
    with inductor_config.patch({"memory_planning": True}):
        with pytest.raises(ConflictingOptionError, match="for the whole process"):
            Options.parse()
        assert Options.parse({"memory_planning": False}).inductor == {"memory_planning": False}


def test_errors_reach_the_caller_and_the_next_call_works():
    model = seeded(Mlp)
    x = torch.randn(3, 8)
    for kwargs, error in (
        ({"options": {"falback": True}}, UnknownOptionError),
        ({"mode": "reduce-overhead"}, ConflictingOptionError),
    ):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"Found: .*\n.*Where: .*\n.*Try: ") as found:
            compile_lowtide(model, **kwargs)(x)
        assert isinstance(found.value.inner_exception, error)
    torch.testing.assert_close(compile_lowtide(model)(x), model(x), rtol=1e-5, atol=1e-5)


def test_options_of_inductor_take_effect():
    seen = []

    def note(graph: torch.fx.Graph) -> None:
        seen.append(len(graph.nodes))

    model = seeded(Mlp)
    call = compile_lowtide(model, options={"post_grad_custom_post_pass": note})
    call(torch.randn(3, 8)).sum().backward()
    assert len(seen) == 2, "once for forward and once for backward"


def test_the_aten_lowering_keeps_autograds_promises():
    model = seeded(Mlp)
    call = compile_lowtide(model, options={"lowering": "aten", "fallback": False})
    x = torch.randn(5, 8, requires_grad=True)
    expected = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    loss = call(x).square().sum()
    for keep in (True, False):
        actual = torch.autograd.grad(loss, [x, *model.parameters()], retain_graph=keep)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    loss = call(x).sum()
    with torch.no_grad():
        x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(gradient.square().sum() + x.sum(), x)
    with torch.no_grad():
        torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)


def test_an_unknown_lowering_is_an_error():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no such lowering"):
        compile_lowtide(seeded(Mlp), options={"lowering": "atn"})(torch.randn(3, 8))
