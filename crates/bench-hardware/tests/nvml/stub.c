/* A library that looks like NVML and plays a recording. Built by tests/gpu.rs; the path of the recording is compiled in (RECORDING).
 *
 * A line of the recording:  KEY GPU STEP...     the n-th call gets the n-th step, later calls the last one
 * A step is a number, or !CODE for an NVML error. A key that is not recorded answers 3, "not supported".
 * `wave BASE RISE` in place of steps makes the n-th call answer BASE + n * RISE.
 * A field is recorded as `fieldNUMBER`, or as `fieldNUMBER.SCOPE` where it is asked for by scope (NVLink: the link).
 * Written after NVML's public API reference; only what nvml-wrapper 0.13 calls for bench-hardware.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, NOT_SUPPORTED = 3, INVALID = 2, SMALL = 7 };
enum { LINES = 128, STEPS = 32 };

typedef struct {
    char key[48];
    int gpu, steps, wave, calls;
    char text[STEPS][64];
    double base, rise;
} Line;

static Line lines[LINES];
static int count;

int nvmlShutdown(void) { return OK; }

static Line *find(const char *key, int gpu) {
    for (int i = 0; i < count; i++)
        if (lines[i].gpu == gpu && strcmp(lines[i].key, key) == 0) return &lines[i];
    return NULL;
}

/* The next step of a line: its number, or an error's code as the result. */
static int play(const char *key, int gpu, double *value) {
    Line *line = find(key, gpu);
    if (!line) return NOT_SUPPORTED;
    int call = line->calls++;
    if (line->wave) {
        *value = line->base + call * line->rise;
        return OK;
    }
    const char *step = line->text[call < line->steps ? call : line->steps - 1];
    if (step[0] == '!') return atoi(step + 1);
    *value = atof(step);
    return OK;
}

int nvmlInit_v2(void) {
    FILE *file = fopen(RECORDING, "r");
    char row[2048];
    double value;
    if (!file) return 9; /* driver not loaded */
    count = 0;
    while (count < LINES && fgets(row, sizeof row, file)) {
        Line *line = &lines[count];
        memset(line, 0, sizeof *line);
        char *word = strtok(row, " \n");
        if (!word || word[0] == '#') continue;
        snprintf(line->key, sizeof line->key, "%s", word);
        word = strtok(NULL, " \n");
        line->gpu = word ? atoi(word) : 0;
        while ((word = strtok(NULL, " \n")) && line->steps < STEPS)
            snprintf(line->text[line->steps++], sizeof line->text[0], "%s", word);
        if (line->steps == 3 && strcmp(line->text[0], "wave") == 0) {
            line->wave = 1;
            line->base = atof(line->text[1]);
            line->rise = atof(line->text[2]);
        }
        count++;
    }
    fclose(file);
    return find("init", 0) ? play("init", 0, &value) : OK;
}

/* Handles: GPU g is g + 1; MIG instance i of it is 100 * (g + 1) + i + 1. */
typedef void *Device;
static int number(Device device) { return (int)(long)device; }
static int gpu_of(Device device) { return number(device) - 1; }

static int text(const char *key, int gpu, char *out, unsigned length) {
    Line *line = find(key, gpu);
    if (!line || line->steps == 0) return NOT_SUPPORTED;
    if (line->text[0][0] == '!') return atoi(line->text[0] + 1);
    snprintf(out, length, "%s", line->text[0]);
    return OK;
}

static int whole(const char *key, int gpu, unsigned *out) {
    double value = 0;
    int code = play(key, gpu, &value);
    if (code == OK) *out = (unsigned)value;
    return code;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) { return text("driver", 0, out, length); }
int nvmlSystemGetNVMLVersion(char *out, unsigned length) { return text("nvml", 0, out, length); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return whole("cuda", 0, (unsigned *)out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return whole("count", 0, out); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
    double value;
    *out = (Device)(long)(index + 1);
    return find("handle", (int)index) ? play("handle", (int)index, &value) : OK;
}

int nvmlDeviceGetName(Device d, char *out, unsigned length) { return text("name", gpu_of(d), out, length); }
int nvmlDeviceGetUUID(Device d, char *out, unsigned length) { return text("uuid", gpu_of(d), out, length); }

int nvmlDeviceGetUtilizationRates(Device d, struct { unsigned gpu, memory; } *out) {
    int code = whole("utilisation", gpu_of(d), &out->gpu);
    if (code == OK && whole("memory_utilisation", gpu_of(d), &out->memory) != OK) out->memory = 0;
    return code;
}

int nvmlDeviceGetMemoryInfo_v2(Device d, struct { unsigned version; unsigned long long total, reserved, free, used; } *out) {
    double used = 0, total = 0;
    int gpu = number(d) >= 100 ? number(d) : gpu_of(d);
    int code = play("memory_used", gpu, &used);
    if (code != OK) return code;
    code = play("memory_total", gpu, &total);
    if (code != OK) return code;
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)used;
    out->reserved = 0;
    out->free = out->total - out->used;
    return OK;
}

int nvmlDeviceGetPowerUsage(Device d, unsigned *out) { return whole("power", gpu_of(d), out); }
int nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *out) { return whole("power_limit", gpu_of(d), out); }

#ifndef WITHOUT_ENERGY
int nvmlDeviceGetTotalEnergyConsumption(Device d, unsigned long long *out) {
    double value = 0;
    int code = play("energy", gpu_of(d), &value);
    if (code == OK) *out = (unsigned long long)value;
    return code;
}
#endif

int nvmlDeviceGetTemperature(Device d, int sensor, unsigned *out) {
    (void)sensor;
    return whole("temperature", gpu_of(d), out);
}

int nvmlDeviceGetClockInfo(Device d, int type, unsigned *out) {
    return whole(type == 1 ? "sm_clock" : "memory_clock", gpu_of(d), out);
}

static int reasons(Device d, unsigned long long *out) {
    unsigned bits = 0;
    int code = whole("throttle", gpu_of(d), &bits);
    if (code == OK) *out = bits;
    return code;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device d, unsigned long long *out) { return reasons(d, out); }

int nvmlDeviceGetPcieThroughput(Device d, int counter, unsigned *out) {
    return whole(counter == 0 ? "pcie_tx" : "pcie_rx", gpu_of(d), out);
}

int nvmlDeviceGetNvLinkState(Device d, unsigned link, unsigned *out) {
    unsigned links = 0;
    int code = whole("nvlinks", gpu_of(d), &links);
    if (code != OK) return code;
    if (link >= 18) return INVALID;
    *out = link < links;
    return OK;
}

typedef struct {
    unsigned field, scope;
    long long stamp, latency;
    unsigned type, code;
    union { double d; unsigned u; unsigned long long ull; } value;
} Field;

int nvmlDeviceGetFieldValues(Device d, int n, Field *fields) {
    for (int i = 0; i < n; i++) {
        char key[48];
        double value = 0;
        snprintf(key, sizeof key, "field%u.%u", fields[i].field, fields[i].scope);
        if (!find(key, gpu_of(d)) && fields[i].scope == 0) snprintf(key, sizeof key, "field%u", fields[i].field);
        fields[i].code = (unsigned)play(key, gpu_of(d), &value);
        fields[i].type = 3; /* unsigned long long */
        fields[i].value.ull = (unsigned long long)value;
    }
    return OK;
}

typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;

int nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *n, Process *out) {
    unsigned pid = 0, memory = 0;
    if (!find("process", gpu_of(d))) { *n = 0; return OK; }
    if (*n < 1) { *n = 1; return SMALL; }
    whole("process", gpu_of(d), &pid);
    whole("process_memory", gpu_of(d), &memory);
    *n = 1;
    out[0] = (Process){pid, memory, ~0u, ~0u};
    return OK;
}

typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encoder, decoder; } Use;

int nvmlDeviceGetProcessUtilization(Device d, Use *out, unsigned *n, unsigned long long since) {
    unsigned pid = 0, sm = 0;
    (void)since;
    if (!find("process_sm", gpu_of(d))) return 6; /* not found */
    if (*n < 1 || !out) { *n = 1; return SMALL; }
    whole("process", gpu_of(d), &pid);
    whole("process_sm", gpu_of(d), &sm);
    *n = 1;
    out[0] = (Use){pid, 1, sm, 0, 0, 0};
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
    int code = whole("capability", gpu_of(d), (unsigned *)major);
    *minor = 0;
    return code;
}

int nvmlDeviceGetMigMode(Device d, unsigned *current, unsigned *pending) {
    int code = whole("mig", gpu_of(d), current);
    *pending = *current;
    return code;
}
int nvmlDeviceGetMaxMigDeviceCount(Device d, unsigned *out) { return whole("mig_count", gpu_of(d), out); }
int nvmlDeviceGetMigDeviceHandleByIndex(Device d, unsigned index, Device *out) {
    *out = (Device)(long)(100 * number(d) + (int)index + 1);
    return OK;
}
