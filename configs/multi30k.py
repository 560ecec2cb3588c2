"""Multi30k English to German: 29,000 image captions, a small Transformer, raw cased text.

    python -m transformer_jax.main --config=configs/multi30k.py:FOLDER

FOLDER holds multi30k/ with train, val and test_2016_flickr in .en and .de, a sentence a line
(github.com/multi30k/dataset, task 1, raw). For French: --config.data.target_language=fr and the
three paths that end in .de.
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()
    data = f'{folder}/multi30k'

    # Wu et al. (2021), "Good for Misconceived Reasons", found this size best on so few captions.
    config.model.num_layers = 4
    config.model.d_model = 128
    config.model.d_ff = 256
    config.model.num_heads = 4
    config.model.dropout_rate = 0.3

    config.data.corpus = 'files'
    config.data.target_language = 'de'
    config.data.train_source = f'{data}/train.en'
    config.data.train_target = f'{data}/train.de'
    config.data.dev_source = f'{data}/val.en'
    config.data.dev_target = f'{data}/val.de'
    config.data.test_source = f'{data}/test_2016_flickr.en'
    config.data.test_target = f'{data}/test_2016_flickr.de'
    config.data.vocab_size = 10_000
    config.data.max_length = 128
    # Small batches take more steps in the same time, which on so few pairs is what counts.
    config.data.tokens_per_batch = 4096

    config.optimizer.warmup_steps = 1000
    config.optimizer.learning_rate_scale = 1.25  # peak 0.0035

    config.train.steps = 8000
    config.train.eval_every = 500
    config.train.checkpoint_every = 250
    config.train.keep = 5
    return config
