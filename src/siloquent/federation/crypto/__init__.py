"""Task-independent cryptography: a prime-order group, hashing into it, keyed chains, votes and a mix network.

group      Group (Protocol), Ristretto: batches of 32-byte elements, scalars that never become Python integers
points     check_points: canonical, not the identity, no duplicates, before any use of received points
hashing    expand_message, hash to 64 bytes for the group's map (RFC 9380)
seeds      derive, scalar_of, stream: every secret of a session from few seeds
seed_store seeds in a role's state: drawn once, replaced after each pass
framing    several batches in one message
permute    permutation of a batch from a key
proofs     Schnorr proof that a worker knows its key
chain      blind -> hop -> ... -> tally: which values several parties share, over blinded sets
votes      AND of the parties' votes by additive ElGamal
mixnet     re-randomising mix of ElGamal pairs (the thesis' protocol)
worker     what a worker does in a session, for any task that uses these steps
"""
