/* A star of links whose latency and rate are known: one TAP device a port, all ports alike.

   switch DELAY_SECONDS BITS_PER_SECOND TAP...     (0 bits a second: as fast as it goes)

   A frame of s bytes that port i sends to port j at time t

     leaves i      from  max(t, until i has sent what it has)       for s/rate,
     arrives at j  from  max(that + delay, until j has got what it has)  for s/rate,

   so a lone message of n bytes takes delay + n/rate, both directions of a port are independent, and
   nothing is lost. Frames of at most CONTROL bytes (acknowledgements, notices) take delay + s/rate
   and wait for nobody, as in a network card with a lane for control: else each transfer would also
   wait for the notices of the opposite one, which queue behind its bulk.

   The last byte of an Ethernet address is its port, from 1. It ends when its standard input does, so
   it cannot outlive whoever started it. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 16, LONGEST = 65536, CONTROL = 256, BURST = 64 };
enum { AWAKE = 50000 }; /* nanoseconds before a frame is due from when on nobody sleeps: an idle
                           processor, a virtual one above all, takes its time to wake */

typedef struct Frame {
    int64_t due;
    struct Frame *next;
    int length;
    unsigned char bytes[];
} Frame;

typedef struct { Frame *first, *last; } Queue; /* in the order of due times */

static struct {
    int tap;
    int64_t sends_until, gets_until;
    Queue bulk, control; /* on their way to this port */
} port[PORTS];
static int ports;
static int64_t delay;
static double per_byte;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void enter(Queue *queue, Frame *frame) {
    if (queue->first) {
        frame->due = later(frame->due, queue->last->due);
        queue->last = queue->last->next = frame;
    } else {
        queue->first = queue->last = frame;
    }
}

static void take(int from) {
    unsigned char bytes[LONGEST];
    for (int count = 0; count < BURST; count++) {
        int length = read(port[from].tap, bytes, sizeof bytes);
        if (length < 14) return;
        int to = bytes[5] - 1;
        if (bytes[0] & 1 || to < 0 || to >= ports || to == from) continue; /* multicast, or nobody */
        Frame *frame = malloc(sizeof *frame + length);
        if (!frame) die("malloc");
        memcpy(frame->bytes, bytes, frame->length = length);
        frame->next = NULL;
        int64_t t = now(), lasts = length * per_byte;
        if (length <= CONTROL) {
            frame->due = t + delay + lasts;
            enter(&port[to].control, frame);
            continue;
        }
        int64_t leaves = later(t, port[from].sends_until);
        port[from].sends_until = leaves + lasts;
        frame->due = port[to].gets_until = later(leaves + delay, port[to].gets_until) + lasts;
        enter(&port[to].bulk, frame);
    }
}

static void give(int to, Queue *queue) {
    while (queue->first && queue->first->due <= now()) {
        Frame *frame = queue->first;
        if (write(port[to].tap, frame->bytes, frame->length) < 0 && errno == EAGAIN) return;
        queue->first = frame->next;
        free(frame);
    }
}

static int64_t soonest(void) {
    int64_t due = INT64_MAX;
    for (int i = 0; i < ports; i++) {
        if (port[i].bulk.first && port[i].bulk.first->due < due) due = port[i].bulk.first->due;
        if (port[i].control.first && port[i].control.first->due < due)
            due = port[i].control.first->due;
    }
    return due;
}

static void plug(int i, const char *name) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int unlimited = 0x7fffffff;
    port[i].tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (port[i].tap < 0) die("/dev/net/tun");
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (ioctl(port[i].tap, TUNSETIFF, &request) < 0) die("TUNSETIFF");
    ioctl(port[i].tap, TUNSETSNDBUF, &unlimited);
}

/* A processor that sleeps is late to wake; a virtual one, when others want its host, by up to a
   millisecond. So each has something to do that gives way to everything, and ends with the switch. */
static pid_t keep_awake(int processor) {
    pid_t owner = getpid(), child = fork();
    if (child) return child;
    struct sched_param last = {.sched_priority = 0};
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(processor, &here);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != owner || sched_setaffinity(0, sizeof here, &here) ||
        sched_setscheduler(0, SCHED_IDLE, &last))
        _exit(1);
    for (;;) __asm__ volatile("");
}

int main(int count, char **argument) {
    ports = count - 3;
    if (ports < 1 || ports > PORTS) return fprintf(stderr, "1 to %d ports\n", PORTS), 2;
    delay = atof(argument[1]) * 1e9;
    per_byte = atof(argument[2]) > 0 ? 8e9 / atof(argument[2]) : 0;
    struct pollfd waiting[PORTS + 1];
    for (int i = 0; i < ports; i++) {
        plug(i, argument[3 + i]);
        waiting[i] = (struct pollfd){.fd = port[i].tap, .events = POLLIN};
    }
    waiting[ports] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    int processors = sysconf(_SC_NPROCESSORS_ONLN);
    pid_t awake[processors];
    for (int i = 0; i < processors; i++) awake[i] = keep_awake(i);
    /* A frame is late by as long as the kernel takes to wake this process: first in line, to the
       nanosecond, never paged out. Where that is refused the network is merely less exact. */
    struct sched_param first = {.sched_priority = 50};
    if (sched_setscheduler(0, SCHED_FIFO, &first)) perror("SCHED_FIFO");
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    mlockall(MCL_CURRENT);
    puts("ready");
    fflush(stdout);
    while (!waiting[ports].revents) {
        int64_t due = soonest(), left = later(due - now() - AWAKE, 0);
        struct timespec wait = {left / 1000000000, left % 1000000000};
        if (ppoll(waiting, ports + 1, due == INT64_MAX ? NULL : &wait, NULL) < 0) die("ppoll");
        for (int i = 0; i < ports; i++)
            if (waiting[i].revents & POLLIN) take(i);
        for (int i = 0; i < ports; i++) {
            give(i, &port[i].bulk);
            give(i, &port[i].control);
        }
    }
    for (int i = 0; i < processors; i++)
        if (awake[i] > 0) kill(awake[i], SIGKILL), waitpid(awake[i], NULL, 0);
    return 0;
}
