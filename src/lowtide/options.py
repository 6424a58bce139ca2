"""The options of `torch.compile(model, backend="lowtide", options={...})`.

lowtide's own options stand beside Inductor's: a name that lowtide does not know is looked for among the options of
`torch._inductor.config` and passed on.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from lowtide.capture import FIXED_SETTINGS, current_settings, has_right_type, mode_names, mode_settings
from lowtide.errors import LowtideError


class UnknownOptionError(LowtideError):
    """An option, or a mode, that neither lowtide nor torch knows.

    Args:
        name: The name that was given.
        nearest: Known names like it, the nearest first.
        where: The argument of torch.compile that it was given in.
    """

    def __init__(self, name: str, nearest: tuple[str, ...], where: str) -> None:
        self.name = name
        self.nearest = nearest
        own = ", ".join(f.name for f in dataclasses.fields(Options) if f.name != "inductor")
        known = f"the options of lowtide are {own}; those of Inductor are passed on."
        super().__init__(
            "lowtide was given an option that it does not know.",
            found=repr(name),
            where=where,
            fix=f"{' or '.join(map(repr, nearest))}; {known}" if nearest else known,
        )


class OptionValueError(LowtideError):
    """A known option has a value of a kind that it cannot have."""


class IneffectiveOptionError(LowtideError):
    """An option of Inductor is given together with a lowering that does not use Inductor."""


class ConflictingOptionError(LowtideError):
    """An option of Inductor asks for something that lowtide does itself or cannot account for.

    Args:
        name: Name of the option.
        value: The value that was asked for.
        needed: The value that lowtide needs.
        reason: Why it needs it.
        where: Where the value was set.
    """

    def __init__(self, name: str, value: object, needed: object, reason: str, where: str) -> None:
        self.name = name
        self.value = value
        super().__init__(
            "An Inductor option conflicts with lowtide.",
            found=f"{name} = {value!r}; lowtide needs {needed!r} because {reason}",
            where=where,
            fix=f"leave {name} out, or use backend='inductor' where you need it.",
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What a caller of torch.compile can choose.

    Attributes:
        lowering: "inductor" runs Inductor's generated kernels; "aten" runs one operator of torch per statement, and
            needs no compiler. None chooses by the version of torch.
        fallback: Whether a graph that lowtide cannot account for runs on torch's own path instead, with a
            `FallbackWarning`. If False it is an error.
        inductor: Options of Inductor, by name.
    """

    lowering: str | None = None
    fallback: bool = True
    inductor: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, Any] | None = None, mode: str | None = None) -> "Options":
        """Sort out what torch.compile was given.

        Args:
            options: Options of lowtide and of Inductor, by name.
            mode: A mode of torch.compile: a set of Inductor options. Those in `options` win.

        Raises:
            UnknownOptionError: If a name or the mode is not known.
            OptionValueError: If a value is of the wrong type.
            IneffectiveOptionError: If an option of Inductor is given for plain aten calls.
            ConflictingOptionError: If an option of Inductor, given here or set for the process, conflicts with lowtide.
        """
        passed_on = mode_settings(mode)
        if passed_on is None:
            assert mode is not None, "bug: no mode is a known mode"
            raise UnknownOptionError(mode, _nearest(mode, mode_names()), "torch.compile(mode=...)")
        where = dict.fromkeys(passed_on, f"torch.compile(mode={mode!r})")
        own: dict[str, Any] = {}
        settings = current_settings()
        for given, value in (options or {}).items():
            name = given.replace("-", "_")
            if name in _OWN_TYPES:
                if not isinstance(value, _OWN_TYPES[name]):
                    raise _wrong_type(given, value, " or ".join(t.__name__ for t in _OWN_TYPES[name]))
                own[name] = value
            elif name in settings:
                if not has_right_type(name, value):
                    raise _wrong_type(given, value, type(settings[name]).__name__)
                passed_on[name] = value
                where[name] = "torch.compile(options=...)"
            else:
                raise UnknownOptionError(given, _nearest(name, (*_OWN_TYPES, *settings)), "torch.compile(options=...)")
        if own.get("lowering") == "aten" and passed_on:
            raise IneffectiveOptionError(
                "An option of Inductor has no effect on plain aten calls.",
                found=f"{', '.join(passed_on)}, beside the option lowering = 'aten'",
                where=" and ".join(sorted(set(where.values()))),
                fix="leave it out, or leave out the lowering to run Inductor's kernels.",
            )
        for name, fixed in FIXED_SETTINGS.items():
            if name in passed_on and passed_on[name] != fixed.value:
                raise ConflictingOptionError(name, passed_on[name], fixed.value, fixed.reason, where[name])
            if fixed.is_checked_globally and name not in passed_on and settings.get(name, fixed.value) != fixed.value:
                raise ConflictingOptionError(
                    name, settings[name], fixed.value, fixed.reason, "torch._inductor.config, for the whole process"
                )
        return cls(**own, inductor=passed_on)


_OWN_TYPES: Mapping[str, tuple[type, ...]] = {"lowering": (str, type(None)), "fallback": (bool,)}


def _nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(name, list(known), n=3, cutoff=0.6))


def _wrong_type(name: str, value: object, expected: str) -> OptionValueError:
    return OptionValueError(
        "An option has a value of the wrong type.",
        found=f"{name} = {value!r}, a {type(value).__name__}",
        where="torch.compile(options=...)",
        fix=f"give it a {expected}.",
    )
