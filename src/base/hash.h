/*
 * SHA-256 (FIPS 180-4), twice: streams use libcrypto, which has CPU-specific code, and short
 * strings use libmd. Loading libcrypto takes longer than starting a container, so a program that
 * only looks up names must not link it; each pair of functions has its own object.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define HASH_HEX_SIZE 65 /* 64 lower-case hexadecimal digits and a NUL */

/* A running hash. hash_new() never fails; hash_free(NULL) is fine. */
struct hash;
struct hash *hash_new(void);
void hash_free(struct hash *h);
void hash_update(struct hash *h, const void *buf, size_t len);
/* The digest of all bytes so far, in hex. Only hash_free() may follow. */
void hash_final(struct hash *h, char hex[HASH_HEX_SIZE]);
/* Hash one buffer. */
void hash_buffer(const void *buf, size_t len, char hex[HASH_HEX_SIZE]);
/* The same as "sha256:<hex>". */
void hash_digest(const void *buf, size_t len, char digest[7 + HASH_HEX_SIZE]);

/*
 * Hash a whole file, by pread(2).
 *
 *   stop   called now and then unless NULL; non-zero stops the hashing
 *   bytes  gets the file's size; may be NULL
 *
 * Returns 0, -ECANCELED, or -errno of reading.
 */
int hash_fd(int fd, int (*stop)(void *ctx), void *ctx, char hex[HASH_HEX_SIZE], uint64_t *bytes);

/* The same digest for short inputs, without libcrypto (some 4 ns a byte): of bytes, and of a
 * string. */
void hash_short(const void *buf, size_t len, char hex[HASH_HEX_SIZE]);
void hash_name(const char *s, char hex[HASH_HEX_SIZE]);
/* The same for n pieces of memory, one after another. */
void hash_parts(const struct iovec *parts, size_t n, char hex[HASH_HEX_SIZE]);

MLR_CLEANUP(hash_cleanup, struct hash *, hash_free);
#define auto_hash __attribute__((cleanup(hash_cleanup)))
