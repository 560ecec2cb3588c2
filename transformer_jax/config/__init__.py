"""Every setting of a run: its meaning, its default (the base model of the paper) and its limits.

A config file changes fields of the `ml_collections.ConfigDict` that `Config().to_config_dict()`
makes. `loading.load_config` runs the file and makes the frozen `Config` that all other code reads.
"""

from transformer_jax.config.config import Config, check_key
from transformer_jax.config.data import DataConfig
from transformer_jax.config.decode import DecodeConfig
from transformer_jax.config.mesh import MeshConfig
from transformer_jax.config.model import ModelConfig, VocabSizes
from transformer_jax.config.optimizer import OptimizerConfig
from transformer_jax.config.train import TrainConfig

__all__ = [
    'Config',
    'DataConfig',
    'DecodeConfig',
    'MeshConfig',
    'ModelConfig',
    'OptimizerConfig',
    'TrainConfig',
    'VocabSizes',
    'check_key',
]
