#!/usr/bin/env bash
# Checks and times the models on the GPU of this machine, from a plain checkout: nothing is installed, nothing
# is downloaded. Prints one table; writes $OUT/gpu.json (default: out/). Exit status 1 if a check fails.
#
#   bash bench/gpu.sh                          # an NVIDIA GPU; under 4 minutes on an H200
#   bash bench/gpu.sh --device cpu --quick     # proves the script on any machine
#
# Needs Python 3.11+ with torch, transformers, numpy, grpcio and protobuf; PYTHON names another one. WHEELS names
# a folder of wheels to use for what is missing. COMMIT goes into the rows where there is no repository.
# Afterwards, in a checkout: python -P -m precall.bench.gpu --json gpu.json --csv bench/results.csv
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
out=${OUT:-$root/out}
paths=$(mktemp -d)
trap 'rm -rf "$paths"' EXIT

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "precall needs Python 3.11 or newer: set PYTHON=")'

# The package precall has no folder of its own: pyproject.toml maps its rooms. Links do the same here.
mkdir "$paths/precall"
for room in bench engine kernels proto scoring; do
    ln -s "$root/$room" "$paths/precall/$room"
done
export PYTHONPATH=$paths${PYTHONPATH:+:$PYTHONPATH}
if [ -n "${WHEELS:-}" ]; then
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$paths/wheels" "$WHEELS"/*.whl
    export PYTHONPATH=$PYTHONPATH:$paths/wheels
fi
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

mkdir -p "$out"
"$python" -P -m precall.bench.gpu --json "$out/gpu.json" "$@"
