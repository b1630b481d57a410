# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (PEP 517): the Python files, libtally as the tree builds it, and libjansson, which it needs, beside it.
Where meson and ninja are, nothing is downloaded. An sdist is the whole tree."""
import base64
import fcntl
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
NAME = "tally_allreduce"
METADATA = """Metadata-Version: 2.1
Name: tally-allreduce
Version: {version}
Summary: Sums arrays across machines, in the network: numpy, PyTorch, no change of programs
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: torch
Requires-Dist: torch>=2.9; extra == "torch"
Description-Content-Type: text/markdown

"""
# torch finds the backend by itself, so that init_process_group("tally") needs no import.
ENTRY_POINTS = "[torch.backends]\ntally = tally_autoload:register\n"
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # manylinux's
JANSSON = "libjansson.so.4"


def version():
    with open(os.path.join(TREE, "meson.build"), encoding="utf-8") as file:
        return re.search(r"version: '([^']+)'", file.read())[1]


def run(*command):
    return subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE, text=True).stdout


def get_requires_for_build_wheel(config_settings=None):
    return [name for name in ("meson", "ninja") if not shutil.which(name)]


def get_requires_for_build_sdist(config_settings=None):
    return []


def built():
    """libtally that looks for what it needs beside itself (meson.build)."""
    target = "bindings/python/libtally.so." + version()
    if not os.path.exists(os.path.join(TREE, "build", "release", "build.ninja")):
        print(run("scripts/setup.sh", "release"), file=sys.stderr)
    # Of two tests that make wheels at once, one builds: two ninjas in a folder break each other's records.
    with open(os.path.join(TREE, "build", "release", "wheel.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(run("ninja", "-C", "build/release", target), file=sys.stderr)
    return os.path.join(TREE, "build", "release", target)


def needed(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library)))


def found(name):
    """Where the linker finds a library."""
    lines = run("/sbin/ldconfig", "-p").splitlines()
    paths = [line.split("=>")[1].strip() for line in lines if line.split()[:1] == [name]]
    if not paths:
        sys.exit(f"tally: {name}, which libtally needs, is not to be found (scripts/deps.sh build)")
    return os.path.realpath(paths[0])


def tag(libraries):
    """The oldest manylinux that has what they need: by the newest symbol of glibc's (PEP 600)."""
    symbols = set()
    for library in libraries:
        others = needed(library) - LIBRARIES - {JANSSON}
        if others:
            print(f"tally: the wheel is for this machine alone: {library} needs {' '.join(sorted(others))}", file=sys.stderr)
            return f"linux_{platform.machine()}"
        symbols |= {tuple(map(int, found.split("."))) for found in
                    re.findall(r"GLIBC_([0-9.]+)", run("readelf", "--dyn-syms", "-W", library))}
    major, minor = max(symbols)[:2]
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def contents(libraries, folder):
    """(name in the wheel, file) of all that is not metadata."""
    yield "tally_autoload.py", os.path.join(HERE, "tally_autoload.py")
    for top, folders, names in os.walk(os.path.join(HERE, "tally")):
        folders[:] = sorted(name for name in folders if name not in ("lib", "__pycache__"))
        for name in sorted(names):
            if name.endswith((".py", ".typed")):
                path = os.path.join(top, name)
                yield os.path.relpath(path, HERE), path
    for name, path in libraries.items():
        yield f"tally/lib/{name}", path
    yield f"{folder}/licenses/LICENSE", os.path.join(TREE, "LICENSE")
    jansson = "/usr/share/doc/libjansson4/copyright"
    if os.path.exists(jansson):
        yield f"{folder}/licenses/jansson.txt", jansson


class Wheel:
    """A zip file, and the list of what is in it."""

    def __init__(self, path, folder):
        self.zip, self.folder, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), folder, []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))  # the same bytes whenever it is built
        info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self):
        name = f"{self.folder}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), "".join(self.record) + f"{name},,\n")
        self.zip.close()


def metadata():
    return METADATA.format(version=version()) + "Sums arrays across machines, in the network. See docs/frameworks.md of tally's tree.\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    library = built()
    stripped = os.path.join(wheel_directory, "libtally.stripped")
    run("strip", "--strip-unneeded", "-o", os.path.abspath(stripped), library)
    libraries = {"libtally.so.0": stripped}
    if JANSSON in needed(library):
        libraries[JANSSON] = found(JANSSON)
    built_for = f"py3-none-{tag(libraries.values())}"
    folder, name = f"{NAME}-{version()}.dist-info", f"{NAME}-{version()}-{built_for}.whl"
    wheel = Wheel(os.path.join(wheel_directory, name), folder)
    for inside, path in contents(libraries, folder):
        with open(path, "rb") as file:
            wheel.add(inside, file.read(), 0o755 if ".so" in inside else 0o644)
    wheel.add(f"{folder}/METADATA", metadata().encode())
    wheel.add(f"{folder}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.add(f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tally\nRoot-Is-Purelib: false\nTag: {built_for}\n".encode())
    wheel.close()
    os.remove(stripped)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """The tree, with this project's file at its top."""
    top = f"{NAME}-{version()}"
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        project = file.read().replace('backend-path = ["."]', 'backend-path = ["bindings/python"]')
    names = run("bash", "-c", ". scripts/tree.sh && files .").split("\0")
    with tarfile.open(os.path.join(sdist_directory, f"{top}.tar.gz"), "w:gz") as tar:
        for name in sorted(filter(None, names)):
            tar.add(os.path.join(TREE, name), f"{top}/{name}", recursive=False)
        for name, text in (("pyproject.toml", project), ("PKG-INFO", metadata())):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mtime = len(text.encode()), 1767225600
            tar.addfile(info, io.BytesIO(text.encode()))
    return f"{top}.tar.gz"
