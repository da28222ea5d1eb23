"""Estimation from counted reports: free, any number of times, since reports are already private."""

from siloquent.collect.estimate.answering import answer, find_channels
from siloquent.collect.estimate.client_checks import ClientAnomaly, find_client_anomalies

__all__ = ["ClientAnomaly", "answer", "find_channels", "find_client_anomalies"]
