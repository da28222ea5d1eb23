"""Envelopes, payloads, journals and transcripts."""
