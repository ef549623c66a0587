"""What some published models' ``config.json`` say of RoPE, to look at in the widget and to copy.
Chapter 15.

The values (``scaling_examples.json``) are their publishers'; fields that do not bear on RoPE are
left out, and LongRoPE's factors are written to seven digits, which is what float32 holds of them.
"""

import json
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "PUBLISHED"]

_FILE = Path(__file__).with_suffix(".json")
PUBLISHED: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
# as pasted: text
EXAMPLES: dict[str, str] = {
    name: json.dumps(config, indent=1) for name, config in PUBLISHED.items()
}
