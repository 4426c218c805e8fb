# SPDX-License-Identifier: MIT
"""What libweft's public headers declare (weft/ctx.h, config.h, mesh.h, sync.h, ...), for ctypes: data alone.
:func:`_library.library` checks it against the library that is loaded."""

from __future__ import annotations

import ctypes as c
from typing import Any

I64, F64, INT, BOOL, TEXT, PTR, SIZE = (
    c.c_int64, c.c_double, c.c_int, c.c_bool, c.c_char_p, c.c_void_p, c.c_size_t)

#: weft_sync_trait: directions are signs; what is sent may be chosen here, of a transform; a mixer's
#: states may be here; a mixer has neighbours, changes what weft's optimizer steps along
SIGNS, OFFERS, TRANSFORMS, HOLDS, MEETS, DIRECTS = 1, 2, 4, 8, 16, 32


class Sized(c.Structure):
    """A struct that this package allocates. It begins with its size, so that a library with more or
    fewer fields understands it (docs/embedding.md)."""
    _fields_ = [("struct_size", SIZE)]

    def __init__(self, *values: Any, **fields: Any):
        super().__init__(c.sizeof(self), *values, **fields)


class Tensor(Sized):
    _fields_ = [("name", TEXT), ("rows", I64), ("cols", I64), ("decays", BOOL)]


class Report(Sized):
    _fields_ = [("step", I64), ("lr", F64), ("loss", F64), ("loss_step", I64),
                ("wire_bytes_out", I64), ("local_bytes_out", I64), ("exchange_s", F64),
                ("wait_s", F64), ("skipped", BOOL), ("processes", INT)]


class Setup(Sized):
    _fields_ = [("mesh", PTR), ("config", PTR), ("tensors", c.POINTER(Tensor)),
                ("n_tensors", INT), ("endless", BOOL), ("outside", BOOL), ("skips", BOOL),
                ("writes", BOOL), ("compressed", BOOL), ("sharded", BOOL),
                ("elastic", BOOL), ("pack", PTR), ("unpack", PTR), ("take", PTR),
                ("give", PTR), ("user", PTR), ("alike", TEXT), ("uneven", BOOL),
                ("settle", PTR), ("folder", TEXT), ("moments", PTR), ("decided", TEXT)]


class Limits(Sized):
    _fields_ = [("cluster_path", TEXT), ("loss", F64), ("steps", I64), ("bytes_per_day", F64), ("busy", TEXT),
                ("measure_s", F64)]


class Part(Sized):
    _fields_ = [("first", INT), ("n", INT), ("all", BOOL), ("moves", BOOL)]


class OfferShape(Sized):
    _fields_ = [("n_chunks", I64), ("k", I64), ("elements", I64), ("whole", BOOL)]


class Parcel(Sized):
    _fields_ = [("kind", INT), ("bucket", INT), ("partner", INT), ("again", BOOL),
                ("first", I64), ("n", I64), ("exchange", I64), ("seed", c.c_uint64),
                ("place", c.c_uint64), ("share", F64), ("n_bytes", I64), ("n_places", I64),
                ("bytes", PTR)]


class Security(Sized):
    _fields_ = [("key", TEXT), ("cert", TEXT), ("cert_key", TEXT), ("ca", TEXT),
                ("plain", BOOL), ("run", TEXT), ("streams", INT)]


class Place(Sized):
    _fields_ = [("rank", INT), ("size", INT), ("host", TEXT), ("port", INT),
                ("listener", INT), ("patience", F64), ("security", c.POINTER(Security))]


class Facts(c.Structure):
    _fields_ = [("rank", INT), ("size", INT), ("hosts", INT), ("ranks_here", INT),
                ("even", BOOL), ("host", TEXT), ("version", TEXT),
                ("awaited", INT), ("quiet_s", F64)]


class Key(c.Structure):
    _fields_ = [("name", TEXT), ("offset", SIZE), ("type", INT),
                ("is_path", BOOL), ("unit", TEXT), ("fallback", TEXT), ("min", F64),
                ("max", F64), ("max_excluded", BOOL), ("choices", PTR), ("doc", TEXT)]


class Prediction(Sized):
    _fields_ = [("low", F64), ("median", F64), ("high", F64), ("mean_step_s", F64),
                ("compute_s", F64), ("exchange_s", F64), ("wait_s", F64),
                ("hidden_share", F64), ("wire_s", F64), ("codec_s", F64), ("late_s", F64),
                ("vote_s", F64), ("bound", INT), ("tokens_per_s", F64), ("wire_bytes", F64),
                ("wire_bytes_step", I64), ("memory_bytes", I64), ("parameters", I64),
                ("goes_on", BOOL),
                ("spans", PTR), ("n_spans", I64)]


class Loop(Sized):
    _fields_ = [("tensors", c.POINTER(Tensor)), ("n_tensors", INT), ("step_s", F64)]


class Accelerator(c.Structure):
    _fields_ = [("name", TEXT), ("peak_flops", F64), ("memory_Bps", F64),
                ("memory_bytes", F64), ("low", F64), ("high", F64), ("source", TEXT),
                ("watts", F64)]


class Learning(c.Structure):
    _fields_ = [("changes", TEXT), ("measured", BOOL), ("per_doubling_error", c.c_float),
                ("low", F64), ("high", F64), ("per_doubling", F64), ("source", TEXT)]


class Recipe(c.Structure):
    _fields_ = [("name", TEXT), ("method", TEXT), ("settings", TEXT), ("least_nodes", I64),
                ("period", I64), ("main", BOOL), ("learning", Learning), ("muon", BOOL),
                ("largest", c.c_float)]


class InviteSetup(Sized):
    _fields_ = [("port", INT), ("run_port", INT), ("key", TEXT), ("config", PTR), ("most_bytes", I64)]


class InviteRequest(Sized):
    _fields_ = [("code", TEXT), ("host", TEXT), ("folder", TEXT), ("patience", F64), ("most_bytes", I64),
                ("own", PTR)]


class ProbeOptions(Sized):
    _fields_ = [("seconds", F64), ("on_part", PTR), ("user", PTR), ("alike", TEXT)]


class Figure(c.Structure):
    _fields_ = [("name", c.c_char * 64), ("unit", c.c_char * 16), ("value", F64),
                ("first", F64), ("second", F64)]


class ProbeResult(Sized):
    _fields_ = [("cluster", PTR), ("figures", c.POINTER(Figure)), ("n_figures", I64),
                ("elapsed_s", F64)]


#: what each is in libweft
STRUCTS = {Tensor: "weft_sync_tensor", Report: "weft_sync_report", Setup: "weft_sync_setup",
           Limits: "weft_sync_limits", OfferShape: "weft_sync_chunk_shape", Parcel: "weft_sync_parcel", Part: "weft_sync_part",
           ProbeOptions: "weft_probe_options", Figure: "weft_probe_figure",
           ProbeResult: "weft_probe_result", Accelerator: "weft_accelerator",
           InviteSetup: "weft_invite_setup", InviteRequest: "weft_invite_request",
           Security: "weft_mesh_security", Place: "weft_mesh_place", Facts: "weft_mesh_facts",
           Recipe: "weft_recipe", Learning: "weft_learning", Key: "weft_config_key", Prediction: "weft_prediction", Loop: "weft_loop_facts"}

P = c.POINTER

# name: (result, arguments); INT as result of a fallible function is its status
FUNCTIONS = {
    "weft_sync_size_of": (SIZE, [TEXT]),
    "weft_status_name": (TEXT, [INT]),
    "weft_ctx_create": (INT, [P(PTR)]),
    "weft_ctx_destroy": (None, [PTR]),
    "weft_ctx_message": (TEXT, [PTR]),
    "weft_ctx_clear": (None, [PTR]),
    "weft_ctx_stop": (None, [PTR, BOOL]),
    "weft_ctx_set_sink": (None, [PTR, PTR, PTR]),
    "weft_ctx_fail": (INT, [PTR, INT, TEXT]),  # and what its format takes, which goes another way on arm64 macOS
    "weft_config_create": (INT, [PTR, P(PTR)]),
    "weft_config_destroy": (None, [PTR, PTR]),
    "weft_config_load": (INT, [PTR, PTR, TEXT]),
    "weft_config_set": (INT, [PTR, PTR, TEXT]),
    "weft_config_finish": (INT, [PTR, PTR]),
    "weft_config_text": (INT, [PTR, PTR, INT, P(TEXT)]),
    "weft_config_key_at": (P(Key), [INT]),
    "weft_config_key_values": (TEXT, [P(Key), TEXT, SIZE]),
    "weft_mesh_open": (INT, [PTR, P(Security), P(PTR)]),
    "weft_mesh_listen": (INT, [PTR, P(INT), P(INT)]),
    "weft_mesh_listen_at": (INT, [PTR, INT, P(INT)]),
    "weft_mesh_join": (INT, [PTR, P(Place), P(PTR)]),
    "weft_mesh_begin": (INT, [PTR, INT, P(Security), P(PTR)]),
    "weft_mesh_enter": (INT, [PTR, TEXT, INT, F64, P(Security), P(PTR)]),
    "weft_mesh_close": (BOOL, [PTR]),
    "weft_mesh_forget": (INT, [PTR, PTR]),
    "weft_mesh_fail": (INT, [PTR, PTR, INT]),
    "weft_mesh_way_back": (BOOL, [PTR, TEXT, SIZE]),
    "weft_mesh_look": (P(Facts), [PTR]),
    "weft_mesh_host_of": (TEXT, [PTR, INT]),
    "weft_mesh_fit": (INT, [PTR, PTR, PTR]),
    "weft_sync_create_from": (INT, [PTR, P(Setup), P(PTR)]),
    "weft_sync_destroy": (None, [PTR]),
    "weft_sync_parameters": (PTR, [PTR, INT]),
    "weft_sync_gradients": (PTR, [PTR, INT]),
    "weft_sync_begin": (INT, [PTR]),
    "weft_sync_steps": (I64, [PTR]),
    "weft_sync_set_rate": (INT, [PTR, F64]), "weft_sync_mark": (INT, [PTR, F64]),
    "weft_sync_set_tensor": (INT, [PTR, INT, F64, F64]),
    "weft_sync_open": (INT, [PTR]),
    "weft_sync_goes_on": (BOOL, [PTR]),
    "weft_sync_rank": (INT, [PTR, P(INT)]),
    "weft_sync_change": (TEXT, [PTR]),
    "weft_sync_replan": (INT, [PTR, P(Limits), P(TEXT)]), "weft_sync_decided": (INT, [PTR, PTR, TEXT, SIZE]),
    "weft_sync_ask_form": (INT, [PTR, TEXT]), "weft_sync_follows": (BOOL, [PTR]),
    "weft_sync_form": (TEXT, [PTR, TEXT, SIZE]), "weft_sync_form_change": (TEXT, [PTR, P(F64)]),
    "weft_sync_alone": (TEXT, [PTR]),
    "weft_sync_ready": (INT, [PTR, INT]),
    "weft_sync_skip": (INT, [PTR]),
    "weft_sync_chunk_shape_of": (INT, [PTR, INT, P(OfferShape)]),
    "weft_sync_traits": (INT, [PTR]),
    "weft_sync_submit": (INT, [PTR, INT, PTR, PTR]),
    "weft_sync_collect": (INT, [PTR, INT, PTR, PTR, I64]),
    "weft_sync_collected": (INT, [PTR, INT, P(INT)]),
    "weft_sync_signs": (INT, [PTR, INT, PTR, PTR, P(BOOL)]),
    "weft_sync_hold_mixer": (INT, [PTR, P(INT)]),
    "weft_sync_outgoing": (INT, [PTR, P(Parcel), INT, P(INT)]),
    "weft_sync_supply": (INT, [PTR, INT, PTR, PTR]),
    "weft_sync_not_finite": (INT, [PTR, INT]),
    "weft_sync_incoming": (INT, [PTR, P(Parcel), INT, P(INT)]),
    "weft_sync_weigh": (INT, [PTR, F64, F64, P(F64)]),
    "weft_sync_reported": (INT, [PTR, INT, P(F64), P(F64)]),
    "weft_shares_numbers": (I64, [INT]), "weft_shares_begin": (None, [INT, P(I64), P(F64)]),
    "weft_shares_update": (BOOL, [INT, P(F64), P(F64), P(I64)]), "weft_shares_divide": (None, [I64, INT, P(I64), P(I64)]),
    "weft_sync_step": (INT, [PTR, F64, P(Report)]),
    "weft_sync_agree": (INT, [PTR, F64, P(BOOL)]),
    "weft_sync_mix": (INT, [PTR, P(Report)]),
    "weft_sync_mixes": (BOOL, [PTR]),
    "weft_sync_complete": (INT, [PTR, F64]),
    "weft_sync_wait_any": (INT, [PTR, F64, P(Part)]),
    "weft_sync_average": (INT, [PTR]),
    "weft_sync_restore": (INT, [PTR]),
    "weft_sync_rest": (INT, [PTR]),
    "weft_sync_state": (PTR, [PTR, INT, INT, P(TEXT)]),
    "weft_sync_rule": (TEXT, [PTR, INT, P(BOOL)]),
    "weft_sync_numbers": (P(F64), [PTR, P(INT)]),
    "weft_sync_resume": (INT, [PTR, I64]), "weft_sync_compare": (INT, [PTR]),
    "weft_cluster_create": (INT, [PTR, P(PTR)]),
    "weft_cluster_load": (INT, [PTR, TEXT, P(PTR)]),
    "weft_cluster_set": (INT, [PTR, PTR, TEXT, TEXT]),
    "weft_cluster_write": (INT, [PTR, PTR, TEXT]),
    "weft_cluster_nodes": (I64, [PTR]),
    "weft_plan_node_values": (F64, [PTR, I64, TEXT, TEXT, SIZE]),
    "weft_recipe_at": (P(Recipe), [INT]),
    "weft_recipe_reaches": (BOOL, [P(Recipe), I64]),
    "weft_recipe_steps": (F64, [P(Recipe), I64, I64, F64, P(F64)]),
    "weft_accelerator_at": (P(Accelerator), [INT]),
    "weft_cluster_destroy": (None, [PTR, PTR]),
    "weft_prediction_clear": (None, [PTR, P(Prediction)]),
    "weft_probe": (INT, [PTR, PTR, PTR, P(ProbeOptions), P(ProbeResult)]),
    "weft_invite_open": (INT, [PTR, P(InviteSetup), P(PTR)]),
    "weft_invite_code": (TEXT, [PTR]),
    "weft_invite_port": (INT, [PTR]),
    "weft_invite_host": (TEXT, [PTR]),
    "weft_invite_close": (None, [PTR]),
    "weft_invite_accept": (INT, [PTR, P(InviteRequest), TEXT, SIZE]),
    "weft_probe_clear": (None, [PTR, P(ProbeResult)]),
    "weft_predict_loop": (INT, [PTR, PTR, PTR, P(Loop), P(Prediction)]),
}
