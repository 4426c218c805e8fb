/* SPDX-License-Identifier: MIT */
#pragma once

/* Print completion scripts for shells that show what a word means beside it. */
void completion_fish(void);
void completion_zsh(void);
