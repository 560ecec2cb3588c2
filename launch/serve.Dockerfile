# An image of the server, for CPUs:
#   docker build -f launch/serve.Dockerfile -t transformer_jax_serve .
#   docker run --publish 127.0.0.1:5000:5000 transformer_jax_serve
#   curl http://127.0.0.1:5000/translate -d q='The cat sleeps.' -d source=en -d target=fr
# A model of your own, which its user, number 1000, must be able to read:
#   docker run --publish 127.0.0.1:5000:5000 -v "$PWD/released/mine:/models/mine:ro" \
#       transformer_jax_serve --workdir=/models/mine
# For NVIDIA GPUs install ".[serve,gcs,cuda]", build on such a host or leave the programs out, and
# run with --gpus all.
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY transformer_jax transformer_jax
COPY configs configs
RUN pip install --no-cache-dir ".[serve,gcs]"

# As process 1, Python would ignore a SIGTERM that comes before its handler is installed. tini passes
# the signal on.
RUN apt-get update && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 server && mkdir --mode=700 cache && chown server cache
USER 1000
ENV TRANSFORMER_JAX_CACHE=/app/cache
# Keep the programs of the packaged model in the image: start the server, and stop it once it is
# ready. Programs are for one kind of processor. On another one, the server compiles at each start.
RUN python -c "import subprocess, sys; \
server = subprocess.Popen([sys.executable, '-m', 'transformer_jax.serve'], stdout=subprocess.PIPE); \
server.stdout.readline(); server.terminate(); sys.exit(server.wait())"
EXPOSE 5000
# The port opens once all programs are compiled.
HEALTHCHECK --start-period=300s --interval=10s --timeout=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["tini", "--", "python", "-m", "transformer_jax.serve", "--host=0.0.0.0"]
