/* What a ring of plain sockets takes on a network: the truth that a probe is held against.

   ring NEXT_ADDRESS STEPS REPEATS

   One process a node. In a step each sends a byte to the next and gets one from the node before,
   all at once, as the ranks of a ring all-reduce do. Prints, for each repeat, the seconds of so many
   steps, one after another. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 5000, PATIENCE = 500 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void at_once(int fd) {
    int yes = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP_NODELAY");
}

static void step(int next, int previous) {
    char byte = 0;
    if (send(next, &byte, 1, 0) != 1) die("send");
    if (recv(previous, &byte, 1, 0) != 1) die("recv");
}

int main(int count, char **argument) {
    if (count != 4) return fprintf(stderr, "ring NEXT_ADDRESS STEPS REPEATS\n"), 2;
    long steps = atol(argument[2]), repeats = atol(argument[3]);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(PORT)}, there = here;
    int yes = 1, door = socket(AF_INET, SOCK_STREAM, 0), next = -1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(door, (void *)&here, sizeof here) || listen(door, 1)) die("listen");
    inet_pton(AF_INET, argument[1], &there.sin_addr);
    for (int tries = 0;; tries++) { /* the next node may not listen yet */
        next = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(next, (void *)&there, sizeof there)) break;
        if (tries == PATIENCE) die("connect");
        close(next);
        usleep(10000);
    }
    int previous = accept(door, NULL, NULL);
    if (previous < 0) die("accept");
    at_once(next);
    at_once(previous);
    usleep(200000);
    for (long repeat = 0; repeat < repeats; repeat++) {
        double start = now();
        for (long k = 0; k < steps; k++) step(next, previous);
        printf("%.9f\n", now() - start);
    }
    return 0;
}
