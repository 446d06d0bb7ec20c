/*
 * Tars in memory, honest and evil, for tests: each function appends one ustar member
 * (POSIX.1-2017, pax, "ustar Interchange Format"), its fields taken as they come.
 */
#ifndef MLR_TESTS_TAR_H
#define MLR_TESTS_TAR_H

#include "base/error.h"
#include "layer/unpack.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tar {
	unsigned char *p;
	size_t n, room, at; /* n bytes of room; at: how far tar_read() is */
	size_t chunk;       /* tar_read() gives at most so many bytes; 0: all */
};

void tar_done(struct tar *t);
#define auto_tar __attribute__((cleanup(tar_done)))

void tar_bytes(struct tar *t, const void *p, size_t len);
/* A header and data padded to 512; size is what the header claims. name, link: up to 100 bytes. */
void tar_member(struct tar *t, char type, const char *name, unsigned mode, long mtime,
	const char *link, const void *data, size_t len, uint64_t size);
/* The pax header before a member: one "key=value" of vlen bytes. */
void tar_pax(struct tar *t, const char *key, const void *value, size_t vlen);
void tar_end(struct tar *t);

static inline void tar_file(struct tar *t, const char *name, const char *text)
{
	size_t n = __builtin_strlen(text);

	tar_member(t, '0', name, 0644, 1000, "", text, n, n);
}

static inline void tar_dir(struct tar *t, const char *name, unsigned mode, long mtime)
{
	tar_member(t, '5', name, mode, mtime, "", "", 0, 0);
}

static inline void tar_link(struct tar *t, char type, const char *name, const char *to)
{
	tar_member(t, type, name, 0777, 1000, to, "", 0, 0);
}

/* Replace the tar by one gzip member of it. */
void tar_gzip(struct tar *t);

/* Replace the tar by one zstd frame of it; window_log 0: the level's own. */
void tar_zstd(struct tar *t, int level, int window_log);
/* Append a zstd frame that decompressors skip (RFC 8878, 3.1.2). */
void tar_zstd_skippable(struct tar *t, const void *p, uint32_t len);

/* A layer_read_fn; ctx is the tar. */
ssize_t tar_read(void *ctx, void *buf, size_t len, struct mlr_error *err);

#endif
