"""Write what an edge predicts from to a folder, for other programs."""

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from alphaedge.errors import InvalidValue
from alphaedge.fleet.export_folder import DESCRIPTION_FILE, MODEL_FILE, describe, encode_tensors
from alphaedge.fleet.snapshot import Snapshot
from alphaedge.fleet.sources import read_snapshot

ONNX_FILE: Final = "model.onnx"


def export(
    source: Path, out: Path, edge: str | None = None, *, model: str | None = None, onnx: bool = False
) -> Snapshot:
    """Write a folder, which must not exist, and return what it is of.

    source, edge, model: see ``alphaedge.load``. onnx: with the model as ONNX, checked with onnxruntime.
    """
    if out.exists():
        raise InvalidValue("out", str(out), "a folder that does not exist yet")
    snapshot = read_snapshot(source, edge, model=model)
    files = {
        MODEL_FILE: encode_tensors(snapshot),
        DESCRIPTION_FILE: msgspec.json.format(msgspec.json.encode(describe(snapshot)), indent=2),
    }
    if onnx:
        from alphaedge.fleet.onnx_export import encode_onnx  # here, since few need these packages

        files[ONNX_FILE] = encode_onnx(snapshot)
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # left behind by a process that was killed
    part.mkdir(parents=True)
    try:
        for name, data in files.items():
            (part / name).write_bytes(data)
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return snapshot
