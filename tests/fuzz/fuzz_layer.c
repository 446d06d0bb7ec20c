/*
 * Any bytes as a layer: unpacking must end, must leave everything outside the tree alone, and the
 * record that it writes must give the tar again. The stream's first bytes say how it is compressed.
 */
#include "base/cleanup.h"
#include "base/file.h"
#include "layer/record.h"
#include "layer/unpack.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
	__attribute__((weak)); /* not in a replay */

struct input {
	const uint8_t *p;
	size_t n;
};

static ssize_t give(void *ctx, void *buf, size_t len, struct mlr_error *err)
{
	struct input *in = ctx;

	(void)err;
	if (len > in->n)
		len = in->n;
	if (len > 0)
		memcpy(buf, in->p, len);
	in->p += len;
	in->n -= len;
	return (ssize_t)len;
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_layer: %s\n", what);
	abort();
}

/* A directory with "safe", which nothing may change, and "tree" to unpack into. */
struct place {
	char path[64];
	int fd, tree;
	struct stat safe, top;
};

static void place_make(struct place *p)
{
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	snprintf(p->path, sizeof(p->path), "%s/mlr-fuzz.XXXXXX", base);
	must(mkdtemp(p->path) != NULL, "no place to unpack into");
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(file_replace(p->fd, "safe", "safe", 4, 0600, NULL) == 0, "cannot make a file");
	must(mkdirat(p->fd, "tree", 0755) == 0, "cannot make a directory");
	p->tree = openat(p->fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fstatat(p->fd, "safe", &p->safe, 0) == 0 && fstat(p->fd, &p->top) == 0, "stat");
}

static void place_check(const struct place *p)
{
	struct stat safe, top;

	must(fstatat(p->fd, "safe", &safe, AT_SYMLINK_NOFOLLOW) == 0, "'safe' is gone");
	must(fstat(p->fd, &top) == 0, "stat");
	must(safe.st_ino == p->safe.st_ino && safe.st_ctim.tv_sec == p->safe.st_ctim.tv_sec &&
			safe.st_ctim.tv_nsec == p->safe.st_ctim.tv_nsec,
		"'safe' was changed");
	must(top.st_ctim.tv_sec == p->top.st_ctim.tv_sec &&
			top.st_ctim.tv_nsec == p->top.st_ctim.tv_nsec,
		"the directory around the tree was changed");
}

static void place_remove(struct place *p)
{
	close(p->tree);
	close(p->fd);
	must(file_remove_tree(AT_FDCWD, p->path, NULL) == 0, "the tree cannot be removed");
}

/* What was unpacked can be written again as it was. */
static void rebuild(int record, int tree, const struct layer_result *res)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes;
	int r = layer_rebuild(record, tree, NULL, NULL, diff_id, &bytes, &err);

	must(r == 0, err.text);
	must(bytes == res->bytes, "the tar was rebuilt to another size");
	must(strcmp(diff_id, res->diff_id) == 0, "the tar was rebuilt to other bytes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct layer_limits limits = { 2000, 16 << 20, 1 << 20 };
	enum oci_compression comp = layer_sniff(data, size);
	struct layer_result res = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct input in = { data, size };
	auto_close int record = memfd_create("record", MFD_CLOEXEC);
	struct place place;
	int r;

	place_make(&place);
	r = layer_unpack_limited(give, &in, comp, place.tree, record, &limits, &res, &err);
	must(r == 0 || err.text[0], "a failure without words");
	must(r < 0 || in.n == 0, "success without having read it all");
	place_check(&place);
	if (r == 0)
		rebuild(record, place.tree, &res);
	layer_result_done(&res);
	place_remove(&place);
	return 0;
}

/* Give every ustar header its right checksum, without which libarchive reads no further. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	(void)seed;
	size = LLVMFuzzerMutate(data, size, max);
	for (size_t at = 0; at + 512 <= size; at += 512) {
		uint8_t *h = data + at;
		unsigned sum = 0;
		char text[8];

		if (memcmp(h + 257, "ustar", 5) != 0)
			continue;
		memset(h + 148, ' ', 8);
		for (int i = 0; i < 512; i++)
			sum += h[i];
		snprintf(text, sizeof(text), "%06o", sum);
		memcpy(h + 148, text, 7);
	}
	return size;
}
