"""Whole training runs as requests, in addition to those of `benchmarks.speed.measurements`.

Each request is done in a process of its own.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aam.config.settings.training import PretrainSettings
from aam.stages.pretrain import pretrain_encoder
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.train.compilation import CACHE
from aam.train.progress import TimeIsUp
from aam.util.atomic import read_json
from aam.util.digests import file_digest, provenance
from aam.util.errors import InputError
from aam.util.run_options import RunOptions
from benchmarks.speed import graphs, measurements

CHECKPOINT_EVERY_S = 20.0
OUTPUTS = {
    "model": "model",
    "embeddings": "embeddings.parquet",
    "asvs": "asvs.safetensors",
    "pairs": "pairs.parquet",
    "history": "history.parquet",
    "scores": "scores.json",
}
"""Files of a pretraining in its folder."""


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do a request of `measurements.run`, or one of the kind `training` or `graphs`."""
    kinds = {"training": train, "graphs": graphs.compare}
    measure = kinds.get(request["kind"], measurements.run)
    return measure(request)


def train(request: Mapping[str, Any]) -> dict[str, Any]:
    """Pretrain a model as the workflow does.

    Parameters
    ----------
    request
        `settings` and `inputs` of the stage `pretrain`; `folder` for its outputs; `runtime`: fields
        of `RunOptions`; `deadline`: an instant of `time.time`, which has no meaning for several
        processes.

    Returns
    -------
    dict
        The `scores.json` of the stage, and the digest of the weights under ``weights``. Where the
        deadline came before the end, a message under ``cut`` instead; where the run cannot be done,
        a message under ``failed``.
    """
    folder = Path(request["folder"])
    inputs = PretrainInputs.model_validate(request["inputs"])
    outputs = {name: folder / file for name, file in OUTPUTS.items()}
    # What a run that was killed has left there may be broken.
    shutil.rmtree(folder / "work" / CACHE, ignore_errors=True)
    # Several processes cannot report that they left in time: they end with the call instead.
    several = request["runtime"].get("devices", 1) > 1
    runtime = RunOptions(
        **request["runtime"],
        work=folder / "work",
        deadline=None if several else request["deadline"],
        checkpoint_every_s=CHECKPOINT_EVERY_S,
    )
    try:
        pretrain_encoder(
            inputs=inputs,
            settings=PretrainSettings.model_validate(request["settings"]),
            runtime=runtime,
            **{f"{name}_out": path for name, path in outputs.items()},
            provenance=provenance(request["settings"], inputs.model_dump(exclude_none=True)),
        )
    except TimeIsUp as error:
        return {"cut": str(error)}
    except InputError as error:
        return {"failed": str(error)}
    weights = file_digest(outputs["model"] / "model.safetensors")
    return {**read_json(outputs["scores"]), "weights": weights}
