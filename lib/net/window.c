/* SPDX-License-Identifier: MIT */
/* How many sockets fill a long wire: for the processes that open them and for predictions.
 * A socket holds `window` bytes under way, so d of them fill a wire of rate r and round trip t
 * if d window >= r t. The rate is not known when a run begins; idle sockets cost nothing, so
 * r is that of a fast long line. All pairs of a process share it. */
#include "net/window.h"

#include <math.h>

enum { MOST = 8, MOST_OF_ALL = 128, USUAL_BUFFER = 4 << 20 };
/* A line of 1 Gbit/s, and twice the sockets that fill it: each is slower after a loss. */
static const double line_Bps = 1.25e8, spare = 2;

/* Of a send buffer, the rest is the kernel's own bookkeeping. */
static const double payload = 0.7;

double wefti_window_bytes(double buffer_bytes) {
    return payload * (buffer_bytes > 0 ? buffer_bytes : USUAL_BUFFER);
}

static double needed(double rtt_s, double window, double n_peers) {
    if (rtt_s < WEFTI_LONG_WIRE_S || window <= 0 || n_peers < 1) return 1;
    return fmax(1, line_Bps * rtt_s / window / n_peers);
}

/* Beside the one for the heads. */
static double most(double n_peers) {
    return fmin(MOST, fmax(1, floor(MOST_OF_ALL / n_peers)));
}

int wefti_window_streams(double rtt_s, double window, int n_peers) {
    double fill = needed(rtt_s, window, n_peers);
    if (fill <= 1) return 1;
    double n = fmin(ceil(spare * fill), most(n_peers));
    return n > 1 ? 1 + (int)n : 1;
}

double wefti_window_filled(int64_t setting, double rtt_s, double n_peers) {
    if (setting > 0) return setting > 1 ? (double)(setting - 1) : 1;
    return fmin(needed(rtt_s, wefti_window_bytes(0), n_peers), most(fmax(1, n_peers)));
}
