"""Privacy noise: exact, secure, integers in and integers out. Noise is drawn only in this package.

Nothing here is seeded and no state outlives a call, so a fork repeats no draw. Parameters are fractions. Floats are
refused, since their decimal text differs from their value.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_names
from siloquent.privacy.noise.additive import add_gaussian, add_geometric, add_laplace
from siloquent.privacy.noise.bernoulli_draws import draw_bernoulli, draw_bernoulli_exp, randomise_values
from siloquent.privacy.noise.bits import draw_words
from siloquent.privacy.noise.noise_reduction import draw_noise_chain
from siloquent.privacy.noise.selection import permute_and_flip, select_exponential, select_exponential_top_k

__all__ = [
    "add_gaussian",
    "add_geometric",
    "add_laplace",
    "draw_bernoulli",
    "draw_bernoulli_exp",
    "draw_noise_chain",
    "draw_words",
    "permute_and_flip",
    "randomise_values",
    "select_exponential",
    "select_exponential_top_k",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "bernoulli": "draw_bernoulli",
            "bernoulli_exp": "draw_bernoulli_exp",
            "exponential": "select_exponential",
            "exponential_top_k": "select_exponential_top_k",
            "noise_chain": "draw_noise_chain",
            "randomised_response": "randomise_values",
            "secure_words": "draw_words",
        },
    )
