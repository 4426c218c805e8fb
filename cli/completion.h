/* SPDX-License-Identifier: MIT */
#pragma once

/* Print completion scripts for the shells that show a description beside each word. */
void completion_fish(void);
void completion_zsh(void);
