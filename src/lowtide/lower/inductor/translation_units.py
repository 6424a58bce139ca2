"""Compiles the C++ kernels of a graph in as many translation units as there are compile threads.

Inductor compiles every kernel in a unit of its own. Most of the time that takes is the same for each of them, a few
seconds of headers that the kernel itself adds little to, so several kernels per unit take a fraction of it. Compilation
starts when a generated module is loaded and is waited for when a kernel is needed: Inductor lowers backward meanwhile.

    per kernel    [headers k1] [headers k2] [headers k3] [headers k4]
    per unit      [headers k1 k2] [headers k3 k4]

The kernels' text is left as Inductor wrote it, but for their names. Text of another shape than expected is compiled by
Inductor itself.
"""

# Inductor's internals are untyped or typed for its own use; what they are is held by tests on every torch version.
# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from unittest import mock

from torch._inductor.async_compile import AsyncCompile, get_compile_threads
from torch._inductor.codecache import CppPythonBindingsCodeCache

_HEADER = "#include <torch/csrc/inductor/cpp_prefix.h>"
_KERNEL = re.compile(r'^extern "C"\s+void\s+(?:C10_ALWAYS_INLINE_ATTRIBUTE\s+)?kernel\(', re.MULTILINE)
_TOP_LEVEL = re.compile(r"^\S.*$", re.MULTILINE)

_BINDINGS = r"""
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstdlib>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace lowtide {

static void* (*data_pointer)(PyObject*);

template <typename T>
static T argument(PyObject* args, Py_ssize_t place) {
    PyObject* item = PyTuple_GET_ITEM(args, place);
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(data_pointer(item));
    } else if constexpr (std::is_floating_point_v<T>) {
        const double value = PyFloat_AsDouble(item);
        if (value == -1.0 && PyErr_Occurred()) throw std::invalid_argument("a kernel expects a number here");
        return static_cast<T>(value);
    } else {
        const long long value = PyLong_AsLongLong(item);
        if (value == -1 && PyErr_Occurred()) throw std::invalid_argument("a kernel expects an integer here");
        return static_cast<T>(value);
    }
}

template <typename... T, std::size_t... Place>
static void call(void (*kernel)(T...), PyObject* args, std::index_sequence<Place...>) {
    kernel(argument<T>(args, Place)...);
}

template <typename... T>
static PyObject* run(void (*kernel)(T...), PyObject* args) {
    const Py_ssize_t given = PyTuple_GET_SIZE(args);
    if (given != static_cast<Py_ssize_t>(sizeof...(T))) {
        PyErr_Format(PyExc_TypeError, "a kernel of %zu arguments was called with %zd", sizeof...(T), given);
        return nullptr;
    }
    try {
        call(kernel, args, std::index_sequence_for<T...>{});
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return nullptr;
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "a kernel failed without saying why");
        return nullptr;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
METHODS
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernels", nullptr, -1, methods};

}  // namespace lowtide

PyMODINIT_FUNC PyInit_kernels() {
    const char* address = std::getenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR");
    if (address == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the address of torch's data pointer function is not set");
        return nullptr;
    }
    lowtide::data_pointer = reinterpret_cast<void* (*)(PyObject*)>(std::strtoull(address, nullptr, 10));
    return PyModule_Create(&lowtide::module);
}
"""

_METHOD = """    {"kernel_NUMBER", [](PyObject*, PyObject* args) { return run(kernel_NUMBER, args); },
     METH_VARARGS, nullptr},"""


class _Units(CppPythonBindingsCodeCache):
    """Torch's cache of compiled C++ modules, for modules of several kernels."""

    cache: dict[str, Any] = {}  # noqa: RUF012 - torch's own type of the attribute
    entry_function = "kernels"


class PendingKernel:
    """A kernel that is being compiled."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find

    def result(self) -> Any:
        """The kernel. Waits until it is compiled."""
        return self._find()


class _Batch:
    """Kernels that were asked for and whose compilation has not begun."""

    def __init__(self) -> None:
        self._sources: list[str] = []
        self._modules: dict[int, Callable[[], Any]] = {}

    def add(self, source: str) -> PendingKernel:
        number = len(self._sources)
        self._sources.append(source)
        return PendingKernel(lambda: getattr(self._modules[number](), f"kernel_{number}"))

    def start(self) -> None:
        """Begin to compile what was added, in units of about equal length."""
        waiting = [number for number in range(len(self._sources)) if number not in self._modules]
        units: list[list[int]] = [[] for _ in range(min(len(waiting), max(1, get_compile_threads())))]
        lengths = [0] * len(units)
        for number in sorted(waiting, key=lambda n: -len(self._sources[n])):
            shortest = lengths.index(min(lengths))
            units[shortest].append(number)
            lengths[shortest] += len(self._sources[number])
        for unit in units:
            source = write_unit({number: self._sources[number] for number in sorted(unit)})
            load: Callable[[], Any] = _Units.load_async(
                source, submit_fn=AsyncCompile.submit if get_compile_threads() > 1 else None
            )
            self._modules.update(dict.fromkeys(unit, load))


def can_share_unit(source: str) -> bool:
    """Whether a kernel's text is one include and one function called `kernel`, and nothing else.

    Cost: linear in the text.
    """
    if len(_KERNEL.findall(source)) != 1:
        return False
    expected = (_HEADER, "{", "}", "// ")
    others = [line for line in _TOP_LEVEL.findall(source) if not line.startswith(expected)]
    return len(others) == 1 and _KERNEL.match(others[0]) is not None


def write_unit(sources: Mapping[int, str]) -> str:
    """Write one translation unit, a Python module called `kernels`.

    Args:
        sources: Number -> text of a kernel that can share a unit.

    Returns:
        Text that defines `kernel_<number>` for each.
    """
    bodies = [
        _KERNEL.sub(f'extern "C" void kernel_{number}(', text.replace(_HEADER, "")) for number, text in sources.items()
    ]
    methods = "\n".join(_METHOD.replace("NUMBER", str(number)) for number in sources)
    return "\n".join([_HEADER, *bodies, _BINDINGS.replace("METHODS", methods)])


@contextlib.contextmanager
def shared_units() -> Iterator[None]:
    """Compile the C++ kernels of modules that are loaded inside the context several to a unit.

    Such a kernel is a `PendingKernel` in the module until `resolve` is asked for it.
    """
    token = _batch.set(_Batch())
    try:
        with (
            mock.patch.object(AsyncCompile, "cpp_pybinding", _cpp_pybinding),
            mock.patch.object(AsyncCompile, "wait", _start_and_wait),
        ):
            yield
    finally:
        _batch.reset(token)


# Of this thread. Another one that compiles at the same time finds none, and gets what torch does.
_batch: ContextVar[_Batch | None] = ContextVar("lowtide_batch", default=None)
_torch_cpp_pybinding, _torch_wait = AsyncCompile.cpp_pybinding, AsyncCompile.wait


def _cpp_pybinding(self: Any, argtypes: list[str], source_code: str) -> Any:
    batch = _batch.get()
    if batch is None or not can_share_unit(source_code):
        return _torch_cpp_pybinding(self, argtypes, source_code)
    return batch.add(source_code)


def _start_and_wait(self: Any, scope: dict[str, Any]) -> None:
    batch = _batch.get()
    if batch is not None:
        batch.start()
    _torch_wait(self, scope)


def resolve(kernel: Any) -> Any:
    """What can be called: the compiled kernel where one is pending, anything else as it is."""
    return kernel.result() if isinstance(kernel, PendingKernel) else kernel
