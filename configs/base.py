"""The paper's base model on WMT14 English to German (sections 3 and 5, Table 3, row "base").

    python -m transformer_jax.main --config=configs/base.py
    python -m transformer_jax.main --config=configs/base.py:huggingface

63,045,632 parameters with 37,000 shared pieces. The paper reports 27.3 BLEU on newstest2014 (on
tokens with split compounds) after 12 hours on eight P100 GPUs. TFDS downloads the corpus (4.5
million pairs) at the first start. Its archives are often unreachable: with `:huggingface`, the same
pairs come from `wmt/wmt14` on the Hugging Face hub. Dev is newstest2013, test is newstest2014.
"""

from transformer_jax.config import Config
from transformer_jax.errors import UserError

DATASETS = {'tfds': 'wmt14_translate/de-en', 'huggingface': 'wmt/wmt14/de-en'}


def get_config(corpus='tfds'):
    if corpus not in DATASETS:
        raise UserError(f'--config=...:{corpus} must end in one of {", ".join(DATASETS)}.')
    # The defaults of Config are this recipe, except the checkpoint and evaluation intervals.
    config = Config().to_config_dict()

    config.model.num_layers = 6
    config.model.d_model = 512
    config.model.d_ff = 2048
    config.model.num_heads = 8
    config.model.dropout_rate = 0.1

    config.data.corpus = corpus
    config.data.dataset = DATASETS[corpus]
    config.data.source_language = 'en'
    config.data.target_language = 'de'
    config.data.vocab_size = 37_000
    config.data.tokens_per_batch = 25_000  # of each side

    config.optimizer.warmup_steps = 4000
    config.optimizer.label_smoothing = 0.1

    config.train.steps = 100_000
    # The paper saved every 10 minutes, about 1,500 steps.
    config.train.checkpoint_every = 1500
    config.train.eval_every = 4500

    config.decode.beam_size = 4
    config.decode.length_penalty = 0.6
    config.decode.max_extra_length = 50
    config.decode.average_checkpoints = 5
    return config
