/* SPDX-License-Identifier: MIT */
/* Messages by MPI-3: the only file that knows MPI. It is built once for each MPI library,
 * as libweft_openmpi.so.0 and libweft_mpich.so.0, which weft loads when it was started by
 * that library's launcher (lib/start/launcher.c), and which programs that use MPI
 * themselves link (weft/mpi.h). */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/mpi.h>

enum { NAME_BYTES = MPI_MAX_PROCESSOR_NAME, FAREWELL_MS = 2000 };
/* A message as long as that is not the first one to its receiver: they are connected. */
enum { LONG_BYTES = 16 * 1024 };

/* A request or a matched message; used ones are kept. */
typedef struct ticket {
    struct ticket *next;
    MPI_Request request;
    MPI_Message message;
    void *copy; /* of what is sent: the sender's memory may be gone before MPI is done */
    size_t room;
} ticket;

typedef struct mpi_transport {
    weft_transport head;
    MPI_Comm comm; /* a duplicate */
    bool begun;    /* MPI was initialized here, and is ended here */
    int error;     /* the last one */
    ticket *spare;
    char version[64];
    bool *known;        /* [size] a long message has gone there */
    char *names;        /* [size][NAME_BYTES] */
    const char **hosts; /* [size] */
    uint64_t *machines; /* [size] */
} mpi_transport;

static ticket *take_ticket(mpi_transport *t) {
    ticket *one = t->spare;
    if (one)
        t->spare = one->next;
    else
        one = calloc(1, sizeof *one);
    if (!one) t->error = MPI_ERR_NO_MEM;
    return one;
}

static void keep_ticket(mpi_transport *t, ticket *one) {
    one->next = t->spare;
    t->spare = one;
}

/* MPI opens its connections when it first needs them, and does not tell. */
static void shorten_queues(void) {
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        int fd = (int)strtol(entry->d_name, NULL, 10), protocol = 0,
            unsent = WEFT_TRANSPORT_UNSENT_BYTES;
        socklen_t size = sizeof protocol;
        if (entry->d_name[0] == '.') continue;
        if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
            protocol == IPPROTO_TCP)
            setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    }
    if (folder) closedir(folder);
}

static bool keep_copy(mpi_transport *t, ticket *one, const void *data, size_t n_bytes) {
    if (n_bytes > one->room) {
        free(one->copy);
        one->copy = malloc(n_bytes);
        one->room = one->copy ? n_bytes : 0;
    }
    if (n_bytes > one->room) t->error = MPI_ERR_NO_MEM;
    if (n_bytes > one->room) return false;
    if (n_bytes > 0) memcpy(one->copy, data, n_bytes);
    return true;
}

static bool mpi_send(weft_transport *head, int peer, int lane, const void *data,
                     int n_bytes, void **request) {
    mpi_transport *t = (mpi_transport *)head;
    ticket *one = take_ticket(t);
    *request = one;
    if (!one || !keep_copy(t, one, data, (size_t)n_bytes)) return false;
    if (t->begun && n_bytes > LONG_BYTES && !t->known[peer]) {
        t->known[peer] = true;
        shorten_queues();
    }
    t->error = MPI_Isend(one->copy, n_bytes, MPI_BYTE, peer, lane, t->comm,
                         &one->request);
    return t->error == MPI_SUCCESS;
}

static bool mpi_probe(weft_transport *head, weft_transport_found *found, void **message) {
    mpi_transport *t = (mpi_transport *)head;
    ticket *one = take_ticket(t);
    int flag = 0;
    MPI_Status status;
    *found = (weft_transport_found){0};
    if (!one) return false;
    t->error = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, t->comm, &flag, &one->message,
                           &status);
    if (t->error != MPI_SUCCESS || !flag) {
        keep_ticket(t, one);
        return t->error == MPI_SUCCESS;
    }
    *message = one;
    found->any = true;
    found->peer = status.MPI_SOURCE;
    found->lane = status.MPI_TAG;
    t->error = MPI_Get_count(&status, MPI_BYTE, &found->n_bytes);
    return t->error == MPI_SUCCESS && found->n_bytes >= 0;
}

static bool mpi_receive(weft_transport *head, void *message, void *data, int n_bytes,
                        void **request) {
    mpi_transport *t = (mpi_transport *)head;
    ticket *one = message;
    *request = one;
    t->error = MPI_Imrecv(data, n_bytes, MPI_BYTE, &one->message, &one->request);
    return t->error == MPI_SUCCESS;
}

static bool mpi_test(weft_transport *head, void *request, bool *done) {
    mpi_transport *t = (mpi_transport *)head;
    ticket *one = request;
    int flag = 0;
    t->error = MPI_Test(&one->request, &flag, MPI_STATUS_IGNORE);
    *done = t->error == MPI_SUCCESS && flag;
    if (*done) keep_ticket(t, one);
    return t->error == MPI_SUCCESS;
}

static void mpi_say(const weft_transport *head, char *text, int size) {
    const mpi_transport *t = (const mpi_transport *)head;
    char why[MPI_MAX_ERROR_STRING] = "unknown error";
    int n = 0;
    MPI_Error_string(t->error, why, &n);
    snprintf(text, (size_t)size, "%s", why);
}

static void free_transport(mpi_transport *t) {
    while (t->spare) {
        ticket *next = t->spare->next;
        free(t->spare->copy);
        free(t->spare);
        t->spare = next;
    }
    free(t->known);
    free(t->names);
    free(t->hosts);
    free(t->machines);
    free(t);
}

/* What MPI_Finalize at its end tells MPICH's mpiexec (PMI-1): without it mpiexec takes
 * the first process that ends for dead and kills the others. srun does not, and may speak
 * PMI-2: only mpiexec sets MPI_LOCALNRANKS. */
static void tell_mpiexec(void) {
    static const char words[] = "cmd=finalize\n";
    const char *number = getenv("PMI_FD");
    char answer[64];
    if (!number || !getenv("MPI_LOCALNRANKS")) return;
    struct pollfd heard = {.fd = (int)strtol(number, NULL, 10), .events = POLLIN};
    if (send(heard.fd, words, sizeof words - 1, MSG_NOSIGNAL) < 0) return;
    if (poll(&heard, 1, FAREWELL_MS) > 0)
        (void)recv(heard.fd, answer, sizeof answer, MSG_DONTWAIT);
}

/* After a failure the others may be gone, and MPI's own end would wait for them.
 * MPICH 4.0 over TCP often never comes back from it either, when ranks end at slightly
 * different times: one waits for the launcher, the other for its connections. Everything
 * has been sent and received by then, so its processes end without it. */
static bool mpi_finish(weft_transport *head, bool failed) {
    mpi_transport *t = (mpi_transport *)head;
    bool begun = t->begun, trusted = strncmp(t->version, "MPICH", 5) != 0;
    if (!failed && t->comm != MPI_COMM_NULL && trusted) MPI_Comm_free(&t->comm);
    free_transport(t);
    if (failed || !begun) return true;
    if (!trusted) tell_mpiexec();
    return trusted && MPI_Finalize() == MPI_SUCCESS;
}

static uint64_t mpi_machine(const weft_transport *head, int peer) {
    return ((const mpi_transport *)head)->machines[peer];
}

static const weft_transport_ops ops = {
    .struct_size = sizeof ops,
    .name = "mpi",
    .send = mpi_send,
    .probe = mpi_probe,
    .receive = mpi_receive,
    .test = mpi_test,
    .say = mpi_say,
    .finish = mpi_finish,
    .machine = mpi_machine,
};

/* "Open MPI 4.1.4": the library's own sentence up to a comma, without "v" and "Version:".
 */
static void name_version(mpi_transport *t) {
    char full[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0, major = 0, minor = 0;
    MPI_Get_library_version(full, &n);
    MPI_Get_version(&major, &minor);
    char word[32] = "";
    if (sscanf(full, "Open MPI v%31[^, ]", word) == 1)
        snprintf(t->version, sizeof t->version, "Open MPI %s", word);
    else if (sscanf(full, "MPICH Version: %31s", word) == 1)
        snprintf(t->version, sizeof t->version, "MPICH %s", word);
    else
        snprintf(t->version, sizeof t->version, "MPI %d.%d", major, minor);
}

static bool find_hosts(mpi_transport *t) {
    char mine[NAME_BYTES] = "";
    uint64_t machine = weft_mesh_machine();
    int n = 0, size = t->head.size;
    t->names = calloc((size_t)size, NAME_BYTES);
    t->hosts = calloc((size_t)size, sizeof *t->hosts);
    t->known = calloc((size_t)size, sizeof *t->known);
    t->machines = calloc((size_t)size, sizeof *t->machines);
    t->error = MPI_ERR_NO_MEM;
    if (!t->names || !t->hosts || !t->known || !t->machines) return false;
    t->error = MPI_Get_processor_name(mine, &n);
    if (t->error == MPI_SUCCESS)
        t->error = MPI_Allgather(mine, NAME_BYTES, MPI_CHAR, t->names, NAME_BYTES,
                                 MPI_CHAR, t->comm);
    if (t->error == MPI_SUCCESS)
        t->error = MPI_Allgather(&machine, 1, MPI_UINT64_T, t->machines, 1, MPI_UINT64_T,
                                 t->comm);
    for (int r = 0; r < size; r++) {
        t->names[(size_t)r * NAME_BYTES + NAME_BYTES - 1] = 0;
        t->hosts[r] = t->names + (size_t)r * NAME_BYTES;
    }
    t->head.host = t->hosts;
    return t->error == MPI_SUCCESS;
}

static weft_status fail(weft_ctx *ctx, mpi_transport *t) {
    char text[MPI_MAX_ERROR_STRING];
    mpi_say(&t->head, text, sizeof text);
    weft_ctx_fail(ctx, WEFT_ERR_PEER, "%s: %s", t->version, text);
    mpi_finish(&t->head, true);
    return WEFT_ERR_PEER;
}

static weft_status open_transport(weft_ctx *ctx, MPI_Comm comm, bool begun,
                                  weft_mesh **out) {
    mpi_transport *t = calloc(1, sizeof *t);
    if (!t) return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for MPI's messages");
    t->head.ops = &ops;
    t->comm = MPI_COMM_NULL;
    t->begun = begun;
    t->head.version = t->version;
    name_version(t);
    t->error = MPI_Comm_dup(comm, &t->comm);
    if (t->error != MPI_SUCCESS) return fail(ctx, t);
    MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(t->comm, &t->head.rank);
    MPI_Comm_size(t->comm, &t->head.size);
    if (!find_hosts(t)) return fail(ctx, t);
    return weft_mesh_create(ctx, &t->head, out);
}

/* Under the launcher of another MPI library each process would be alone, and train alone. */
static weft_status check_launcher(weft_ctx *ctx) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    int world = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 2 && world == 1; i++) {
        const char *said = getenv(sizes[i]);
        if (said && strtol(said, NULL, 10) > 1)
            return weft_ctx_fail(
                ctx, WEFT_ERR_CONFIG,
                "%s=%.20s processes were started, but MPI_COMM_WORLD has "
                "one: expected the launcher of the MPI library that "
                "this program is linked with",
                sizes[i], said);
    }
    return WEFT_OK;
}

/* The functions are those of the MPI library that the program brings, the constants those for which
 * this file was compiled: they must be of one kind. */
static weft_status check_library(weft_ctx *ctx) {
    enum { ANY_VERSION = 8192 }; /* MPICH's is the longest */
    char full[ANY_VERSION + 1] = "";
    int n = 0;
#ifdef OPEN_MPI
    static const char own[] = "openmpi", other[] = "mpich", found[] = "MPICH";
    const bool fits = true;
#else
    static const char own[] = "mpich", other[] = "openmpi", found[] = "Open MPI";
    const bool fits = false;
#endif
    MPI_Get_library_version(full, &n);
    if ((strncmp(full, "Open MPI", 8) == 0) == fits) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "this program uses %s and is linked with -lweft_%s, expected "
                         "-lweft_%s",
                         found, own, other);
}

weft_status weft_mesh_from_mpi(weft_ctx *ctx, MPI_Comm comm, weft_mesh **out) {
    int initialized = 0, level = MPI_THREAD_SINGLE;
    *out = NULL;
    WEFT_TRY(check_library(ctx));
    MPI_Initialized(&initialized);
    if (initialized) MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE) {
        WEFT_TRY(check_launcher(ctx));
        return open_transport(ctx, comm, false, out);
    }
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "MPI %s; weft's messages have their own thread: call "
                         "MPI_Init_thread with MPI_THREAD_MULTIPLE first",
                         initialized ? "was initialized for fewer threads"
                                     : "is not initialized");
}

/* What weft calls when it was started by this library's launcher. */
WEFT_API weft_status weft_mpi_launch(weft_ctx *ctx, weft_mesh **out);

weft_status weft_mpi_launch(weft_ctx *ctx, weft_mesh **out) {
    int level = MPI_THREAD_SINGLE;
    *out = NULL;
    /* UCX, below MPICH, asks the receiver first from a few kB on; our pieces need not
     * wait for that. Measured: bench/results/links.md. Who has set it knows why. */
    setenv("UCX_RNDV_THRESH", "131072", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER, "MPI_Init_thread failed");
    if (level < MPI_THREAD_SERIALIZED)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                             "this MPI was built without threads, which weft needs");
    return open_transport(ctx, MPI_COMM_WORLD, true, out);
}
