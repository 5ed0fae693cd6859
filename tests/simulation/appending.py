"""What appenders are promised: each block once, whole, where it was said to be, to stay there."""

from .history import Outcome, Record


def check_log(name: str, records: list[Record]) -> list[str]:
    reads = [each for each in records if each.kind == "get" and each.outcome is Outcome.DONE]
    appends = [each for each in records if each.kind == "append"]
    if any(each.found["marks"] is None for each in reads):
        return [f"{name}: a block in part, or one inside another"]
    final = reads[-1].found["marks"]
    problems = [f"twice there: {mark}" for mark in set(final) if final.count(mark) > 1]
    problems += _misplaced(appends, final)
    problems += [
        f"not what the log began with: {read}"
        for read in reads
        if read.found["marks"] != final[: len(read.found["marks"])]
    ]
    for read in reads:
        problems += _missing(read, appends)
    return [f"{name}: {problem}" for problem in problems]


def _misplaced(appends: list[Record], final: list[str]) -> list[str]:
    sizes = {each.args["mark"]: each.args["size"] for each in appends}
    offsets, at = {}, 0
    for mark in final:
        offsets[mark] = at
        at += sizes[mark]
    problems = []
    for each in appends:
        mark = each.args["mark"]
        wanted = each.args.get("x-ms-blob-condition-appendpos")
        if each.outcome is Outcome.REFUSED and mark in offsets:
            problems.append(f"refused, and there: {each}")
        if each.outcome is Outcome.DONE and offsets.get(mark) != each.found["offset"]:
            problems.append(f"not where it was said to be: {each}")
        if mark in offsets and wanted is not None and offsets[mark] != int(wanted):
            problems.append(f"not where it was to be: {each}")
    return problems


def _missing(read: Record, appends: list[Record]) -> list[str]:
    seen = set(read.found["marks"])
    problems = []
    for each in appends:
        there = each.args["mark"] in seen
        if each.outcome is Outcome.DONE and each.returned < read.called and not there:
            problems.append(f"acknowledged, and not there:\n    {each}\n    {read}")
        if each.called > read.returned and there:
            problems.append(f"there before it was asked for:\n    {each}\n    {read}")
    return problems
