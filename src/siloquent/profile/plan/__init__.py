"""What to ask next and what it costs: functions of spec and answers, for moderator and parties alike; no rows."""
