"""Other people's call signatures: functions by the names and shapes that existing scripts use."""
