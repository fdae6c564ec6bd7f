"""If these fail, an editor or a type checker tells users something that is not so."""

import ast
import inspect
from pathlib import Path

import bbq
import pytest
from bbq import _native

STUBS = ast.parse(Path(bbq.__file__).with_name("_native.pyi").read_text())
[SENDER] = [node for node in STUBS.body if isinstance(node, ast.ClassDef)]
METHODS = {node.name: node for node in SENDER.body if isinstance(node, ast.FunctionDef)}


def stubbed(function):
    """Names of the arguments behind `self`, by kind, and which of them have a default."""
    arguments = function.args
    positional = [argument.arg for argument in arguments.posonlyargs + arguments.args][1:]
    keywords = [argument.arg for argument in arguments.kwonlyargs]
    optional = positional[len(positional) - len(arguments.defaults) :] if arguments.defaults else []
    optional += [name for name, default in zip(keywords, arguments.kw_defaults) if default is not None]
    return positional, keywords, optional


def real(function):
    parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
    keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    optional = [one.name for one in parameters if one.default is not one.empty]
    return [one.name for one in parameters if one.name not in keywords], keywords, optional


def test_the_stub_names_what_there_is():
    there = {name for name in vars(_native.Sender) if not name.startswith("_")}
    assert there == {name for name in METHODS if not name.startswith("_")}
    assert {node.name for node in STUBS.body if isinstance(node, ast.FunctionDef)} == {"finish_all"}


@pytest.mark.parametrize("name", ["__new__", "send", "try_send", "send_many", "flush", "close", "start_again"])
def test_arguments(name):
    function = bbq.Sender if name == "__new__" else getattr(bbq.Sender, name)
    assert stubbed(METHODS[name]) == real(function)


def test_every_public_name_has_documentation_and_is_at_home_in_the_package():
    for name in bbq.__all__:
        thing = getattr(bbq, name)
        assert thing.__doc__ and thing.__module__ == "bbq", name
