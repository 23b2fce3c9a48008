"""Functions do not change what they get: dataclasses are frozen, but for the ones listed here."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import aam

MUTABLE = {
    # They collect what is read or counted line by line, sample by sample or step by step.
    "aam.data.importing.classic.Sheet",
    "aam.data.importing.classic._Faults",
    "aam.data.importing.metadata._Sheet",
    "aam.data.importing.taxonomy._TaxonSheet",
    "aam.tasks.finetune.cross_validation._Collected",
    "aam.tasks.pretrain.validation.NucleotideCounts",
    "aam.tasks.pretrain.validation.PairMoments",
    "aam.train.progress.EarlyStopping",
    "aam.train.progress.Progress",
    "aam.train.progress.Saver",
    "aam.train.progress.Sums",
    # They keep what they computed once, or adapt to the machine during a run.
    "aam.evaluate.clade_tests.CladeTests",
    "aam.learners.baselines.kernel_ridge.KernelRidge",
    "aam.train.memory.step_memory.StepMemory",
    "aam.train.precision.PrecisionChoice",
    # They hold tensors, which move between devices.
    "aam.distributed.batch_shards.BatchShard",
    "aam.model.batch.AsvBlock",
    "aam.model.batch.Batch",
    "aam.model.batch.Masked",
    "aam.model.batch.Movable",
    "aam.model.batch.SampleBlock",
    "aam.model.encoder.Encoded",
}


def list_dataclasses() -> Iterator[type]:
    """Yield the dataclasses of all modules of the package."""
    for module in pkgutil.walk_packages(aam.__path__, "aam."):
        if not module.name.endswith("__main__"):
            for member in vars(importlib.import_module(module.name)).values():
                is_own = inspect.isclass(member) and member.__module__ == module.name
                if is_own and "__dataclass_fields__" in vars(member):
                    yield member


def test_dataclasses_are_frozen_but_for_the_ones_that_are_listed():
    mutable = set()
    frozen = set()
    for one in list_dataclasses():
        names = frozen if one.__dataclass_params__.frozen else mutable
        names.add(f"{one.__module__}.{one.__qualname__}")
    assert mutable == MUTABLE
    assert "aam.data.table.FeatureTable" in frozen
