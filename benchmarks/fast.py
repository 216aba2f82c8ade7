"""What the advice of docs/fast.md brings: each pair of protocols on that page, before and after.

    python benchmarks/fast.py [--workers 4] [--jobs 4]

The protocols are those of the page itself. Each is searched twice; the second search is measured, so that nothing is
compiled meanwhile.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from kraftcheck import Protocol, Result, check
from tests.support.pages import Section, module_of, sections

PAGE = Path(__file__).parents[1] / "docs" / "fast.md"
PAIRS = (("Whole", "Narrow"), ("Making", "Changing"), ("InShared", "InWorkers"))


def whole_page() -> Section:
    """Return the page as one section: its examples go on from each other."""
    parts = sections(PAGE)
    preamble = parts[0].preamble
    return Section("fast", preamble, "\n\n".join(part.own for part in parts), "")


def measured(protocol: Protocol) -> Result:
    check(protocol, deadlock=False, engine="tables", workers=1)
    return check(protocol, deadlock=False, engine="tables", workers=1)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    print("| before | after | states | calls of actions | seconds | faster a state |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, module_of(whole_page(), Path(folder)) as page:
        for names in PAIRS:
            a, b = (measured(getattr(page, name)(workers=options.workers, jobs=options.jobs)) for name in names)
            ratio = (a.seconds / a.distinct_states) / (b.seconds / b.distinct_states)
            states = " → ".join(f"{found.distinct_states:,}" for found in (a, b))
            calls = " → ".join(f"{sum(found.handler_calls.values()):,}" for found in (a, b))
            seconds = " → ".join(f"{found.seconds:.2f}" for found in (a, b))
            print(f"| `{names[0]}` | `{names[1]}` | {states} | {calls} | {seconds} | {ratio:.1f} times |")


if __name__ == "__main__":
    main()
