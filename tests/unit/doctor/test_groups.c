/* SPDX-License-Identifier: MIT */
/* Facts from made-up /proc and /sys trees: control groups of both versions, swap, load,
 * frequency governor. */
#include "unit/doctor/facts.h"

/* Writes room/PATH. */
static void put(weft_ctx *ctx, const char *path, const char *text) {
    char full[512], folder[512];
    snprintf(full, sizeof full, "room%s", path);
    SET(folder, full);
    *strrchr(folder, '/') = '\0';
    assert_ok(ctx, wefti_file_mkdirs(ctx, folder));
    assert_ok(ctx, wefti_file_write(ctx, full, text, (int64_t)strlen(text)));
}

static weft_rank_facts examine(weft_ctx *ctx, const char *const *environment) {
    weft_rank_facts facts = {.struct_size = sizeof facts};
    weft_doctor_options options = {
        .struct_size = sizeof options, .root = "room", .environment = environment};
    assert_ok(ctx, weft_doctor_examine(ctx, &options, &facts));
    return facts;
}

TEST(group_of_version_1_is_read) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    put(ctx, "/proc/self/cgroup",
        "4:memory:/job/step\n2:cpu,cpuacct:/job\n1:cpuset:/\n0::/unrelated\n");
    put(ctx, "/sys/fs/cgroup/memory/job/step/memory.limit_in_bytes",
        "9223372036854771712\n");
    put(ctx, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2000000000\n");
    put(ctx, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "700000000\n");
    put(ctx, "/sys/fs/cgroup/memory/job/memory.stat",
        "cache 5\ntotal_inactive_file 300000000\n");
    put(ctx, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
    put(ctx, "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    weft_rank_facts f = examine(ctx, NULL);
    assert_int_equal(f.memory_limit_bytes, 2000000000);
    assert_int_equal(f.memory_limit_used_bytes, 400000000);
    assert_true(f.cpu_quota == 1.5);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(group_of_version_2_is_read) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    put(ctx, "/proc/self/cgroup", "0::/a/b/c\n");
    put(ctx, "/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    put(ctx, "/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    put(ctx, "/sys/fs/cgroup/a/b/memory.max", "3000000000\n");
    put(ctx, "/sys/fs/cgroup/a/b/memory.current", "1000000000\n");
    put(ctx, "/sys/fs/cgroup/a/memory.max", "5000000000\n");
    put(ctx, "/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    weft_rank_facts f = examine(ctx, NULL);
    assert_int_equal(f.memory_limit_bytes, 3000000000);
    assert_int_equal(f.memory_limit_used_bytes, 1000000000);
    assert_true(f.cpu_quota == 0.5);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(no_group_is_no_limit) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    weft_rank_facts f = examine(ctx, NULL);
    assert_int_equal(f.memory_limit_bytes, -1);
    assert_true(f.cpu_quota == -1);
    assert_int_equal(f.swap_used_bytes, -1);
    assert_true(f.load == -1);
    assert_string_equal(f.governor, "");
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(machine_is_read) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    put(ctx, "/proc/meminfo",
        "MemTotal:  64000000 kB\nMemAvailable:  50000000 kB\nSwapTotal:  8000 kB\n"
        "SwapFree:  3000 kB\n");
    put(ctx, "/proc/loadavg", "3.25 1.00 0.50 2/300 4711\n");
    put(ctx, "/proc/cpuinfo", "processor\t: 0\nmodel name\t: Made Up 3000\n");
    put(ctx, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    weft_rank_facts f = examine(ctx, NULL);
    assert_int_equal(f.memory_bytes, 64000000ll * 1024);
    assert_int_equal(f.memory_available_bytes, 50000000ll * 1024);
    assert_int_equal(f.swap_used_bytes, 5000 * 1024);
    assert_true(f.load == 3.25);
    assert_string_equal(f.processor, "Made Up 3000");
    assert_string_equal(f.governor, "powersave");
    assert_int_equal(f.memory_nodes, -1);
    static const struct {
        const char *list;
        int64_t nodes;
    } lists[] = {{"0\n", 1},       {"0-1\n", 2}, {"0-1,4\n", 3},
                 {"0,2,5-8\n", 6}, {"\n", -1},   {"1-0\n", -1},
                 {"0-\n", -1},     {"0,\n", -1}, {"-1\n", -1},
                 {"0 1\n", -1},    {"a\n", -1},  {"0-99999999999999999999\n", -1}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        put(ctx, "/sys/devices/system/node/has_cpu", lists[i].list);
        assert_int_equal(examine(ctx, NULL).memory_nodes, lists[i].nodes);
    }
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(broken_files_say_nothing) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    put(ctx, "/proc/self/cgroup",
        "no colon\n:\n::\n7:memory\n0::relative\n3:memory:/x\n");
    put(ctx, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "many\n");
    put(ctx, "/proc/meminfo", "MemTotal: lots\nSwapTotal\n");
    put(ctx, "/proc/loadavg", "");
    weft_rank_facts f = examine(ctx, NULL);
    assert_int_equal(f.memory_limit_bytes, -1);
    assert_int_equal(f.memory_bytes, -1);
    assert_true(f.load == -1);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(launchers_are_asked) {
    weft_ctx *ctx;
    assert_int_equal(room_begin(&ctx), 0);
    const char *openmpi[] = {"OMPI_COMM_WORLD_RANK=3",
                             "OMPI_COMM_WORLD_SIZE=8",
                             "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                             "OMPI_MCA_orte_x=1",
                             "OMPI_MCA_btl=tcp,self",
                             "UCX_TLS=tcp",
                             NULL};
    weft_rank_facts f = examine(ctx, openmpi);
    assert_string_equal(f.launcher, "openmpi");
    assert_int_equal(f.rank, 3);
    assert_int_equal(f.size, 8);
    assert_int_equal(f.ranks_here, 2);
    assert_string_equal(f.mca_btl, "tcp,self");
    assert_string_equal(f.mca, "btl=tcp,self");
    assert_string_equal(f.ucx_tls, "tcp");
    const char *mpich[] = {"PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALNRANKS=4", NULL};
    f = examine(ctx, mpich);
    assert_string_equal(f.launcher, "mpich");
    assert_int_equal(f.size, 4);
    const char *nobody[] = {"PMI_RANKS=1", "SLURM_PROCID=1",
                            NULL}; /* no size: no launcher */
    f = examine(ctx, nobody);
    assert_string_equal(f.launcher, "");
    assert_int_equal(f.size, 1);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(core_type_below_the_processor_is_a_trap) {
    char sentence[384];
    const char *lowest[] = {"OPENBLAS_CORETYPE=Prescott", NULL};
    const char *made_up[] = {"OPENBLAS_CORETYPE=Pentagon", NULL};
    const char *none[] = {"OPENBLAS_CORETYPES=Prescott", NULL};
    weft_doctor_blas_trap(lowest, sentence, sizeof sentence);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        assert_non_null(
            strstr(sentence, "OPENBLAS_CORETYPE=Prescott makes OpenBLAS use SSE"));
#endif
    weft_doctor_blas_trap(made_up, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, "is no processor"));
    assert_string_equal(weft_doctor_blas_trap(none, sentence, sizeof sentence), "");
    assert_string_equal(weft_doctor_blas_trap(NULL, sentence, sizeof sentence), "");
}
