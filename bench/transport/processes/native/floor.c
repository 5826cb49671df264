/* The floor: what the machine does with the same bytes in plain C, without any types. Prints JSON.
 *
 *   floor rtt    CARRIER PARTICLES SECONDS FIRST_CPU OTHER_CPU MOST
 *   floor stream CARRIER PARTICLES SECONDS FIRST_CPU OTHER_CPU STRIDE RECEIVERS
 *
 * CARRIER: tcp, unix, shm-spin, shm-futex, shm-timed (whose waits have a limit, as those of a program that must not
 * hang); for streams also tcp-gathered, unix-gathered. PARTICLES: 0 is a
 * particle alone, else a batch of so many behind a header. *_CPU: where the first process and the others run;
 * -1: anywhere. MOST: round trips. STRIDE: messages between two looks at the clock. Every message is checked for
 * its place in the order; exit code 3: a wrong one came. What is allocated lives as long as the process.
 */
#define _GNU_SOURCE
#include "floor.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END = -2, WRONG_MESSAGE = 3, USAGE = 2 };

struct particle {
    int64_t id;
    double x, y, z;
    float vx, vy, vz, temp;
    int32_t cell;
    int16_t kind;
    uint8_t flags;
    _Bool active;
    double mass, charge;
    char tag[16];
    uint32_t owner;
};
_Static_assert(sizeof(struct particle) == 96, "as every peer has it");

struct header {
    int64_t step;  /* which message of the stream; a particle alone has its id there */
    int32_t count;
};

struct task {
    const char *carrier;
    int particles;        /* 0: one, without a header */
    int64_t budget_ns;
    int first_cpu, other_cpu;
    int receivers;
};

struct outcome {
    int64_t ended_ns; /* when the last message came */
    int64_t received;
};

_Noreturn void fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED)
        fail("mmap");
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
}

static size_t message_bytes(const struct task *task)
{
    return task->particles ? sizeof(struct header) + task->particles * sizeof(struct particle)
                           : sizeof(struct particle);
}

static const struct particle *last_particle(const struct task *task, const void *message)
{
    size_t offset = task->particles ? sizeof(struct header) + (task->particles - 1) * sizeof(struct particle) : 0;

    return (const struct particle *)((const char *)message + offset);
}

static void *new_message(const struct task *task)
{
    char *message = aligned_alloc(64, (message_bytes(task) + 63) / 64 * 64);
    struct header header = {.step = 0, .count = task->particles};
    char *next = message;

    memset(message, 0, message_bytes(task));
    if (task->particles) {
        memcpy(message, &header, sizeof header);
        next += sizeof header;
    }
    for (int i = 0; i == 0 || i < task->particles; i++, next += sizeof(struct particle)) {
        struct particle particle = {.id = i, .x = i * 0.5, .mass = 1.0 + i, .active = i % 2 == 0};

        memcpy(next, &particle, sizeof particle);
    }
    return message;
}

static void set_step(void *message, int64_t step)
{
    memcpy(message, &step, sizeof step);
}

/* The message's step, once its last particle was read. */
static int64_t checked_step(const struct task *task, const void *message)
{
    int64_t step;

    memcpy(&step, message, sizeof step);
    if (task->particles && last_particle(task, message)->id != task->particles - 1)
        exit(WRONG_MESSAGE);
    return step;
}

static void expect(const struct task *task, const void *message, int64_t step)
{
    if (checked_step(task, message) != step)
        exit(WRONG_MESSAGE);
}

static struct carrier *new_carrier(const struct task *task)
{
    int is_tcp = !strncmp(task->carrier, "tcp", 3);

    if (!strncmp(task->carrier, "shm", 3))
        return ring_carrier(task->carrier, message_bytes(task), task->receivers);
    return socket_carrier(is_tcp, strstr(task->carrier, "gathered") != NULL, message_bytes(task), task->receivers);
}

static struct carrier *new_carrier_back(const struct task *task, const struct carrier *there)
{
    return strncmp(task->carrier, "shm", 3) ? socket_carrier_back(there) : new_carrier(task);
}

static void await(pid_t child)
{
    int status;

    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        fail("waitpid");
    if (WEXITSTATUS(status))
        exit(WEXITSTATUS(status));
}

/* --- there and back --- */

static void answer(const struct task *task, struct carrier *there, struct carrier *back)
{
    const void *message;

    pin(task->other_cpu);
    while (message = there->take(there, 0), checked_step(task, message) != END)
        back->put(back, message);
}

static int64_t ask(const struct task *task, struct carrier *there, struct carrier *back, void *message,
                   int64_t step)
{
    int64_t started_ns = now_ns();

    set_step(message, step);
    there->put(there, message);
    expect(task, back->take(back, 0), step);
    return now_ns() - started_ns;
}

static void measure_round_trips(const struct task *task, long most)
{
    struct carrier *there = new_carrier(task), *back = new_carrier_back(task, there);
    int64_t *times_ns = calloc(most, sizeof *times_ns);
    int64_t warm_ns, began_ns;
    void *message = new_message(task);
    long count = 0;
    pid_t child = fork();

    if (child == 0) {
        answer(task, there, back);
        _exit(0);
    }
    pin(task->first_cpu);
    warm_ns = now_ns() + task->budget_ns / 4;
    while (now_ns() < warm_ns)
        ask(task, there, back, message, 0);
    began_ns = now_ns();
    for (; count < most && now_ns() - began_ns < task->budget_ns; count++)
        times_ns[count] = ask(task, there, back, message, count);
    set_step(message, END);
    there->put(there, message);
    await(child);
    printf("{\"began_ns\": %ld, \"times_ns\": [", (long)began_ns);
    for (long i = 0; i < count; i++)
        printf(i ? ",%ld" : "%ld", (long)times_ns[i]);
    printf("]}\n");
}

/* --- one way --- */

static struct outcome receive_all(const struct task *task, struct carrier *carrier, int receiver)
{
    int64_t received = 0, step;

    while ((step = checked_step(task, carrier->take(carrier, receiver))) != END)
        if (step != received++)
            exit(WRONG_MESSAGE);
    return (struct outcome){.ended_ns = now_ns(), .received = received};
}

static int64_t send_all(const struct task *task, struct carrier *carrier, int stride)
{
    void *message = new_message(task);
    int64_t sent = 0, stop_ns = now_ns() + task->budget_ns;

    while (now_ns() < stop_ns)
        for (int i = 0; i < stride; i++, sent++) {
            set_step(message, sent);
            carrier->put(carrier, message);
        }
    set_step(message, END);
    carrier->put(carrier, message);
    carrier->flush(carrier);
    return sent;
}

static pid_t start_receiver(const struct task *task, struct carrier *carrier, int receiver,
                            struct outcome *outcome)
{
    pid_t child = fork();

    if (child == 0) {
        pin(task->other_cpu);
        *outcome = receive_all(task, carrier, receiver);
        _exit(0);
    }
    return child;
}

static void measure_stream(const struct task *task, int stride)
{
    struct carrier *carrier = new_carrier(task);
    struct outcome *outcomes = shared_memory(MOST_RECEIVERS * sizeof *outcomes);
    pid_t children[MOST_RECEIVERS];
    int64_t started_ns, sent, ended_ns = 0;

    for (int i = 0; i < task->receivers; i++)
        children[i] = start_receiver(task, carrier, i, &outcomes[i]);
    pin(task->first_cpu);
    usleep(20000); /* the receivers wait by then */
    started_ns = now_ns();
    sent = send_all(task, carrier, stride);
    for (int i = 0; i < task->receivers; i++) {
        await(children[i]);
        if (outcomes[i].received != sent)
            exit(WRONG_MESSAGE);
        if (outcomes[i].ended_ns > ended_ns)
            ended_ns = outcomes[i].ended_ns;
    }
    printf("{\"messages\": %ld, \"seconds\": %.9f}\n", (long)sent, (ended_ns - started_ns) / 1e9);
}

int main(int count, char **arguments)
{
    struct task task = {.receivers = 1};
    int is_stream;

    if (count < 8 || (is_stream = !strcmp(arguments[1], "stream")) != (count == 9))
        return USAGE;
    task.carrier = arguments[2];
    task.particles = atoi(arguments[3]);
    task.budget_ns = (int64_t)(atof(arguments[4]) * 1e9);
    task.first_cpu = atoi(arguments[5]);
    task.other_cpu = atoi(arguments[6]);
    if (!is_stream) {
        measure_round_trips(&task, atol(arguments[7]));
        return 0;
    }
    task.receivers = atoi(arguments[8]);
    if (task.receivers < 1 || task.receivers > MOST_RECEIVERS)
        return USAGE;
    measure_stream(&task, atoi(arguments[7]));
    return 0;
}
