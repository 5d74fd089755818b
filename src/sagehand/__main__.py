"""``python -m sagehand``."""

import sys

from sagehand.cli import main

sys.exit(main())
