"""Renaming touches whole identifiers of a fragment, and nothing else."""

import pytest

from lowtide.lower.joint import identifiers, rename_identifiers


@pytest.mark.parametrize(
    ("text", "renamed", "expected"),
    [
        ("f(buf1, buf10)", {"buf1": "b_buf1"}, "f(b_buf1, buf10)"),
        ("x.buf1(buf1)", {"buf1": "y"}, "x.buf1(y)"),
        ("f(out=out)", {"out": "b_out"}, "f(out=b_out)"),
        ("out = f(1)", {"out": "b_out"}, "b_out = f(1)"),
        ("f('buf1', \"buf1\", buf1)", {"buf1": "z"}, "f('buf1', \"buf1\", z)"),
        ("f(a == a)", {"a": "b"}, "f(b == b)"),
        ("a = b", {}, "a = b"),
    ],
)
def test_renames_identifiers_only(text: str, renamed: dict[str, str], expected: str) -> None:
    assert rename_identifiers(text, renamed) == expected


def test_identifiers_leave_out_attributes() -> None:
    assert identifiers("extern_kernels.mm(buf0, out=buf1)") == ["extern_kernels", "buf0", "out", "buf1"]
