"""What `cmake --install` gives, used from outside this tree: headers, packages, and tools/examples/embedding on 4 ranks.

    tests/tools/install_test.py BUILD_FOLDER [TEST...]

The build is installed into a temporary prefix, which is then moved: nothing may point to where it was.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "tools/examples/embedding"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else SOURCE / "build/release"
STRICT = "-std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror".split()
# Names of files that only another library has; OpenSSL's come with a folder.
FOREIGN = re.compile(r"(^|/)(asio|Eigen|unsupported|openssl|nlohmann|CLI|cuda|cublas|cudnn|nccl)([./]|\w*\.h)", re.IGNORECASE)


def setting(name):
    """A setting of the build under test."""
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


COMPILER = setting("CMAKE_CXX_COMPILER")
SANITIZE = [f"-fsanitize={setting('TUTTI_SANITIZE')}"] if setting("TUTTI_SANITIZE") else []


def run(*command, status=0, **options):
    """What the command has printed. Its end is awaited without limit: ctest has one."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False, **options)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}, not {status}\n{done.stdout}")
    return done.stdout


def configure(source, build, *words, status=0, prefix=None):
    where = [f"-DCMAKE_PREFIX_PATH={prefix}"] if prefix else []
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}", *where, *words,
               status=status)


def side_by_side(job, items):
    """job(item) for all of them, two at a time; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(job, items))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti_install_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.include = cls.prefix / "include"
        cls.tutti = cls.prefix / "bin/tutti"

    def test_one_target_builds_all_of_it(self):
        artifact = re.compile(rf'"{BUILD}/([^"]*(?:\.a|\.so[.0-9]*|bin/\w+))"')
        built = {name for script in BUILD.rglob("cmake_install.cmake") for name in artifact.findall(script.read_text())}
        named = set(run("ninja", "-C", BUILD, "-t", "commands", "tutti_installed").split())
        self.assertIn("bin/tutti", built)
        self.assertEqual(built - named, set())

    def test_shells_and_man_find_what_is_theirs(self):
        for file, beginning in {"bash-completion/completions/tutti": "_tutti_words() {", "zsh/site-functions/_tutti": "#compdef tutti",
                                "man/man1/tutti.1": ".TH TUTTI 1 "}.items():
            self.assertTrue((self.prefix / "share" / file).read_text().strip().startswith(beginning), file)

    def headers(self, component):
        return sorted(path.relative_to(self.include).as_posix() for path in (self.include / "tutti" / component).rglob("*.h"))

    def includes(self, header):
        return re.findall(r"^\s*#\s*include\s*[<\"]([^>\"]+)", (self.include / header).read_text(), re.MULTILINE)

    def check(self, compiler, headers):
        """Compiles a source that includes nothing but `headers`."""
        text = "".join(f"#include <{header}>\n" for header in headers)
        done = subprocess.run([compiler, *STRICT, f"-I{self.include}", "-x", "c++", "-"], input=text, text=True,
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{compiler}: {headers}")

    def test_what_a_header_includes_is_installed_or_standard(self):
        for header in self.headers("."):
            for included in self.includes(header):
                if included.startswith("tutti/"):
                    self.assertTrue((self.include / included).is_file(), f"{header} includes {included}")
                else:
                    self.assertNotRegex(included, FOREIGN, header)
                    if header.startswith("tutti/comm/") and not header.startswith("tutti/comm/c/"):
                        self.assertNotRegex(included, r"[/.]", header)

    def test_each_header_of_comm_compiles_alone(self):
        headers = [header for header in self.headers("comm") if not header.startswith("tutti/comm/c/")]
        self.assertIn("tutti/comm/process_group.h", headers)
        compilers = [compiler for compiler in ("g++", "clang++") if shutil.which(compiler)]
        side_by_side(lambda job: self.check(job[0], [job[1]]), [(c, h) for c in compilers for h in headers])
        if "clang++" not in compilers:
            self.skipTest("no clang++ here: g++ alone was asked")

    def test_no_header_of_comm_reads_one_of_another_library(self):
        text = "".join(f"#include <{header}>\n" for header in self.headers("comm"))
        read = subprocess.run([COMPILER, "-std=c++20", "-M", f"-I{self.include}", "-x", "c++", "-"], input=text, text=True,
                              capture_output=True, check=True).stdout.split()
        self.assertIn(str(self.include / "tutti/comm/work.h"), read)
        self.assertEqual([name for name in read if FOREIGN.search(name)], [])

    def test_headers_of_the_other_components_compile(self):
        side_by_side(lambda component: self.check(COMPILER, self.headers(component)), ["tensor", "nn", "trainer"])

    def test_examples_build_with_few_lines_and_run_on_four_ranks(self):
        def build_and_run(name):
            lines = (EXAMPLES / name / "CMakeLists.txt").read_text().splitlines()
            self.assertLessEqual(len(lines), 15)
            build = self.folder / name
            shutil.copytree(EXAMPLES / name, self.folder / "sources" / name)
            configure(self.folder / "sources" / name, build, "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra", prefix=self.prefix)
            run("ninja", "-C", build)
            return run("ctest", "--test-dir", build, "--verbose", "--no-tests=error")

        expected = {"minimal": r"rank 3 of 4: 10\b", "heat": "4 ranks: equal to the serial run",
                    "shared_loop": "4 ranks: .*equal to the serial run"}
        for output, text in zip(side_by_side(build_and_run, expected), expected.values()):
            self.assertRegex(output, text)
        minimal = (EXAMPLES / "minimal/minimal.cc").read_text().splitlines()
        self.assertLessEqual(len(minimal), 15)

    def test_a_program_in_c_finds_the_component_c(self):
        build = self.folder / "c_rank"
        configure(SOURCE / "tests/comm/c/package", build, f"-DCMAKE_C_FLAGS={' '.join(SANITIZE)}", prefix=self.prefix)
        run("ninja", "-C", build)
        self.assertEqual(run(self.tutti, "run", "-n", "3", "--", build / "rank").count(": all well\n"), 3)

    def test_python_finds_the_package_and_that_its_library(self):
        environment = {**os.environ, "PYTHONPATH": str(self.prefix / "lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE": "1"}
        if not SANITIZE:
            example = self.prefix / "share/doc/libtutti-dev/examples/python/all_reduce.py"
            self.assertEqual(run(self.tutti, "run", "-n", "3", "--", sys.executable, example, env=environment).count(", 0 wrong\n"), 3)

    def test_a_component_that_is_not_there_is_refused_with_a_reason(self):
        project = self.folder / "refused"
        project.mkdir()

        def found(words):
            (project / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES NONE)\n"
                f"find_package(tutti {words})\nmessage(STATUS \"found: ${{tutti_FOUND}}\")\n")
            return subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                                  capture_output=True, text=True, check=False)

        refused = found("REQUIRED COMPONENTS comm strings")
        self.assertEqual(refused.returncode, 1)
        self.assertIn('Tutti has no component "strings"; there are: comm, c, tensor, nn, trainer, lab.',
                      re.sub(r"\s+", " ", refused.stderr))
        self.assertRegex(found("COMPONENTS strings").stdout, "found: (0|FALSE)")
        (self.prefix / "lib/cmake/tutti/tutti-nn.cmake").rename(self.folder / "kept")
        self.addCleanup((self.folder / "kept").rename, self.prefix / "lib/cmake/tutti/tutti-nn.cmake")
        self.assertIn('The component "nn" is not in this Tutti', re.sub(r"\s+", " ", found("REQUIRED COMPONENTS nn").stderr))

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config here")
    def test_pkg_config_says_how_to_compile_and_to_link(self):
        def flags(*words):
            environment = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
            return run("pkg-config", *words, env=environment).split()

        program = self.folder / "by_pkg_config"
        source = EXAMPLES / "minimal/minimal.cc"
        run(COMPILER, "-std=c++20", *SANITIZE, *flags("--cflags", "tutti-comm"), source, "-o", program,
            *flags("--libs", "tutti-comm"))
        self.assertIn("rank 1 of 2: 3\n", run(self.tutti, "run", "-n", "2", "--", program).replace("[rank 1] ", ""))
        linked = {word for word in flags("--libs", "tutti-comm") if word.startswith("-l")}
        self.assertLessEqual(linked, {"-ltutti_comm", "-lssl", "-lcrypto"})
        self.assertIn("-ltutti_nn", flags("--static", "--libs", "tutti-trainer"))

    @unittest.skipIf(SANITIZE or setting("BUILD_SHARED_LIBS") == "ON", "with a sanitizer, or shared already")
    def test_a_static_library_can_become_a_shared_one_that_shows_our_names_only(self):
        library = self.folder / "libwhole.so"
        run(COMPILER, "-shared", "-o", library, "-Wl,--whole-archive", self.prefix / "lib/libtutti_comm.a",
            "-Wl,--no-whole-archive", f"-Wl,--version-script={SOURCE}/tools/cmake/exports.map", "-lssl", "-lcrypto",
            "-Wl,--no-undefined")
        shown = run("nm", "--dynamic", "--defined-only", "--demangle", library)
        self.assertIn(" T tutti::comm::ProcessGroup::connect(", shown)
        foreign = [line for line in shown.splitlines() if "tutti::" not in line]
        self.assertEqual(foreign, [])
        objects = run("nm", "--defined-only", "--demangle", self.prefix / "lib/libtutti_comm.a")
        self.assertIsNone(re.search(r"\s[TVWBDu] asio", objects), "a program's own Asio would meet ours")

    def test_another_project_takes_the_folder_in_unchanged(self):
        parent = self.folder / "parent"
        parent.mkdir()
        (parent / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES CXX)\nset(CMAKE_EXPORT_COMPILE_COMMANDS ON)\n"
            "get_cmake_property(before VARIABLES)\nenable_testing()\ninclude(FetchContent)\nset(TUTTI_COMM_ONLY ON)\n"
            f"FetchContent_Declare(tutti SOURCE_DIR {SOURCE})\nFetchContent_MakeAvailable(tutti)\n"
            f"add_executable(minimal {EXAMPLES}/minimal/minimal.cc)\ntarget_link_libraries(minimal PRIVATE tutti::comm)\n"
            'foreach(name CMAKE_BUILD_TYPE CMAKE_RUNTIME_OUTPUT_DIRECTORY CMAKE_CXX_COMPILER_LAUNCHER CMAKE_INSTALL_RPATH)\n'
            '  message(STATUS "${name}=<${${name}}>")\nendforeach()\n')
        self.assertNotIn("without optimisation", configure(parent, parent / "fast", "-DCMAKE_BUILD_TYPE=Release"))
        output = configure(parent, parent / "build")
        self.assertIn("without optimisation, and is 5 to 20 times slower", " ".join(output.split()))
        for name in ("CMAKE_BUILD_TYPE", "CMAKE_RUNTIME_OUTPUT_DIRECTORY", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_INSTALL_RPATH"):
            self.assertIn(f"{name}=<>", output)
        commands = (parent / "build/compile_commands.json").read_text()
        self.assertNotRegex(commands, r"-Werror|-march|-fsanitize|ccache")
        user = next(line for line in commands.splitlines() if '"command"' in line and "minimal.cc" in line)
        self.assertNotRegex(user, r"-W|-D|-fno|-fvis")
        self.assertIn("Total Tests: 0", run("ctest", "--test-dir", parent / "build", "--show-only"))
        cache = (parent / "build/CMakeCache.txt").read_text()
        self.assertNotIn("CMAKE_INSTALL_LIBDIR", cache)
        self.assertNotIn("Eigen", cache)


if __name__ == "__main__":
    unittest.main(verbosity=2)
