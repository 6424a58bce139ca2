"""One sample of each error whose constructor takes more than texts, numbers and collections of them."""

from collections.abc import Callable
from typing import Any

SAMPLES: dict[str, Callable[[Any], Exception]] = {}
