"""`etagere`: the command line.  It imports little, so that a start takes little."""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from etagere.app.configuration import Unusable
from etagere.app.settings import About, Kind, described, flag_of, variable_of

done: Final = 0
failed: Final = 1
wrong_usage: Final = 2

admin_variable: Final = "ETAGERE_ADMIN"
admin_default: Final = "http://127.0.0.1:10080"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help(sys.stderr)
        sys.exit(wrong_usage)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        status = run(options)
    except Unusable as error:
        sys.stderr.write(f"etagere: {error}\n")
        status = wrong_usage if error.usage else failed
    except KeyboardInterrupt:
        status = failed
    except BrokenPipeError:
        # Whoever read our output has had enough of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = failed
    sys.exit(status)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:  # type: ignore[explicit-override]  # 3.12
        """One line, as for everything else that cannot be used."""
        sys.stderr.write(f"etagere: {message}; see `{self.prog} --help`.\n")
        sys.exit(wrong_usage)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:  # type: ignore[explicit-override]  # 3.12
        from importlib.metadata import version  # noqa: PLC0415 - takes as long as the rest

        sys.stdout.write(f"etagere {version('etagere')}\n")
        parser.exit()


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="etagere",
        description="Azure Storage and Azure Service Bus on the wire, in one server.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=None)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    serve = commands.add_parser("serve", help="run the server", allow_abbrev=False)
    serve.set_defaults(run=_serve)
    for name, (default, about) in described().items():
        _add_flag(serve, name, default, about)
    check = commands.add_parser("check", help="verify a store that no server has open")
    check.add_argument("directory", metavar="DIR")
    check.set_defaults(run=_check)
    certificate = commands.add_parser(
        "cert", help="make a local authority and a certificate for localhost"
    )
    certificate.add_argument("directory", metavar="DIR")
    certificate.set_defaults(run=_certificate)
    _add_remote(commands)
    return parser


def _add_flag(parser: argparse.ArgumentParser, name: str, default: Any, about: About) -> None:
    help_ = f"{about.help} [{variable_of(name)}]"
    if about.kind is Kind.FLAG:
        action = argparse.BooleanOptionalAction if name != "ready_json" else "store_true"
        parser.add_argument(flag_of(name), action=action, default=None, help=help_)
        return
    if default not in (None, (), ""):
        shown = ",".join(default) if isinstance(default, tuple) else default
        help_ += f" (default: {shown})"
    parser.add_argument(
        flag_of(name),
        action="append" if about.kind is Kind.REPEATED else "store",
        metavar=about.metavar or "|".join(about.choices),
        help=help_.replace("%", "%%"),
    )


def _add_remote(commands: Any) -> None:
    """Commands that ask a running server's admin API."""

    def add(name: str, help_: str, run: Callable[[argparse.Namespace], int]) -> Any:
        parser = commands.add_parser(name, help=help_)
        parser.add_argument(
            "--admin",
            metavar="URL",
            default=os.environ.get(admin_variable, admin_default),
            help=f"the server's admin address [{admin_variable}] (default: {admin_default})",
        )
        parser.set_defaults(run=run)
        return parser

    add("status", "what a running server is doing", _status)
    reset = add("reset", "forget what a running server has stored", _reset)
    reset.add_argument("account", nargs="?", help="only what this account has")
    clock = add("clock", "show or move the time of a server with --clock virtual", _clock)
    clock.add_argument(
        "action", nargs="?", choices=("show", "advance", "set", "freeze", "resume"), default="show"
    )
    clock.add_argument(
        "value", nargs="?", help="advance: seconds, or 90s, 15m, 2h, 7d; set: an ISO 8601 time"
    )
    faults = add("faults", "show, arm or clear faults of a running server", _faults)
    faults.add_argument("action", nargs="?", choices=("list", "arm", "clear"), default="list")
    faults.add_argument("point", nargs="?", help="arm: the point; clear: the number of one fault")
    faults.add_argument("--operation", help="only for this operation")
    faults.add_argument("--count", type=int, help="how many times (default: 1; 0: for ever)")
    faults.add_argument("--skip", type=int, help="let so many pass first")
    faults.add_argument("--probability", type=float, help="of each time (default: 1)")
    faults.add_argument("--seed", type=int, help="that the probability is drawn from")
    faults.add_argument("--seconds", type=float, help="of latency, or in Retry-After")
    faults.add_argument("--code", help="error code, for the point refuse")


def _serve(options: argparse.Namespace) -> int:
    gc.disable()  # what is imported stays: looking for garbage takes a tenth of the start
    from etagere.app.configuration import configure  # noqa: PLC0415 - `check` needs none of this
    from etagere.app.serve import serve  # noqa: PLC0415

    return serve(configure(vars(options), os.environ))


def _check(options: argparse.Namespace) -> int:
    from etagere.app.check import check  # noqa: PLC0415

    return check(options.directory)


def _certificate(options: argparse.Namespace) -> int:
    from etagere.app.certificates import make  # noqa: PLC0415

    return make(options.directory)


def _status(options: argparse.Namespace) -> int:
    from etagere.app.remote import ask  # noqa: PLC0415

    return ask(options.admin, "GET", "/status")


def _reset(options: argparse.Namespace) -> int:
    from urllib.parse import quote  # noqa: PLC0415

    from etagere.app.remote import ask  # noqa: PLC0415

    where = "" if options.account is None else f"?account={quote(options.account, safe='')}"
    return ask(options.admin, "POST", f"/reset{where}")


def _clock(options: argparse.Namespace) -> int:
    from etagere.app.remote import clock  # noqa: PLC0415

    return clock(options.admin, options.action, options.value)


def _faults(options: argparse.Namespace) -> int:
    from etagere.app.remote import faults  # noqa: PLC0415

    return faults(options.admin, options.action, options.point, vars(options))


if __name__ == "__main__":
    main()
