# SPDX-License-Identifier: MIT
# Compiles for macOS on another machine, by zig (pip install ziglang), which has the headers of macOS's C
# library. tools/check_macos does it: what weft's own libraries need is declared, not linked.
set(CMAKE_SYSTEM_NAME Darwin)
set(WEFT_MACOS_PROCESSOR "aarch64" CACHE STRING "aarch64 or x86_64")
set(WEFT_MACOS_PACKAGES "" CACHE PATH "Folder with include/ and lib/pkgconfig/ of the packages")
set(WEFT_ZIG "zig" CACHE STRING "zig")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_MACOS_PROCESSOR WEFT_MACOS_PACKAGES WEFT_ZIG)
set(CMAKE_SYSTEM_PROCESSOR ${WEFT_MACOS_PROCESSOR})
set(CMAKE_C_COMPILER ${WEFT_ZIG} cc -target ${WEFT_MACOS_PROCESSOR}-macos)
set(CMAKE_FIND_ROOT_PATH ${WEFT_MACOS_PACKAGES})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${WEFT_MACOS_PACKAGES}/lib/pkgconfig)
