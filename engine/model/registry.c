/* SPDX-License-Identifier: MIT */
/* The models, in the order in which `weft list` shows them. A new kind is one line here. */
#include "model/model.h"

const wefti_model_ops *const wefti_model_registry[] = {
    &wefti_model_gpt2,       &wefti_model_llama,    &wefti_model_mistral,
    &wefti_model_qwen2,      &wefti_model_qwen3,    &wefti_model_olmo2,
    &wefti_model_olmo3,      &wefti_model_gemma,    &wefti_model_gemma2,
    &wefti_model_gemma3,     &wefti_model_phi3,     &wefti_model_neox,
    &wefti_model_opt,        &wefti_model_seed_oss, &wefti_model_smollm3,
    &wefti_model_starcoder2, &wefti_model_ernie,    &wefti_model_helium,
    &wefti_model_granite,    &wefti_model_olmo,     &wefti_model_arcee,
    &wefti_model_t5,         &wefti_model_vit,      NULL,
};
