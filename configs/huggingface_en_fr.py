"""English to French from the Hugging Face hub: words and short sentences.

    pip install -e '.[huggingface]'
    python -m transformer_jax.main --config=configs/huggingface_en_fr.py

The set is PaulineSanchez/Translation_words_and_sentences_english_french, of which dev and test are
held out. The config shows how to name the columns of a set. It has not been trained here, because
no hub could be reached.
"""

from transformer_jax.config import Config


def get_config():
    config = Config().to_config_dict()

    config.model.num_layers = 3
    config.model.d_model = 256
    config.model.d_ff = 1024
    config.model.num_heads = 4
    config.model.dropout_rate = 0.2

    config.data.corpus = 'huggingface'
    config.data.dataset = 'PaulineSanchez/Translation_words_and_sentences_english_french'
    config.data.source_language = 'en'
    config.data.target_language = 'fr'
    config.data.source_column = 'English words/sentences'
    config.data.target_column = 'French words/sentences'
    config.data.dev_split = ''
    config.data.test_split = ''
    config.data.vocab_size = 8000
    config.data.max_length = 100
    config.data.tokens_per_batch = 4096

    config.optimizer.warmup_steps = 1000
    config.train.steps = 10_000
    config.train.checkpoint_every = 500
    config.train.eval_every = 1000
    return config
