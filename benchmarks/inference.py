"""Time of embedding and memory of validation, against the number of samples.

`python -m benchmarks.inference results/<dataset> [--samples N ...] [--held-out N ...]` prints both
tables as Markdown.

Shape suffixes: N samples, U ASVs, S positions.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import numpy as np
import pandas as pd
import psutil
from numpy.typing import NDArray
from torch import nn

from aam.batches.masking import Masker
from aam.config.sections.model import EncoderShape
from aam.data.stores import SampleStore, TokenStore, write_samples, write_tokens
from aam.distributed.devices import Devices
from aam.distributed.inference_device import InferenceDevice
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import embed_samples, load_encoder
from aam.model.asv_encoders import Architecture
from aam.model.encoder import build_encoder
from aam.model.heads import STATISTICS_SAMPLES
from aam.model.store import save_model
from aam.report.labels import format_quantity
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.validation import HeldOut
from aam.train.memory.meter import peak_mb
from aam.train.monitoring.roofline import median_iqr
from aam.util.seeds import generator
from benchmarks.speed.tables import machine, markdown_table, page

logger = logging.getLogger(__name__)
GROWTH = 0.6
"""ASVs of a larger study: those of the given one times the ratio of the samples to this power; it
is 0.6 to 0.7 between parts of `data/oral`."""
SUBSTITUTIONS = 3
"""How many nucleotides of a variant are replaced by random ones."""
STEPS = ("start_s", "load_s", "asvs_s", "samples_s")
"""Imports; device, model and files; embedding of the ASVs; of the samples."""


@dataclass(frozen=True)
class StudySettings:
    """The study that larger and smaller ones are drawn from, and what they are measured with."""

    tokens: Path
    samples: Path
    model: Mapping[str, Any]
    """A section `models.<name>` as plain types."""
    precision: str
    """Arithmetic of the validation; embeddings are always computed in fp32."""
    threads: int
    seed: int = 0
    """Seed of random weights and of studies."""


def embedding_times(settings: StudySettings, numbers: Sequence[int], repeats: int) -> pd.DataFrame:
    """Time from a model directory to a file of embeddings, each in a process of its own.

    For each number of samples it is timed with an empty and with a filled cache in turn; a run
    before them is not timed and fills the cache. `wall_s` is from the start of the process to the
    written file, `STEPS` are its parts; all are medians.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        cache = folder / "asvs.safetensors"
        length_bp = TokenStore.open(settings.tokens).tokens.shape[1]
        shape = Architecture(**settings.model, max_length_bp=length_bp)
        encoder = build_encoder(shape, seed=settings.seed, backend="auto")
        save_model(model, nn.ModuleDict({"encoder": encoder}), {"architecture": asdict(shape)})
        for number in numbers:
            asvs = write_study(settings, number, folder)
            request = {**asdict(settings), "model": model, "folder": folder}
            run_in_subprocess("embed", {**request, "cache": None, "fill": cache})
            runs_by_state: dict[str, list[dict[str, Any]]] = {"empty": [], "filled": []}
            for _ in range(repeats):
                for state, path in (("empty", None), ("filled", cache)):
                    result = run_in_subprocess("embed", {**request, "cache": path, "fill": None})
                    runs_by_state[state].append(result)
            for state, runs in runs_by_state.items():
                results = pd.DataFrame(runs)
                wall_s, iqr_s = median_iqr(results["wall_s"])
                rows.append(
                    {
                        "samples": number,
                        "asvs": asvs,
                        "cache": state,
                        "precision": runs[0]["precision"],
                        "wall_s": wall_s,
                        "wall_s_iqr": iqr_s,
                        **results[list(STEPS)].median(),
                        "ms_per_sample": 1e3 * wall_s / number,
                        "peak_memory_mb": results["peak_memory_mb"].max(),
                    }
                )
                logger.info("%d samples, cache %s: %.3g s", number, state, wall_s)
    return pd.DataFrame(rows)


def validation_memory(settings: StudySettings, numbers: Sequence[int]) -> pd.DataFrame:
    """Measure the anonymous memory of one validation, each in a process of its own.

    The distances are a mapped file, left empty: all are zero. Each study has `STATISTICS_SAMPLES`
    training samples in addition to the held-out ones, from which the statistics of the heads are
    taken.
    """
    rows = []
    for number in numbers:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            samples = number + STATISTICS_SAMPLES
            asvs = write_study(settings, samples, folder)
            with (folder / "distances").open("wb") as handle:
                handle.truncate(4 * samples**2)
            result = run_in_subprocess("validate", {**asdict(settings), "folder": folder})
        rows.append({"held_out": number, "asvs": asvs, **result})
        logger.info("%d held-out samples: %.0f MB more", number, result["grown_mb"])
    return pd.DataFrame(rows)


def write_study(settings: StudySettings, number: int, folder: Path) -> int:
    """Write tokens and samples of a study of some number of samples; return its number of ASVs."""
    given_tokens = TokenStore.open(settings.tokens)
    given_store = SampleStore.open(settings.samples)
    tokens, store = draw_study(given_tokens, given_store, number, settings.seed)
    write_tokens(folder / "tokens", tokens, {})
    write_samples(folder / "samples", store, {})
    return len(tokens.lengths)


def draw_study(
    tokens: TokenStore, store: SampleStore, number: int, seed: int
) -> tuple[TokenStore, SampleStore]:
    """Return a study of some number of samples like those of view 0 of another.

    A smaller study is some of the samples. In a larger one samples are drawn with replacement, and
    each of their ASVs is replaced by one of its variants, which differ in a few nucleotides. There
    are so many variants that the ASVs grow with the power `GROWTH` of the samples.
    """
    rng = generator("study", seed, number)
    given = len(store.sample_ids)
    is_larger = number > given
    rows_N = rng.integers(given, size=number) if is_larger else rng.permutation(given)[:number]
    richness_N = store.offsets[rows_N + 1] - store.offsets[rows_N]
    offsets = np.concatenate([[0], np.cumsum(richness_N)])
    flat = np.arange(offsets[-1]) + np.repeat(store.offsets[rows_N] - offsets[:-1], richness_N)
    wanted = len(tokens.lengths) * max(1.0, number / given) ** GROWTH
    variants_U = rng.permutation(np.diff(np.linspace(0, wanted, len(tokens.lengths) + 1).round()))
    family_U = np.repeat(np.arange(len(variants_U)), variants_U.astype(np.int64))
    starts = np.searchsorted(family_U, np.arange(len(variants_U) + 1))
    first = starts[store.asvs[flat]]
    size = np.diff(starts)[store.asvs[flat]]
    kept, asvs = np.unique(first + rng.integers(0, size), return_inverse=True)
    length_U = tokens.lengths[family_U[kept]]
    letters_US = tokens.tokens[family_U[kept]]
    variants = np.flatnonzero(np.isin(kept, starts, invert=True))
    for _ in range(SUBSTITUTIONS):
        bases = rng.integers(1, 5, len(variants))
        letters_US[variants, rng.integers(0, length_U[variants])] = bases
    names = [f"asv{i}" for i in range(len(kept))]
    return TokenStore(names, length_U, letters_US), one_view(offsets, asvs, store.counts[flat])


def one_view(
    offsets: NDArray[np.int64], asvs: NDArray[np.integer], counts: NDArray[np.int32]
) -> SampleStore:
    """Return a store of made-up samples, in CSR form, that are in one view and not augmented."""
    size = len(offsets) - 1
    return SampleStore(
        sample_ids=[f"sample{i}" for i in range(size)],
        views=1,
        row_view=np.zeros(size, np.int32),
        offsets=offsets,
        asvs=asvs.astype(np.int32),
        counts=counts,
        parent_offsets=np.arange(size + 1),
        parents=np.arange(size, dtype=np.int32),
        weights=np.ones(size, np.float32),
    )


def run_in_subprocess(what: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `embed` or `validate` returns in a new process, whose start counts too.

    `benchmarks.speed.subprocess_runner` forks from a process that has the libraries loaded already.
    """
    asked = json.dumps({**request, "started_s": time.time()}, default=str)
    command = [sys.executable, "-m", __spec__.name, what]
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def embed(request: Mapping[str, Any]) -> dict[str, Any]:
    """Embed all samples of a folder into a file there, as the stages do.

    Returns the seconds of each step, the memory, and the precision.
    """
    instants = [request["started_s"], time.time()]
    device = InferenceDevice.claim(request["threads"])
    encoder = load_encoder(Path(request["model"]))
    folder = Path(request["folder"])
    tokens = TokenStore.open(folder / "tokens")
    store = SampleStore.open(folder / "samples")
    instants.append(time.time())
    cache = None if request["cache"] is None else Path(request["cache"])
    asv_UD = embed_asvs_cached(encoder, tokens, device, cache)
    instants.append(time.time())
    rows_N = np.arange(len(store.sample_ids))
    with (folder / "embeddings").open("wb") as handle:
        embedding_ND = embed_samples(encoder, store, tokens, rows_N, device, asv_UD)
        handle.write(embedding_ND.numpy().data)
    instants.append(time.time())
    if request["fill"] is not None:
        digest = encoder_digest(encoder, device.precision)
        AsvEmbeddings.write(Path(request["fill"]), tokens, asv_UD, digest)
    return {
        **dict(zip(STEPS, np.diff(instants).tolist(), strict=True)),
        "wall_s": instants[-1] - instants[0],
        "peak_memory_mb": peak_mb(device.device),
        "precision": device.precision,
    }


def validate(request: Mapping[str, Any]) -> dict[str, Any]:
    """Validate an untrained model on the samples of a folder.

    Returns memory and seconds, and the precision in which the device computes.
    """
    devices = Devices(request["precision"], request["threads"])
    folder = Path(request["folder"])
    tokens = TokenStore.open(folder / "tokens")
    store = SampleStore.open(folder / "samples")
    seed = request["seed"]
    number = len(store.sample_ids)
    shape = Architecture(**request["model"], max_length_bp=tokens.tokens.shape[1])
    model = PretrainingModel(
        build_encoder(shape, seed=seed, backend="auto"),
        weights={"unweighted": 1.0},
        variances={"unweighted": 1.0},
        nucleotide_weight=1.0,
        seed=seed,
    )
    distances = np.memmap(folder / "distances", np.float32, "r", shape=(1, number, number))
    held_out = HeldOut(
        store=store,
        tokens=tokens,
        samples=np.arange(STATISTICS_SAMPLES, number),
        training_samples=np.arange(STATISTICS_SAMPLES),
        distances={"unweighted": distances},
        values={},
        masker=Masker(0.15, seed),
        plotted_pairs=0,
    )
    t0 = time.time()
    with AnonymousMemory() as memory:
        held_out.score(model, devices)
    return {
        "start_mb": memory.start_mb,
        "peak_mb": memory.peak_mb,
        "grown_mb": memory.peak_mb - memory.start_mb,
        "wall_s": time.time() - t0,
        "precision": devices.precision,
    }


class AnonymousMemory:
    """Peak of this process's memory that no file stands behind, in MB of 2^20 bytes, sampled."""

    def __init__(self, every_s: float = 0.005) -> None:
        self.start_mb = 0.0
        self.peak_mb = 0.0
        self._every_s = every_s
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.start_mb = self._now_mb()
        self.peak_mb = self.start_mb
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._every_s):
            self.peak_mb = max(self.peak_mb, self._now_mb())

    def _now_mb(self) -> float:
        held = psutil.Process().memory_info()
        return (held.rss - held.shared) / 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything for the study of a folder, or one case of it in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=__doc__)
    parser.add_argument("folder", help="results/<dataset>")
    parser.add_argument("--samples", type=int, nargs="+", default=[1000, 5000, 20_000])
    parser.add_argument("--held-out", type=int, nargs="+", default=[500, 2000, 20_000])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    folder = given.folder
    measures = {"embed": embed, "validate": validate}
    if folder in measures:
        print(json.dumps(measures[folder](json.load(sys.stdin))))
        return
    logging.basicConfig(level=logging.INFO)
    settings = StudySettings(
        tokens=Path(folder, "tokens", "asvs.arrow"),
        samples=Path(folder, "views", "samples.arrow"),
        model=EncoderShape().plain(),
        precision="bf16",
        threads=len(os.sched_getaffinity(0)),
    )
    parts = []
    for title, table in {
        "Embedding": embedding_times(settings, given.samples, given.repeats),
        "Validation": validation_memory(settings, given.held_out),
    }.items():
        cells = table.map(lambda value: value if isinstance(value, str) else format_quantity(value))
        parts += [f"## {title}", markdown_table(list(table.columns), cells.to_numpy().tolist())]
    about = {**machine(), "threads": str(settings.threads)}
    print(page("Embedding and validation", *parts, about=about))


if __name__ == "__main__":
    main()
