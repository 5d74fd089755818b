"""What the cell can do, what is known about the device, and which action comes next (paper A §3.1, SPEC A6 and C3)."""
