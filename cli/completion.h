/* SPDX-License-Identifier: MIT */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

/* Print completion scripts for shells that show what a word means beside it. */
void completion_fish(void);
void completion_zsh(void);

#endif
