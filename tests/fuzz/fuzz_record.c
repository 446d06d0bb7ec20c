/*
 * Any bytes as a layer's record, as a stranger's store may hold: as they are, and as what a zstd
 * frame holds. Rebuilding must end, must read nothing outside the tree, and must write as many
 * bytes as it says; its names must be a tree, whatever they do to each other.
 */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "layer/changes.h"
#include "layer/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#define SECRET "what no record may bring out"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int tree = -1;
static char place[64];

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_record: %s\n", what);
	abort();
}

static void place_remove(void)
{
	file_remove_tree(AT_FDCWD, place, NULL);
}

/* "secret" beside "tree", which has a file, a file below, and symlinks that lead out. */
static void place_make(void)
{
	auto_close int fd = -1;

	snprintf(place, sizeof(place), "%s/mlr-fuzz.XXXXXX",
		access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	must(mkdtemp(place) != NULL, "no place");
	atexit(place_remove);
	fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(file_replace(fd, "secret", SECRET, strlen(SECRET), 0600, NULL) == 0, "secret");
	must(file_mkdir_p(fd, "tree/d", 0755, NULL) == 0, "tree");
	tree = openat(fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(file_replace(tree, "f", "text", 4, 0644, NULL) == 0, "f");
	must(file_replace(tree, "d/g", "more", 4, 0644, NULL) == 0, "d/g");
	must(symlinkat("../secret", tree, "s") == 0 && symlinkat("..", tree, "u") == 0, "symlinks");
}

static int count(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	uint64_t *sum = ctx;

	must(!memmem(buf, len, SECRET, strlen(SECRET)), "the secret is out");
	*sum += len;
	return *sum > 64 << 20 ? mlr_fail(err, EFBIG, "enough") : 0;
}

static int take(void *changes, const struct layer_member *m, struct mlr_error *err)
{
	return layer_changes_add(changes, m, LAYER_NO_XATTR, NULL, err);
}

/* The same layer twice, the second time over the first. */
static void try_names(int fd)
{
	static const struct layer_sink sink = { .file = take, .name = take };
	struct layer_names *t = layer_names_new(16 << 20);
	struct mlr_error err = MLR_ERROR_INIT;
	struct layer_name *top = layer_names_top(t, &err);
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++) {
		auto_call(layer_changes_done) struct layer_changes c = { NULL };

		r = layer_changes_init(&c, t, i, &err);
		if (r == 0)
			r = layer_tar_headers(fd, &sink, &c, &err);
		if (r == 0)
			r = layer_changes_apply(&c, top, &err);
	}
	must(r == 0 || err.text[0], "a failure without words");
	layer_names_free(t);
}

static void try(const void *p, size_t n)
{
	auto_close int fd = memfd_create("record", MFD_CLOEXEC);
	struct mlr_error err = MLR_ERROR_INIT;
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes = 0, sum = 0;
	int r;

	must(file_write_all(fd, p, n) == 0, "write");
	r = layer_rebuild(fd, tree, count, &sum, diff_id, &bytes, &err);
	must(r == 0 || err.text[0], "a failure without words");
	must(r < 0 || bytes == sum, "another size than was written");
	try_names(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t room = ZSTD_compressBound(size);
	auto_free void *frame = xmalloc(room);

	if (tree < 0)
		place_make();
	try(data, size);
	room = ZSTD_compress(frame, room, data, size, 1);
	must(!ZSTD_isError(room), "compress");
	if (!memmem(data, size, SECRET, 8)) /* the input may say it, too */
		try(frame, room);
	return 0;
}
