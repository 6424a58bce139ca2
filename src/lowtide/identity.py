"""What stands for this lowtide in cache keys: its version and the text of its own source files.

The version alone would let a cache hand back programs made by other code of the same version.
"""

import functools
import hashlib
from pathlib import Path


@functools.cache
def source_digest() -> str:
    """A digest of every Python file of the installed package. Cost: reads them once per process."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
