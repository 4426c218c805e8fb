# SPDX-License-Identifier: MIT
"""Writes chat-templates.jsonl: templates, messages, and the text that transformers makes of them.

    python tests/golden/make_templates.py > tests/golden/chat-templates.jsonl

Each line: {"template", "names", "text"}, or "fails": true where transformers raises. Needs the
package transformers (5.23 wrote the file) with jinja2. The templates are written for this test:
each uses something that the templates of published models use."""
import json

from transformers.utils.chat_template_utils import _compile_jinja_template

SYSTEM = {"role": "system", "content": "Be  brief.\n"}
USER = {"role": "user", "content": " Wie geht's, Zoë? "}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nGut – danke!"}
MORE = {"role": "user", "content": "ok\n\n{{ no tag }} {% neither %}"}
LAST = {"role": "assistant", "content": ""}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "é": {"enum": [1, -2, True, None]}}}}}]
CHATS = [[USER], [SYSTEM, USER], [USER, ANSWER], [SYSTEM, USER, ANSWER, MORE], [],
         [SYSTEM, USER, ANSWER, MORE, LAST], [USER, ANSWER, MORE, ANSWER, USER]]

TEMPLATES = [
    # loops, conditions, white space
    "{% for m in messages %}\n  {% if m.role == 'user' %}\n    U:{{ m.content }}\n"
    "  {% elif m['role'] == 'assistant' %}\n    A:{{- m.content -}}\n  {% else %}\nS\n"
    "  {% endif %}\n{% endfor %}\n",
    "{%- for m in messages -%}\n\n {{ m.role }} | \n{%+ if loop.last %} last {% endif +%}\n{% endfor %}",
    "a {# no #}\n b\n  {#- no -#}  c {# x +#}\nd\n\n",
    "{% for m in messages %}{% else %}nobody{% endfor %}",
    "{% for m in messages[1:] %}{{ loop.index }}/{{ loop.length }}{{ loop.index0 }}{{ loop.revindex }}"
    "{{ loop.first }}{{ loop.previtem.role if loop.previtem is defined else '-' }}"
    "{{ loop.nextitem.role if not loop.last else '.' }};{% endfor %}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role[0] }}{% endfor %}",
    "{% for m in messages %}{% if loop.index > 3 %}{% break %}{% endif %}"
    "{% if m.role == 'system' %}{% continue %}{% endif %}{{ m.role }},{% endfor %}",
    # names
    "{% set x = 1 %}{% for m in messages %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0, seen=false) %}{% for m in messages %}{% set ns.n = ns.n + 2 %}"
    "{% if m.role == 'user' %}{% set ns.seen = true %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.seen }}",
    "{% set x %}in {{ 1 + 1 }} parts{% endset %}<{{ x }}>{{ x | length }}",
    "{% if messages %}{% set s = messages[0]['content'] %}{% endif %}{{ s }}{{ s is defined }}",
    "{{ nothing }}|{{ nothing is defined }}|{{ nothing or 'other' }}|{{ none }}|{{ true }}|{{ false }}",
    "{% for k, v in tools[0].function.items() %}{{ k }};{% endfor %}{{ tools | length }}",
    # operators
    "{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 2 * 3 - 4 }}{{ 1 ~ 'a' ~ true }}{{ 'a' + 'b' 'c' }}",
    "{{ 1 < 2 }}{{ 2 <= 1 }}{{ 'a' < 'b' }}{{ 1 == 1 and not 2 != 2 }}{{ 'x' not in 'abc' }}{{ 2 in [1, 2] }}",
    "{{ (1 if false else 2) + 3 }}{{ 'yes' if messages }}{{ -1 }}{{ [1, 2][-1] }}{{ {'a': 5}['a'] }}{{ {'a': {'b': 6}}.a.b }}",
    "{{ messages[::-1][0].role if messages }}{{ messages[-1:] | length }}{{ 'Zoë–x'[1:-1] }}{{ 'Zoë'[2] }}",
    "{{ messages[0].content is string }}{{ messages is iterable }}{{ messages is mapping }}{{ 3 is number }}"
    "{{ none is none }}{{ 4 is even }}{{ 3 is odd }}{{ 1 is not none }}{{ messages[0] is mapping }}" ,
    # filters and methods
    "{% for m in messages %}[{{ m.content | trim }}][{{ m.content.strip() }}][{{ m.content.lstrip() }}]"
    "[{{ m.content.rstrip('!? \n') }}]{% endfor %}",
    "{% for m in messages %}{% if '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
    "{% elif m.content.startswith(' ') or m.content.endswith('\n') %}*{% endif %}{% endfor %}",
    "{{ tools | tojson }}\n{{ tools | tojson(indent=2) }}\n{{ 'a\"\n' | tojson }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}",
    "{{ 'a-b-c'.replace('-', '+') }}{{ 'AbC' | lower }}{{ 'AbC'.upper() }}{{ 'abC' | capitalize }}{{ 'a,b,c'.split(',', 1)[1] }}",
    "{{ x | default('d') }}{{ '' | default('e', true) }}{{ [3, 4] | first }}{{ [3, 4] | last }}{{ range(3) | join('-') }}{{ '12' | int + 1 }}",
    "{{ messages[0].get('role', 'x') if messages }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1, 'b': 2}.keys() | list | join }}",
    # what chats do
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<' + system_message + '>>' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{{ bos_token + '[' + content.strip() + ']' }}{% endfor %}{% if add_generation_prompt %}{{ '>' }}{% endif %}",
    "{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- if strftime_now is defined %}\n"
    "        {%- set date_string = 'today' %}\n    {%- else %}\n        {%- set date_string = 'today' %}\n"
    "    {%- endif %}\n{%- endif %}\n{{- date_string ~ '\\n\\n' }}\n{%- for message in messages %}\n"
    "    {{- '<|' + message.role + '|>' + message.content | trim + eos_token }}\n{%- endfor %}\n",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}"
    "{% endgeneration %}{% else %}{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}",
    "{%- set ns = namespace(last=messages|length - 1, multi=true) %}\n{%- for message in messages[::-1] %}\n"
    "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
    "    {%- if ns.multi and message.role == 'user' and not(message.content.startswith('<x>') and "
    "message.content.endswith('</x>')) %}\n        {%- set ns.multi = false %}\n"
    "        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{{- ns.last }}",
    "{{ 'tab\\t' }}{{ \"q\\\"\" }}{{ 'it\\'s' }}{{ '}}' }}{{ '%}' }}\r\nline\r\n",
    # refused by both
    "{{ messages.x.y }}", "{% if %}{% endif %}", "{% for %}", "{{ 'a", "{% endif %}", "{{ 1 + }}",
    "{{ 'a' + 1 }}", "{{ raise_exception('no') }}", "{% set a b %}", "{{ unknown() }}", "{{ 'a' | unknown }}",
]


def line(template, names):
    out = {"template": template, "names": names}
    try:
        out["text"] = _compile_jinja_template(template).render(**names)
    except Exception:
        out["fails"] = True
    return out


def main():
    for template in TEMPLATES:
        for k, chat in enumerate(CHATS):
            names = {"messages": chat, "tools": TOOLS, "bos_token": "<s>", "eos_token": "</s>",
                     "add_generation_prompt": k % 2 == 0}
            print(json.dumps(line(template, names), ensure_ascii=False))


main()
