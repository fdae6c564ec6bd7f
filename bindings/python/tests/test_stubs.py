"""If these fail, an editor or a type checker tells users something that is not so."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import bbq
import pytest
from bbq import _native
from conftest import PATIENCE_SECONDS

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


def test_the_options_of_a_handler_are_those_of_the_sender():
    options = ast.parse(Path(bbq.__file__).with_name("options.py").read_text())
    [fields] = [node.body for node in options.body if isinstance(node, ast.ClassDef)]
    typed = {node.target.id: ast.unparse(node.annotation) for node in fields if isinstance(node, ast.AnnAssign)}
    keywords = METHODS["__new__"].args.kwonlyargs
    assert typed == {argument.arg: ast.unparse(argument.annotation) for argument in keywords}
    _, there, _ = real(bbq.Sender)
    assert there and bbq.SenderOptions.__optional_keys__ == set(there) and not bbq.SenderOptions.__required_keys__


# Each option, with a value of its type.
RIGHT = {
    "ack": '"received"',
    "delivery": '"all"',
    "queue_bytes_max": "2**20",
    "on_full": '"drop-oldest"',
    "block_timeout": "None",
    "batch_bytes": "2**16",
    "linger": "0.01",
    "compress": '"auto"',
    "reconnect": "bbq.Reconnect()",
    "delivery_timeout": "10",
    "close_timeout": "1.5",
    "spool": 'pathlib.Path("spool")',
    "spool_bytes_max": "2**30",
    "report_drops": "False",
    "name": '"program"',
    "on_notice": "print",
    "tls_ca": '"ca.pem"',
    "tls_cert": '"cert.pem"',
    "tls_key": '"key.pem"',
    "tls_server_name": '"logs.example"',
    "token": '"0123456789abcdef"',
}


@pytest.fixture(scope="module")
def errors_of(tmp_path_factory):
    """Type-checks a handler that is made with these options, and returns the errors."""
    directory = tmp_path_factory.mktemp("mypy")
    # An empty name: mypy does not read the configuration of whoever runs the tests.
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", "--no-error-summary", "-c"]

    def check(options):
        program = f'import pathlib\nimport bbq\nbbq.Handler("bbq://log-1:7700", {options})\n'
        done = subprocess.run([*command, program], cwd=directory, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode in (0, 1) and not done.stderr, done
        # A note that follows an error says where the function is.
        return [line for line in done.stdout.splitlines() if ": error: " in line]

    return check


def test_a_type_checker_accepts_every_option(errors_of):
    assert list(RIGHT) == [argument.arg for argument in METHODS["__new__"].args.kwonlyargs]
    assert errors_of(", ".join(f"{name}={value}" for name, value in RIGHT.items())) == []


def test_a_type_checker_refuses_a_misspelt_option(errors_of):
    [error] = errors_of("queue_byte_max=2**20")
    assert '"queue_byte_max"' in error and error.endswith("[call-arg]")


@pytest.mark.parametrize("option", ['queue_bytes_max="64 MiB"', 'on_full="drop_newest"', "compress=9", "on_notice=len"])
def test_a_type_checker_refuses_a_value_of_a_wrong_type(errors_of, option):
    [error] = errors_of(option)
    assert f'"{option.partition("=")[0]}"' in error and error.endswith("[arg-type]")
