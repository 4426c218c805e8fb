# SPDX-License-Identifier: MIT
"""Writes chat-formats.jsonl: chat formats in Jinja, and the texts that Jinja makes of messages.

    python tests/golden/make_chats.py < OLD > tests/golden/chat-formats.jsonl

A line is {"name", "template"}, which is what engine/chat/format.c has and what OLD's lines of this
kind hand on, or {"name", "messages", "asks", "text"}. Jinja (jinja2 3.1 wrote the file) is set up as
transformers' apply_chat_template does: trim_blocks, lstrip_blocks, in a sandbox."""
import json
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

SYSTEM = {"role": "system", "content": "Be  brief.\n"}
USER = {"role": "user", "content": " Wie geht's, Zo\u00eb?\u2003 "}
ANSWER = {"role": "assistant", "content": "\nGut \u2013 danke! {text} {role}"}
MORE = {"role": "user", "content": "ok\n\n{{ no tag }} {% neither %}"}
TOOL = {"role": "tool", "content": "42"}
EMPTY = {"role": "assistant", "content": " "}
CHATS = [[USER], [SYSTEM, USER], [USER, ANSWER], [SYSTEM, USER, ANSWER, MORE], [], [SYSTEM],
         [SYSTEM, USER, ANSWER, MORE, EMPTY], [USER, ANSWER, SYSTEM, MORE, TOOL, ANSWER, USER],
         [SYSTEM, ANSWER, USER]]


def main():
    jinja = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    formats = [row for row in map(json.loads, sys.stdin) if "template" in row]
    for row in formats:
        print(json.dumps(row))
        for messages in CHATS:
            for asks in (False, True):
                text = jinja.from_string(row["template"]).render(
                    messages=messages, add_generation_prompt=asks, bos_token="<B>", eos_token="<E>")
                print(json.dumps({"name": row["name"], "messages": messages, "asks": asks, "text": text}))


main()
