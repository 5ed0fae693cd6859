"""`python -m bench [blob] [queue] [table] [bus] ...`: everything that is compared with a peer."""

import argparse
import importlib
import sys

from bench.interpreter import description

_compared = ("blob", "queue", "table", "bus")
_alone = ("kv", "extents", "amqp_engine", "http_shell", "request_cost")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(_compared + _alone)}"
    )
    chosen = parser.parse_args().names or list(_compared)
    for name in chosen:
        if name not in _compared + _alone:
            parser.error(f"there is no bench called {name}")
    print(description())
    for name in chosen:
        print(f"\n== {name} ==", flush=True)
        sys.argv = [f"bench.{name}"]
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
