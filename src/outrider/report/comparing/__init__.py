"""The sections of a comparison of runs, one file each: functions of the compared runs."""
