"""Where things lie: the checkout, the tests' own data, and data kept beside the project."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TEST = SUPPORT.parent
ROOT = TEST.parent
DATA = TEST / "data"
SHARED_DATA = ROOT.parent / "shared" / "data"  # optional: tests that need it skip without it
