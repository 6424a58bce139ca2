"""From foreign programs to ours: what dynamo knows about a compiled model."""

from lowtide.capture.owner import current_backend, find_backend

__all__ = ["current_backend", "find_backend"]
