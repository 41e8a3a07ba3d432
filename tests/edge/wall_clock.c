/* Loaded into a process before libc: adds to its wall clock the seconds in a file, which a test may change at any time.
   The monotonic clock stays as it is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile const int64_t *offset;
static int (*true_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("WALL_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY) : -1;
    void *map = file >= 0 ? mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    offset = map == MAP_FAILED ? NULL : map;
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    if (!true_clock) true_clock = dlsym(RTLD_NEXT, "clock_gettime");
    int result = true_clock(clock, moment);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) moment->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    moment->tv_sec = now.tv_sec;
    moment->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *moment) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (moment) *moment = now.tv_sec;
    return now.tv_sec;
}
