"""Which programs were compiled for which torch.compile call."""

import weakref
from collections.abc import Iterator

from lowtide.runtime.executable import Executable


class Registry:
    """Programs by the backend object of the torch.compile call that they belong to.

    Holds no backend alive: programs go when their backend object does.
    """

    def __init__(self) -> None:
        self._programs: dict[int, tuple[weakref.ref[object], list[Executable]]] = {}

    def add(self, backend: object, executable: Executable) -> None:
        """Note a program. A backend object that cannot be referred to weakly is not noted."""
        key = id(backend)
        if key not in self._programs:
            try:
                reference = weakref.ref(backend, lambda _: self._programs.pop(key, None))
            except TypeError:
                return
            self._programs[key] = (reference, [])
        self._programs[key][1].append(executable)

    def programs_of(self, backend: object) -> tuple[Executable, ...]:
        """The programs compiled for a backend object, oldest first."""
        entry = self._programs.get(id(backend))
        return () if entry is None or entry[0]() is not backend else tuple(entry[1])

    def __iter__(self) -> Iterator[Executable]:
        """All programs still in use, oldest first within each backend."""
        for _, programs in list(self._programs.values()):
            yield from programs


compiled_programs = Registry()
"""The process's registry. It decides nothing: it only lets `explain` find what was compiled."""
