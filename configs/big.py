"""The paper's big model on WMT14 English to German (Table 3, row "big").

    python -m transformer_jax.main --config=configs/big.py
    python -m transformer_jax.main --config=configs/big.py:huggingface

214,171,648 parameters with 37,000 shared pieces. The paper reports 28.4 BLEU on newstest2014 (on
tokens with split compounds) after 3.5 days on eight P100 GPUs, with 20 averaged checkpoints.
"""

import runpy
from pathlib import Path


def get_config(corpus='tfds'):
    base, table3 = (
        runpy.run_path(str(Path(__file__).with_name(name)))['get_config']
        for name in ('base.py', 'table3.py')
    )
    config = table3('big')
    config.data = base(corpus).data
    return config
