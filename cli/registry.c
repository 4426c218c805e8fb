/* SPDX-License-Identifier: MIT */
/* The commands, in the order in which --help lists them. */
#include "command.h"

#include <stddef.h>
#include <string.h>

extern const command command_train;
extern const command command_up;
extern const command command_join;
extern const command command_tune;
extern const command command_eval;
extern const command command_sample;
extern const command command_translate;
extern const command command_merge;
extern const command command_bench;
extern const command command_probe;
extern const command command_doctor;
extern const command command_data;
extern const command command_report;
extern const command command_watch;
extern const command command_verify;
extern const command command_config;
extern const command command_list;
extern const command command_topology;
extern const command command_plan;
extern const command command_simulate;
extern const command command_key;
extern const command command_witness;
extern const command command_man;
extern const command command_completion;

const command *const commands[] = {
    &command_plan,
    &command_simulate,
    &command_probe,
    &command_doctor,
    &command_train,
    &command_up,
    &command_join,
    &command_tune,
    &command_report,
    &command_watch,
    &command_verify,
    &command_eval,
    &command_sample,
    &command_translate,
    &command_merge,
    &command_bench,
    &command_data,
    &command_config,
    &command_list,
    &command_topology,
    &command_key,
    &command_witness,
    &command_man,
    &command_completion,
    NULL,
};

const command *command_find(const char *name) {
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}
