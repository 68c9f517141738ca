import sys
from pathlib import Path

# The suite's tests share modules that live beside them.
sys.path.insert(0, str(Path(__file__).parent))
