"""The robot: a description file, kinematics, and the envelope that must not meet anything."""
