"""The paper's own figures, as its text prints them; nothing else. A test holds each against the paper's words."""

from __future__ import annotations

from dataclasses import dataclass

from sagehand.study.report.cells import DASH
from sagehand.study.report.parts import Beside

__all__ = ["QUOTES", "Quote", "beside"]


@dataclass(frozen=True)
class Quote:
    """One figure or finding of paper A.

    Attributes:
        what: What was measured.
        paper: The figure.
        source: The section it stands in.
        says: The paper's own words, verbatim, as far as they hold the figure; "" for what is worked out from others.
    """

    what: str
    paper: str
    source: str
    says: str


QUOTES: dict[str, Quote] = {
    "coverage": Quote(
        "coverage of the best box crop (Qwen3-VL-30B)",
        "95.4 %",
        "§4.1",
        "removing 49.6% of the image while retaining 95.4% coverage of key image regions",
    ),
    "removal": Quote(
        "removal of the same crop",
        "49.6 %",
        "§4.1",
        "removing 49.6% of the image while retaining 95.4% coverage of key image regions",
    ),
    "gpt-4o against qwen2.5": Quote(
        "GPT-4o against Qwen2.5-VL-72B",
        "p = 0.0158",
        "§4.3",
        "statistically significant at the 5% level (p = 0.0158 and p = 0.0268, respectively)",
    ),
    "gpt-4o against qwen3": Quote(
        "GPT-4o against Qwen3-VL-30B",
        "p = 0.0268",
        "§4.3",
        "statistically significant at the 5% level (p = 0.0158 and p = 0.0268, respectively)",
    ),
    "qwen against qwen": Quote(
        "Qwen2.5-VL-72B against Qwen3-VL-30B",
        "p = 1.0",
        "§4.3",
        "between Qwen2.5-VL-72B and Qwen3-VL-30B is not statistically distinguishable (p = 1.0)",
    ),
    "bad case": Quote(
        "zero-shot against Bad-Single-RAG",
        "no significant difference",
        "§4.4.3",
        "At the 5% significance threshold, the difference is statistically insignificant.",
    ),
    "guided against single": Quote(
        "Single-RAG against the guided search",
        "p < .05 for every model",
        "§4.4.3",
        "is shown to be statistically significant at the 5% threshold for all models",
    ),
    "time zero-shot": Quote("zero-shot, mean", "5.21 s", "§4.5", "(zero-shot prediction) is 5.21 seconds"),
    "time single-rag": Quote("Single-RAG, mean", "6.15 s", "§4.5", "takes on average 6.15 s"),
    "time confirmed": Quote(
        "guided, first candidate confirmed, mean", "9.41 s", "§4.5", "the mean prediction latency increases to 9.41 s"
    ),
    "time searched": Quote(
        "guided, full tree search, mean", "157.25 s", "§4.5", "with a mean elapsed time of 157.25 s"
    ),
    "time guided": Quote("guided, all, mean", "37.71 s", "§4.5", "VLM-guided RAG search takes on average 37.71 s"),
    "time guided median": Quote(
        "guided, all, median", "8.95 s", "§4.5", "the median latency of the overall KG-search procedure is only 8.95 s"
    ),
    "searched": Quote("share of full searches, from the three means", "about 19 %", "§4.5, worked out", ""),
    "pictures": Quote("pictures", "196", "§4.2", "computed using n = 196"),
    "devices": Quote("devices", "6", "§3.3", "The dataset consists of six device folders"),
    "per step": Quote(
        "pictures a step", "about 7", "§3.3", "which typically consist of approximately seven images per step"
    ),
    "top-1 whole": Quote(
        "best top-1 on whole pictures (CLIP large)",
        "46.9 %",
        "§4.2",
        "OpenAI CLIP Large shows the highest Top-1 accuracy of 46.88%",
    ),
    "top-1 cropped": Quote(
        "best top-1 on crops (SigLIP2)",
        "68.5 %",
        "§4.2",
        "the SigLIP2 model displays the highest Top-1 accuracy of 68.47%",
    ),
    "crop gain": Quote(
        "relative gain by cropping",
        "32.5–68.5 %",
        "§4.2",
        "range from 32.468% for OpenAI CLIP small to 68.5% for SigLIP2",
    ),
    "mean rank": Quote(
        "mean rank of the correct result (SigLIP2)",
        "2.43",
        "§4.2",
        "the mean rank of the correct result is 2.43",
    ),
    "sigma": Quote(
        "log-normal σ (SigLIP2; LAION CLIP)",
        "0.93; 0.92",
        "§4.2",
        "σ = 0.93 compared to 0.92 for LAION CLIP",
    ),
    "better fit": Quote(
        "better fit by AIC",
        "log-normal",
        "§3.2.3",
        "Based on this criterion, the log-normal distribution was selected",
    ),
    "classifiers": Quote(
        "trained classifiers against random",
        "better than random",
        "§4.4.1",
        "The trained models outperform the random classifier.",
    ),
    "fine-tuned": Quote(
        "fine-tuned VLM against its base, on test devices",
        "gains are minimal",
        "§4.4.2",
        "the accuracy gains on the test set are minimal",
    ),
    "methods": Quote(
        "VLMs against image classifiers",
        "VLMs are better",
        "§4.4.3",
        "VLMs outperform image classification models like ResNet, CLIP, and others",
    ),
    "zero-shot": Quote(
        "best zero-shot next action (GPT-4o)",
        "61 %",
        "§4.4.3",
        "reaching 61% accuracy in next-step prediction",
    ),
    "single-rag": Quote(
        "Single-RAG against zero-shot",
        "better",
        "§4.4.3",
        "the baseline Single-RAG approach exhibits significantly higher prediction accuracies",
    ),
    "bad single": Quote(
        "Bad-Single-RAG against zero-shot",
        "at times better",
        "§4.4.3",
        "In some cases, the accuracy is even higher than the zero-shot baseline.",
    ),
    "guided": Quote(
        "guided search against Single-RAG",
        "better in all cases",
        "§4.4.3",
        "in all cases, VLM-guided RAG approaches (abbreviated as KG-Search in the figures) exhibit increased accuracy",
    ),
    "devices even": Quote(
        "guided search across devices",
        "higher, more even",
        "§4.4.3",
        "achieves consistently higher and more uniform accuracy across device types",
    ),
    "similarity failed": Quote(
        "when similarity fails",
        "before and after a cut look alike",
        "§4.6",
        "retrieval fails when images before and after the disassembly operation are almost the same",
    ),
    "total failures": Quote(
        "total failures of the guided search",
        "1 of 196",
        "§4.6",
        "out of 196 images, we observed only one total failure",
    ),
    "cuts confused": Quote(
        "when prediction fails",
        "round and rectangular cuts confused",
        "§4.6",
        "VLMs sometimes confuse circular and rectangular CNC cutting approaches",
    ),
}


def beside(key: str, here: str | None) -> Beside:
    """A quoted figure with this run's beside it.

    Args:
        key: A key of :data:`QUOTES`.
        here: This run's figure in words; None where it has none.
    """
    quote = QUOTES[key]
    return Beside(quote.what, quote.paper, here or DASH, quote.source)
