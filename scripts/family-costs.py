#!/usr/bin/env python3
"""What each family of systems adds to the program and to its build.

    scripts/family-costs.py FOLDER    FOLDER is a target folder whose `release/cogwork` has its symbols

`make families` builds that folder once, with all families and with this file as the wrapper of rustc, which notes the processor time of
each crate in FOLDER/seconds. The crates of a family are those that `cargo tree` does not have without it. Its size is that of the
functions and constants that its crates, its module of `systems` or their types as arguments of generics have in the program, with the
same share of the tables for unwinding. Nothing is built once more.
"""

import os
import re
import subprocess
import sys

# The module of `systems` of each family.
FAMILIES = {
    "amqp": "amqp",
    "documents": "documents",
    "mail": "mail",
    "mysql": "sql::mysql",
    "nats": "nats",
    "redis": "redis",
    "sftp": "sftp",
}
UNWINDING = (".eh_frame", ".eh_frame_hdr", ".gcc_except_table")


def wrap(command, log):
    """Runs rustc, and notes its processor time."""
    child = os.spawnvp(os.P_NOWAIT, command[0], command)
    _, status, used = os.wait4(child, 0)
    package = os.environ.get("CARGO_PKG_NAME"), os.environ.get("CARGO_PKG_VERSION")
    if all(package):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{package[0]} {package[1]} {used.ru_utime + used.ru_stime:.2f}\n")
    sys.exit(os.waitstatus_to_exitcode(status))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def crates(features):
    """The crates of a program with these features, with their versions."""
    tree = output(
        *("cargo", "tree", "--locked", "--offline", "-p", "cli", "--no-default-features", "--features", features),
        *("-e", "normal,build", "--prefix", "none", "--format", "{p}"),
    )
    return {tuple(line.split(" ")[:2]) for line in tree.splitlines()}


def seconds(folder):
    """The processor time of each crate, with that of compiling its build script."""
    found = {}
    with open(os.path.join(folder, "seconds"), encoding="utf-8") as file:
        for line in file:
            name, version, used = line.split()
            found[name, f"v{version}"] = found.get((name, f"v{version}"), 0) + float(used)
    return found


def symbols(program):
    """The size, the kind and the name of each symbol."""
    for line in output("nm", "--print-size", "--demangle", program).splitlines():
        # Without a size it is no part of the program.
        match = re.fullmatch(r"[0-9a-f]+ ([0-9a-f]+) ([tTwWvVrRdD]) (.*)", line)
        if match:
            yield int(match[1], 16), match[2], match[3]


def sections(program):
    lines = output("readelf", "--section-headers", "--wide", program).splitlines()
    found = (re.match(r"\s*\[ *\d+\] (\S+)\s+\S+\s+\S+\s+\S+\s+(\S+)", line) for line in lines)
    return {match[1]: int(match[2], 16) for match in found if match}


def main():
    if os.environ.get("FAMILY_SECONDS"):
        wrap(sys.argv[1:], os.environ["FAMILY_SECONDS"])
    folder = sys.argv[1]
    program = os.path.join(folder, "release", "cogwork")
    used, sized = seconds(folder), list(symbols(program))
    by_section = sections(program)
    share = sum(by_section.get(name, 0) for name in UNWINDING) / by_section[".text"]
    base = crates("postgres")
    print(f"{'family':10} {'crates':>6} {'seconds':>8} {'MB':>6}")
    counted = set()
    for family, module in FAMILIES.items():
        own = crates(f"postgres,{family}") - base
        names = [re.escape(name.replace("-", "_")) for name, _ in sorted(own)]
        names.append(re.escape(f"systems::{module}"))
        pattern = re.compile(r"(?<![\w:])(?:" + "|".join(names) + r")(?:::|\[)")
        found = [(size, kind) for size, kind, name in sized if pattern.search(name)]
        code = sum(size for size, kind in found if kind in "tTwW")
        constants = sum(size for size, kind in found if kind not in "tTwW")
        time = sum(used.get(crate, 0) for crate in own)
        counted.update(own)
        print(f"{family:10} {len(own):6} {time:8.0f} {(code * (1 + share) + constants) / 1e6:6.1f}")
    print(f"{'all':10} {len(counted):6} {sum(used.get(crate, 0) for crate in counted):8.0f}")


if __name__ == "__main__":
    main()
