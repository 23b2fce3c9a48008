"""Whole trainings as requests, beside the measurements of `aam.bench`: each has its own process."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aam.bench import measurements
from aam.runtime.run_options import RunOptions
from aam.stages.pretrain import pretrain_encoder
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.settings import PretrainSettings
from aam.train.compilation import CACHE
from aam.train.progress import TimeIsUp
from aam.util.atomic import read_json
from aam.util.errors import InputError
from aam.util.provenance import file_digest, provenance
from benchmarks import predicted

CHECKPOINT_EVERY_S = 20.0
OUTPUTS = {
    "model": "model",
    "embeddings": "embeddings.parquet",
    "asvs": "asvs.safetensors",
    "pairs": "pairs.parquet",
    "history": "history.parquet",
    "metrics": "metrics.json",
}
"""Files of a pretraining in its folder."""


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do a request of `aam.bench.measurements.run`, or of the kinds `training` and `work`."""
    kinds = {"training": train, "work": count_work}
    return kinds.get(request["kind"], measurements.run)(request)


def count_work(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `benchmarks.predicted.Work` of a step of `batch_size` samples."""
    inputs = PretrainInputs.read(request["inputs"])
    size, threads = request["batch_size"], request["threads"]
    return asdict(predicted.work_of_a_step(request["settings"], inputs, size, threads))


def train(request: Mapping[str, Any]) -> dict[str, Any]:
    """Pretrain a model as the workflow does.

    Parameters
    ----------
    request
        `settings` and `inputs` of the stage `pretrain`; `folder` for its outputs; `runtime`: fields
        of `RunOptions`; `deadline`: an instant of `time.time`, without meaning for several
        processes.

    Returns
    -------
    dict
        The `metrics.json` of the stage, and the digest of the weights under ``weights``. Where the
        deadline came before the end ``cut``, where the training cannot be done ``failed``: a
        message each.
    """
    folder = Path(request["folder"])
    inputs = PretrainInputs.read(request["inputs"])
    outputs = {name: folder / file for name, file in OUTPUTS.items()}
    # What a training that was killed has left there may be broken.
    shutil.rmtree(folder / "work" / CACHE, ignore_errors=True)
    # Of several processes none can tell that it left in time: they are ended with the call.
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
            settings=PretrainSettings.read(request["settings"]),
            runtime=runtime,
            **{f"{name}_out": path for name, path in outputs.items()},
            provenance=provenance(request["settings"], inputs.named()),
        )
    except TimeIsUp as error:
        return {"cut": str(error)}
    except InputError as error:
        return {"failed": str(error)}
    weights = file_digest(outputs["model"] / "model.safetensors")
    return {**read_json(outputs["metrics"]), "weights": weights}
