/* The anchor of `sim2real bench control`: what our control loop does between a state and a command,
 * in C. It checks the state's CRC and that its values are finite, makes an observation, runs a
 * network with as many weights, clamps range and step, fills the command in, adds its CRC, writes.
 * Topics, library, threads and rights are those of the other contestants: c_responder.py opens them
 * and passes the library's functions in, so that a C compiler is all this needs. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define BATCH 4
#define WIDEST 4096
#define MOST_JOINTS 64

typedef struct { /* dds_sample_info_t */
    uint32_t sample_state, view_state, instance_state;
    uint8_t valid;
    int64_t source_time;
    uint64_t instance, publication;
    uint32_t counts[5];
} info_t;

typedef struct {
    int32_t reader, waitset, writer;
    int32_t (*wait)(int32_t, void *, size_t, int64_t);
    int32_t (*take)(int32_t, void **, info_t *, size_t, uint32_t);
    int32_t (*write)(int32_t, const void *);
    uint32_t state_size, command_size;        /* of a sample, four bytes of header included */
    const uint32_t *state_gather, *crc_gather; /* which byte of a sample the CRC takes next */
    uint32_t state_words, command_words;
    const uint32_t *q, *dq, *imu; /* byte offsets in a state; imu: quaternion, gyroscope */
    const uint32_t *motor;        /* in a command: q, dq, tau, kp, kd of every joint */
    uint32_t tick, mark, joints, every;
    const uint32_t *layers; /* inputs and outputs of each */
    const float *weights;   /* of each layer in turn: biases, then rows */
    uint32_t layer_count;
    const float *offset, *scale, *low, *high, *kp, *kd;
    float step;
    uint8_t *command;
    volatile int32_t stop;
} job_t;

static uint32_t table[4][256];

static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i << 24;
        for (int bit = 0; bit < 8; bit++) crc = crc << 1 ^ (crc >> 31 ? 0x04C11DB7u : 0);
        table[0][i] = crc;
    }
    for (int k = 1; k < 4; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] << 8 ^ table[0][table[k - 1][i] >> 24];
}

static uint32_t crc_of(const uint8_t *sample, const uint32_t *gather, uint32_t words) {
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < words; i++, gather += 4) {
        crc ^= (uint32_t)sample[gather[0]] << 24 | (uint32_t)sample[gather[1]] << 16 |
               (uint32_t)sample[gather[2]] << 8 | sample[gather[3]];
        crc = table[3][crc >> 24] ^ table[2][crc >> 16 & 255] ^ table[1][crc >> 8 & 255] ^
              table[0][crc & 255];
    }
    return crc;
}

static float number(const uint8_t *sample, uint32_t at) {
    float value;
    memcpy(&value, sample + at, 4);
    return value;
}

static uint32_t word(const uint8_t *sample, uint32_t at) {
    uint32_t value;
    memcpy(&value, sample + at, 4);
    return value;
}

static int is_finite(float value) { /* also under -ffast-math */
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bits & 0x7F800000u) != 0x7F800000u;
}

static float seen[WIDEST], target[MOST_JOINTS];

static void observe(const job_t *job, const uint8_t *state) {
    float quaternion[4];
    for (int i = 0; i < 4; i++) quaternion[i] = number(state, job->imu[i]);
    float w = quaternion[0], x = quaternion[1], y = quaternion[2], z = quaternion[3];
    uint32_t frame = 6 + 3 * job->joints, inputs = job->layers[0];
    if (inputs > frame) memmove(seen + frame, seen, 4 * (inputs - frame)); /* the history */
    seen[0] = 2 * (w * y - x * z), seen[1] = -2 * (y * z + w * x), seen[2] = 2 * (x * x + y * y) - 1;
    for (int i = 0; i < 3; i++) seen[3 + i] = number(state, job->imu[4 + i]);
    for (uint32_t j = 0; j < job->joints; j++) {
        seen[6 + j] = number(state, job->q[j]) - job->offset[j];
        seen[6 + job->joints + j] = number(state, job->dq[j]);
        seen[6 + 2 * job->joints + j] = target[j] - job->offset[j];
    }
}

static const float *infer(const job_t *job) {
    static float values[2][WIDEST];
    const float *weights = job->weights, *from = seen;
    float *to = values[0];
    for (uint32_t layer = 0; layer < job->layer_count; layer++) {
        uint32_t inputs = job->layers[2 * layer], outputs = job->layers[2 * layer + 1];
        to = values[layer % 2];
        const float *rows = weights + outputs;
        for (uint32_t o = 0; o < outputs; o++, rows += inputs) {
            float sum = weights[o];
            for (uint32_t i = 0; i < inputs; i++) sum += rows[i] * from[i];
            to[o] = layer + 1 == job->layer_count || sum > 0 ? sum : expf(sum) - 1;
        }
        weights += outputs * (inputs + 1);
        from = to;
    }
    return to;
}

static void put(uint8_t *sample, uint32_t at, float value) { memcpy(sample + at, &value, 4); }

static void fill_command(job_t *job, const float *action) {
    for (uint32_t j = 0; j < job->joints; j++) {
        float to = job->offset[j] + job->scale[j] * fminf(fmaxf(action[j], -5), 5);
        to = fminf(fmaxf(to, job->low[j]), job->high[j]);
        target[j] = fminf(fmaxf(to, target[j] - job->step), target[j] + job->step);
        const uint32_t *at = job->motor + 5 * j;
        put(job->command, at[0], target[j]);
        put(job->command, at[1], 0);
        put(job->command, at[2], 0);
        put(job->command, at[3], job->kp[j]);
        put(job->command, at[4], job->kd[j]);
    }
    uint32_t crc = crc_of(job->command, job->crc_gather, job->command_words);
    memcpy(job->command + job->command_size - 4, &crc, 4);
}

static int sound(const job_t *job, const uint8_t *state) {
    if (crc_of(state, job->state_gather, job->state_words) != word(state, job->state_size - 4))
        return 0;
    int good = 1;
    for (uint32_t j = 0; j < job->joints; j++)
        good &= is_finite(number(state, job->q[j])) & is_finite(number(state, job->dq[j]));
    for (int i = 0; i < 7; i++) good &= is_finite(number(state, job->imu[i]));
    return good;
}

static void answer(job_t *job, const uint8_t *state) {
    static uint32_t count;
    if (count++ % job->every == 0) {
        observe(job, state);
        fill_command(job, infer(job));
    }
    memcpy(job->command + job->mark, state + job->tick, 4); /* as in every contestant: unsummed */
    job->write(job->writer, job->command + 4);
}

static uint8_t taken[BATCH][WIDEST];

/* The newest good state, or null. */
static const uint8_t *newest(job_t *job) {
    void *places[BATCH];
    info_t infos[BATCH];
    const uint8_t *found = 0;
    for (int i = 0; i < BATCH; i++) places[i] = taken[i] + 4;
    if (job->wait(job->waitset, 0, 0, 100000000) <= 0) return 0;
    int32_t count = job->take(job->reader, places, infos, BATCH, BATCH);
    for (int32_t i = 0; i < count; i++)
        if (infos[i].valid && sound(job, taken[i])) found = taken[i];
    return found;
}

static void begin(job_t *job) {
    fill_table();
    memcpy(target, job->offset, 4 * job->joints);
}

/* Answers every state on arrival, in the thread that waited for it: our own structure. */
void answer_on_arrival(job_t *job) {
    begin(job);
    while (!job->stop) {
        const uint8_t *state = newest(job);
        if (state) answer(job, state);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t kept[WIDEST];
static int any;

static void *keep(void *argument) {
    job_t *job = argument;
    while (!job->stop) {
        const uint8_t *state = newest(job);
        if (!state) continue;
        pthread_mutex_lock(&lock);
        memcpy(kept, state, job->state_size);
        any = 1;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

/* One thread keeps the newest state, another writes every 2 ms: the vendor's examples. */
void write_by_thread(job_t *job) {
    static uint8_t state[WIDEST];
    pthread_t receiver;
    struct timespec due;
    begin(job);
    pthread_create(&receiver, 0, keep, job);
    clock_gettime(CLOCK_MONOTONIC, &due);
    while (!job->stop) {
        due.tv_nsec += 2000000;
        if (due.tv_nsec >= 1000000000) due.tv_nsec -= 1000000000, due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
        pthread_mutex_lock(&lock);
        int there = any;
        if (there) memcpy(state, kept, job->state_size);
        pthread_mutex_unlock(&lock);
        if (there) answer(job, state);
    }
    pthread_join(receiver, 0);
}
