"""Pretraining: an encoder learns UniFrac distances and masked nucleotides."""

from collections.abc import Mapping
from pathlib import Path

from aam.config.digest import code_digest
from aam.config.settings.training import PretrainSettings
from aam.distributed import launch
from aam.tasks.pretrain.batch_size import settle_batch_size
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.preparation import prepare
from aam.tasks.pretrain.results import save, scores, write_embeddings, write_pairs
from aam.tasks.pretrain.run import pretraining_devices, train
from aam.train.checkpoint import Checkpoints
from aam.train.progress import write_history
from aam.util.atomic import write_json
from aam.util.digests import settings_digest
from aam.util.run_options import RunOptions


def pretrain_encoder(
    *,
    inputs: PretrainInputs,
    settings: PretrainSettings,
    runtime: RunOptions,
    model_out: Path,
    scores_out: Path,
    history_out: Path,
    embeddings_out: Path,
    asvs_out: Path,
    pairs_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Pretrain one encoder on UniFrac distances and masked nucleotides.

    Where several processes are asked for, the first call starts them and waits. Each of them calls
    this function again; the first one scores and writes.

    Parameters
    ----------
    inputs
        Files that are read: tokens, samples, and distances or a tree.
    settings
        Architecture, training and optimization.
    runtime
        Threads, memory, devices; the folder of checkpoints. They change no result.
    model_out
        Folder to write: `config.json` and `model.safetensors`.
    scores_out
        JSON file to write, with scores on held-out samples.
    history_out
        Parquet file to write, with the curves of training.
    embeddings_out
        Parquet file to write, with the embedding of every sample.
    asvs_out
        Safetensors file to write, with the embedding of every ASV.
    pairs_out
        Parquet file to write, with true and predicted distances of pairs of held-out samples.
    provenance
        Metadata of what is written (`aam.util.digests`). Checkpoints of another one are not
        used.

    Raises
    ------
    InputError
        There are too few samples, the memory has no room, or files do not fit together.
    """
    if runtime.devices * runtime.nodes > 1 and not runtime.launched:
        launch.call_in_processes(
            pretrain_encoder,
            runtime=runtime,
            inputs=inputs,
            settings=settings,
            model_out=model_out,
            scores_out=scores_out,
            history_out=history_out,
            embeddings_out=embeddings_out,
            asvs_out=asvs_out,
            pairs_out=pairs_out,
            provenance=provenance,
        )
        return
    devices = pretraining_devices(settings.optimization, runtime)
    fingerprint = settings_digest({**provenance, "code": code_digest(__name__)})
    checkpoints = Checkpoints(runtime.work, fingerprint, writes=devices.rank == 0)
    settings = settle_batch_size(settings, inputs, devices, checkpoints, runtime)
    processes = devices.world.devices
    prepared = prepare(settings, inputs, max_memory_gb=runtime.max_memory_gb, processes=processes)
    progress = train(settings, prepared, devices, checkpoints, runtime, "pretraining")
    report = scores(prepared, progress, devices)
    if devices.rank > 0:
        return
    # The other processes have returned: from here on the first one computes by itself. Embeddings
    # are in fp32, since other stages read them; the pairs are in the precision of the scores.
    alone = devices.alone()
    write_embeddings(prepared, alone.exact(), embeddings_out, asvs_out, provenance)
    write_pairs(prepared, alone, settings.pretraining.seed, pairs_out, provenance)
    write_history(history_out, progress.history, provenance)
    save(model_out, prepared, settings, provenance, progress)
    write_json(scores_out, {**report, "provenance": dict(provenance)})
    checkpoints.clear()
