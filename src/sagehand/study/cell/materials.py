"""Materials: how the surfaces of the cell look, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MATERIALS", "Material"]


@dataclass(frozen=True)
class Material:
    """How a surface looks.

    Attributes:
        rgb: Colour, 0–1 each; multiplies the texture.
        texture: Name of a procedural texture, or None.
        specular: Strength of the highlight, 0–1.
        shininess: Sharpness of the highlight, 0–1.
        alpha: Opacity, 0–1.
        repeat: Repeats of the texture over its unit.
    """

    rgb: tuple[float, float, float]
    texture: str | None = None
    specular: float = 0.2
    shininess: float = 0.3
    alpha: float = 1.0
    repeat: float = 1.0


MATERIALS: Mapping[str, Material] = MappingProxyType(
    {
        "abs_white": Material((0.90, 0.89, 0.86), "plastic", 0.25, 0.35),
        "abs_cool": Material((0.84, 0.86, 0.88), "plastic", 0.3, 0.45),
        "abs_cream": Material((0.91, 0.87, 0.78), "plastic", 0.2, 0.3),
        "abs_grey": Material((0.60, 0.61, 0.62), "plastic", 0.2, 0.3),
        "abs_inside": Material((0.80, 0.80, 0.78), "plastic", 0.12, 0.2),
        "abs_cut": Material((0.98, 0.98, 0.96), "plastic", 0.02, 0.1),
        "abs_anthracite": Material((0.17, 0.18, 0.19), "plastic", 0.2, 0.3),
        "abs_ivory": Material((0.93, 0.90, 0.83), "plastic", 0.2, 0.3),
        "abs_sand": Material((0.80, 0.74, 0.64), "plastic", 0.2, 0.3),
        "abs_silver": Material((0.70, 0.72, 0.74), "plastic", 0.4, 0.5),
        "alu": Material((0.80, 0.81, 0.83), "brushed", 0.7, 0.6, repeat=2),
        "alu_bed": Material((0.72, 0.74, 0.76), "bed", 0.35, 0.5),
        "anodised": Material((0.13, 0.22, 0.40), "brushed", 0.45, 0.5, repeat=2),
        "black": Material((0.055, 0.055, 0.06), None, 0.25, 0.35),
        "black_matt": Material((0.045, 0.045, 0.05), None, 0.03, 0.1),
        "board_blue": Material((1, 1, 1), "board_blue", 0.3, 0.5),
        "board_dark": Material((1, 1, 1), "board_dark", 0.3, 0.5),
        "board_green": Material((1, 1, 1), "board_green", 0.3, 0.5),
        "board_black": Material((1, 1, 1), "board_black", 0.3, 0.5),
        "board_red": Material((1, 1, 1), "board_red", 0.3, 0.5),
        "board_white": Material((1, 1, 1), "board_white", 0.3, 0.5),
        "brass": Material((0.78, 0.62, 0.30), "brushed", 0.7, 0.6, repeat=3),
        "cast_blue": Material((0.12, 0.26, 0.42), "cast", 0.3, 0.4, repeat=2),
        "cast_grey": Material((0.34, 0.36, 0.38), "cast", 0.25, 0.35, repeat=2),
        "ceramic": Material((0.66, 0.54, 0.38), None, 0.2, 0.4),
        "chip": Material((0.07, 0.07, 0.08), None, 0.25, 0.4),
        "coffee": Material((0.16, 0.08, 0.04), None, 0.5, 0.8),
        "display": Material((1, 1, 1), "display", 0.6, 0.9),
        "glass_dark": Material((0.10, 0.11, 0.13), None, 0.9, 0.9),
        "glove": Material((0.16, 0.34, 0.62), "cast", 0.08, 0.2, repeat=3),
        "glue": Material((0.72, 0.69, 0.60), None, 0.3, 0.5),
        "guard": Material((0.62, 0.72, 0.76), None, 0.9, 0.9, alpha=0.25),
        "label": Material((1, 1, 1), "label", 0.15, 0.3),
        "lens_red": Material((0.75, 0.08, 0.06), None, 0.8, 0.8),
        "mat": Material((0.95, 0.95, 0.95), "mat", 0.05, 0.1),
        "nickel": Material((0.80, 0.78, 0.72), "brushed", 0.9, 0.75, repeat=4),
        "orange": Material((0.90, 0.38, 0.08), None, 0.3, 0.4),
        "plate": Material((0.64, 0.66, 0.68), "cast", 0.2, 0.4),
        "print": Material((0.42, 0.43, 0.45), None, 0.1, 0.2),
        "red": Material((0.66, 0.10, 0.09), None, 0.4, 0.5),
        "rubber": Material((0.22, 0.22, 0.23), "cast", 0.05, 0.1),
        "sleeve": Material((0.10, 0.12, 0.24), None, 0.5, 0.6),
        "sleeve_cloth": Material((0.30, 0.32, 0.36), "cast", 0.02, 0.1, repeat=4),
        "solder": Material((0.72, 0.73, 0.74), None, 0.9, 0.7),
        "steel": Material((0.62, 0.63, 0.65), "brushed", 0.7, 0.6, repeat=2),
        "steel_dark": Material((0.24, 0.24, 0.26), "brushed", 0.5, 0.5, repeat=2),
        "steel_knurled": Material((0.62, 0.63, 0.65), "knurled", 0.5, 0.5, repeat=1),
        "swarf_alu": Material((0.86, 0.87, 0.89), None, 0.9, 0.8),
        "swarf_white": Material((0.95, 0.95, 0.93), None, 0.1, 0.2),
        "wood": Material((1, 1, 1), "wood", 0.08, 0.2),
        "wrap_aa": Material((1, 1, 1), "wrap_aa", 0.5, 0.6),
        "wrap_cr": Material((1, 1, 1), "wrap_cr", 0.5, 0.6),
        "wrap_cr123": Material((1, 1, 1), "wrap_cr123", 0.5, 0.6),
        "wrap_er": Material((1, 1, 1), "wrap_er", 0.5, 0.6),
        "wrap_grey": Material((1, 1, 1), "wrap_grey", 0.5, 0.6),
        "yellow": Material((0.90, 0.72, 0.10), None, 0.3, 0.4),
    }
)
"""Every material by name."""
