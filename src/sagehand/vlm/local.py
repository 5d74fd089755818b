"""A vision-language model in this process: ``transformers``, held to the wire schema token by token by ``xgrammar``.

::

    backend = LocalBackend("weights/Qwen3-VL-8B-Instruct", four_bit=True)
    vlm = Vlm(backend, concurrency=1, call_seconds=600)

One reply is written at a time, so a ``Vlm`` above it wants ``concurrency=1``: then a request's time starts when it is its
turn. Nothing is downloaded unless that is allowed.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sagehand.errors import DeadlineExceeded, Refused, ServerFault, Unreachable
from sagehand.vlm.base import RawReply, Request, Usage
from sagehand.vlm.profile import Profile
from sagehand.vlm.weights import Weights, load_weights

__all__ = ["LocalBackend"]


class LocalBackend:
    """A model of the Qwen-VL family (Qwen2-VL, 2.5-VL, 3-VL) in this process. Loaded here, which may take minutes.

    Args:
        model: A folder with weights, or a name on the hub whose files are in the local cache.
        device: As torch names it, as in "cuda:0"; by default a GPU where there is one.
        dtype: As transformers takes it; "auto" is the checkpoint's own.
        four_bit: Quantise to 4 bits (NF4) while loading, through bitsandbytes.
        download: Allow the hub to be asked for files that are not here.
        revision: Branch, tag or commit on the hub.

    Attributes:
        model: The model's id: its name and a fingerprint of its weights.
        profile: What the model takes; a ``Vlm`` uses it by itself.

    Raises:
        MissingExtra: torch, transformers, xgrammar or, for 4 bits, bitsandbytes is not installed.
        InputError: The weights are not there, cannot be read, or are of another family.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str | None = None,
        dtype: str = "auto",
        four_bit: bool = False,
        download: bool = False,
        revision: str | None = None,
    ) -> None:
        weights = load_weights(
            model, device=device, dtype=dtype, four_bit=four_bit, download=download, revision=revision
        )
        self.model: str = weights.name
        self.profile: Profile = weights.profile
        self._writer: _Writer | None = _Writer(weights)
        # one thread: the network is not to be run twice at once, and the event loop is not to be held up
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sagehand-local-vlm")

    def __repr__(self) -> str:
        return f"LocalBackend({self.model!r})"

    async def complete(self, request: Request) -> RawReply:
        """Write a reply, in the worker thread. Cancelling it ends the writing at the next token.

        Raises:
            DeadlineExceeded: ``request.timeout`` is up, waiting for other replies included.
            Refused: Mode "tools", a picture that is none, or a prompt that is too long.
            ServerFault: The device is out of memory, or the library failed.
            Unreachable: It is closed.
        """
        writer = self._writer
        if writer is None:
            raise Unreachable(f"{self.model} is closed")
        stop = threading.Event()
        until = time.monotonic() + request.timeout
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, writer.write, request, until, stop)
        finally:
            stop.set()

    async def close(self) -> None:
        """Let go of the weights, once what is being written has ended."""
        self._writer = None
        # not waited for in another thread: at the interpreter's end none may start
        self._worker.shutdown(wait=False, cancel_futures=True)


class _Writer:
    """Writes replies, one after the other; runs in the worker thread."""

    def __init__(self, weights: Weights) -> None:
        import xgrammar

        self._weights = weights
        # the network may have more rows than the tokenizer has tokens, and the mask must cover them all
        rows = weights.model.get_output_embeddings().weight.shape[0]
        known = xgrammar.TokenizerInfo.from_huggingface(
            weights.tokenizer, vocab_size=rows, stop_token_ids=list(weights.ends)
        )
        self._grammars = xgrammar.GrammarCompiler(known, max_threads=2)

    def write(self, request: Request, until: float, stop: threading.Event) -> RawReply:
        """One reply; ``until`` is the time of the monotonic clock at which it is too late [s]."""
        import torch

        started = time.monotonic()
        if stop.is_set() or started >= until:
            raise DeadlineExceeded(f"{self._weights.name}: no time was left when its turn came")
        try:
            with torch.inference_mode():
                return self._write(request, until, stop, started)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            raise ServerFault(
                f"{self._weights.name}: out of memory on {self._weights.device}",
                hint="smaller or fewer pictures, or four_bit=True",
            ) from error
        except (RuntimeError, ValueError, AssertionError) as error:  # what torch, transformers and xgrammar raise
            said = " ".join(str(error).split())[:200]
            raise ServerFault(f"{self._weights.name}: {type(error).__name__}: {said}") from error

    def _write(self, request: Request, until: float, stop: threading.Event, started: float) -> RawReply:
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        weights = self._weights
        constraint = self._constraint(request)
        inputs = weights.inputs(request.messages, request.options.get("chat_template_kwargs", {}))
        prompt = int(inputs["input_ids"].shape[1])
        if prompt + request.max_tokens > weights.context:
            # in the words of a server, so that pictures are dropped as they would be for one
            raise Refused(
                f"{weights.name} answered 413: {prompt} prompt tokens and {request.max_tokens} of the reply exceed the "
                f"context length of {weights.context}"
            )
        with torch.random.fork_rng(enabled=request.temperature > 0):
            if request.temperature > 0:
                torch.manual_seed(0)
            written = weights.model.generate(
                **inputs,
                generation_config=self._plan(request),
                logits_processor=LogitsProcessorList(constraint),
                stopping_criteria=StoppingCriteriaList([_too_late(until, stop)]),
            )
        tokens = written[0, prompt:].tolist()
        ended = bool(tokens) and tokens[-1] in weights.ends
        if not ended and len(tokens) < request.max_tokens:
            raise DeadlineExceeded(f"{weights.name}: not finished in {request.timeout:.3g} s, {len(tokens)} tokens in")
        return RawReply(
            content=weights.tokenizer.decode(tokens, skip_special_tokens=True),
            finish_reason="stop" if ended else "length",
            usage=Usage(prompt=prompt, completion=len(tokens), calls=1),
            seconds=time.monotonic() - started,
        )

    def _constraint(self, request: Request) -> Sequence[Any]:
        if request.mode == "tools":
            raise Refused(f"{self._weights.name}: a model in process has no native tools; ask in mode json_schema")
        if request.mode == "text":
            return []
        import xgrammar.contrib.hf

        # compact, as the prompt asks for it: blanks between the parts would be free tokens to loop in
        grammar = self._grammars.compile_json_schema(
            json.dumps(request.schema), any_whitespace=False, separators=(",", ":")
        )
        return [xgrammar.contrib.hf.LogitsProcessor(grammar)]

    def _plan(self, request: Request) -> Any:
        from transformers import GenerationConfig

        # a plan of its own: checkpoints bring sampling and a penalty on repetition, and the words of an answer (the
        # names of actions) stand in the prompt
        warm = {"do_sample": True, "temperature": request.temperature} if request.temperature > 0 else {}
        return GenerationConfig(
            max_new_tokens=request.max_tokens,
            eos_token_id=list(self._weights.ends),
            pad_token_id=self._weights.tokenizer.pad_token_id,
            **{"do_sample": False, **warm},
        )


def _too_late(until: float, stop: threading.Event) -> Callable[..., Any]:
    """A stopping criterion: the time is up, or nobody waits any more."""
    import torch

    def over(input_ids: Any, scores: Any, **_: Any) -> Any:
        end = stop.is_set() or time.monotonic() >= until
        return torch.full((input_ids.shape[0],), end, dtype=torch.bool, device=input_ids.device)

    return over
