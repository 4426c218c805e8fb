/* SPDX-License-Identifier: MIT */
#include <stdio.h>

int main(void) {
    printf("weft %s\n", WEFT_VERSION);
    return 0;
}
