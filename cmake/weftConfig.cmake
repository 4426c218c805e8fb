# SPDX-License-Identifier: MIT
# find_package(weft) brings weft::weft, the shared library. For libweft.a:
# pkg_check_modules(WEFT REQUIRED IMPORTED_TARGET weft) with PkgConfig's static variables.
include("${CMAKE_CURRENT_LIST_DIR}/weftTargets.cmake")
