"""The paper's big model on WMT14 English to German (Table 3, row "big").

    python -m transformer_jax.main --config=configs/big.py

The paper trained it for 3.5 days on eight P100 GPUs to 28.4 BLEU on newstest2014.
"""

import runpy
from pathlib import Path


def get_config():
    config = runpy.run_path(str(Path(__file__).with_name('base.py')))['get_config']()

    config.model.d_model = 1024
    config.model.d_ff = 4096
    config.model.num_heads = 16
    config.model.dropout_rate = 0.3

    config.train.steps = 300_000
    config.train.keep = 20
    config.decode.average_checkpoints = 20
    return config
