"""Deploy a walking policy trained in simulation onto a legged robot, safely and on the record."""

__version__ = "0.1.0"
