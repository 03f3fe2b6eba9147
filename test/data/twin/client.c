/* A client of a robot on Cyclone DDS 0.10.2: takes LowState, answers each with a damping LowCmd.
 * usage: client <states to take>; prints one line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include "dds/dds.h"
#include "unitree_go.h"

typedef unitree_go_msg_dds__LowState_ State;
typedef unitree_go_msg_dds__LowCmd_ Command;

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

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 1000, states = 0, bad_crc = 0, twice = 0, gaps = 0;
    uint32_t tick = 0;
    dds_entity_t participant = dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL);
    dds_entity_t state_topic = dds_create_topic(participant,
        &unitree_go_msg_dds__LowState__desc, "rt/lowstate", NULL, NULL);
    dds_entity_t cmd_topic = dds_create_topic(participant,
        &unitree_go_msg_dds__LowCmd__desc, "rt/lowcmd", NULL, NULL);
    dds_qos_t *qos = dds_create_qos();
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 4096);
    dds_entity_t reader = dds_create_reader(participant, state_topic, qos, NULL);
    dds_entity_t writer = dds_create_writer(participant, cmd_topic, NULL, NULL);
    dds_entity_t waitset = dds_create_waitset(participant);
    dds_waitset_attach(waitset, dds_create_readcondition(reader, DDS_ANY_STATE), 0);

    Command *command = calloc(1, sizeof *command);
    command->head[0] = 0xFE, command->head[1] = 0xEF, command->level_flag = 0xFF;
    for (int i = 0; i < 12; i++) command->motor_cmd[i].mode = 1, command->motor_cmd[i].kd = 2.0f;
    command->crc = checksum(command, sizeof *command);

    while (states < wanted) {
        if (dds_waitset_wait(waitset, NULL, 0, DDS_SECS(20)) <= 0) {
            fprintf(stderr, "no state for 20 s after %d\n", states);
            return 1;
        }
        void *samples[64] = {NULL};
        dds_sample_info_t infos[64];
        int count = dds_take(reader, samples, infos, 64, 64);
        for (int i = 0; i < count; i++) {
            const State *state = samples[i];
            if (!infos[i].valid_data) continue;
            bad_crc += checksum(state, sizeof *state) != state->crc;
            twice += states > 0 && state->tick == tick;
            gaps += states > 0 && state->tick != tick + 2;
            tick = state->tick;
            states++;
            dds_write(writer, command);
        }
        if (count > 0) dds_return_loan(reader, samples, count);
    }
    printf("{\"states\": %d, \"bad_crc\": %d, \"twice\": %d, \"gaps\": %d}\n",
           states, bad_crc, twice, gaps);
    dds_delete(participant);
    return 0;
}
