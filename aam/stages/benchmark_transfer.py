"""The distances of studies that models were not pretrained on, as they predict them."""

import torch

from aam.bench.tables import machine
from aam.bench.transfer import Studies, transfer_page, transfer_table
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_text, write_tsv
from aam.util.provenance import provenance


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Score every pretrained model of `cfg` on every study that it was not pretrained on."""
    torch.set_num_threads(runtime.threads)
    data = Studies.open(inputs, cfg["column"])
    files = zip(inputs["models"], inputs["embeddings"], strict=True)
    given = zip(cfg["models"].items(), files, strict=True)
    models = {name: (studies, *paths) for (name, studies), paths in given}
    table = transfer_table(data, models)
    write_tsv(outputs["table"], table)
    # A directory has no digest; the embeddings that it made have one.
    origin = provenance(cfg, {name: inputs[name] for name in inputs.keys() - {"models"}})
    write_text(outputs["text"], transfer_page(table, {**machine(), **origin}))
