"""Bytes per element of each element type, by name, without torch."""

_ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "uint16": 2,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "complex32": 4,
    "uint32": 4,
    "int32": 4,
    "float32": 4,
    "uint64": 8,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element of `dtype`; the name may carry the prefix `torch.`.

    Raises:
        KeyError: If the name is no known element type.

    Example:
        >>> item_bytes("bfloat16"), item_bytes("torch.int64")
        (2, 8)
    """
    return _ITEM_BYTES[dtype.removeprefix("torch.")]


def is_dtype(dtype: str) -> bool:
    """Tell whether `item_bytes` knows the name."""
    return dtype.removeprefix("torch.") in _ITEM_BYTES
