"""Plans as JSON: `plan_to_json`, `plan_from_json`.

    {"format": "lowtide.plan", "version": 1, "order": [0, 2, 1], "reuse": {"c": "b"}}

A text is data: whether the plan fits a program is for `check_plan` to say.
"""

from __future__ import annotations

import json
from typing import cast

from lowtide.errors import LowtideError
from lowtide.plan.plan import Plan

FORMAT = "lowtide.plan"
VERSION = 1


class PlanTextError(LowtideError):
    """A text that is not a plan of this version."""


def plan_to_json(plan: Plan) -> str:
    """Print a plan as JSON. Equal plans have equal texts."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "order": list(plan.order),
        "reuse": dict(sorted(plan.reuse.items())),
    }
    return json.dumps(document)


def plan_from_json(text: str) -> Plan:
    """Read a plan that `plan_to_json` printed.

    Raises:
        PlanTextError: If the text is no JSON, of another format or version, or has wrong entries.
    """
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise _error(f"not JSON: {error}", "the whole text") from error
    if not isinstance(document, dict):
        raise _error(f"{type(document).__name__} instead of an object", "the whole text")
    fields = cast("dict[str, object]", document)
    if fields.get("format") != FORMAT:
        raise _error(f"format {fields.get('format')!r} instead of {FORMAT!r}", "entry 'format'")
    version = fields.get("version")
    if version != VERSION or isinstance(version, bool):
        raise _error(f"version {version!r}; this library reads version {VERSION}", "entry 'version'")
    unknown = sorted(set(fields) - {"format", "version", "order", "reuse"})
    if unknown:
        raise _error(f"unknown entries {', '.join(unknown)}", "the top level")
    return Plan(_order(fields.get("order")), _reuse(fields.get("reuse")))


def _order(entry: object) -> tuple[int, ...]:
    if not isinstance(entry, list):
        raise _error(f"{entry!r} instead of a list of integers", "entry 'order'")
    numbers: list[int] = []
    for number in cast("list[object]", entry):
        if not isinstance(number, int) or isinstance(number, bool):
            raise _error(f"{number!r} instead of an integer", f"entry 'order', place {len(numbers)}")
        numbers.append(number)
    return tuple(numbers)


def _reuse(entry: object) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise _error(f"{entry!r} instead of an object from buffers to buffers", "entry 'reuse'")
    reuse: dict[str, str] = {}
    for buffer, taken in cast("dict[str, object]", entry).items():
        if not isinstance(taken, str):
            raise _error(f"{taken!r} instead of the name of a buffer", f"entry 'reuse', buffer '{buffer}'")
        reuse[buffer] = taken
    return reuse


def _error(found: str, where: str) -> PlanTextError:
    return PlanTextError(
        "cannot read a plan from this text",
        found=found,
        where=where,
        fix="make the text with plan_to_json of this version, or plan again",
    )
