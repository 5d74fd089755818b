"""Grasps tried in MuJoCo: force-controlled fingers, guarded motions, and a judge that looks at what happened."""
