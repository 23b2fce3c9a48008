"""An encoder per fold of a task, for inductive evaluation; finished ones are not trained again."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import Devices
from aam.inference.asv_cache import module_digest
from aam.model.store import is_whole, load_config
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import prepare
from aam.tasks.pretrain.results import save, scores
from aam.tasks.pretrain.run import train
from aam.train.checkpoint import Checkpoints
from aam.train.precision import PrecisionChoice
from aam.util.atomic import read_json, write_json
from aam.util.run_options import RunOptions

logger = logging.getLogger(__name__)


def pretrain_without(
    unseen: Collection[str],
    settings: PretrainSettings,
    inputs: PretrainInputs,
    *,
    directory: Path,
    fingerprint: str,
    devices: Devices,
    runtime: RunOptions,
    origin: Mapping[str, str],
) -> dict[str, Any]:
    """Pretrain an encoder without some samples, unless that was done before.

    The encoders of one call of the stage share `devices`, and so a precision that was chosen for
    the first.

    Parameters
    ----------
    unseen
        IDs of the samples that are left out.
    settings
        Architecture, training and optimization.
    inputs
        Files that are read.
    directory
        Folder of the encoder; next to it lies a JSON file of what is returned.
    fingerprint
        A digest of settings, code, inputs and `unseen`.
    devices
        Where the model is trained.
    runtime
        Limits, deadline and the work folder, which has to be given.
    origin
        Provenance that is written with the model.

    Returns
    -------
    dict
        `scores`, `fingerprint`, and `digest`, which identifies the weights.

    Raises
    ------
    InputError
        See `prepare` and `aam.train.loop.fit`.
    """
    facts_file = directory.with_suffix(".json")
    finished = _finished_facts(directory, facts_file, fingerprint)
    if finished is not None:
        logger.info("%s was finished before", directory.name)
        PrecisionChoice(devices).adopt(load_config(directory)["optimization"])
        return finished
    assert runtime.work is not None
    checkpoints = Checkpoints(runtime.work / directory.name, fingerprint)
    prepared = prepare(settings, inputs, unseen, max_memory_gb=runtime.max_memory_gb)
    name = f"pretraining without {directory.name}"
    progress = train(settings, prepared, devices, checkpoints, runtime, name)
    facts = {
        "fingerprint": fingerprint,
        "scores": scores(prepared, progress, devices),
        "digest": module_digest(prepared.model.encoder),
    }
    # Facts of an earlier run must not stand next to the model of this one.
    facts_file.unlink(missing_ok=True)
    save(directory, prepared, settings, origin, progress)
    write_json(facts_file, facts)
    checkpoints.clear()
    return facts


def _finished_facts(directory: Path, facts_file: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the facts of an encoder that an earlier run finished; None: there is none."""
    if not (is_whole(directory) and facts_file.is_file()):
        return None
    facts: dict[str, Any] = read_json(facts_file)
    is_same = facts["fingerprint"] == fingerprint
    return facts if is_same and load_config(directory)["kind"] == "pretrained" else None
