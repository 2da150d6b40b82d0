"""The open referee: every explanation sits the same exams, one command, raw rows kept."""
