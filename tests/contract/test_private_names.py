"""Names of torch that begin with an underscore carry no promise: which modules of lowtide say which of them.

Found are imports and names written with dots (`torch._C.x`), not those asked for by `getattr`.
"""

from modules import is_within, private_torch_names

# Inductor's internals, and whatever else the adapter needs.
ADAPTER = ("lowtide.capture", "lowtide.lower.inductor")

# Every other module, with what it may name: the name up to its first part with an underscore.
LISTED: dict[str, set[str]] = {
    "lowtide.lower.aten.aliases": {"_subclasses", "utils._pytree"},
    "lowtide.lower.aten.arguments": {"_ops"},
    "lowtide.lower.aten.compile": {"_dynamo", "_functorch"},
    "lowtide.lower.aten.decompositions": {"_decomp"},
    "lowtide.lower.aten.reader": {"_ops", "_subclasses", "utils._pytree"},
    "lowtide.lower.aten.replay": {"_subclasses"},
    "lowtide.lower.joint.printing": {"utils._sympy"},
    "lowtide.lower.joint.sizes": {"utils._sympy"},
    "lowtide.lower.joint.stubs": {"_guards", "_subclasses", "utils._pytree"},
    "lowtide.runtime.load": {"_C"},
    "lowtide.runtime.meter": {"_C"},
    "lowtide.runtime.saved_hooks": {"_C"},
    "lowtide.runtime.state": {"_C", "_library", "_opaque_base"},
    "lowtide.torch_backend": {"_dynamo"},
}


def _area(name: str) -> str:
    parts = name.split(".")[1:]
    private = next(number for number, part in enumerate(parts) if part.startswith("_"))
    return ".".join(parts[: private + 1])


USED = private_torch_names()
FOUND = {
    module: {_area(name) for name in names}
    for module, names in USED.items()
    if not any(is_within(module, home) for home in ADAPTER)
}


def test_modules_name_the_private_parts_of_torch_that_are_listed():
    new = {module: sorted(areas - LISTED.get(module, set())) for module, areas in FOUND.items()}
    new = {module: areas for module, areas in new.items() if areas}
    assert not new, f"not listed in {__file__}: {new}; is there a public name?"


def test_what_is_listed_is_there():
    gone = {module: sorted(areas - FOUND.get(module, set())) for module, areas in LISTED.items()}
    gone = {module: areas for module, areas in gone.items() if areas}
    assert not gone, f"listed in {__file__} and not used: {gone}"


def test_inductor_is_named_by_the_adapter_only():
    assert not [module for module, areas in FOUND.items() if "_inductor" in areas]
    assert all(
        any("torch._inductor" in name for module, names in USED.items() if is_within(module, home) for name in names)
        for home in ADAPTER
    )
