# SPDX-License-Identifier: MIT
# Writes the report's page as C source, so that the program needs no file at run time:
#
#     page.html   with  {{style}} <- page.css   {{script}} <- *.js   cut at {{data}}
#
#     cmake -DFOLDER=src/record/page -DOUT=page_files.c -P cmake/embed_page.cmake
cmake_minimum_required(VERSION 3.22)
file(READ "${FOLDER}/page.html" html)
file(READ "${FOLDER}/page.css" css)
set(js "")
foreach(part numbers chart timeline state sections page)
    file(READ "${FOLDER}/${part}.js" text)
    string(APPEND js "${text}")
endforeach()
string(REPLACE "{{style}}" "${css}" html "${html}")
string(REPLACE "{{script}}" "${js}" html "${html}")
string(FIND "${html}" "{{data}}" cut)
if(cut EQUAL -1)
    message(FATAL_ERROR "${FOLDER}/page.html has no {{data}}")
endif()
string(SUBSTRING "${html}" 0 ${cut} head)
math(EXPR rest "${cut} + 8")
string(SUBSTRING "${html}" ${rest} -1 tail)

set(text "/* Made by cmake/embed_page.cmake from the files of src/record/page. */\n")
string(APPEND text "#include \"record/page.h\"\n")
foreach(part head tail)
    string(HEX "${${part}}" bytes)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND text "\nconst char wefti_page_${part}[] = {\n${bytes}0};\n")
    string(APPEND text "const size_t wefti_page_${part}_bytes = sizeof wefti_page_${part} - 1;\n")
endforeach()
file(WRITE "${OUT}" "${text}")
