#!/bin/sh
# The inputs are in the environment, the outputs are the last line, the exit code says how it went. All else, from
# checking the input to doing a call only once, is done by "spritekit serve".
set -eu
words=$(printf '%s' "$INPUT_TEXT" | wc -w)
lines=$(printf '%s' "$INPUT_TEXT" | grep -c '' || true)
spritekit emit INFO kind=progress message="counted $((words)) words"
printf '{"words":%d,"lines":%d}\n' "$words" "$lines"
