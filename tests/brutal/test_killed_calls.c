/* SPDX-License-Identifier: MIT */
/* A run is killed just before its k-th call that changes a file, for every k, counted over all
 * its threads:
 *
 *     child    trains; system calls that change files stop it (seccomp) for its tracer
 *     parent   counts those in the run's folder, and kills at the k-th
 *
 * Whatever k is, what is left is whole, and the run that goes on ends with the same bits. Without
 * an argument k goes in strides, which meet each phase of a save several times; with the argument
 * "all" it takes every value. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/verify.h>

#include "checkpoint/folder.h"
#include "dist/training.h"

static int stride = UNDER_SANITIZER
                        ? 9
                        : 4; /* the sanitizer sees the same code more slowly */

#define FOLDER "killed-run"
#define LAST "checkpoints/step-00000002"

static const char *const keys[] = {"method=flexdemo",
                                   "mesh.nodes=2",
                                   "run.steps=2",
                                   "run.save_every=1",
                                   "run.keep=1",
                                   "model.layers=1",
                                   "model.width=16",
                                   "run.eval_tokens=64",
                                   "batch.tokens_per_step=64",
                                   NULL};

/* ---- which calls count ---- */

static const int calls[] = {
    SYS_openat,    SYS_write,     SYS_writev,  SYS_pwrite64, SYS_fsync,  SYS_fdatasync,
    SYS_ftruncate, SYS_renameat2, SYS_mkdirat, SYS_unlinkat, SYS_linkat,
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_rename
    SYS_rename,    SYS_mkdir,     SYS_rmdir,   SYS_unlink,   SYS_link,   SYS_open,
#endif
};
enum { N_CALLS = sizeof calls / sizeof calls[0] };

/* From here on these calls stop the process for its tracer, and no others do. */
static void stop_at_calls(void) {
    struct sock_filter code[N_CALLS * 2 + 2];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (uint32_t)calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(77);
}

/* Whether a descriptor of the process is of a file in the folder. */
static bool in_folder(pid_t pid, uint64_t fd) {
    char link[64], path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, (int)fd);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/" FOLDER) != NULL;
}

static bool changes_a_file(pid_t pid, const struct ptrace_syscall_info *info) {
    switch (info->seccomp.nr) {
    case SYS_openat:
        return (info->seccomp.args[2] & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_ftruncate: return in_folder(pid, info->seccomp.args[0]);
    default: return true;
    }
}

/* ---- the traced run ---- */

static void train_and_leave(void) {
    static outcome o;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
    raise(SIGSTOP);
    stop_at_calls();
    train(&o, FOLDER, false, keys);
    _exit(o.status == WEFT_OK ? 0 : 1);
}

/* What a stopped thread goes on with: the signal that it was stopped by, or none. */
static int signal_of(int how) {
    int number = WSTOPSIG(how);
    return number == SIGTRAP || number == SIGSTOP || how >> 16 != 0 ? 0 : number;
}

static bool is_counted(pid_t pid, int how) {
    struct ptrace_syscall_info info;
    return how >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8) &&
           ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 &&
           changes_a_file(pid, &info);
}

/* Runs and counts; at the k-th counted call all of it is killed. Returns what the run ended
 * with, -SIGKILL if it was killed. */
static int run_traced(int k, int *counted) {
    int how, result = -1;
    weft_ctx *ctx;
    *counted = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_remove_tree(ctx, FOLDER));
    weft_ctx_destroy(ctx);
    pid_t run = fork();
    assert_true(run >= 0);
    if (run == 0) train_and_leave();
    assert_int_equal(waitpid(run, &how, 0), run);
    if (WIFEXITED(how)) return WEXITSTATUS(how);
    ptrace(PTRACE_SETOPTIONS, run, NULL,
           PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    ptrace(PTRACE_CONT, run, NULL, NULL);
    for (pid_t pid; (pid = waitpid(-1, &how, __WALL)) > 0;) {
        if (!WIFSTOPPED(how)) {
            if (pid == run) result = WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
            continue;
        }
        if (is_counted(pid, how) && ++*counted == k) kill(run, SIGKILL);
        ptrace(PTRACE_CONT, pid, NULL, (long)signal_of(how));
    }
    return result;
}

/* ---- what is left ---- */

/* Libraries keep threads that a fork does not copy: whatever trains is a child. */
static int train_apart(const char *folder, bool resume) {
    int how;
    pid_t run = fork();
    assert_true(run >= 0);
    if (run == 0) {
        static outcome o;
        train(&o, folder, resume, keys);
        if (o.status != WEFT_OK) fprintf(stderr, "%s\n", o.message);
        _exit(o.status == WEFT_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(run, &how, 0), run);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void no_damage(void *user, const weft_verify_item *item) {
    if (!item->whole)
        fail_msg("killed at call %d: %s: %s", *(int *)user, item->name, item->sentence);
}

static void check_what_is_left(int k) {
    weft_ctx *ctx;
    char path[PATH_MAX];
    int n_damaged;
    int64_t step;
    struct stat info;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    if (stat(FOLDER "/config.yaml", &info) == 0)
        assert_ok(ctx, weft_verify_run(ctx, FOLDER, no_damage, &k, &n_damaged));
    assert_ok(ctx, wefti_checkpoint_latest(ctx, FOLDER "/checkpoints", &step, path));
    weft_ctx_destroy(ctx);
    if (train_apart(FOLDER, step >= 0) != 0)
        fail_msg("killed at call %d, newest step %d: it does not go on", k, (int)step);
    assert_same_file("calm/" LAST "/model.safetensors",
                     FOLDER "/" LAST "/model.safetensors");
    assert_same_file("calm/" LAST "/replica-00001.safetensors",
                     FOLDER "/" LAST "/replica-00001.safetensors");
}

TEST(a_kill_at_any_call_loses_nothing_but_time) {
    int all, counted, killed = 0;
    assert_int_equal(train_apart("calm", false), 0);
    int result = run_traced(0, &all);
    if (result == 77) {
        print_message("skipped: this system does not let a program trace its child\n");
        skip();
    }
    assert_int_equal(result, 0);
    assert_true(all > 60);
    for (int k = 1; k <= all; k += stride) {
        result = run_traced(k, &counted);
        assert_true(result == -SIGKILL || (result == 0 && counted < k));
        killed += result == -SIGKILL;
        check_what_is_left(k);
    }
    print_message("killed at %d of %d calls\n", killed, all);
    assert_true(killed * stride > all * 9 / 10);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "all") == 0) stride = 1;
    return check_run(NULL, NULL);
}
