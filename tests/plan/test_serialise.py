import json

import pytest

from lowtide.plan import Plan, PlanTextError, plan_from_json, plan_to_json


@pytest.mark.parametrize("plan", [Plan(()), Plan((0, 2, 1), {"c": "b", "b": "a", "é\n": '"'})])
def test_plans_read_back(plan: Plan):
    assert plan_from_json(plan_to_json(plan)) == plan


def test_equal_plans_have_equal_texts():
    assert plan_to_json(Plan((0,), {"a": "b", "c": "d"})) == plan_to_json(Plan((0,), {"c": "d", "a": "b"}))


def test_text_is_the_documented_one():
    assert plan_to_json(Plan((0, 2, 1), {"c": "b"})) == (
        '{"format": "lowtide.plan", "version": 1, "order": [0, 2, 1], "reuse": {"c": "b"}}'
    )


def _text(**changes: object) -> str:
    document: dict[str, object] = {"format": "lowtide.plan", "version": 1, "order": [0], "reuse": {}}
    document.update(changes)
    return json.dumps({name: entry for name, entry in document.items() if entry is not None})


@pytest.mark.parametrize(
    ("text", "found", "where"),
    [
        ("{", "not JSON", "the whole text"),
        ("[]", "list instead of an object", "the whole text"),
        (_text(format="other"), "format 'other'", "entry 'format'"),
        (_text(version=2), "version 2; this library reads version 1", "entry 'version'"),
        (_text(version=True), "version True", "entry 'version'"),
        (_text(extra=1), "unknown entries extra", "the top level"),
        (_text(order=None), "None instead of a list", "entry 'order'"),
        (_text(order=[0, "1"]), "'1' instead of an integer", "entry 'order', place 1"),
        (_text(order=[True]), "True instead of an integer", "entry 'order', place 0"),
        (_text(reuse=[]), "[] instead of an object", "entry 'reuse'"),
        (_text(reuse={"a": 1}), "1 instead of the name", "entry 'reuse', buffer 'a'"),
    ],
)
def test_wrong_texts_say_what_and_where(text: str, found: str, where: str):
    with pytest.raises(PlanTextError) as caught:
        plan_from_json(text)
    assert found in caught.value.found
    assert caught.value.where == where


def test_a_plan_keeps_no_dict_of_its_maker():
    reuse = {"a": "b"}
    plan = Plan((0,), reuse)
    reuse.clear()
    assert plan.reuse == {"a": "b"}
