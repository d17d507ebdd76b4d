#!/usr/bin/env python3
"""Each rule of tools/check_layers.py, check_budget and check_words.py must find what breaks it, and nothing else."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def check(files, script="check_layers.py"):
    """Runs the check over a tree made of {path: text}; returns (status, lines)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(TOOLS / script), folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class Layers(unittest.TestCase):
    def expect(self, name, text, *findings):
        status, lines = check({name: text})
        self.assertEqual(status, 1 if findings else 0, lines)
        if findings:
            self.assertEqual(len(lines), len(findings), lines)
            for line, start in zip(lines, findings):
                self.assertTrue(line.startswith(start), f"{line!r} does not start with {start!r}")

    def test_directions(self):
        self.expect("comm/a.cc", "\n#include <tutti/tensor/tensor.h>\n", "comm/a.cc:2: comm includes tutti/tensor/tensor.h")
        self.expect("tensor/a.cc", "#include <tutti/comm/work.h>\n", "tensor/a.cc:1: tensor includes tutti/comm")
        self.expect("nn/a.cc", "#include <tutti/trainer/loop.h>\n", "nn/a.cc:1: nn includes tutti/trainer")
        self.expect("nn/a.cc", "#include <tutti/tensor/tensor.h>\n")
        self.expect("trainer/a.cc", "#include <tutti/comm/work.h>\n#include <tutti/nn/module.h>\n")
        self.expect("trainer/a.cc", "#include <tutti/tools/commands.h>\n", "trainer/a.cc:1: trainer includes tutti/tools")
        self.expect("tools/a.cc", "#include <tutti/trainer/loop.h>\n#include <tutti/comm/work.h>\n")
        self.expect("tests/support/a.cc", "#include <tutti/tools/run/launcher.h>\n")

    def test_storeys(self):
        self.expect("comm/wire/a.cc", "#include <tutti/comm/store/b.h>\n", "comm/wire/a.cc:1: wire includes comm/store/b.h")
        self.expect("comm/store/a.cc", "#include <tutti/comm/process_group.h>\n", "comm/store/a.cc:1: store includes comm/process_group.h")
        self.expect("comm/store/x/a.cc", "#include <tutti/comm/wire/b.h>\n#include <tutti/comm/store/b.h>\n")
        self.expect("comm/point_to_point/a.cc", "#include <tutti/comm/work.h>\n")
        self.expect("comm/process_group.cc", "#include <tutti/comm/shared/b.h>\n")
        self.expect("comm/other/a.cc", "#include <tutti/comm/base/b.h>\n", "comm/other/a.cc:1: other is no folder")

    def test_budget(self):
        self.assertEqual(check({"nn/a.cc": "\n" * 2600}, "check_budget")[0], 0)
        status, lines = check({"nn/a.cc": "\n" * 2000, "nn/b/a.h": "\n" * 601, "tools/labs/a.cc": "\n" * 100}, "check_budget")
        self.assertEqual(status, 1)
        self.assertEqual([line.split() for line in lines if "many" in line], [["nn", "2601", "of", "2600", "1", "too", "many:", "remove",
                                                                                "something", "first"]])

    def test_words(self):
        good = '#include "processors.h"\nint whose;  // see processors.h, has_processor_, "Server Processors", preprocessor, whose\n'
        good += 'auto a = "// who", b = R"(/* nobody */)", c = \'"\';  // fine\n'
        self.assertEqual(check({"comm/a.cc": good}, "check_words.py")[0], 0)
        bad = {"comm/b/a.h": good + "/* a thread\n * who waits */\n", "nn/a.h": "// who\n"}
        bad["comm/a.cc"] = 'f("//");  // Nobody on this processor.\n'
        status, lines = check(bad, "check_words.py")
        self.assertEqual(status, 1)
        self.assertEqual([line.split(" (")[0] for line in lines],
                         ["comm/a.cc:1: Nobody", "comm/a.cc:1: processor", "comm/b/a.h:5: who"])

    def test_quoted_includes_only_in_tests(self):
        self.expect("comm/a.cc", '#include "comm/b.h"\n', 'comm/a.cc:1: "comm/b.h" is not written <tutti/...>')
        self.expect("tests/tools/helper.cc", '#include "b.h"\n')

    def test_programs_of_other_projects_include_what_they_like(self):
        self.expect("tools/examples/embedding/x/a.h", '#pragma once\n#include "b.h"\n#include <asio.hpp>\n')
        self.expect("tools/examples/a.h", "#pragma once\n#include <asio.hpp>\n", "tools/examples/a.h:2: asio")

    def test_libraries_stay_in_sources(self):
        self.expect("comm/transport/a.h", "#pragma once\n#include <asio/ip/tcp.hpp>\n", "comm/transport/a.h:2: asio")
        self.expect("tensor/a.h", "#pragma once\n#include <Eigen/Core>\n", "tensor/a.h:2: Eigen/Core in a header")
        self.expect("tensor/a.h", "#pragma once\n#include <cuda_runtime.h>\n", "tensor/a.h:2: cuda_runtime.h in a header")
        self.expect("tensor/a.cc", "#include <Eigen/Core>\n")
        self.expect("tensor/cuda/a.h", "#pragma once\n#include <cuda_runtime.h>\n")

    def test_public_comm_headers(self):
        self.expect("comm/work.h", "#pragma once\n#include <sys/socket.h>\n", "comm/work.h:2: sys/socket.h in a public")
        self.expect("comm/work.h", "#pragma once\n#include <memory>\n#include <tutti/comm/base/types.h>\n")
        self.expect("comm/wire/socket.h", "#pragma once\n#include <sys/socket.h>\n")
        self.expect("comm/c/tutti.h", "#pragma once\n#include <stdint.h>\n")
        self.expect("comm/c/tutti.h", "#pragma once\n#include <stdio.h>\n", "comm/c/tutti.h:2: stdio.h in a public")

    def test_headers_have_pragma_once(self):
        self.expect("nn/a.h", "struct A;\n", "nn/a.h:1: no #pragma once")

    def test_numbers_do_not_follow_the_locale(self):
        for line in ("std::ostringstream text;", 'std::snprintf(text, sizeof text, "%d %.3f s", 1, seconds);'):
            self.expect("comm/a.cc", line + "\n", "comm/a.cc:1: numbers that follow the locale")
            self.expect("tools/a.cc", line + "\n")
        self.expect("trainer/a.cc", 'std::istringstream in(text);\nformat("%.3f", x);\nstd::snprintf(a, 8, "%04d", b);\n')

    def test_long_files(self):
        self.expect("nn/a.cc", "\n" * 501, "nn/a.cc:501: 501 lines")

    def test_test_files_are_listed(self):
        test = {"tests/comm/a_test.cc": "", "tests/comm/CMakeLists.txt": "tutti_test(x SOURCES a_test.cc)\n"}
        self.assertEqual(check(test)[0], 0)
        test["tests/comm/CMakeLists.txt"] = "tutti_test(x SOURCES other_a_test.cc) # a_test.cc\n"
        status, lines = check(test)
        self.assertEqual(status, 1)
        self.assertTrue(lines[0].startswith("tests/comm/a_test.cc:1: in no CMakeLists.txt"), lines)

    def test_glob(self):
        self.expect("nn/CMakeLists.txt", "\nfile(GLOB sources *.cc)\n", "nn/CMakeLists.txt:2: file(GLOB)")


if __name__ == "__main__":
    unittest.main()
