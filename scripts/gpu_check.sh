#!/usr/bin/env bash
# Check lowtide on a machine with a CUDA device: accounting, parity, a short training. At most eight minutes.
#
# Needs only what is there: Python, torch (2.11 or newer) with CUDA and Triton, transformers. Installs nothing.
# Each part is a process of its own with a time limit, so one that fails or hangs takes nothing with it.
# Prints one table; the parts' JSON and logs are left in the folder given, or in $OUT, or in out/gpu_check.
#
#   scripts/gpu_check.sh [FOLDER]
set -u
cd "$(dirname "$0")/.."
folder="${1:-${OUT:-out/gpu_check}}"
device="${LOWTIDE_DEVICE:-cuda}" # cpu tries the script itself on a machine without a GPU
python="${PYTHON:-python3}"
export PYTHONPATH="src:.${PYTHONPATH:+:$PYTHONPATH}"
export TORCHINDUCTOR_CACHE_DIR="${TORCHINDUCTOR_CACHE_DIR:-$(mktemp -d)}"
export TOKENIZERS_PARALLELISM=false KINETO_LOG_LEVEL=9 HF_HUB_OFFLINE=1
mkdir -p "$folder"

run() { # part, seconds
  timeout --kill-after=5 "$2" "$python" scripts/gpu_check.py "$1" --device "$device" --json "$folder/$1.json" \
    >"$folder/$1.log" 2>&1 || echo "part $1 ended with status $?; its last lines:" >>"$folder/failures.log"
  [ -s "$folder/$1.json" ] || tail -n 25 "$folder/$1.log" >>"$folder/failures.log"
}

: >"$folder/failures.log"
run machine 30
run accounting 170
run parity 130
run training 110
"$python" scripts/gpu_check.py table --folder "$folder" | tee "$folder/table.txt"
if [ -s "$folder/failures.log" ]; then
  echo
  cat "$folder/failures.log"
fi
