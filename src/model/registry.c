/* SPDX-License-Identifier: MIT */
/* The models, in the order in which `weft list` shows them. A new kind is one line here. */
#include "model/model.h"

const wefti_model_ops *const wefti_model_registry[] = {
    &wefti_model_gpt2,
    &wefti_model_llama,
    &wefti_model_olmo2,
    NULL,
};
