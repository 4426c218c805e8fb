#!/bin/bash
# SPDX-License-Identifier: MIT
# Small random models of every family as transformers makes them: huggingface.py compares.
weft=$1
source_dir=$2
# shellcheck source=tests/cli/helpers.sh
. "$source_dir/tests/cli/helpers.sh"
python=${WEFT_PYTHON:-python3}
command -v "$python" >/dev/null || { echo "skipped: there is no $python"; exit 77; }
exec "$python" "$source_dir/tests/cli/huggingface.py" "$weft"
