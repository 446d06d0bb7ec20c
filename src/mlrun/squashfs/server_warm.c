#include "squashfs/server_ops.h"

#include "base/machine.h"

#define FILE_MAX    (2u << 20) /* bytes of a file; larger files are not read whole */
#define PIECES      16
#define TARGETS_MAX 16
#define SEEN_MAX    64  /* look-ups of a start that are remembered */
#define WAIT_MS     500 /* how long to wait for the kernel's look-ups */
#define SCRIPT_MAX  2   /* a script's interpreter may be a script */

/* --- files -------------------------------------------------------------------------- */

/* The prefetched files. */
struct target {
	uint64_t ino, size;
	int is_known; /* the kernel has looked it up */
	int is_put;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t known;
	struct target targets[TARGETS_MAX];
	size_t n;
	uint64_t seen[SEEN_MAX]; /* the first inodes that the kernel looked up */
	size_t n_seen;
} warm = { .lock = PTHREAD_MUTEX_INITIALIZER, .known = PTHREAD_COND_INITIALIZER };

/* Call act() for each block of a file. */
static void each_block(const struct ops *o, uint64_t ino, uint64_t size,
	void (*act)(
		const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p))
{
	struct image_piece p[PIECES];

	for (uint64_t at = 0; at < size;) {
		ssize_t n = image_pieces(o->image, ino, at, (size_t)(size - at), p, PIECES);

		if (n <= 0)
			return;
		for (ssize_t i = 0; i < n; i++) {
			if (p[i].header != 0 || p[i].fragment)
				act(o, ino, at, &p[i]);
			at += p[i].len;
		}
	}
}

static void expect(const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p)
{
	blocks_expect(o->blocks, p);
}

static void put(const struct ops *o, uint64_t ino, uint64_t offset, const struct image_piece *p)
{
	ahead_put(o, ino, offset, p);
}

/* The next file that the kernel has looked up and not received. */
static struct target *next_known(void)
{
	for (size_t i = 0; i < warm.n; i++)
		if (warm.targets[i].is_known && !warm.targets[i].is_put)
			return &warm.targets[i];
	return NULL;
}

static int all_put(void)
{
	for (size_t i = 0; i < warm.n; i++)
		if (!warm.targets[i].is_put)
			return 0;
	return 1;
}

/* Put the files that the kernel has looked up; wait for the others until a given time. */
static void put_known(const struct ops *o, const struct timespec *until)
{
	struct target *t;
	int r = 0;

	pthread_mutex_lock(&warm.lock);
	while ((t = next_known()) || (until && r == 0 && !all_put())) {
		if (!t) {
			r = pthread_cond_clockwait(&warm.known, &warm.lock, CLOCK_MONOTONIC, until);
			continue;
		}
		t->is_put = 1;
		pthread_mutex_unlock(&warm.lock);
		each_block(o, t->ino, t->size, put);
		pthread_mutex_lock(&warm.lock);
	}
	pthread_mutex_unlock(&warm.lock);
}

void warm_looked_up(uint64_t ino)
{
	pthread_mutex_lock(&warm.lock);
	if (warm.n_seen < SEEN_MAX)
		warm.seen[warm.n_seen++] = ino;
	for (size_t i = 0; i < warm.n; i++)
		if (warm.targets[i].ino == ino && !warm.targets[i].is_known) {
			warm.targets[i].is_known = 1;
			pthread_cond_signal(&warm.known);
		}
	pthread_mutex_unlock(&warm.lock);
}

/* The lock must be held. */
static int is_seen(uint64_t ino)
{
	for (size_t i = 0; i < warm.n_seen; i++)
		if (warm.seen[i] == ino)
			return 1;
	return 0;
}

static void warm_file(const struct ops *o, const struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size < FILE_MAX ? (uint64_t)st->st_size : FILE_MAX;

	if (!S_ISREG(st->st_mode) || warm.n == TARGETS_MAX)
		return;
	pthread_mutex_lock(&warm.lock);
	warm.targets[warm.n++] =
		(struct target){ .ino = st->st_ino, .size = size, .is_known = is_seen(st->st_ino) };
	pthread_mutex_unlock(&warm.lock);
	each_block(o, st->st_ino, size, expect);
	put_known(o, NULL);
}

static void warm_path(const struct ops *o, const char *path)
{
	struct image_place at;

	if (image_resolve(o->image, path, IMAGE_FOLLOW, &at) == 0)
		warm_file(o, &at.st);
}

/* Prefetch the loader, and the C library, which is usually beside it. */
static void warm_loader(const struct ops *o, const char *path)
{
	struct image_place at;
	struct stat libc;

	if (image_resolve(o->image, path, IMAGE_FOLLOW, &at) < 0)
		return;
	warm_file(o, &at.st);
	if (image_lookup(o->image, at.dir, "libc.so.6", &libc) == 0)
		warm_file(o, &libc);
}

/* The interpreter in a script's first line. Returns 0 if there is none. */
static int script_interpreter(const char *data, size_t size, char ret[PATH_MAX])
{
	size_t at = 2, n = 0;

	if (size < 3 || memcmp(data, "#!", 2) != 0)
		return 0;
	while (at < size && (data[at] == ' ' || data[at] == '\t'))
		at++;
	while (at < size && n < PATH_MAX - 1 && !strchr(" \t\n", data[at]))
		ret[n++] = data[at++];
	ret[n] = '\0';
	return n > 0;
}

static void warm_program(const struct ops *o, const struct stat *st, int depth)
{
	const struct block *first;
	struct image_piece p;
	struct image_place interpreter;
	char path[PATH_MAX];
	int is_script, is_elf;

	if (image_pieces(o->image, st->st_ino, 0, FILE_MAX, &p, 1) != 1 ||
		(p.header == 0 && !p.fragment) || blocks_get(o->blocks, &p, &first) < 0)
		return;
	is_script = script_interpreter(first->data + p.from, p.len, path);
	is_elf = !is_script && elf_interpreter(first->data + p.from, p.len, path);
	blocks_put(o->blocks, first);

	if (is_script && depth < SCRIPT_MAX &&
		image_resolve(o->image, path, IMAGE_FOLLOW, &interpreter) == 0)
		warm_program(o, &interpreter.st, depth + 1);
	warm_file(o, st);
	if (is_elf)
		warm_loader(o, path);
}

/* Find the first file of that name in PATH. */
static int search(struct image *im, const char *command, const char *path, struct image_place *ret)
{
	char file[PATH_MAX];

	for (const char *s = path; *s; s += strspn(s, ":")) {
		size_t len = strcspn(s, ":");

		if ((size_t)snprintf(file, sizeof(file), "%.*s/%s", (int)len, s, command) <
				sizeof(file) &&
			image_resolve(im, file, IMAGE_FOLLOW, ret) == 0)
			return 0;
		s += len;
	}
	return -ENOENT;
}

void warm_command(const struct ops *o, const char *command, const char *path)
{
	struct image_place at;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += WAIT_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	warm_path(o, "/etc/passwd");
	warm_path(o, "/etc/group");
	if (command[0] == '/' ? image_resolve(o->image, command, IMAGE_FOLLOW, &at) == 0
			      : !strchr(command, '/') && search(o->image, command, path, &at) == 0)
		warm_program(o, &at.st, 0);
	warm_path(o, "/etc/ld.so.cache");
	put_known(o, &until);
}
