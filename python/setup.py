"""The wheel contains a program for one kind of machine, and works with every Python 3."""
import platform
import sys

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class ProgramWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        version = platform.libc_ver()[1].replace(".", "_")
        return "py3", "none", f"manylinux_{version}_{platform.machine()}" if sys.platform == "linux" else "any"


setup(cmdclass={"bdist_wheel": ProgramWheel})
