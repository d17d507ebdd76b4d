"""The Debian packages that CPack makes of a build: what they hold, what they depend on, installed and removed in a root of their own.

    tests/tools/packages_test.py BUILD_FOLDER

Status 77 where the tools of Debian are not there.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
MINIMAL = pathlib.Path(__file__).resolve().parents[2] / "tools/examples/embedding/minimal"
NEEDED = ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps", "file")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


class DebianPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti_packages_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", cls.folder / "packages")
        cls.files = {file.name.split("_")[0]: file for file in (cls.folder / "packages").glob("*.deb")}

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.files[package], name).strip()

    def contents(self, package):
        return [line.split(maxsplit=5)[5] for line in run("dpkg-deb", "--contents", self.files[package]).splitlines()]

    def test_the_program_depends_on_what_it_was_linked_with(self):
        depends = self.field("tutti", "Depends")
        for library in ("libc6", "libstdc++6", "libssl3", "libpng16-16", "libtiff6"):
            self.assertRegex(depends, rf"(^|, ){re.escape(library)}(t64)?\b")
        self.assertIn("./usr/bin/tutti", self.contents("tutti"))
        self.assertEqual([name for name in self.contents("tutti") if name.startswith("./usr/include")], [])

    def test_the_development_package_brings_what_static_linking_needs(self):
        depends = self.field("libtutti-dev", "Depends")
        for library in ("libssl-dev", "libpng-dev"):
            self.assertIn(library, depends)
        contents = "\n".join(self.contents("libtutti-dev"))
        for name in ("include/tutti/comm/process_group.h", r"lib/\S*libtutti_comm\.a", r"lib/\S*tutti-config\.cmake",
                     r"lib/\S*pkgconfig/tutti-comm\.pc", "share/doc/libtutti-dev/copyright",
                     "share/doc/libtutti-dev/examples/heat/heat.cc", "lib/python3/dist-packages/tutti/__init__.py"):
            self.assertRegex(contents, rf"(?m)^\./usr/{name}$")

    def test_all_are_of_one_version_and_say_who_and_what(self):
        self.assertEqual(len({self.field(package, "Version") for package in self.files}), 1)
        for package in self.files:
            self.assertRegex(self.field(package, "Maintainer"), r"^.+ <.+@.+>$")
            self.assertRegex(self.field(package, "Description"), r"^\S.+\n \S")

    def test_they_are_installed_used_and_removed_without_a_trace(self):
        root = self.folder / "root"
        database = root / "var/lib/dpkg"
        for name in ("info", "updates"):
            (database / name).mkdir(parents=True)
        (database / "status").touch()
        # There is no shell in that root: the packages' scripts run outside of it, and find an ldconfig that takes notes.
        notes = self.folder / "ldconfig.txt"
        stub = self.folder / "stub"
        stub.mkdir()
        (stub / "ldconfig").write_text(f"#!/bin/sh\necho called >>'{notes}'\n")
        (stub / "ldconfig").chmod(0o755)
        environment = {**os.environ, "PATH": f"{stub}:{os.environ['PATH']}"}
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", f"--log={root}/dpkg.log"]
        if os.geteuid() == 0:
            run(*dpkg, "--install", *self.files.values(), env=environment)
            self.assertEqual(notes.read_text(), "called\n")  # a new shared library
        else:
            for file in self.files.values():
                run("dpkg-deb", "--extract", file, root)
        self.assertRegex(run(root / "usr/bin/tutti", "--version"), r"^tutti \d")
        for file in [*root.rglob("*.cmake"), *root.rglob("*.pc")]:
            self.assertNotIn(str(BUILD), file.read_text(), file)
        run("cmake", "-S", MINIMAL, "-B", self.folder / "minimal", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root}/usr")
        run("ninja", "-C", self.folder / "minimal")
        self.assertIn("3 of 4: 10\n", run("ctest", "--test-dir", self.folder / "minimal", "--verbose"))
        if os.geteuid() == 0:
            run(*dpkg, "--purge", *self.files, env=environment)
            self.assertEqual([path for path in root.glob("usr/**/*") if not path.is_dir()], [])


if __name__ == "__main__":
    missing = [tool for tool in NEEDED if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} not found (Debian: dpkg, dpkg-dev, file)")
        sys.exit(77)
    unittest.main(verbosity=2)
