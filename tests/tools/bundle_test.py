"""tools/bundle: packed here, unpacked elsewhere, and used with TUTTI_BUNDLE; no header or library of the system's is touched.

    tests/tools/bundle_test.py COMPILER

Status 77 where the tools or packages that a bundle is made of are not there.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = SOURCE / "tools/bundle"
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "c++"
LARGEST_MIB = 40
# What must not be seen of the system's, in a build file or among the headers a compiler has read.
HEADERS = re.compile(r"/usr/(?:local/)?include/(?:[\w-]*linux-gnu/)?(?:asio|openssl|eigen3|CLI|nlohmann|zlib|zconf|png|libpng|j\w+\.h|tiff|gtest)")
LIBRARIES = re.compile(r"/\S*lib(?:ssl|crypto|z|png\w*|jpeg|tiff)\.so\S*")


def outcome(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False)


def run(*command):
    done = outcome(*command)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti_bundle_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.file = cls.folder / "bundle.tar.gz"
        made = outcome(BUNDLE, cls.file)
        if made.returncode != 0 and re.search(r"there is no (dpkg-query|pkg-config|ar)\b|no package has", made.stdout):
            print(f"skipped: {made.stdout}")
            os._exit(77)
        assert made.returncode == 0, made.stdout
        cls.bundle = cls.folder / "unpacked"
        cls.said = run(BUNDLE, "--unpack", cls.file, cls.bundle)

    def configure(self, source, build, *words):
        return outcome("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}",
                       f"-DTUTTI_BUNDLE={self.bundle}", *words)

    def check_headers(self, build, *names):
        """The compiler has read these of the bundle, and none of the system's copies."""
        read = set(re.findall(r"^    (\S+)$", run("ninja", "-C", build, "-t", "deps"), re.MULTILINE))
        self.assertEqual([path for path in read if HEADERS.match(path)], [])
        self.assertEqual([name for name in names if str(self.bundle / "include" / name) not in read], [])

    def test_it_is_small_and_says_what_is_in_it(self):
        self.assertLess(self.file.stat().st_size, LARGEST_MIB << 20)
        contents = (self.bundle / "contents.txt").read_text()
        self.assertRegex(contents, r"^machine \w+\nglibc [\d.]+\n")
        self.assertRegex(contents, r"(?m)^libeigen3-dev \d")
        self.assertTrue((self.bundle / "share/doc/libeigen3-dev/copyright").is_file())
        self.assertIn(f"-DTUTTI_BUNDLE={self.bundle}", self.said)

    def test_a_folder_that_exists_is_left_alone(self):
        again = outcome(BUNDLE, "--unpack", self.file, self.bundle)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"{self.bundle} exists already", again.stdout)

    def test_a_program_linked_with_all_of_it_runs_without_the_systems(self):
        build = self.folder / "uses_all"
        done = self.configure(SOURCE / "tests/tools/bundle", build, "-DCMAKE_CXX_FLAGS=-O0")
        self.assertEqual(done.returncode, 0, done.stdout)
        run("ninja", "-C", build)
        self.check_headers(build, "asio.hpp", "CLI/CLI.hpp", "eigen3/Eigen/Core", "nlohmann/json.hpp", "openssl/ssl.h", "zlib.h")
        self.assertIsNone(LIBRARIES.search(run("ldd", build / "uses_all")))
        said = json.loads(run(build / "uses_all", "--times", "3"))
        self.assertLessEqual({"deflate", "jpeg"}, set(said.pop("codecs")))  # of the others each distribution has its own
        self.assertEqual(said, {"posted": 3, "tls": True, "sha256": 0xBA, "crc32": 0x352441C2, "png": True, "sum": 8.0})

    def test_tutti_is_configured_and_compiled_from_it_and_from_nothing_else(self):
        build = self.folder / "tutti"
        done = self.configure(SOURCE, build, "-DTUTTI_CUDA=OFF")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"Libraries are those of {self.bundle}", done.stdout)
        rules = (build / "build.ninja").read_text()
        self.assertIsNone(HEADERS.search(rules))
        self.assertIsNone(LIBRARIES.search(rules))
        self.assertIn(str(self.bundle / "lib/libtiff.a"), rules)
        cache = (build / "CMakeCache.txt").read_text()
        for option in ("TUTTI_TESTS", "TUTTI_BENCH"):  # a bundle without --tests
            self.assertRegex(cache, rf"(?m)^{option}:BOOL=OFF$")
        sources = ("comm/base/asio_impl.cc", *(f"trainer/data/image/decode_{kind}.cc" for kind in ("jpeg", "png", "tiff")))
        run("ninja", "-C", build, *(f"{SOURCE}/{source}^" for source in sources))
        self.check_headers(build, "asio/impl/src.hpp", "jpeglib.h", "png.h", "tiffio.h")

    def test_a_library_from_elsewhere_is_refused(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        shutil.copy(self.bundle / "lib/libz.a", elsewhere)
        done = self.configure(SOURCE, self.folder / "refused", "-DTUTTI_CUDA=OFF", f"-DZLIB_LIBRARY_RELEASE={elsewhere}/libz.a")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(re.sub(r"\s+", " ", done.stdout), rf"ZLIB_LIBRARY_RELEASE={elsewhere}/libz.a is not in TUTTI_BUNDLE=")

    def test_shared_libraries_are_refused_with_the_reason(self):
        done = self.configure(SOURCE, self.folder / "shared", "-DBUILD_SHARED_LIBS=ON")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("leave BUILD_SHARED_LIBS off", done.stdout)

    def test_a_folder_that_is_no_bundle_is_named(self):
        done = outcome("cmake", "-S", SOURCE, "-B", self.folder / "none", "-G", "Ninja", f"-DTUTTI_BUNDLE={self.folder}/nothing")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"TUTTI_BUNDLE={self.folder}/nothing is no unpacked bundle", re.sub(r"\s+", " ", done.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
