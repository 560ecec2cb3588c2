"""The paper's big model on WMT14 English to French, 36 million pairs (sections 5 and 6.1).

    python -m transformer_jax.main --config=configs/big_en_fr.py
    python -m transformer_jax.main --config=configs/big_en_fr.py:huggingface

The paper reports 41.8 BLEU on newstest2014, with 32,000 word pieces and a dropout of 0.1, not 0.3.
"""

import runpy
from pathlib import Path


def get_config(corpus='tfds'):
    big, base_en_fr = (
        runpy.run_path(str(Path(__file__).with_name(name)))['get_config']
        for name in ('big.py', 'base_en_fr.py')
    )
    config = big(corpus)
    config.data = base_en_fr(corpus).data
    config.model.dropout_rate = 0.1
    return config
