"""Every setting of a run, its default (the base model of the paper) and what it may be.

A config file builds an `ml_collections.ConfigDict` from `Config().to_config_dict()` and changes
what it wants; `Config.from_mapping` turns that into the frozen `Config` that all code below reads.
"""

from transformer_jax.config.config import Config, check_key
from transformer_jax.config.data import DataConfig
from transformer_jax.config.decode import DecodeConfig
from transformer_jax.config.mesh import MeshConfig
from transformer_jax.config.model import ModelConfig
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
    'check_key',
]
