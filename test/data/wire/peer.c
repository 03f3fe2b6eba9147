/* A robot's end of the wire on Cyclone DDS 0.10.2: LowState out at 500 Hz, LowCmd in, counted.
 * usage: peer <states to send>; prints one line of JSON. The commands carry their number in
 * motor_cmd[0].q, counting from 1. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "dds/dds.h"
#include "unitree_go.h"

typedef unitree_go_msg_dds__LowState_ State;
typedef unitree_go_msg_dds__LowCmd_ Command;
_Static_assert(sizeof(State) == 1180, "LowState as the vendor packs it");
_Static_assert(sizeof(Command) == 812, "LowCmd as the vendor packs it");

enum { DEPTH = 4096, PERIOD_NS = 2000000 };
static int commands, bad_crc, gaps, last;

static uint32_t checksum(const void *message, size_t size) {
    const uint32_t *word = message;
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i + 1 < size / 4; i++)
        for (int bit = 31; bit >= 0; bit--) {
            uint32_t high = crc >> 31;
            crc = (crc << 1) ^ ((high ^ (word[i] >> bit & 1)) ? 0x04C11DB7 : 0);
        }
    return crc;
}

static void take(dds_entity_t reader) {
    void *samples[64] = {NULL};
    dds_sample_info_t infos[64];
    int count;
    while ((count = dds_take(reader, samples, infos, 64, 64)) > 0) {
        for (int i = 0; i < count; i++) {
            const Command *command = samples[i];
            if (!infos[i].valid_data) continue;
            if (checksum(command, sizeof *command) != command->crc) { bad_crc++; continue; }
            int number = (int)command->motor_cmd[0].q;
            gaps += number != last + 1;
            last = number;
            commands++;
        }
        dds_return_loan(reader, samples, count);
    }
}

static void until(struct timespec *at) {
    at->tv_nsec += PERIOD_NS;
    if (at->tv_nsec >= 1000000000) { at->tv_nsec -= 1000000000; at->tv_sec++; }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL);
}

int main(int argc, char **argv) {
    int to_send = argc > 1 ? atoi(argv[1]) : 2500;
    dds_entity_t participant = dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL);
    if (participant < 0) { fprintf(stderr, "%s\n", dds_strretcode(-participant)); return 1; }
    dds_entity_t states = dds_create_topic(participant,
        &unitree_go_msg_dds__LowState__desc, "rt/lowstate", NULL, NULL);
    dds_entity_t cmds = dds_create_topic(participant,
        &unitree_go_msg_dds__LowCmd__desc, "rt/lowcmd", NULL, NULL);
    dds_qos_t *qos = dds_create_qos();
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, DEPTH);
    dds_entity_t writer = dds_create_writer(participant, states, NULL, NULL);
    dds_entity_t reader = dds_create_reader(participant, cmds, qos, NULL);

    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    dds_publication_matched_status_t out = {0};
    dds_subscription_matched_status_t in = {0};
    for (int tries = 0; out.current_count == 0 || in.current_count == 0; tries++) {
        if (tries == 30000) { fprintf(stderr, "no peer within 60 s\n"); return 1; }
        dds_get_publication_matched_status(writer, &out);
        dds_get_subscription_matched_status(reader, &in);
        until(&at);
    }
    for (int i = 0; i < 250; i++) until(&at); /* the far side may match a moment later */

    State *state = calloc(1, sizeof *state);
    state->imu_state.quaternion[0] = 1.0f;
    clock_gettime(CLOCK_MONOTONIC, &at);
    for (int i = 1; i <= to_send; i++) {
        state->tick = 2 * i;
        state->motor_state[0].q = (float)i;
        state->crc = checksum(state, sizeof *state);
        if (dds_write(writer, state) < 0) { fprintf(stderr, "write failed\n"); return 1; }
        take(reader);
        until(&at);
    }
    for (int i = 0; i < 500; i++) { take(reader); until(&at); }
    printf("{\"version\": \"%s\", \"states\": %d, \"commands\": %d, \"bad_crc\": %d, \"gaps\": %d}\n",
           "0.10.2", to_send, commands, bad_crc, gaps);
    dds_delete(participant);
    return 0;
}
