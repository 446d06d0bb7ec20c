#include "squashfs/server_ops.h"

#define READERS       64           /* files whose reads are tracked */
#define DEPTH_MAX     8            /* blocks of a file decompressed ahead */
#define SLACK         (256u << 10) /* bytes; the kernel sends requests out of order */
#define FILES_MAX     64           /* small files put into the kernel's cache at once */
#define STRANGERS_MAX 8 /* stop after so many in a row that the kernel has not looked up */

/* A file being read, or the image's small files as one sequence. */
struct reader {
	uint64_t ino;
	uint64_t next;
	unsigned run; /* how many reads in a row were sequential */
};

static struct {
	pthread_mutex_t lock;
	struct reader files[READERS];
	struct reader small; /* next: the inode after the last one read or put */

	/* One thread at a time fills the kernel's cache: it may have to wait for a page that is
	 * locked by a reader, which waits for another thread's answer. */
	pthread_mutex_t putting;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .putting = PTHREAD_MUTEX_INITIALIZER };

/* Returns 0, or -ENOENT if the kernel has not looked up the file, and the like. */
static int put(const struct ops *o, uint64_t ino, uint64_t offset, const char *data, size_t size)
{
	struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);

	buf.buf[0].mem = (void *)(uintptr_t)data;
	return fuse_lowlevel_notify_store(o->session, ino, (off_t)offset, &buf, 0);
}

/* --- blocks ------------------------------------------------------------------------- */

/* Put a block's bytes before and after the requested piece, which is at offset in the file. */
static void put_rest(const struct ops *o, uint64_t ino, uint64_t offset,
	const struct image_piece *p, int is_last)
{
	const struct block *block;
	uint32_t end = p->from + p->len;

	if (p->fragment || p->header == 0 || (p->from == 0 && !is_last) ||
		blocks_get(o->blocks, p, &block) < 0)
		return;
	if (p->from > 0)
		put(o, ino, offset - p->from, block->data, p->from);
	if (is_last && block->size > end)
		put(o, ino, offset + p->len, block->data + end, block->size - end);
	blocks_put(o->blocks, block);
}

/* Is a file being read from front to back? */
static int is_in_order(uint64_t ino, uint64_t offset, uint64_t end)
{
	struct reader *r = &seen.files[ino * 31 % READERS];
	unsigned run;

	pthread_mutex_lock(&seen.lock);
	if (r->ino == ino && offset <= r->next + SLACK && offset + SLACK >= r->next)
		r->run++;
	else
		*r = (struct reader){ .ino = ino };
	if (end > r->next)
		r->next = end;
	run = r->run;
	pthread_mutex_unlock(&seen.lock);
	return run > 0;
}

static void expect_blocks(const struct ops *o, uint64_t ino, uint64_t end)
{
	size_t depth = (size_t)o->threads * 2 < DEPTH_MAX ? (size_t)o->threads * 2 : DEPTH_MAX;
	struct image_piece p[DEPTH_MAX];
	ssize_t n = image_pieces(o->image, ino, end, depth * image_block_size(o->image), p, depth);

	/* Only one: the others are for the threads that answer the next requests. */
	for (ssize_t i = 0; i < n && o->idle(); i++)
		if ((p[i].header != 0 || p[i].fragment) && blocks_expect(o->blocks, &p[i]))
			return;
}

/* --- small files -------------------------------------------------------------------- */

/* Put up to n small files that follow ino in the image, and remember where the next is. */
static void put_files(const struct ops *o, uint64_t ino, size_t n)
{
	struct image_piece p;
	unsigned strangers = 0;

	for (size_t i = 0; i < n && strangers < STRANGERS_MAX && o->idle(); i++) {
		const struct block *block;
		int r = image_next_file(o->image, ino, &ino, &p);

		if (r < 0)
			return;
		pthread_mutex_lock(&seen.lock);
		seen.small.next = ino;
		pthread_mutex_unlock(&seen.lock);
		if (r == 0 || blocks_get(o->blocks, &p, &block) < 0)
			continue;
		strangers = put(o, ino, 0, block->data + p.from, p.len) == 0 ? 0 : strangers + 1;
		blocks_put(o->blocks, block);
	}
}

/* How many files to put after ino was read: none unless it continues a sequence. */
static size_t note_small(uint64_t ino)
{
	struct reader *r = &seen.small;
	size_t n;

	pthread_mutex_lock(&seen.lock);
	/* Links and directories are in between. */
	r->run = ino > r->next && ino - r->next < 1024 ? r->run + 1 : 0;
	r->next = ino;
	n = r->run < 2 ? 0 : r->run < 5 ? 2u << r->run : FILES_MAX;
	pthread_mutex_unlock(&seen.lock);
	return n;
}

void ahead_of_read(const struct ops *o, uint64_t ino, uint64_t offset,
	const struct image_piece *pieces, size_t n)
{
	uint64_t end = offset;
	int in_order;

	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++)
		end += pieces[i].len;
	in_order = is_in_order(ino, offset, end);
	if (!o->idle())
		return;
	if (pthread_mutex_trylock(&seen.putting) == 0) {
		put_rest(o, ino, offset, &pieces[0], n == 1);
		if (n > 1)
			put_rest(o, ino, end - pieces[n - 1].len, &pieces[n - 1], 1);
		if (n == 1 && offset == 0 && pieces[0].fragment)
			put_files(o, ino, note_small(ino));
		pthread_mutex_unlock(&seen.putting);
	}
	if (in_order)
		expect_blocks(o, ino, end);
}

int ahead_put(const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p)
{
	const struct block *block;
	int r;

	if (!o->idle() || pthread_mutex_trylock(&seen.putting) != 0)
		return -EAGAIN;
	r = blocks_get(o->blocks, p, &block);
	if (r == 0) {
		r = put(o, ino, offset, block->data + p->from, p->len);
		blocks_put(o->blocks, block);
	}
	pthread_mutex_unlock(&seen.putting);
	return r;
}
