"""Says that the package holds a program of this platform; build_wheel.sh runs it."""
import os

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class ProgramWheel(bdist_wheel):
    """Any Python 3, one platform."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", os.environ["WHEEL_PLATFORM"]


setup(version=os.environ["WHEEL_VERSION"], cmdclass={"bdist_wheel": ProgramWheel})
