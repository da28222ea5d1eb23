"""Privacy noise: exact, secure, whole numbers in and whole numbers out. The only place where it is drawn.

Nothing here is seeded and nothing survives a call, so a fork repeats no draw. Parameters are fractions: a float is
refused, since what it says on paper is not what it is.
"""

from siloquent.privacy.noise.additive import add_gaussian, add_geometric, add_laplace
from siloquent.privacy.noise.bits import secure_words
from siloquent.privacy.noise.chain import noise_chain
from siloquent.privacy.noise.coins import bernoulli, bernoulli_exp, randomised_response
from siloquent.privacy.noise.selection import exponential, exponential_top_k, permute_and_flip

__all__ = [
    "add_gaussian",
    "add_geometric",
    "add_laplace",
    "bernoulli",
    "bernoulli_exp",
    "exponential",
    "exponential_top_k",
    "noise_chain",
    "permute_and_flip",
    "randomised_response",
    "secure_words",
]
