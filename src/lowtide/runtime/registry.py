"""Which programs were compiled for which torch.compile call, and which graphs went to torch's own path."""

import contextlib
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from lowtide.runtime.executable import Executable


class FallbackWarning(UserWarning):
    """A graph runs on torch's own path: right, but with no promise about its memory."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A graph that runs on torch's own path.

    Attributes:
        title: Name of the graph.
        reason: Why, in full.
    """

    title: str
    reason: str


@dataclass(slots=True)
class _Entry:
    programs: list[Executable] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)


class Registry:
    """Programs and fallbacks by the backend object of the torch.compile call that they belong to.

    Holds no backend alive: an entry goes when its backend object does. What is noted while a graph is compiled counts
    only if the compilation succeeds.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[object], _Entry]] = {}
        self._noted: ContextVar[_Entry | None] = ContextVar("lowtide_noted", default=None)

    @contextlib.contextmanager
    def collecting(self, backend: object | None) -> Iterator[None]:
        """Keep for `backend` what is noted inside the context, if it ends without an exception.

        Args:
            backend: The backend object; None, or one that cannot be referred to weakly, keeps nothing.
        """
        noted = _Entry()
        token = self._noted.set(noted)
        try:
            yield
        finally:
            self._noted.reset(token)
        entry = None if backend is None else self._entry_of(backend)
        if entry is not None:
            entry.programs += noted.programs
            entry.fallbacks += noted.fallbacks

    def note_program(self, executable: Executable) -> None:
        """Note a program of the graph being compiled; nothing is noted outside of a compilation."""
        noted = self._noted.get()
        if noted is not None:
            noted.programs.append(executable)

    def note_fallback(self, fallback: Fallback) -> None:
        """Note that the graph being compiled runs on torch's own path."""
        noted = self._noted.get()
        if noted is not None:
            noted.fallbacks.append(fallback)

    def programs_of(self, backend: object) -> tuple[Executable, ...]:
        """The programs compiled for a backend object, oldest first."""
        return tuple(self._find(backend).programs)

    def fallbacks_of(self, backend: object) -> tuple[Fallback, ...]:
        """The graphs of a backend object that run on torch's own path, oldest first."""
        return tuple(self._find(backend).fallbacks)

    def __iter__(self) -> Iterator[Executable]:
        """All programs still in use, oldest first within each backend."""
        for _, entry in list(self._entries.values()):
            yield from entry.programs

    def _find(self, backend: object) -> _Entry:
        found = self._entries.get(id(backend))
        if found is not None and found[0]() is backend:
            return found[1]
        # dynamo takes what was compiled for an equal backend object, where the same code runs on another model.
        equal = [entry for reference, entry in self._entries.values() if reference() == backend]
        return equal[-1] if equal else _Entry()

    def _entry_of(self, backend: object) -> _Entry | None:
        key = id(backend)
        if key not in self._entries:
            try:
                reference = weakref.ref(backend, lambda _: self._entries.pop(key, None))
            except TypeError:
                return None
            self._entries[key] = (reference, _Entry())
        return self._entries[key][1]


compiled_programs = Registry()
"""The process's registry. It decides nothing: it only lets `explain` find what was compiled."""
