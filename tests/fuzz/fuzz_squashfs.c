/* Images as strangers make them, read as the FUSE server reads them. */
#include "base/cleanup.h"
#include "runtime/squashfuse_blocks.h"

#include <stdint.h>
#include <sys/mman.h>

#define LOOKS_MAX  2000 /* inodes looked at, so that a directory that holds itself has an end */
#define BYTES_MAX  (4u << 20)
#define DEPTH_MAX  16
#define CACHE_SIZE (1u << 20)

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
				w->bytes += b->data[p[i].from + at] >= 0;
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("image", MFD_CLOEXEC);
	const char *why, *compression;
	struct walk w = { 0 };
	struct statvfs vfs;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size ||
		image_open(fd, 1, 2, &w.image, &why, &compression) < 0)
		return 0;
	w.blocks = blocks_new(w.image, CACHE_SIZE);
	image_statfs(w.image, &vfs);
	if (w.blocks)
		look(&w, IMAGE_ROOT, 0);
	blocks_free(w.blocks);
	image_close(w.image);
	return 0;
}
