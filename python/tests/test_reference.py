# SPDX-License-Identifier: MIT
"""Every public name of the package has words of its own, which name the errors that it raises: `make docs` makes
its reference of them."""

import ast
import inspect
import re
import textwrap

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


def raised(thing, seen):
    """Names of weft's errors that a function raises by itself, through others of its module or class, or
    because libweft fails (Context.call, Context.wait)."""
    if isinstance(thing, property):
        thing = thing.fget
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    if thing in seen or not inspect.isfunction(thing) or not thing.__module__.startswith("weft_sync"):
        return set()
    seen.add(thing)
    module = inspect.getmodule(thing)
    owner = getattr(module, thing.__qualname__.split(".")[0], None)
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(thing)))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            found.add(node.exc.func.id)
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            found |= raised(getattr(module, node.func.id, None), seen)
        elif isinstance(node.func, ast.Attribute):
            if node.func.attr in ("call", "wait") and node.args and isinstance(node.args[0], ast.Constant):
                found.add("Error")
            if isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
                found |= raised(getattr(owner, node.func.attr, None), seen)
    return {name for name in found if issubclass(getattr(weft_sync, name, object), weft_sync.Error)}


@pytest.mark.parametrize("module", MODULES)
def test_what_raises_says_so(module):
    told = dict(public(module))
    silent = {}
    for name, thing in told.items():
        words = f"{inspect.getdoc(told[name.split('.')[0]])} {inspect.getdoc(thing)}"
        names = raised(thing.__init__ if inspect.isclass(thing) else thing, set())
        if not all(re.search(rf"\b{error}\b", words) for error in names):
            silent[name] = names
    assert not silent
