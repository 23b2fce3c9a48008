"""Files of named clades, as the stage `clades` writes them."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd


def write_clades(
    folder: Path,
    feature_ids: Sequence[str],
    members: Collection[str],
    targets: Sequence[str] = ("",),
) -> dict[str, Path]:
    """Write tables that name one clade of some features for each target.

    Parameters
    ----------
    folder
        Folder of the files.
    feature_ids
        All features.
    members
        Those of the clade.
    targets
        Names of the targets; empty where there is one; none: no clade is named.

    Returns
    -------
    dict
        Paths by the names that stages have for them.
    """
    table = pd.DataFrame({"target": targets, "clade": "clade of a", "taxon": ""})
    features = pd.DataFrame({"feature-id": feature_ids})
    name_of = np.where(np.isin(feature_ids, [*members]), "clade of a", "")
    for target in targets:
        features[f"clade:{target}" if target else "clade"] = name_of
    if [*targets] == [""]:
        table = table.drop(columns="target")
    files = {"clades": folder / "clades.tsv", "clade_features": folder / "features.tsv"}
    for path, content in zip(files.values(), (table, features), strict=True):
        content.to_csv(path, sep="\t", index=False)
    return files
