"""Every channel keeps the channels' contract."""

from __future__ import annotations

import pytest

from contract.channel_contract import MEMBERS, ChannelContract, Network
from siloquent.federation.channel import MemoryNetwork
from unit.federation.places import StoreNetwork


class TestMemoryChannel(ChannelContract):
    @pytest.fixture
    def network(self) -> Network:
        return MemoryNetwork(MEMBERS)


class TestRelayChannelOverAStore(ChannelContract):
    @pytest.fixture
    def network(self) -> Network:
        return StoreNetwork()
