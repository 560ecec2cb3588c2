"""A run that has learned enough for its outputs to differ from text to text."""

TRAINED = {
    'model': {'num_layers': 1, 'd_model': 32, 'd_ff': 64, 'num_heads': 2},
    'data': {
        'corpus': 'phrasebook',
        'target_language': 'fr',
        'train_size': 2000,
        'dev_size': 8,
        'test_size': 8,
        'vocab_size': 500,
        'max_length': 64,
        'tokens_per_batch': 1024,
        'num_buckets': 1,
    },
    'optimizer': {'warmup_steps': 60},
    'train': {'steps': 120, 'eval_every': 120, 'checkpoint_every': 60},
    'decode': {'max_extra_length': 10},
}
TEXTS = [
    'The cat sleeps.',
    'A brown dog ate the apple near the old table because it was good.',
    'Where is the house?',
    'The teacher and the doctor are reading a book.',
    'The cat sleeps.',
]
