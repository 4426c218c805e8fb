/* SPDX-License-Identifier: MIT */
/* What machine.c reads from /proc on Linux, on macOS. */
#include <mach/mach.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include "base/machine.h"

/* Free pages, and those that the system gives up without writing anything. */
int64_t wefti_machine_available_bytes(void) {
    vm_statistics64_data_t pages;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    mach_port_t host = mach_host_self();
    kern_return_t result = host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages,
                                             &n);
    mach_port_deallocate(mach_task_self(), host);
    if (result != KERN_SUCCESS) return -1;
    int64_t free_pages = (int64_t)pages.free_count + pages.inactive_count +
                         pages.purgeable_count;
    return free_pages * (int64_t)sysconf(_SC_PAGESIZE);
}

int64_t wefti_process_resident_bytes(void) {
    mach_task_basic_info_data_t task;
    mach_msg_type_number_t n = MACH_TASK_BASIC_INFO_COUNT;
    kern_return_t result = task_info(mach_task_self(), MACH_TASK_BASIC_INFO,
                                     (task_info_t)&task, &n);
    return result == KERN_SUCCESS ? (int64_t)task.resident_size : -1;
}

int64_t wefti_process_peak_bytes(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_maxrss : -1; /* bytes here */
}

int wefti_machine_cores(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

bool wefti_machine_random(void *out, size_t n) { return getentropy(out, n) == 0; }

void wefti_machine_boot(char *out, size_t size) {
    memset(out, 0, size);
    size_t n = size - 1;
    if (sysctlbyname("kern.bootsessionuuid", out, &n, NULL, 0) != 0) out[0] = 0;
}
