# SPDX-License-Identifier: MIT
"""Every public name of the package has words of its own: `make docs` makes its reference of them."""

import inspect
import re

import pytest

import weft_sync
import weft_sync.probe
import weft_sync.torch

MODULES = [weft_sync, weft_sync.torch, weft_sync.probe]


def public(module):
    """(name, object) of classes and functions, and of what can be called on the classes."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        yield name, thing
        for part, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not part.startswith("_") and isinstance(value, (property, classmethod, staticmethod, type(public))):
                yield f"{name}.{part}", value


def fields(thing):
    """(name, words) of a named tuple's fields: what stands behind `#:`."""
    for field in getattr(thing, "_fields", ()):
        words = re.search(rf"^    {field}: [^#\n]*#: (.+)$", inspect.getsource(thing), re.M)
        yield field, words and words[1]


def has_words(name, thing):
    words = inspect.getdoc(thing)
    return words and not words.startswith(f"{name}(") and all(said for _, said in fields(thing))


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_words(module):
    names = dict(public(module))
    assert names and not [name for name, thing in names.items() if not has_words(name, thing)]
