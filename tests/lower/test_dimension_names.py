"""Dimension variables get names that people use, each once."""

from lowtide.lower.dimension_names import name_dimensions


def test_names_of_a_language_model() -> None:
    sources = {"s52": "L['kwargs']['input_ids'].size()[0]", "s27": "L['kwargs']['input_ids'].size()[1]"}
    assert name_dimensions(sources) == {"s52": "batch", "s27": "sequence"}


def test_equal_names_are_numbered() -> None:
    sources = {"s0": "L['x'].size()[0]", "s1": "L['y'].size()[0]"}
    assert name_dimensions(sources) == {"s0": "batch", "s1": "batch_2"}


def test_pictures_have_height_and_width() -> None:
    sources = {f"s{i}": f"L['pixel_values'].size()[{i}]" for i in (0, 2, 3)}
    assert name_dimensions(sources) == {"s0": "batch", "s2": "height", "s3": "width"}


def test_other_inputs_are_named_after_themselves() -> None:
    assert name_dimensions({"s0": "L['table'].size()[2]", "s1": "L['count']"}) == {"s0": "table_dim2", "s1": "count"}
