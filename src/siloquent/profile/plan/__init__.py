"""The next requests and their cost: functions of spec and answers, for moderator and parties alike; no rows."""
