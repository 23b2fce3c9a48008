"""An encoder per fold of a task, for inductive evaluation; finished ones are not trained again."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aam.distributed.devices import Devices
from aam.inference.asv_cache import module_digest
from aam.model.store import is_whole, load_config
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.preparation import prepare
from aam.tasks.pretrain.results import PeakFlops, save, scores
from aam.tasks.pretrain.run import train
from aam.train.checkpoint import Checkpoints
from aam.train.precision import PrecisionChoice
from aam.util.atomic import read_json, write_json

logger = logging.getLogger(__name__)


def fold_encoder(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    unseen: Collection[str],
    directory: Path,
    fingerprint: str,
    runtime: RunOptions,
    origin: Mapping[str, str],
    peak_flops: PeakFlops,
    devices: Devices,
) -> dict[str, Any]:
    """Pretrain an encoder without some samples, unless that was done before.

    The encoders of one call of the stage share `devices`, and so a precision that was chosen for
    the first.

    Parameters
    ----------
    cfg
        The slice `aam.config.slices.pretrain`.
    inputs
        Files by name.
    unseen
        IDs of the samples that are left out.
    directory
        Folder of the encoder.
    fingerprint
        A digest of settings, code, inputs and `unseen`.
    runtime
        Limits, deadline and the work folder, which has to be given.
    origin
        Provenance that is written with the model.
    peak_flops
        Operations per second that are possible here.
    devices
        Where the model is trained.

    Returns
    -------
    dict
        `scores`, `fingerprint`, and `digest`, which identifies the weights.

    Raises
    ------
    InputError
        See `prepare` and `aam.train.loop.fit`.
    """
    facts = directory.with_suffix(".json")
    if is_whole(directory) and facts.is_file():
        known = read_json(facts)
        if known["fingerprint"] == fingerprint and load_config(directory)["kind"] == "pretrained":
            logger.info("%s was finished before", directory.name)
            PrecisionChoice(devices).adopt(load_config(directory)["optimization"])
            return known
    assert runtime.work is not None
    checkpoints = Checkpoints(runtime.work / directory.name, fingerprint)
    prepared = prepare(cfg, inputs, unseen, max_memory_gb=runtime.max_memory_gb)
    name = f"pretraining without {directory.name}"
    progress = train(cfg, prepared, devices, checkpoints, runtime, name)
    known = {
        "fingerprint": fingerprint,
        "scores": scores(prepared, progress, devices, peak_flops),
        "digest": module_digest(prepared.model.encoder),
    }
    # Facts of an earlier run must not stand next to the model of this one.
    facts.unlink(missing_ok=True)
    save(directory, prepared, cfg, origin, progress)
    write_json(facts, known)
    checkpoints.clear()
    return known
