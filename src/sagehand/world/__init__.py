"""Where a grasp is tried: objects, the robot, an analytic simulator, physics, and pictures of it."""
