"""The paper's base model on WMT14 English to French, 36 million pairs (section 5.1).

    python -m transformer_jax.main --config=configs/base_en_fr.py
    python -m transformer_jax.main --config=configs/base_en_fr.py:huggingface

The paper reports 38.1 BLEU on newstest2014, with 32,000 word pieces.
"""

import runpy
from pathlib import Path


def get_config(corpus='tfds'):
    config = runpy.run_path(str(Path(__file__).with_name('base.py')))['get_config'](corpus)

    config.data.dataset = config.data.dataset.replace('de-en', 'fr-en')
    config.data.target_language = 'fr'
    config.data.vocab_size = 32_000
    return config
