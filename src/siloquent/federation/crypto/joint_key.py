"""The workers' public keys, each sent with a proof; their sum is the key for ballots and mixed pairs."""

from __future__ import annotations

from collections.abc import Iterable

from siloquent.federation.channel import Channel
from siloquent.federation.crypto import proofs
from siloquent.federation.crypto.group import Group
from siloquent.federation.crypto.seed_store import load_seed
from siloquent.federation.crypto.worker_messages import WorkerKey


def publish_key(channel: Channel, group: Group, key: bytes, names: Iterable[str]) -> None:
    """Send this worker's public key to ``names``, with a proof that the worker knows its logarithm."""
    seed = load_seed(channel.state, "elgamal")
    proof = proofs.prove(group, key, seed, session=channel.session, name=channel.me)
    published = WorkerKey(group.multiply_base(key), proof).to_payload()
    for name in names:
        if name != channel.me:
            channel.send(name, WorkerKey.step(), published)


def gather_proven_keys(channel: Channel, group: Group, workers: tuple[str, ...]) -> list[bytes]:
    """Receive the public keys of ``workers``, each with a proof that its owner knows the logarithm.

    Raises:
        ProtocolError: ``bad_encoding``: a key without a valid proof.
    """
    publics = []
    for name, payload in channel.gather(WorkerKey.step(), workers).items():
        key = WorkerKey.from_payload(payload)
        proofs.verify(group, key.public, key.proof, session=channel.session, name=name)
        publics.append(key.public)
    return publics
