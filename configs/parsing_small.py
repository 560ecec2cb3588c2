"""Constituency parsing of biomedical English on a CPU, with the free treebank CRAFT.

    python -m transformer_jax.main --config=configs/parsing_small.py:FOLDER

CRAFT (CC BY 3.0) has 18,951 trees for training and 2,780 for dev; its test part is kept for others.
So the first half of dev chooses here, and the second half is the test. FOLDER holds train.mrg and

    head -1390 dev.mrg > FOLDER/dev.mrg; tail -1390 dev.mrg > FOLDER/test.mrg
"""

from transformer_jax.config import Config


def get_config(folder):
    config = Config().to_config_dict()

    config.model.num_layers = 2
    config.model.d_model = 192
    config.model.d_ff = 512
    config.model.num_heads = 4
    config.model.dropout_rate = 0.15
    config.model.tied_embeddings = 'decoder'

    config.data.corpus = 'trees'
    config.data.source_language = 'en'
    config.data.target_language = 'en'
    for split in ('train', 'dev', 'test'):
        config.data[f'{split}_source'] = f'{folder}/{split}.mrg'
    # Tags learn sooner: each depends on its own word, while XX says nothing of it.
    config.data.tree_tags = True
    config.data.shared_vocabulary = False
    config.data.target_vocabulary_type = 'word'
    config.data.vocab_size = 8000
    config.data.max_length = 192
    config.data.tokens_per_batch = 4096
    config.data.num_buckets = 5

    config.optimizer.schedule = 'cosine'
    config.optimizer.learning_rate = 0.0012
    config.optimizer.warmup_steps = 600

    config.train.steps = 10000
    config.train.checkpoint_every = 500
    config.train.eval_every = 500
    config.train.keep_best = 3

    config.decode.average = 'best'
    config.decode.average_checkpoints = 3
    config.decode.beam_size = 21
    config.decode.length_penalty = 0.3
    config.decode.max_extra_length = 300
    return config
