#!/usr/bin/env python3
"""The table of complaints in tools/README.md: every line of both parts has a row, every test it names exists.

    tests/tools/complaints_test.py SOURCE
"""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else ".")
TITLE = "## What users of other launchers complain of"


def rows():
    """{number: text} of the table."""
    section = (SOURCE / "tools" / "README.md").read_text().split(TITLE)[1].split("\n## ")[0]
    return {int(number): text for number, text in re.findall(r"^\| (\d+) \|(.*)\|$", section, re.MULTILINE)}


def tests():
    """Names of all tests, as the table writes them."""
    found = set()
    for file in (SOURCE / "tests").rglob("*_test.cc"):
        found.update(f"{suite}.{name}" for suite, name in
                     re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE))
    for file in (SOURCE / "tests").rglob("*_test.py"):
        found.update(re.findall(r"def (test_\w+)\(", file.read_text()))
    return found


class Complaints(unittest.TestCase):
    def test_every_line_has_a_row(self):
        self.assertEqual(sorted(rows()), [*range(1, 25), *range(50, 61)])

    def test_every_row_names_tests_that_exist(self):
        known = tests()
        for number, text in rows().items():
            named = re.findall(r"`(\w+\.[A-Z]\w+|test_\w+)`", text)
            self.assertTrue(named, f"row {number} names no test")
            self.assertEqual([name for name in named if name not in known], [], f"row {number}")


if __name__ == "__main__":
    unittest.main()
