"""Decisions about order and storage, each an algorithm in a file of its own."""

from lowtide.schedule.in_place import choose_in_place

__all__ = ["choose_in_place"]
