"""The frame of every command line: how a command ends, whatever it does.

``gur``, ``catalina``, ``gurd`` and ``gurlab`` are declared with ``command_line``. Their commands
raise the faults of ``gridcore.errors``, and here each becomes two lines on standard error, one
object on standard output with ``--json``, and an exit code (docs/exit-codes.md); so do wrong words
and Ctrl-C. It is loaded by ``--help`` too, so it imports next to nothing.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, ClassVar, Final, get_args, get_type_hints

import typer
from typer.core import TyperGroup

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.number_text import is_decimal, is_whole
from gridtravel.gridio.terminal.text import (
    drop_the_rest,
    flush,
    print_json,
    tell,
    use_any_characters,
)

EXIT_DONE: Final = 0
EXIT_OTHER: Final = 1
EXIT_USAGE: Final = 2
EXIT_DECLINED: Final = 3
EXIT_INTERRUPTED: Final = 130

_AS_JSON: Final = "gridtravel.as_json"
_NUMBERS: Final[Mapping[type, tuple[Callable[[str], bool], str]]] = {
    int: (is_whole, "a whole number"),
    float: (is_decimal, "a number"),
}
"""What may be written for an option of that type, and what it is called."""
_USAGE_FAULTS: Final[tuple[type[Exception], ...]] = tuple(
    each
    for each in typer.BadParameter.__mro__
    if each.__name__ == "ClickException" and issubclass(each, Exception)
)
"""What Typer raises for wrong words, by whatever name its parser goes."""


def _note_json(context: typer.Context, is_wanted: bool) -> bool:
    """Faults are told as JSON too, from here on."""
    context.meta[_AS_JSON] = is_wanted
    return is_wanted


JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object and nothing else.",
        is_eager=True,
        callback=_note_json,
    ),
]


class CommandFrame(TyperGroup):
    """A program and its commands."""

    interrupted: ClassVar[tuple[str, str]] = (
        "interrupted",
        "what was done stays; what was begun ends by itself",
    )
    """What is said after Ctrl-C, or the end of input where somebody was asked: a line, and one that
    says what to do next.
    """

    @classmethod
    def words_of(cls, fault: GridError) -> str:
        """The message as this program's users should read it."""
        return fault.message

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Carry out one command line. ``standalone_mode`` false: return the exit code."""
        # gRPC's library writes of failed handshakes to standard error too; we say it better.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        use_any_characters()
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = self._ended(words)
            flush()
        except BrokenPipeError:
            drop_the_rest()
            code = EXIT_OTHER
        if standalone_mode:
            sys.exit(code)
        return code

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command that is meant, which takes only plain digits for numbers."""
        found = super().get_command(ctx, cmd_name)
        if found is not None and found.callback is not None:
            _only_plain_numbers(found)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Carry out the command that was named; a fault is told and becomes its exit code."""
        try:
            return super().invoke(ctx)
        except GridError as fault:
            command = f"{ctx.command_path} {ctx.invoked_subcommand}"
            self.refuse(fault, command, as_json=ctx.meta.get(_AS_JSON, False))
            raise typer.Exit(fault.exit_code) from None
        except KeyboardInterrupt:
            tell_fault(ctx.find_root().info_name, *self.interrupted)
            raise typer.Exit(EXIT_INTERRUPTED) from None

    @classmethod
    def refuse(cls, fault: GridError, command: str, *, as_json: bool) -> int:
        """Tell a fault of ``command``, which is called by its program's name first. The exit
        code.
        """
        message = cls.words_of(fault)
        if as_json:
            print_json(error_object(fault, message))
        tell_fault(command.partition(" ")[0], message, next_step(fault, command))
        return fault.exit_code

    def _ended(self, words: list[str]) -> int:
        name = self.name or ""
        try:
            run = super().main
            if not words:
                run(args=["--help"], prog_name=name, standalone_mode=False)
                return EXIT_USAGE
            return int(run(args=words, prog_name=name, standalone_mode=False) or EXIT_DONE)
        except _USAGE_FAULTS as fault:
            # The parser's own words take three lines, or print the whole help.
            describe = getattr(fault, "format_message", None)
            told = " ".join(str(describe() if describe else fault).split()).rstrip(".")
            context = getattr(fault, "ctx", None)
            command = context.command_path if context else name
            refusal = InputError(told[:1].lower() + told[1:], hint=f"see: {command} --help")
            return self.refuse(refusal, command, as_json="--json" in words)
        except typer.Abort:
            tell_fault(name, *self.interrupted)
            return EXIT_INTERRUPTED


def _only_plain_numbers(command: Any) -> None:
    """Let the options and arguments of ``command`` that are numbers take plain digits alone, where
    the parser would take ``1_000``, digits of other scripts, ``nan`` and ``inf`` as well
    (``gridcore.number_text``).
    """
    declared = inspect.signature(command.callback, eval_str=True).parameters
    for each in command.params:
        known = declared.get(each.name)
        kind = next(
            (kind for kind in _NUMBERS if known and kind in _types_in(known.annotation)), None
        )
        if kind is not None:
            vars(each)["process_value"] = _checked_first(each.process_value, *_NUMBERS[kind])


def _types_in(annotation: Any) -> list[Any]:
    """``Annotated[list[int] | None, ...]``: int among them."""
    inner = (
        get_args(annotation)[:1] if hasattr(annotation, "__metadata__") else get_args(annotation)
    )
    return [annotation, *(found for each in inner for found in _types_in(each))]


def _checked_first(
    convert: Callable[[Any, Any], Any], is_number: Callable[[str], bool], what: str
) -> Callable[[Any, Any], Any]:
    def process(context: Any, value: Any) -> Any:
        for word in value if isinstance(value, list | tuple) else [value]:
            if isinstance(word, str) and not is_number(word):
                raise typer.BadParameter(f"{word[:40]!r} is not {what}", ctx=context)
        return convert(context, value)

    return process


def command_line(name: str, help: str, frame: type[CommandFrame] = CommandFrame) -> typer.Typer:
    """A program, or a group of its commands, which are still to be declared."""
    return typer.Typer(
        name=name,
        help=help,
        cls=frame,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


class Without:
    """In ``Annotated[Words, Without("account")]``: fields that are no options of this command."""

    def __init__(self, *names: str) -> None:
        self.names = names


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Typer knows no options that belong together. What it is given here takes an option for every
    field of each parameter that is a dataclass; the fields carry the declarations and defaults.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    flat: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        kind, *marks = get_args(each.annotation) or (each.annotation,)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            flat.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        left_out = {name for mark in marks if isinstance(mark, Without) for name in mark.names}
        hints = get_type_hints(kind, include_extras=True)
        options = [field for field in fields(kind) if field.name not in left_out]
        groups[each.name] = kind, [field.name for field in options]
        flat.extend(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in options
        )

    def carry_out(**values: Any) -> None:
        for name, (kind, names) in groups.items():
            values[name] = kind(**{each: values.pop(each) for each in names})
        command(**values)

    carry_out.__doc__ = command.__doc__
    carry_out.__annotations__ = {each.name: each.annotation for each in flat}
    vars(carry_out)["__signature__"] = inspect.Signature(flat)
    return carry_out


def error_object(fault: GridError, message: str | None = None) -> dict[str, Any]:
    """A fault for scripts; ``message``: its words, where they are not its own."""
    told = fault.message if message is None else message
    return {"error": {"message": told, "hint": fault.next_step, "exit_code": fault.exit_code}}


def next_step(fault: GridError, command: str) -> str:
    """What to do next, for whoever typed ``command``."""
    if fault.hint or fault.exit_code != EXIT_USAGE:
        return fault.next_step
    return f"see: {command} --help"


def tell_fault(program: str, message: str, next_step: str) -> None:
    """One line, and one that says what to do next."""
    tell(f"{program}: {message}")
    tell(f"  {next_step}")


def code_of(faults: Sequence[GridError]) -> int:
    """The exit code of a command that did some things and not others: that of its faults when they
    are of one kind, else 1.
    """
    codes = {fault.exit_code for fault in faults}
    if not codes:
        return EXIT_DONE
    return codes.pop() if len(codes) == 1 else EXIT_OTHER
