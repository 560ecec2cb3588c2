"""Every row of the paper's Table 3, on WMT14 English to German.

    python -m transformer_jax.main --config=configs/table3.py:A-heads-16
    python -m transformer_jax.paper

The second command lists the rows, with the paper's results and our parameter counts. Each differs
from configs/base.py only in the row's own settings. None has been trained here yet.
"""

import runpy
from pathlib import Path

from transformer_jax.config import Config
from transformer_jax.paper.table3 import row_config


def get_config(row):
    base = runpy.run_path(str(Path(__file__).with_name('base.py')))['get_config']()
    return row_config(row, Config.from_mapping(base)).to_config_dict()
