/* Images as strangers make them, read as the FUSE server reads them. */
#include "base/base.h"
#include "squashfs/look.h"
#include "squashfs/server_blocks.h"
#include "squashfs/server_look.h"
#include "squashfs/server_handle.h"
#include "squashfs/server_image.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOKS_MAX    2000 /* inodes looked at, so that a directory that holds itself has an end */
#define BYTES_MAX    (4u << 20)
#define DEPTH_MAX    16
#define CACHE_SIZE   (1u << 20)
#define CACHE_BLOCKS 128          /* at least those of server_image.c */
#define FAR          (1ull << 30) /* no image here is as long */

/* LeakSanitizer's: libsquashfuse 0.1.105 loses a table of an image that it refuses. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libsquashfuse\n";
}

struct walk {
	struct image *image;
	struct blocks *blocks;
	unsigned looks;
	size_t bytes;
};

struct names {
	uint64_t ino[64];
	size_t n;
};

/* Runs with the image locked: remember, look later. */
static int remember(void *arg, const char *name, const struct stat *st, off_t next)
{
	struct names *l = arg;

	(void)next;
	if (name[0] == '.')
		return 1;
	l->ino[l->n++] = st->st_ino;
	return l->n < ARRAY_LEN(l->ino);
}

static void read_file(struct walk *w, const struct stat *st)
{
	struct image_piece p[8];
	const struct block *b;
	uint64_t offsets[] = { 0, (uint64_t)st->st_size / 2, (uint64_t)st->st_size - 1 };

	for (size_t k = 0; k < ARRAY_LEN(offsets); k++) {
		ssize_t n =
			image_pieces(w->image, st->st_ino, offsets[k], 128 << 10, p, ARRAY_LEN(p));

		for (ssize_t i = 0; i < n && w->bytes < BYTES_MAX; i++) {
			if ((p[i].header == 0 && !p[i].fragment) ||
				blocks_get(w->blocks, &p[i], &b) < 0)
				continue;
			/* Every byte that would be handed on is there. */
			for (uint32_t at = 0; at < p[i].len; at++)
				w->bytes += (size_t)b->data[p[i].from + at] & 1;
			w->bytes += p[i].len;
			blocks_put(w->blocks, b);
		}
	}
}

static void look(struct walk *w, uint64_t ino, int depth)
{
	static char buf[IMAGE_XATTR_MAX];
	struct names names = { .n = 0 };
	struct image_piece piece;
	char target[PATH_MAX];
	struct stat st, child;
	uint64_t next;

	if (w->looks++ > LOOKS_MAX || depth > DEPTH_MAX || image_stat(w->image, ino, &st) < 0)
		return;
	image_xattrs(w->image, ino, buf);
	image_xattr(w->image, ino, "user.a", buf);
	image_next_file(w->image, ino, &next, &piece);
	if (S_ISLNK(st.st_mode))
		image_readlink(w->image, ino, target);
	else if (S_ISREG(st.st_mode) && st.st_size > 0)
		read_file(w, &st);
	else if (S_ISDIR(st.st_mode)) {
		image_lookup(w->image, ino, "a", &child);
		image_list(w->image, ino, 0, 1, remember, &names);
		image_list(w->image, ino, 300, 0, remember, &(struct names){ .n = 0 });
	}
	for (size_t i = 0; i < names.n; i++)
		look(w, names.ino[i], depth + 1);
}

/* Whatever leads where, the place is told with a path from the root. */
static void resolve(struct image *im)
{
	static const char *const paths[] = { "/a/b/../a", "a", "/bin/sh", "/etc/../link/.", "/" };
	struct image_place at;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		if (image_resolve(im, paths[i], i % 2 ? IMAGE_NOFOLLOW : IMAGE_FOLLOW, &at) == 0 &&
			at.path[0] != '/')
			abort();
}

/* All questions that squashfs/looker.c asks, as mlrun-squashfuse --look answers them; libraries are
 * taken in parts here whatever their size (tests/fuzz/Makefile.inc). */
static void ask(struct walk *w, const char *path)
{
	struct look_request q = { 0 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	strcpy(q.path, path);
	for (q.what = LOOK_FILE; q.what <= LOOK_ITSELF;
		q.what++) /* few enough for a socket to hold */
		send(pair[0], &q, offsetof(struct look_request, path) + strlen(path) + 1,
			MSG_DONTWAIT);
	shutdown(pair[0], SHUT_WR);
	look_serve(pair[1], w->image, w->blocks);
	close(pair[0]);
	close(pair[1]);
}

/* Nothing is at the beginning of an image, also after the cache of metadata has been filled and
 * then given up a block for one that is not there. */
static void ask_for_nothing(struct image *im)
{
	uint64_t from = im->fs.sb.inode_table_start;

	for (uint64_t pos = from; pos - from < 1500; pos++) {
		int was_there = image_is_inside(im, pos, 0);

		for (uint64_t k = 0; was_there && k < CACHE_BLOCKS; k++)
			image_is_inside(im, FAR + k, 0);
		if (image_is_inside(im, 0, 0))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("image", MFD_CLOEXEC);
	auto_free char *part = xasprintf("100+%zu", size); /* as in a SIF file */
	const char *why, *compression;
	struct walk w = { 0 };
	struct statvfs vfs;

	if (fd < 0 || pwrite(fd, data, size, 100) != (ssize_t)size ||
		image_open(fd, part, 1, 2, &w.image, &why, &compression) < 0)
		return 0;
	w.blocks = blocks_new(w.image, CACHE_SIZE);
	image_statfs(w.image, &vfs);
	resolve(w.image);
	if (w.blocks) {
		look(&w, IMAGE_ROOT, 0);
		ask(&w, "/a");
		ask(&w, "/");
		ask(&w, "/b/c");
	}
	blocks_free(w.blocks);
	if (size > 20000) /* rarely, as it takes long */
		ask_for_nothing(w.image);
	image_close(w.image);
	return 0;
}
