/* The vendor's stand example in C, on Cyclone DDS 0.10.2: asks the motion switcher for the mode,
 * releases it, then moves the joints from where they are to a stand and holds them there.
 * Prints one line of JSON when it stands, and holds on until it is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dds/dds.h"
#include "unitree_api.h"
#include "unitree_go.h"

typedef unitree_go_msg_dds__LowState_ State;
typedef unitree_go_msg_dds__LowCmd_ Command;
typedef unitree_api_msg_dds__Request_ Request;
typedef unitree_api_msg_dds__Response_ Response;

enum { CHECK_MODE = 1001, RELEASE_MODE = 1003, JOINTS = 12, RISE = 1000, STANDS = 1750 };
static const float stand[3] = {0.0f, 0.67f, -1.3f};

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

static dds_entity_t take_from(dds_entity_t participant, dds_entity_t topic, dds_entity_t *waitset) {
    dds_entity_t reader = dds_create_reader(participant, topic, NULL, NULL);
    *waitset = dds_create_waitset(participant);
    dds_waitset_attach(*waitset, dds_create_readcondition(reader, DDS_ANY_STATE), 0);
    return reader;
}

/* The answer's text, or NULL without one in a second. */
static char *ask(dds_entity_t writer, dds_entity_t reader, dds_entity_t waitset, int64_t api) {
    static int64_t number = 4711;
    static char text[512];
    Request request = {.parameter = "{}"};
    request.header.identity.id = ++number, request.header.identity.api_id = api;
    dds_write(writer, &request);
    dds_time_t end = dds_time() + DDS_SECS(1);
    while (dds_time() < end) {
        dds_waitset_wait(waitset, NULL, 0, DDS_MSECS(100));
        void *samples[1] = {NULL};
        dds_sample_info_t info;
        if (dds_take(reader, samples, &info, 1, 1) < 1) continue;
        const Response *response = samples[0];
        int ours = info.valid_data && response->header.identity.id == number;
        if (ours) snprintf(text, sizeof text, "%s", response->data);
        dds_return_loan(reader, samples, 1);
        if (ours) return text;
    }
    return NULL;
}

int main(void) {
    dds_entity_t participant = dds_create_participant(DDS_DOMAIN_DEFAULT, NULL, NULL), waitset;
    dds_entity_t asks = dds_create_topic(participant, &unitree_api_msg_dds__Request__desc,
        "rt/api/motion_switcher/request", NULL, NULL);
    dds_entity_t answers = dds_create_topic(participant, &unitree_api_msg_dds__Response__desc,
        "rt/api/motion_switcher/response", NULL, NULL);
    dds_entity_t to = dds_create_writer(participant, asks, NULL, NULL);
    dds_entity_t from = take_from(participant, answers, &waitset);
    char mode[512] = "", *said = NULL;
    for (int attempt = 0; attempt < 60; attempt++) {
        said = ask(to, from, waitset, CHECK_MODE);
        if (!said) continue;
        if (!mode[0]) strcpy(mode, said);
        if (strstr(said, "\"name\": \"\"") || strstr(said, "\"name\":\"\"")) break;
        ask(to, from, waitset, RELEASE_MODE);
    }
    if (!said) { fprintf(stderr, "the motion switcher does not answer\n"); return 1; }

    dds_entity_t states = dds_create_topic(participant,
        &unitree_go_msg_dds__LowState__desc, "rt/lowstate", NULL, NULL);
    dds_entity_t commands = dds_create_topic(participant,
        &unitree_go_msg_dds__LowCmd__desc, "rt/lowcmd", NULL, NULL);
    dds_entity_t reader = take_from(participant, states, &waitset);
    dds_entity_t writer = dds_create_writer(participant, commands, NULL, NULL);
    Command *command = calloc(1, sizeof *command);
    command->head[0] = 0xFE, command->head[1] = 0xEF, command->level_flag = 0xFF;
    float start[JOINTS];
    for (int count = 0;; count++) {
        if (dds_waitset_wait(waitset, NULL, 0, DDS_SECS(20)) <= 0) {
            fprintf(stderr, "no state for 20 s after %d\n", count);
            return 1;
        }
        void *samples[1] = {NULL};
        dds_sample_info_t info;
        if (dds_take(reader, samples, &info, 1, 1) < 1) continue;
        const State *state = samples[0];
        float way = count < RISE ? (float)count / RISE : 1.0f;
        for (int i = 0; i < JOINTS; i++) {
            if (count == 0) start[i] = state->motor_state[i].q;
            command->motor_cmd[i].mode = 1;
            command->motor_cmd[i].q = start[i] + way * (stand[i % 3] - start[i]);
            command->motor_cmd[i].kp = 60.0f, command->motor_cmd[i].kd = 5.0f;
        }
        dds_return_loan(reader, samples, 1);
        command->crc = checksum(command, sizeof *command);
        dds_write(writer, command);
        if (count == STANDS) {
            printf("%s\n", mode);
            fflush(stdout);
        }
    }
}
