#!/bin/bash
# SPDX-License-Identifier: MIT
# Small random models of every family as transformers makes them: huggingface.py compares.
. "$2/tests/cli/helpers.sh"
python=${WEFT_PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
exec "$python" "$source_dir/tests/cli/huggingface.py" "$weft"
