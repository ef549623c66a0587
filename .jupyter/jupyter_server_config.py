"""How `make lab` starts JupyterLab: on a learner's copy of chapter 00, for this machine only, and
quietly."""

import logging
import os
import warnings
from pathlib import Path

c = get_config()  # noqa: F821  # type: ignore[name-defined]

# Whatever is done here, the repository stays as it is: git ignores learn/. It is missing only where
# nothing can be written.
course = Path(__file__).parent.parent
copies = course / "learn"
c.ServerApp.root_dir = str(copies if copies.is_dir() else course / "notebooks")
c.LabApp.default_url = "/lab/tree/00_start_here.ipynb"
c.ServerApp.ip = "127.0.0.1"  # with a token, as is JupyterLab's default
c.ServerApp.allow_root = hasattr(os, "geteuid") and os.geteuid() == 0  # as in most containers

# What JupyterLab and a kernel say to each other is encrypted; kernels warn where it is not, even
# within one machine.
c.KernelManager.transport_encryption = "auto"

# Jupyter asks for 90 seconds, and Tornado warns that it takes 30: say so at once.
c.ServerApp.tornado_settings = {"ws_ping_timeout": 30_000}

# Threads that wait sleep: spinning, they slow small operations tenfold and more where other
# notebooks compute as well.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Kernels read it first; who has one of their own keeps it.
os.environ.setdefault("PYTHONSTARTUP", str(Path(__file__).parent / "startup.py"))


def as_committed(model, **_):
    """Take out what JupyterLab writes into a notebook that is only opened: it does not count as
    changed."""
    if model["type"] != "notebook":
        return
    metadata = model["content"]["metadata"]
    for key in ("version", "codemirror_mode"):  # of this machine's Python
        metadata.get("language_info", {}).pop(key, None)
    if not any(saved.get("state") for saved in metadata.get("widgets", {}).values()):
        metadata.pop("widgets", None)


c.ContentsManager.pre_save_hook = as_committed
# Jupyter hands a manager its settings twice, and warns that the hook takes its own place.
warnings.filterwarnings("ignore", "Overriding existing pre_save_hook")

# A cloned notebook is "not trusted": its stored outputs are shown without JavaScript. The course
# stores none.
logging.getLogger("ServerApp").addFilter(lambda record: "is not trusted" not in record.msg)
