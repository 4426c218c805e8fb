/* SPDX-License-Identifier: MIT */
/* Methods: named rows of the three choices. A method is nothing but the keys it sets;
 * what the user sets explicitly goes over it. Papers: FlexDeMo arXiv 2502.06728, DeMo
 * 2411.19870. */
#include <stddef.h>
#include <string.h>

#include "config/schema.h"

const weft_choice wefti_methods[] = {
    {"none", "no preset: the keys say everything"},
    {"ddp",
     "data parallel: one rank per node with the whole model, gradients averaged in full"},
    {"fsdp", "sharded data parallel on one node: each rank holds a slice of the model"},
    {"hsdp", "hybrid: sharded inside a node, gradients averaged in full between nodes"},
    {"flexdemo",
     "hybrid: sharded inside a node, few DCT coefficients of a momentum between nodes"},
    {NULL, NULL}};

static const struct {
    const char *method, *key, *value;
} settings[] = {{"ddp", "replicator.kind", "full"},
                {"ddp", "optimizer.kind", "adamw"},
                {"fsdp", "replicator.kind", "full"},
                {"fsdp", "optimizer.kind", "adamw"},
                {"hsdp", "replicator.kind", "full"},
                {"hsdp", "optimizer.kind", "adamw"},
                {"flexdemo", "replicator.kind", "demo"},
                {"flexdemo", "replicator.sign", "true"},
                {"flexdemo", "optimizer.kind", "sgd"},
                {"flexdemo", "optimizer.lr", "1e-3"},
                {"flexdemo", "optimizer.weight_decay", "0"},
                {"flexdemo", "optimizer.clip", "0"},
                {NULL, NULL, NULL}};

const wefti_method_need wefti_method_needs[] = {
    {"ddp", "mesh.ranks_per_node", 1, "hsdp shards the model inside a node"},
    {"fsdp", "mesh.nodes", 1, "hsdp goes over several nodes"},
    {NULL, NULL, 0, NULL}};

const char *weft_config_method_key(const char *method, int j, const char **value) {
    for (int i = 0; settings[i].method; i++) {
        if (strcmp(settings[i].method, method) != 0 || j-- > 0) continue;
        *value = settings[i].value;
        return settings[i].key;
    }
    return NULL;
}
