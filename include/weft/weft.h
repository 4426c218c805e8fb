/* SPDX-License-Identifier: MIT */
/* All headers for programs that use weft, in the order in which data passes through weft. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/status.h>
#include <weft/version.h>
#include <weft/ctx.h>
#include <weft/quantity.h>
#include <weft/tokenizer.h>
#include <weft/shard_file.h>
#include <weft/dataset.h>
#include <weft/model.h>
#include <weft/config.h>
#include <weft/topology.h>
#include <weft/mesh.h>
#include <weft/witness.h>
#include <weft/cluster.h>
#include <weft/predict.h>
#include <weft/plan.h>
#include <weft/simulate.h>
#include <weft/train.h>
#include <weft/tune.h>
#include <weft/sync.h>
#include <weft/inference.h>
#include <weft/report.h>
#include <weft/verify.h>
#include <weft/bench.h>
#include <weft/doctor.h>
#include <weft/invite.h>

#endif
