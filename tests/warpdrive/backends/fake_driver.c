/* A stand-in for NVIDIA's driver: it has the signatures of cuda.h, runs nothing, and keeps a log of what it is asked.
 *
 * fake_set("count", 2) changes what it answers, fake_set("cuLaunchKernel", 700) lets a function fail with that code.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;

enum { MOST = 64 };
static struct { char name[64]; int value; } settings[MOST];
static int number_of_settings;
static char text[1 << 16];
static size_t length;
static uintptr_t number_of_handles;
static __thread CUcontext contexts[16];
static __thread int depth;

static int setting(const char *name, int otherwise) {
    for (int i = 0; i < number_of_settings; i++)
        if (!strcmp(settings[i].name, name)) return settings[i].value;
    return otherwise;
}

void fake_set(const char *name, int value) {
    int i = 0;
    while (i < number_of_settings && strcmp(settings[i].name, name)) i++;
    if (i == number_of_settings) number_of_settings++;
    snprintf(settings[i].name, sizeof settings[i].name, "%s", name);
    settings[i].value = value;
}

void fake_reset(void) { number_of_settings = 0; length = 0; text[0] = 0; number_of_handles = 0; }
const char *fake_log(void) { return text; }
void fake_forget(void) { length = 0; text[0] = 0; }

#define LOG(...) (length += (size_t)snprintf(text + length, sizeof text - length, __VA_ARGS__))
#define FAIL(name) do { int code = setting(name, 0); if (code) return code; } while (0)
#define NEED_CONTEXT do { if (!depth) return 201; } while (0)

static void *handle(void) { return (void *)(0x1000 + 0x10 * number_of_handles++); }

CUresult cuInit(unsigned flags) { FAIL("cuInit"); return flags ? 1 : setting("count", 1) ? 0 : 100; }
CUresult cuDriverGetVersion(int *version) { FAIL("cuDriverGetVersion"); *version = setting("version", 13000); return 0; }
CUresult cuDeviceGetCount(int *count) { *count = setting("count", 1); return 0; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (ordinal < 0 || ordinal >= setting("count", 1)) return 101;
    *device = ordinal;
    return 0;
}
CUresult cuDeviceGetName(char *name, int room, CUdevice device) { snprintf(name, room, "Fake GPU %d", device); return 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { *bytes = (size_t)(80 + device) << 30; return 0; }
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    switch (attribute) {
    case 16: *value = 132; return 0;
    case 75: *value = setting("major", 9); return 0;
    case 76: *value = setting("minor", 0); return 0;
    default: return 1 + 0 * device;
    }
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    FAIL("cuDevicePrimaryCtxRetain");
    LOG("retain %d\n", device);
    *context = (CUcontext)(uintptr_t)(0xc0000 + device);
    return 0;
}
CUresult cuCtxGetCurrent(CUcontext *context) { *context = depth ? contexts[depth - 1] : NULL; return 0; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { LOG("push %d\n", (int)((uintptr_t)context - 0xc0000)); contexts[depth++] = context; return 0; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    NEED_CONTEXT;
    *context = contexts[--depth];
    LOG("pop\n");
    return 0;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
    NEED_CONTEXT;
    for (unsigned i = 0; i < count && setting("cuModuleLoadDataEx", 0); i++)
        if (options[i] == 5) snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "ptxas, line 9; fatal: Unsupported .version\nmore");
    FAIL("cuModuleLoadDataEx");
    LOG("load %.12s\n", (const char *)image);
    *module = handle();
    return 0;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    FAIL("cuModuleGetFunction");
    *function = handle();
    LOG("function %s\n", name);
    return module ? 0 : 400;
}
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    switch (attribute) {
    case 0: *value = setting("most_threads", 1024); return 0;
    case 1: *value = setting("shared", 0); return 0;
    case 3: *value = setting("local", 16); return 0;
    case 4: *value = setting("registers", 32); return 0;
    default: return function ? 1 : 400;
    }
}
CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    NEED_CONTEXT;
    FAIL("cuFuncSetAttribute");
    LOG("attribute %d of %p is %d\n", attribute, (void *)function, value);
    return 0;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    NEED_CONTEXT;
    *blocks = 2048 / threads - (int)(shared >> 16);
    return function ? 0 : 400;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
    NEED_CONTEXT;
    FAIL("cuLaunchKernel");
    LOG("launch %p on %d (%u,%u,%u) (%u,%u,%u) %u stream %p", (void *)function,
        (int)((uintptr_t)contexts[depth - 1] - 0xc0000), gx, gy, gz, bx, by, bz, shared, (void *)stream);
    for (int i = 0; i < setting("parameters", 0); i++) {
        uint64_t word;
        memcpy(&word, parameters[i], sizeof word);
        LOG(" %llx", (unsigned long long)word);
    }
    LOG("\n");
    return extra ? 1 : 0;
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **parameters) {
    LOG("cooperative ");
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, NULL);
}
CUresult cuGetErrorName(CUresult error, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == error) { *name = names[i].name; return 0; }
    *name = NULL;
    return 1;
}
