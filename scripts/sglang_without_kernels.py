"""Stands in for the package `sgl_kernel` of SGLang where there is no GPU: its modules can be imported, and any call raises.

SGLang's GPU kernels are a package of their own, which PyPI has for CUDA only. SGLang imports names from it at start on every machine,
also for a model that runs on PyTorch alone, as `scripts/verify-sglang` serves one. Nothing that is served or counted there comes from
here: no name of this module does any work, and a call of one raises and is written into the server's log, which the script reads.
"""

import importlib.abc
import importlib.machinery
import sys
import types

PACKAGE = "sgl_kernel"


class Missing:
    """A name that was imported."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *_args, **_named):
        problem = f"{self.name} was called without kernels"
        print(problem, file=sys.stderr)
        raise RuntimeError(problem)

    def __getattr__(self, name):
        return inside(self.name, name)


class Stand(types.ModuleType):
    """A module of the package."""

    def __getattr__(self, name):
        return inside(self.__name__, name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the package and every module in it."""

    def find_spec(self, fullname, path=None, target=None):
        """A module of the package, or nothing."""
        if fullname.partition(".")[0] != PACKAGE:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        """An empty module."""
        return Stand(spec.name)

    def exec_module(self, module):
        """There is nothing to run."""


def inside(where, name):
    """Any name but Python's own, which tell what an object is."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"{where}.{name}")


sys.meta_path.append(Finder())
