#include "squashfs/server_look.h"

#include "squashfs/look.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PIECES       32
#define HEAD         4096        /* bytes of an ELF file's start, mostly with its program headers */
#define NOTE_SECTION (64u << 10) /* bytes of a section that is a note by its name alone */

static int put(int fd, const char *data, size_t size, off_t at)
{
	while (size > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, data, size, at));

		if (n < 0)
			return -errno;
		data += n;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Seal a file so that its receiver may map it: it can neither change nor shrink. */
static int seal(int fd)
{
	int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	return fcntl(fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

static int open_memory(size_t size)
{
	auto_close int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return take_fd(&fd);
}

/* A file of the image being copied to memory. */
struct copy {
	struct image *im;
	struct blocks *blocks;
	uint64_t ino, size;
	uint64_t left; /* bytes that may still be copied */
	int fd;
};

/* Copy pieces from an offset on. Returns their bytes. */
static ssize_t copy_pieces(const struct copy *c, uint64_t at, uint64_t size)
{
	struct image_piece p[PIECES];
	ssize_t n = image_pieces(c->im, c->ino, at, (size_t)size, p, PIECES), done = 0;

	if (n <= 0)
		return -EIO;
	for (ssize_t i = 0; i < n; i++) {
		const struct block *b;
		int r = 0;

		if (p[i].header != 0 || p[i].fragment) { /* otherwise a hole */
			TRY(blocks_get(c->blocks, &p[i], &b));
			r = put(c->fd, b->data + p[i].from, p[i].len, (off_t)at + done);
			blocks_put(c->blocks, b);
		}
		TRY(r);
		done += p[i].len;
	}
	return done > 0 ? done : -EIO;
}

/* Copy a range, cut at the file's end. */
static int copy_range(struct copy *c, uint64_t at, uint64_t size)
{
	if (at >= c->size)
		return 0;
	if (size > c->size - at)
		size = c->size - at;
	if (size > c->left)
		return -EFBIG;
	c->left -= size;
	while (size > 0) {
		ssize_t n = copy_pieces(c, at, size);

		TRY((int)n);
		at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

/* Is the section called a note? Tools that add one to a library may use another type. */
static int is_named_note(const struct copy *c, const Elf64_Shdr *s, const Elf64_Shdr *names)
{
	char name[6];

	return s->sh_type == SHT_PROGBITS && s->sh_size <= NOTE_SECTION &&
		s->sh_name < names->sh_size && names->sh_offset < c->size &&
		pread(c->fd, name, sizeof(name), (off_t)(names->sh_offset + s->sh_name)) ==
		sizeof(name) &&
		memcmp(name, ".note.", sizeof(name)) == 0;
}

static int copy_section(struct copy *c, const Elf64_Shdr *s, const Elf64_Shdr *names)
{
	if (s->sh_type == SHT_DYNAMIC || s->sh_type == SHT_NOTE || s->sh_type == SHT_GNU_verdef ||
		s->sh_type == SHT_GNU_verneed ||
		(s->sh_type == SHT_STRTAB && (s->sh_flags & SHF_ALLOC)) ||
		is_named_note(c, s, names))
		return copy_range(c, s->sh_offset, s->sh_size);
	return 0;
}

/* Returns 1 if it was copied, 0 if it is not an ELF file of this kind. */
static int copy_elf(struct copy *c)
{
	auto_free Elf64_Shdr *sections = NULL;
	Elf64_Shdr *names;
	Elf64_Ehdr head;
	size_t len;

	TRY(copy_range(c, 0, HEAD));
	if (pread(c->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
		head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(*sections) ||
		head.e_shstrndx >= head.e_shnum)
		return 0;
	len = head.e_shnum * sizeof(*sections);
	sections = calloc(head.e_shnum, sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	TRY(copy_range(c, head.e_phoff, (uint64_t)head.e_phnum * sizeof(Elf64_Phdr)));
	TRY(copy_range(c, head.e_shoff, len));
	if (head.e_shoff > c->size || pread(c->fd, sections, len, (off_t)head.e_shoff) < 0)
		return 0;
	names = &sections[head.e_shstrndx];
	if (names->sh_type == SHT_STRTAB)
		TRY(copy_range(c, names->sh_offset, names->sh_size));
	for (size_t i = 0; i < head.e_shnum; i++)
		TRY(copy_section(c, &sections[i], names));
	return 1;
}

static int look_file(struct image *im, struct blocks *blocks, const struct stat *st, int about)
{
	struct copy c = { im, blocks, st->st_ino, (uint64_t)st->st_size, LOOK_FILE_MAX, -1 };
	auto_close int fd = -1;
	int r = 0;

	if (!S_ISREG(st->st_mode))
		return -ENOENT;
	TRY(fd = c.fd = open_memory((size_t)c.size));
	if (about && c.size > LOOK_WHOLE_MAX)
		TRY(r = copy_elf(&c));
	if (r == 0)
		TRY(copy_range(&c, 0, c.size));
	TRY(seal(fd));
	return take_fd(&fd);
}

/* Names being written to a file; if fd is -1, they are only counted. */
struct names {
	int fd;
	off_t size;
	uint64_t n;
	int error;
};

static int add_name(void *arg, const char *name, const struct stat *st, off_t next)
{
	struct names *l = arg;
	size_t len = strlen(name) + 1;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 1;
	if (l->size + (off_t)len > LOOK_NAMES_MAX)
		l->error = -EFBIG;
	else if (l->fd >= 0)
		l->error = put(l->fd, name, len, l->size);
	l->size += (off_t)len;
	l->n++;
	return l->error == 0;
}

static int look_names(struct image *im, const struct stat *st)
{
	auto_close int fd = open_memory(0);
	struct names l = { .fd = fd };

	TRY(fd);
	TRY(image_list(im, st->st_ino, 0, 0, add_name, &l));
	TRY(l.error);
	TRY(seal(fd));
	return take_fd(&fd);
}

/* Add what is particular to links and directories. */
static int look_closer(struct image *im, const struct stat *st, struct look_answer *ret)
{
	struct names l = { .fd = -1 };
	int r = 0;

	if (S_ISLNK(st->st_mode))
		return image_readlink(im, st->st_ino, ret->target);
	if (S_ISDIR(st->st_mode))
		r = image_list(im, st->st_ino, 0, 0, add_name, &l);
	ret->entries = l.n;
	return r;
}

static int answer(struct image *im, struct blocks *blocks, const struct look_request *q,
	struct look_answer *ret)
{
	struct image_place at;
	int r;

	if (!im)
		return -EPROTO;
	at.path[0] = '\0';
	r = image_resolve(im, q->path, q->what == LOOK_ITSELF ? IMAGE_NOFOLLOW : IMAGE_FOLLOW, &at);
	if (r == 0 || r == -ENOENT)
		snprintf(ret->path, sizeof(ret->path), "%s", at.path);
	TRY(r);
	ret->mode = at.st.st_mode;
	switch (q->what) {
	case LOOK_FILE:
	case LOOK_ABOUT:
		return look_file(im, blocks, &at.st, q->what == LOOK_ABOUT);
	case LOOK_NAMES:
		return look_names(im, &at.st);
	case LOOK_PLACE:
	case LOOK_ITSELF:
		return look_closer(im, &at.st, ret);
	default:
		return -EINVAL;
	}
}

void look_serve(int sock, struct image *im, struct blocks *blocks)
{
	static struct look_request q;
	static struct look_answer a;
	ssize_t n;

	for (;;) {
		auto_close int fd = -1;
		int r;

		n = TEMP_FAILURE_RETRY(recv(sock, &q, sizeof(q) - 1, 0));
		if (n <= (ssize_t)sizeof(q.what))
			return;
		((char *)&q)[n] = '\0';
		a = (struct look_answer){ 0 };
		r = answer(im, blocks, &q, &a);
		a.code = r < 0 ? r : 0;
		if (r > 0)
			fd = r; /* never 0: 0 to 4 are in use */
		if (fds_send(sock, &a, sizeof(a), fd) < 0)
			return;
	}
}
