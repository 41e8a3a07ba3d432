"""What docs/live-edge.md shows works as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "live-edge.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


@pytest.mark.timeout(180)
def test_the_guide_runs_top_to_bottom(tmp_path: Path) -> None:
    """All commands in one shell, as a reader would; then the Python example with the edge that they have made."""
    commands = blocks("sh")
    assert len(commands) >= 4
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "set -e\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n" + "\n".join(commands)
    found = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert '"accepted":2' in found.stdout
    assert "alphaedge_pending_predictions 0.0" in found.stdout
    (example,) = blocks("python")
    shown = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "'accepted': 1" in shown.stdout
