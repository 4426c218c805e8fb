# SPDX-License-Identifier: MIT
# Builds for arm64 on another machine, with Debian's compiler and a folder of arm64 packages:
# tools/check_arm64 makes it. The library's unit tests, by qemu-aarch64:
#
#     cmake -B build/arm64/tests -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake \
#         -DWEFT_ARM64_ROOT="$PWD/build/arm64/root" -DWEFT_ENGINE=OFF -DWEFT_MPI=off -DWEFT_LIBRARY_TESTS=ON
#     cmake --build build/arm64/tests && ctest --test-dir build/arm64/tests
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(WEFT_ARM64_ROOT "" CACHE PATH "Folder with arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_ARM64_ROOT)
set(CMAKE_SYSROOT ${WEFT_ARM64_ROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${WEFT_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${WEFT_ARM64_ROOT})
set(libraries ${WEFT_ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${libraries}/openblas-openmp/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${WEFT_ARM64_ROOT})
