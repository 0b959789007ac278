/* Fails calls on chosen files: each line of $FAULTS is "read|write GLOB ERRNO". Loaded by LD_PRELOAD; see faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fault_of(const char *operation, const char *path) {
    const char *faults = getenv("FAULTS");
    char lines[1024], wanted[8], glob[256], *line, *rest;
    int file, number;
    if (!faults || (file = syscall(SYS_openat, AT_FDCWD, faults, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    ssize_t size = syscall(SYS_read, file, lines, sizeof lines - 1);
    syscall(SYS_close, file);
    if (size <= 0)
        return 0;
    lines[size] = 0;
    for (line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%7s %255s %d", wanted, glob, &number) == 3 && !strcmp(wanted, operation)
            && !fnmatch(glob, path, 0)) {
            char met[300];
            snprintf(met, sizeof met, "%s.met", faults);
            syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, met, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
            return number;
        }
    return 0;
}

static int fails(const char *operation, int file) {
    char link[64], path[1024];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    int number = size > 0 ? fault_of(operation, path) : 0;
    errno = number ? number : kept;
    return number;
}

static int opening_fails(const char *path, int flags) {
    int kept = errno, number = 0;
    if ((flags & O_ACCMODE) != O_RDONLY) {
        number = fault_of("write", path);
        if (number != EROFS && !(flags & O_CREAT && access(path, F_OK)))
            number = 0; /* only a read-only disk refuses to open what is there */
    }
    errno = number ? number : kept;
    return number;
}

ssize_t read(int f, void *b, size_t n) { return fails("read", f) ? -1 : REAL(read)(f, b, n); }
ssize_t pread(int f, void *b, size_t n, off_t o) { return fails("read", f) ? -1 : REAL(pread)(f, b, n, o); }
ssize_t pread64(int f, void *b, size_t n, off64_t o) { return fails("read", f) ? -1 : REAL(pread64)(f, b, n, o); }
ssize_t write(int f, const void *b, size_t n) { return fails("write", f) ? -1 : REAL(write)(f, b, n); }
ssize_t pwrite(int f, const void *b, size_t n, off_t o) { return fails("write", f) ? -1 : REAL(pwrite)(f, b, n, o); }
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) { return fails("write", f) ? -1 : REAL(pwrite64)(f, b, n, o); }
int fsync(int f) { return fails("write", f) ? -1 : REAL(fsync)(f); }
int fdatasync(int f) { return fails("write", f) ? -1 : REAL(fdatasync)(f); }
int ftruncate(int f, off_t n) { return fails("write", f) ? -1 : REAL(ftruncate)(f, n); }
int ftruncate64(int f, off64_t n) { return fails("write", f) ? -1 : REAL(ftruncate64)(f, n); }

#define OPENING(name)                                                                  \
    int name(const char *path, int flags, ...) {                                       \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;        \
        va_end(more);                                                                  \
        return opening_fails(path, flags) ? -1 : REAL(name)(path, flags, mode);        \
    }
OPENING(open)
OPENING(open64)
