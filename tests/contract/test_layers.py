"""Imports point down only. There is no list of exceptions: move the code, not the rule."""

import pytest
from modules import ROOT, Import, imports, is_within, module_names, room

# Lower rooms first, as in docs/architecture.md; "" is the front door. A room may import rooms of lower layers only.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "identity"}),
    frozenset({"symbolic"}),
    frozenset({"ir"}),
    frozenset({"analysis"}),
    frozenset({"plan"}),
    frozenset({"schedule"}),
    frozenset({"capture", "lower", "runtime"}),
    frozenset({"options", "explanation"}),
    frozenset({""}),
    frozenset({"torch_backend"}),
)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
ROOMS_WITHOUT_TORCH = frozenset(name for name, level in LAYER_OF.items() if level < LAYER_OF["capture"])
TORCH_ROOMS = LAYER_OF.keys() - ROOMS_WITHOUT_TORCH - {""}
# torch's own sizes are sympy expressions: they are converted at the border and nowhere else.
SYMPY_HOMES = ("lowtide.symbolic.from_sympy", "lowtide.lower", "lowtide.capture")

INSIDE = [found for found in imports() if is_within(found.imported, "lowtide")]
OUTSIDE = [found for found in imports() if not is_within(found.imported, "lowtide")]


def _listing(found: list[Import]) -> str:
    return "\n  ".join(["", *map(str, found)])


def test_layers_name_the_rooms_that_there_are():
    rooms = {room(name) for name in module_names()}
    assert rooms - LAYER_OF.keys() == set(), "rooms without a layer: add each to LAYERS and to docs/architecture.md"
    assert LAYER_OF.keys() - rooms == set(), "layers name rooms that are not there"
    assert sum(map(len, LAYERS)) == len(LAYER_OF), "a room stands in two layers"


def test_the_documentation_lists_every_room():
    table = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("## ")[0]
    rooms = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    listed = {name for cell in rooms for name in cell.split("`")[1::2]}
    assert listed == {name or "lowtide" for name in LAYER_OF}


def test_imports_point_down():
    wrong = [
        found
        for found in INSIDE
        if room(found.importer) != room(found.imported)
        and LAYER_OF[room(found.imported)] >= LAYER_OF[room(found.importer)]
    ]
    assert not wrong, f"imports that point up or sideways; what both need belongs further down:{_listing(wrong)}"


def test_torch_is_imported_only_where_torch_is_spoken():
    wrong = [
        found for found in OUTSIDE if is_within(found.imported, "torch") and room(found.importer) not in TORCH_ROOMS
    ]
    assert not wrong, f"torch imported outside {sorted(TORCH_ROOMS)}:{_listing(wrong)}"


def test_sympy_stays_at_the_border():
    wrong = [
        found
        for found in OUTSIDE
        if is_within(found.imported, "sympy") and not any(is_within(found.importer, home) for home in SYMPY_HOMES)
    ]
    assert not wrong, f"sympy outside {SYMPY_HOMES}:{_listing(wrong)}"


@pytest.mark.parametrize("package", ["matplotlib", "rich", "transformers", "tokenizers", "onnx", "onnxruntime", "z3"])
def test_optional_packages_are_not_imported_by_the_library(package: str):
    wrong = [found for found in OUTSIDE if is_within(found.imported, package)]
    assert not wrong, f"{package} is an extra:{_listing(wrong)}"
