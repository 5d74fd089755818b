"""How far the analytic executor and the physics agree: a sample of grasps, both run, measured, reported."""
