"""Imports point down only. There is no list of exceptions: move the code, not the rule."""

import pytest
from modules import Import, imports, is_within, module_names, room

# Lower rooms first. A room may import rooms of lower layers, and itself.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "units", "identity"}),
    frozenset({"symbolic"}),
    frozenset({"ir"}),
    frozenset({"analysis"}),
    frozenset({"plan"}),
    frozenset({"schedule", "rematerialize", "fission", "arena", "bounds"}),
    frozenset({"capture", "lower", "runtime"}),
    frozenset({"torch_backend", "options", "explanation", "explain", "optimize", "budgets", "report", "cli", ""}),
)
TORCH_ROOMS = frozenset(
    {"capture", "lower", "runtime", "torch_backend", "options", "explanation", "explain", "optimize", "budgets"}
)
INDUCTOR_HOMES = ("lowtide.lower.inductor", "lowtide.capture")
# The aten lowering drives AOTAutograd itself, so that it runs where Inductor has moved.
FUNCTORCH_HOMES = (*INDUCTOR_HOMES, "lowtide.lower.aten.compile")
# torch's own sizes are sympy expressions: they are converted at the border and nowhere else.
SYMPY_HOMES = ("lowtide.symbolic.from_sympy", "lowtide.lower", "lowtide.capture")

LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
INSIDE = [found for found in imports() if is_within(found.imported, "lowtide")]
OUTSIDE = [found for found in imports() if not is_within(found.imported, "lowtide")]


def _listing(found: list[Import]) -> str:
    return "\n  ".join(["", *map(str, found)])


def test_every_room_has_a_layer():
    unknown = sorted({room(name) for name in module_names()} - LAYER_OF.keys())
    assert not unknown, f"rooms without a layer: {unknown}; add each to LAYERS in {__file__}"


def test_imports_point_down():
    wrong = [
        found
        for found in INSIDE
        if room(found.importer) != room(found.imported)
        and LAYER_OF[room(found.imported)] > LAYER_OF[room(found.importer)]
    ]
    assert not wrong, f"imports that point up:{_listing(wrong)}"


def test_rooms_between_analysis_and_torch_do_not_import_sideways():
    middle = LAYERS[LAYER_OF["schedule"]]
    wrong = [
        found
        for found in INSIDE
        if room(found.importer) in middle
        and room(found.imported) in middle
        and room(found.importer) != room(found.imported)
    ]
    assert not wrong, f"sideways imports; what both need belongs in ir or analysis:{_listing(wrong)}"


def test_rooms_do_not_import_each_other_in_a_circle():
    below: dict[str, set[str]] = {}
    for found in INSIDE:
        if room(found.importer) != room(found.imported):
            below.setdefault(room(found.importer), set()).add(room(found.imported))

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for name in below.get(pending.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    pending.append(name)
        return seen

    circles = sorted(name for name in below if name in reach(name))
    assert not circles, f"rooms that import each other in a circle: {circles}"


def test_torch_is_imported_only_where_torch_is_spoken():
    wrong = [
        found for found in OUTSIDE if is_within(found.imported, "torch") and room(found.importer) not in TORCH_ROOMS
    ]
    assert not wrong, f"torch imported outside {sorted(TORCH_ROOMS)}:{_listing(wrong)}"


@pytest.mark.parametrize(("package", "homes"), [("_inductor", INDUCTOR_HOMES), ("_functorch", FUNCTORCH_HOMES)])
def test_inductor_internals_stay_behind_the_adapter(package: str, homes: tuple[str, ...]):
    wrong = [
        found
        for found in OUTSIDE
        if is_within(found.imported, f"torch.{package}") and not any(is_within(found.importer, home) for home in homes)
    ]
    assert not wrong, f"internals of torch.{package} outside {homes}:{_listing(wrong)}"


def test_sympy_stays_at_the_border():
    wrong = [
        found
        for found in OUTSIDE
        if is_within(found.imported, "sympy") and not any(is_within(found.importer, home) for home in SYMPY_HOMES)
    ]
    assert not wrong, f"sympy outside {SYMPY_HOMES}:{_listing(wrong)}"


@pytest.mark.parametrize("package", ["matplotlib", "transformers", "tokenizers", "onnx", "onnxruntime", "z3"])
def test_optional_packages_are_not_imported_by_the_core(package: str):
    core = {name for layer in LAYERS[: LAYER_OF["schedule"] + 1] for name in layer}
    wrong = [found for found in OUTSIDE if is_within(found.imported, package) and room(found.importer) in core]
    assert not wrong, f"{package} is an extra:{_listing(wrong)}"
