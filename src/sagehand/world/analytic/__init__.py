"""The analytic executor: what a grasp comes to, from geometry and statics alone."""
