"""`python -m alance`: the command."""

import sys

from alance.command import main

sys.exit(main())
