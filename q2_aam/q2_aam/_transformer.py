"""How columns about samples become other views."""

import pandas as pd
import qiime2

from q2_aam._format import AAMColumnsFormat
from q2_aam.plugin_setup import plugin


@plugin.register_transformer
def _1(data: pd.DataFrame) -> AAMColumnsFormat:
    columns = AAMColumnsFormat()
    data.rename_axis("sample-id").to_csv(str(columns), sep="\t")
    return columns


@plugin.register_transformer
def _2(columns: AAMColumnsFormat) -> qiime2.Metadata:
    return qiime2.Metadata.load(str(columns))


@plugin.register_transformer
def _3(columns: AAMColumnsFormat) -> pd.DataFrame:
    return qiime2.Metadata.load(str(columns)).to_dataframe()
