"""Names that people use for dimension variables: batch and sequence, not s52.

torch tells where it first met a symbol, for example `L['input_ids'].size()[0]`. The first axis of the first
input is the batch; the second axis of an integer input is a sequence, and so is that of embeddings; images
have height and width. Anything else is named after its input and axis.
"""

import re
from collections.abc import Mapping

_SIZE = re.compile(r"""(?P<owner>.*?)\.size\(\)\[(?P<axis>\d+)\]$""")
_SEQUENCES = {
    "input_ids": "sequence",
    "inputs_embeds": "sequence",
    "hidden_states": "sequence",
    "decoder_input_ids": "decoder_sequence",
    "labels": "label_sequence",
    "attention_mask": "sequence",
    "input_features": "mel_bins",
}
_IMAGE_AXES = {2: "height", 3: "width"}


def name_dimensions(sources: Mapping[str, str]) -> dict[str, str]:
    """Choose a distinct readable name for every symbol.

    Args:
        sources: Symbol -> the place torch found it at.

    Returns:
        Symbol -> name. Names are valid identifiers and unique.

    Guarantee: heuristic; only labels depend on it.
    """
    names: dict[str, str] = {}
    for symbol, source in sources.items():
        wanted = _suggest(source)
        name, number = wanted, 2
        while name in names.values():
            name, number = f"{wanted}_{number}", number + 1
        names[symbol] = name
    return names


def _suggest(source: str) -> str:
    match = _SIZE.match(source)
    if match is None:
        return _identifier(source)
    owner, axis = _identifier(match["owner"]), int(match["axis"])
    if axis == 0:
        return "batch"
    if axis == 1 and owner in _SEQUENCES:
        return _SEQUENCES[owner]
    if owner == "input_features" and axis == 2:
        return "frames"
    if owner in {"pixel_values", "images", "image"} and axis in _IMAGE_AXES:
        return _IMAGE_AXES[axis]
    return f"{owner}_dim{axis}"


def _identifier(source: str) -> str:
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"^L\b|^G\b", "", source))
    return words[-1] if words else "size"
