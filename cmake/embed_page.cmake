# SPDX-License-Identifier: MIT
# Writes a page as C source, so that the program needs no file at run time:
#
#     page.html   with  {{title}}  {{without}}  {{style}} <- page.css  {{script}} <- *.js
#     cut at {{data}}
#
#     cmake -DHTML=page.html -DCSS=page.css -DJS=a.js:b.js -DTITLE=... -DWITHOUT=...
#           -DPREFIX=wefti_page -DHEADER=record/page.h -DOUT=page_files.c -P cmake/embed_page.cmake
cmake_minimum_required(VERSION 3.22)
file(READ "${HTML}" html)
file(READ "${CSS}" css)
set(js "")
string(REPLACE ":" ";" parts "${JS}")
foreach(part ${parts})
    file(READ "${part}" text)
    string(APPEND js "${text}")
endforeach()
string(REPLACE "{{title}}" "${TITLE}" html "${html}")
string(REPLACE "{{without}}" "${WITHOUT}" html "${html}")
string(REPLACE "{{style}}" "${css}" html "${html}")
string(REPLACE "{{script}}" "${js}" html "${html}")
string(FIND "${html}" "{{data}}" cut)
if(cut EQUAL -1)
    message(FATAL_ERROR "${HTML} has no {{data}}")
endif()
string(SUBSTRING "${html}" 0 ${cut} head)
math(EXPR rest "${cut} + 8")
string(SUBSTRING "${html}" ${rest} -1 tail)

set(text "/* Made by cmake/embed_page.cmake from the files of a page. */\n")
string(APPEND text "#include \"${HEADER}\"\n")
foreach(part head tail)
    string(HEX "${${part}}" bytes)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND text "\nconst char ${PREFIX}_${part}[] = {\n${bytes}0};\n")
    string(APPEND text "const size_t ${PREFIX}_${part}_bytes = sizeof ${PREFIX}_${part} - 1;\n")
endforeach()
file(WRITE "${OUT}" "${text}")
