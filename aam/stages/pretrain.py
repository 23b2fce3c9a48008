"""Pretraining: an encoder learns UniFrac distances and masked nucleotides."""

from aam.bench.roofline import peak_flops
from aam.config.digest import code_digest
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.tasks.pretrain.preparation import prepare
from aam.tasks.pretrain.results import save, scores, write_embeddings, write_pairs
from aam.tasks.pretrain.run import devices_of, train
from aam.train.checkpoint import Checkpoints
from aam.train.distributed import launch
from aam.train.history import write_history
from aam.util.atomic import write_json
from aam.util.provenance import provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Pretrain one encoder; where several processes do it, this starts them, and each calls it."""
    if runtime.devices * runtime.nodes > 1 and not runtime.launched:
        launch.together(__name__, cfg, inputs=inputs, outputs=outputs, runtime=runtime)
        return
    devices = devices_of(cfg, runtime)
    origin = devices.broadcast(provenance(cfg, inputs) if devices.rank == 0 else {})
    fingerprint = settings_digest({**origin, "code": code_digest(__name__)})
    checkpoints = Checkpoints(runtime.work, fingerprint, writes=devices.rank == 0)
    processes = devices.world.devices
    prepared = prepare(cfg, inputs, max_memory_gb=runtime.max_memory_gb, processes=processes)
    progress = train(cfg, prepared, devices, checkpoints, runtime, "pretraining")
    found = scores(prepared, progress, devices, peak_flops)
    if devices.rank > 0:
        return
    alone = devices.alone()
    write_embeddings(prepared, alone.exact(), outputs["embeddings"], outputs["asvs"], origin)
    write_pairs(prepared, alone, cfg["pretraining"]["seed"], outputs["pairs"], origin)
    write_history(outputs["history"], progress.history, origin)
    save(outputs["model"], prepared, cfg, origin, progress)
    write_json(outputs["metrics"], {**found, "provenance": dict(origin)})
    checkpoints.clear()
