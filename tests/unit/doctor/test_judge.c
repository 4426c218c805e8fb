/* SPDX-License-Identifier: MIT */
/* What is found among the facts of several ranks: each test spoils one fact of healthy
 * ranks, and expects that finding and no other warning or error. */
#include "unit/doctor/facts.h"

enum { MOST = 8 };

typedef struct cluster {
    weft_rank_facts ranks[MOST];
    int n;
} cluster;

static cluster hosts(int n_hosts, int per_host) {
    cluster c = {.n = n_hosts * per_host};
    for (int r = 0; r < c.n; r++) c.ranks[r] = healthy(r, c.n, per_host);
    return c;
}

static weft_findings judge(weft_ctx *ctx, const cluster *c, const weft_peer_facts *peers,
                           int n_peers) {
    weft_findings found = {.struct_size = sizeof found};
    assert_ok(ctx, weft_doctor_judge(ctx, c->ranks, c->n, peers, n_peers, &found));
    for (int64_t i = 1; i < found.n; i++)
        assert_true(found.items[i - 1].severity >= found.items[i].severity);
    return found;
}

/* Exactly one warning or error (none for notes), of this severity, topic and rank. */
static void expect_one(weft_findings found, weft_ctx *ctx, weft_severity severity,
                       const char *topic, int64_t rank, const char *words) {
    const weft_finding *f = find(&found, words);
    int64_t bad = count_of(&found, WEFT_FINDING_WARNING) +
                  count_of(&found, WEFT_FINDING_ERROR);
    bool right = f && f->severity == severity && strcmp(f->topic, topic) == 0 &&
                 f->rank == rank && f->advice[0] &&
                 bad == (severity >= WEFT_FINDING_WARNING);
    if (!right) print_all(&found);
    weft_findings_clear(ctx, &found);
    if (!right)
        fail_msg("expected one %s of %s about rank %d with '%s'",
                 weft_severity_name(severity), topic, (int)rank, words);
}

static void expect_nothing(weft_findings found, weft_ctx *ctx, const char *words) {
    assert_null(find(&found, words));
    weft_findings_clear(ctx, &found);
}

static void expect(const cluster *c, weft_severity severity, const char *topic,
                   int64_t rank, const char *words) {
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    expect_one(judge(ctx, c, NULL, 0), ctx, severity, topic, rank, words);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(healthy_ranks_have_nothing_wrong) {
    static const int shapes[][2] = {{1, 1}, {1, 4}, {2, 1}, {4, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        cluster c = hosts(shapes[i][0], shapes[i][1]);
        weft_ctx *ctx;
        assert_int_equal(ctx_begin(&ctx), 0);
        weft_findings found = judge(ctx, &c, NULL, 0);
        int64_t bad = count_of(&found, WEFT_FINDING_WARNING) +
                      count_of(&found, WEFT_FINDING_ERROR);
        if (bad) print_all(&found);
        assert_int_equal(bad, 0);
        assert_true(count_of(&found, WEFT_FINDING_OK) >= 6);
        weft_findings_clear(ctx, &found);
        assert_int_equal(ctx_end(ctx), 0);
    }
}

TEST(binaries_must_be_equal) {
    cluster c = hosts(2, 1);
    c.ranks[1].program_hash++;
    expect(&c, WEFT_FINDING_ERROR, "version", 1, "the program of rank 1 (n1) is another");
    c = hosts(4, 1);
    c.ranks[3].library_hash++;
    expect(&c, WEFT_FINDING_ERROR, "version", 3, "the library of rank 3 (n3) is another");
    c = hosts(2, 1);
    SET(c.ranks[1].version, "0.2.0");
    c.ranks[1].program_hash++;
    expect(&c, WEFT_FINDING_ERROR, "version", 1, "rank 0 runs weft 0.1.0 and rank 1");
    c = hosts(2, 1);
    SET(c.ranks[1].mpi, "MPICH 4.0");
    expect(&c, WEFT_FINDING_ERROR, "version", 1, "uses MPICH 4.0");
    c = hosts(2, 1);
    SET(c.ranks[1].blas_core, "Haswell");
    expect(&c, WEFT_FINDING_WARNING, "version", 1, "(Haswell kernels)");
}

TEST(machines_of_one_name_are_said) {
    cluster c = hosts(2, 2);
    for (int r = 0; r < c.n; r++) c.ranks[r].machine = r < 2 ? 5 : 6;
    SET(c.ranks[2].host, "n0");
    SET(c.ranks[3].host, "n0");
    expect(&c, WEFT_FINDING_NOTE, "machine", 2,
           "ranks 0 and 2 run on two machines with the name n0");
    c = hosts(1, 2); /* one machine, whatever it is called */
    for (int r = 0; r < c.n; r++) c.ranks[r].machine = 5;
    SET(c.ranks[1].host, "other");
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_findings found = judge(ctx, &c, NULL, 0);
    bool said = find(&found, "n0 is machine 0000000000000005") != NULL &&
                find(&found, "other is machine") == NULL;
    if (!said) print_all(&found);
    assert_true(said);
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(configurations_and_texts_must_be_equal) {
    cluster c = hosts(2, 2);
    c.ranks[3].config_hash++;
    expect(&c, WEFT_FINDING_ERROR, "config", 3, "rank 3 (n1) has another configuration");
    c = hosts(2, 2);
    c.ranks[2].data_bytes++;
    c.ranks[2].data_hash++;
    expect(&c, WEFT_FINDING_ERROR, "data", 2, "1 files of 5001 bytes against 1 of 5000");
    c = hosts(2, 1);
    c.ranks[1].data_hash++;
    expect(&c, WEFT_FINDING_ERROR, "data", 1, "whose first bytes differ");
    c = hosts(2, 1);
    c.ranks[1].data_missing = 1;
    c.ranks[1].data_files = 0;
    c.ranks[1].data_hash = 0;
    SET(c.ranks[1].data_path, "data/text.txt");
    expect(&c, WEFT_FINDING_ERROR, "data", 1, "n1: data/text.txt cannot be read (1 of 1");
}

TEST(clocks_are_compared) {
    cluster c = hosts(2, 1);
    c.ranks[1].clock_offset_s = 42;
    c.ranks[1].clock_offset_error_s = 0.001;
    expect(&c, WEFT_FINDING_WARNING, "clock", 1, "42 s ahead of that of n0");
    c.ranks[1].clock_offset_s = -0.5;
    expect(&c, WEFT_FINDING_NOTE, "clock", 1, "0.5 s behind that of n0");
    /* no more than the error of the measurement is known */
    c.ranks[1].clock_offset_error_s = 0.6;
    expect(&c, WEFT_FINDING_NOTE, "firewall", -1, "whether a firewall");
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_findings found = judge(ctx, &c, NULL, 0);
    assert_null(find(&found, "that of n0"));
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(threads_must_fit_on_cores) {
    cluster c = hosts(1, 4);
    for (int r = 0; r < 4; r++) c.ranks[r].threads = 3;
    expect(&c, WEFT_FINDING_WARNING, "cores", 0, "4 ranks with 12 threads in all on 8");
    c = hosts(1, 1); /* threads of one process */
    c.ranks[0].process_ranks = 16;
    c.ranks[0].threads = 0;
    expect(&c, WEFT_FINDING_WARNING, "cores", 0, "16 ranks with 16 threads in all on 8");
    c = hosts(2, 1);
    c.ranks[1].cpu_quota = 1.5;
    expect(&c, WEFT_FINDING_WARNING, "cores", 1,
           "n1: the control group allows 1.5 cores'");
    c = hosts(2, 1);
    c.ranks[1].load = 7;
    expect(&c, WEFT_FINDING_WARNING, "load", 1, "n1 was busy in the last minute");
}

TEST(ranks_may_not_share_their_core) {
    cluster c = hosts(1, 2); /* as mpirun does that thinks it owns the machine */
    for (int r = 0; r < 2; r++) {
        c.ranks[r].cpus[0] = 1;
        c.ranks[r].cores_allowed = 1;
        c.ranks[r].threads = 1;
    }
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_findings found = judge(ctx, &c, NULL, 0);
    const weft_finding *f = find(&found,
                                 "ranks 0 and 1 are bound to the same 1 of the 8");
    assert_non_null(f);
    assert_int_equal(f->severity, WEFT_FINDING_WARNING);
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
    c.ranks[1].cpus[0] = 2; /* a core each is fine */
    expect(&c, WEFT_FINDING_NOTE, "cores", 0, "the process may use 1 of 8 cores");
    c.ranks[0].threads = 4;
    c.ranks[1].cpus[0] = 0xf0;
    c.ranks[1].cores_allowed = 4;
    expect(&c, WEFT_FINDING_WARNING, "cores", 0, "may use 1 of 8 cores, fewer than its");
}

TEST(processes_across_memory_nodes_are_named) {
    cluster c = hosts(2, 2);
    for (int r = 2; r < 4; r++) c.ranks[r].memory_nodes = 2;
    expect(&c, WEFT_FINDING_NOTE, "cores", 2, "n1 has 2 NUMA nodes, and the process may");
    for (int r = 2; r < 4; r++) { /* each on a node of its own */
        c.ranks[r].cpus[0] = r == 2 ? 0xf : 0xf0;
        c.ranks[r].cores_allowed = 4;
    }
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_findings found = judge(ctx, &c, NULL, 0);
    assert_null(find(&found, "NUMA"));
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
    c.ranks[3].cores_allowed = 5; /* one too many, of the second */
    expect(&c, WEFT_FINDING_NOTE, "cores", 3, "n1 has 2 NUMA nodes");
}

TEST(unequal_machines_are_named) {
    cluster c = hosts(3, 1);
    c.ranks[2].cores = 4;
    c.ranks[2].cores_allowed = 4;
    c.ranks[2].cpus[0] = 0xf;
    expect(&c, WEFT_FINDING_WARNING, "processor", 2,
           "n0 has 8 cores (Test 9000), n2 has 4");
    c = hosts(2, 1);
    c.ranks[1].instructions = 2;
    expect(&c, WEFT_FINDING_WARNING, "processor", 1,
           "has AVX-512 and rank 1 (n1) has AVX2");
    c = hosts(2, 1);
    c.ranks[1].instructions = 4;
    expect(&c, WEFT_FINDING_WARNING, "processor", 1,
           "has AVX-512 and rank 1 (n1) has AVX-512 and AMX");
    c = hosts(2, 2);
    SET(c.ranks[3].host, "n2"); /* 2 + 1 + 1 ranks */
    SET(c.ranks[3].address, "10.0.0.9");
    expect(&c, WEFT_FINDING_ERROR, "ranks", 2, "n0 has 2 ranks and n1 has 1");
}

TEST(networks_are_compared) {
    cluster c = hosts(2, 1);
    SET(c.ranks[1].address, c.ranks[0].address);
    expect(&c, WEFT_FINDING_ERROR, "interface", 1, "n0 and n1 have the same address");
    c = hosts(2, 1);
    c.ranks[1].mtu = 9000;
    expect(&c, WEFT_FINDING_WARNING, "interface", 1, "1500 bytes and n1 of 9000");
    c = hosts(2, 1);
    c.ranks[1].speed_Mbit = 100;
    expect(&c, WEFT_FINDING_WARNING, "interface", 1,
           "n0 has 1000 Mbit/s and that of n1 100");
    c = hosts(2, 1);
    c.ranks[1].host_resolves = 1;
    SET(c.ranks[1].host_address, "127.0.1.1");
    expect(&c, WEFT_FINDING_WARNING, "name", 1,
           "n1 resolves to 127.0.1.1, which is loopback");
    c = hosts(2, 1);
    c.ranks[1].host_resolves = 0;
    expect(&c, WEFT_FINDING_ERROR, "name", 1, "the host name n1 of that machine has no");
    c = hosts(2, 1);
    c.ranks[1].host_resolves = 3;
    expect(&c, WEFT_FINDING_ERROR, "name", 1,
           "an address that none of its interfaces has");
    c = hosts(2, 1);
    c.ranks[0].interface[0] = '\0';
    expect(&c, WEFT_FINDING_ERROR, "interface", 0, "n0 has no interface to others");
    c = hosts(2, 1);
    SET(c.ranks[1].interfaces, "eth0 10.0.0.2 mtu 1500, docker0 172.17.0.1 mtu 1500");
    expect(&c, WEFT_FINDING_WARNING, "interface", 1, "n1 has docker0");
}

/* With these letters of three ranks, the sentence is among the findings; "": nothing of it. */
static void expect_calls(const char *a, const char *b, const char *c, const char *words) {
    cluster three = hosts(3, 1);
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    SET(three.ranks[0].calls, a);
    SET(three.ranks[1].calls, b);
    SET(three.ranks[2].calls, c);
    weft_findings found = judge(ctx, &three, NULL, 0);
    bool right = words[0] ? find(&found, words) != NULL : !find(&found, "call");
    if (strstr(words, "cannot be called by n")) /* it calls them */
        right = right && !find(&found, "cannot call each other");
    if (!right) print_all(&found);
    assert_true(right);
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(who_can_be_called_is_said) {
    expect_calls("", "", "", "");
    expect_calls("=++", "+=+", "++=", "each machine can be called by each other one");
    expect_calls("=-+", "+=+", "+-=", "n1 cannot be called by n0, n2 (a router or a");
    expect_calls("=--", "+=-", "+-=", "n1 and n2 cannot call each other: n0 relays");
    expect_calls("=++", "+=-", "--=", "and none can be called by both");
}

TEST(environments_are_judged) {
    cluster c = hosts(2, 1);
    SET(c.ranks[1].openblas_coretype, "haswell");
    expect(&c, WEFT_FINDING_WARNING, "environment", 1, "makes OpenBLAS use AVX2 though");
    SET(c.ranks[1].openblas_coretype, "SkylakeX"); /* what it would take anyway */
    expect(&c, WEFT_FINDING_NOTE, "firewall", -1, "firewall");
    c = hosts(2, 1);
    for (int r = 0; r < 2; r++) SET(c.ranks[r].ucx_tls, "self,sm");
    c.ranks[1].ucx_tls[0] = '\0'; /* one error and the difference */
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_findings found = judge(ctx, &c, NULL, 0);
    const weft_finding *f = find(&found, "UCX_TLS=self,sm knows no way");
    assert_true(f && f->severity == WEFT_FINDING_ERROR && f->rank == 0);
    f = find(&found, "rank 0 has UCX_TLS=self,sm and rank 1");
    assert_true(f && f->severity == WEFT_FINDING_WARNING && f->rank == 1);
    weft_findings_clear(ctx, &found);
    assert_int_equal(ctx_end(ctx), 0);
    c = hosts(2, 1);
    for (int r = 0; r < 2; r++) SET(c.ranks[r].mca_interface, "eth0,lo,10.0.0.0/8");
    SET(c.ranks[1].interfaces, "ens3 10.0.0.2 mtu 1500");
    expect(&c, WEFT_FINDING_ERROR, "environment", 1, "names eth0, which is not among");
    c = hosts(1, 2);
    SET(c.ranks[0].omp_bind, "true");
    expect(&c, WEFT_FINDING_WARNING, "environment", 0, "OMP_PROC_BIND=true binds");
}

TEST(memory_and_disk_must_do) {
    cluster c = hosts(1, 4);
    for (int r = 0; r < 4; r++) c.ranks[r].memory_needed_bytes = 16000000000;
    expect(&c, WEFT_FINDING_ERROR, "memory", 0, "the run needs 64 GB, but 60 GB is free");
    c = hosts(2, 1);
    c.ranks[1].memory_limit_bytes = 900000000;
    c.ranks[1].memory_limit_used_bytes = 100000000;
    expect(&c, WEFT_FINDING_ERROR, "memory", 1, "free under the control group's limit");
    c = hosts(2, 1);
    c.ranks[1].swap_bytes = c.ranks[1].swap_used_bytes = 300000000;
    expect(&c, WEFT_FINDING_WARNING, "memory", 1, "n1 has 300 MB of memory swapped out");
    c = hosts(2, 1);
    c.ranks[1].disk_free_bytes = 1000;
    expect(&c, WEFT_FINDING_ERROR, "folder", 1, "has 1.0 kB free, and the checkpoints");
    c = hosts(2, 1);
    c.ranks[1].folder_error = 13;
    expect(&c, WEFT_FINDING_ERROR, "folder", 1, "where one cannot write");
    c = hosts(2, 1);
    c.ranks[0].folder_shared = c.ranks[1].folder_shared = 0;
    expect(&c, WEFT_FINDING_NOTE, "folder", 0, "run.folder lies on a disk of n0 itself");
    c = hosts(2, 1);
    SET(c.ranks[1].governor, "powersave");
    expect(&c, WEFT_FINDING_WARNING, "processor", 1, "frequency governor is powersave");
}

static weft_peer_facts peer(weft_peer_answer answer) {
    weft_peer_facts p = {.struct_size = sizeof p,
                         .answer = answer,
                         .mtu = 1500,
                         .path_mtu = 1500,
                         .port = 22,
                         .round_trip_s = 1e-4};
    SET(p.name, "n7");
    SET(p.address, "10.0.0.8");
    SET(p.interface, "eth0");
    SET(p.error, "No route to host");
    return p;
}

TEST(peers_are_judged) {
    cluster c = hosts(1, 1);
    weft_ctx *ctx;
    weft_peer_facts p = {.struct_size = sizeof p};
    assert_int_equal(ctx_begin(&ctx), 0);
    p = peer(WEFT_PEER_REFUSED);
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_WARNING, "peer", -1,
               "nobody listens");
    p = peer(WEFT_PEER_SILENT);
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_ERROR, "peer", -1,
               "does not answer");
    p = peer(WEFT_PEER_UNREACHABLE);
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_ERROR, "peer", -1,
               "No route to host");
    p = peer(WEFT_PEER_UNKNOWN);
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_ERROR, "peer", -1,
               "n7 has no address");
    p = peer(WEFT_PEER_CONNECTED);
    p.round_trip_s = 0.1;
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_NOTE, "peer", -1, "takes 100 ms");
    c.ranks[0].send_buffer = 4 << 20;
    c.ranks[0].receive_buffer = 32 << 20;
    p.round_trip_s = 0.015; /* 2.9 MB in 15 ms: more than 1 Gbit/s */
    expect_nothing(judge(ctx, &c, &p, 1), ctx, "carries at most");
    p.round_trip_s = 0.1;
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_NOTE, "peer", -1,
               "carries at most 235 Mbit/s, 2.94 MB in 100 ms (net.ipv4.tcp_wmem ends at "
               "4194304, tcp_rmem at 33554432)");
    c.ranks[0].receive_buffer = 1 << 20;
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_NOTE, "peer", -1,
               "at most 41.9 Mbit/s");
    c.ranks[0].receive_buffer = -1; /* not known */
    expect_nothing(judge(ctx, &c, &p, 1), ctx, "carries at most");
    p = peer(WEFT_PEER_CONNECTED);
    p.loopback = 1;
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_ERROR, "peer", -1,
               "own loopback");
    p = peer(WEFT_PEER_CONNECTED);
    p.path_mtu = 1400;
    expect_one(judge(ctx, &c, &p, 1), ctx, WEFT_FINDING_NOTE, "peer", -1,
               "may have 1400 bytes");
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(failing_allocations_leave_nothing) {
    cluster c = hosts(2, 2);
    c.ranks[1].config_hash++;
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    for (int64_t k = 0;; k++) {
        weft_findings found = {.struct_size = sizeof found};
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = weft_doctor_judge(ctx, c.ranks, c.n, NULL, 0, &found);
        weft_ctx_fail_allocation(ctx, -1);
        if (status == WEFT_OK) {
            assert_true(k >= found.n);
            weft_findings_clear(ctx, &found);
            break;
        }
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_null(found.items);
        weft_ctx_clear(ctx);
    }
    weft_findings found = {.struct_size = sizeof found};
    assert_fails(ctx, weft_doctor_judge(ctx, c.ranks, 0, NULL, 0, &found),
                 WEFT_ERR_ARGUMENT, "at least one rank");
    assert_int_equal(ctx_end(ctx), 0);
}
