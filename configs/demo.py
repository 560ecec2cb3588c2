from transformer_jax.config import Config


def get_config():
    c = Config().to_config_dict()
    c.model.update(num_layers=2, d_model=128, d_ff=512, num_heads=4)
    c.data.update(
        corpus='phrasebook',
        target_language='fr',
        train_size=60000,
        dev_size=500,
        test_size=500,
        vocab_size=1200,
        max_length=48,
        tokens_per_batch=4096,
        num_buckets=6,
    )
    c.optimizer.update(warmup_steps=300, learning_rate_scale=1.0)
    c.train.update(steps=1200, log_every=50, eval_every=400, checkpoint_every=100)
    return c
