"""Multi30k English to German: 29,000 image captions, a small Transformer, raw cased text.

    python -m transformer_jax.main --config=configs/multi30k.py:FOLDER

FOLDER holds multi30k/ with train, val and test_2016_flickr in .en and .de, one sentence a line:
the unpacked files of data/task1/raw in github.com/multi30k/dataset. For French there is
multi30k_fr.py.

5,992,448 parameters, test BLEU 40.32. configs/README.md has all scores.
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()
    data = f'{folder}/multi30k'

    config.model.num_layers = 3
    config.model.d_model = 256
    config.model.d_ff = 512
    config.model.num_heads = 4
    config.model.dropout_rate = 0.3
    # With the default, 1, a model this small hardly learns to align at first.
    config.model.attention_gain = 0.7071

    config.data.corpus = 'files'
    config.data.target_language = 'de'
    config.data.train_source = f'{data}/train.en'
    config.data.train_target = f'{data}/train.de'
    config.data.dev_source = f'{data}/val.en'
    config.data.dev_target = f'{data}/val.de'
    config.data.test_source = f'{data}/test_2016_flickr.en'
    config.data.test_target = f'{data}/test_2016_flickr.de'
    config.data.vocab_size = 8000
    config.data.max_length = 100
    config.data.num_buckets = 12
    # Small batches give more steps in the same time, which matters most for so few pairs.
    config.data.tokens_per_batch = 2048

    config.optimizer.weight_decay = 0.2
    config.optimizer.warmup_steps = 800
    config.optimizer.learning_rate_scale = 0.5  # peak 0.0011

    config.train.steps = 8000
    config.train.eval_every = 500
    config.train.checkpoint_every = 100
    config.train.keep = 10
    config.decode.beam_size = 5
    config.decode.length_penalty = 1.0
    config.decode.average_checkpoints = 10
    return config
