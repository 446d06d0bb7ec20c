#include "runtime/squashfuse_warm.h"

#include "base/cleanup.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX   (2u << 20) /* bytes of a file; what is larger is not read whole */
#define LINKS_MAX  40         /* as the kernel's own limit, path_resolution(7) */
#define DEPTH_MAX  64
#define PIECES     16
#define SCRIPT_MAX 2 /* a script's interpreter may be a script */

/* A path that is being walked. */
struct walk {
	uint64_t dirs[DEPTH_MAX];
	size_t depth; /* of dirs[], whose last is where we are */
	char todo[2 * PATH_MAX];
};

/* Put a link's target before what is left to walk. */
static int follow(struct image *im, struct walk *w, uint64_t link, const char *rest)
{
	char target[PATH_MAX], left[PATH_MAX];
	int r = image_readlink(im, link, target);

	if (r < 0)
		return r;
	if ((size_t)snprintf(left, sizeof(left), "%s", rest) >= sizeof(left))
		return -ENAMETOOLONG;
	if (target[0] == '/')
		w->depth = 1;
	snprintf(w->todo, sizeof(w->todo), "%s/%s", target, left);
	return 0;
}

int warm_resolve(struct image *im, const char *path, struct stat *ret, uint64_t *dir)
{
	struct walk w = { .dirs = { IMAGE_ROOT }, .depth = 1 };
	int links = 0, r = 0;
	char *s;

	if ((size_t)snprintf(w.todo, sizeof(w.todo), "%s", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	*ret = (struct stat){ .st_ino = IMAGE_ROOT, .st_mode = S_IFDIR };
	for (s = w.todo; r == 0 && *(s += strspn(s, "/"));) {
		size_t len = strcspn(s, "/");
		char name[NAME_MAX + 1];

		if (len > NAME_MAX || w.depth == DEPTH_MAX)
			return -ENAMETOOLONG;
		memcpy(name, s, len);
		name[len] = '\0';
		s += len;
		s += strspn(s, "/");
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			w.depth -= w.depth > 1;
			continue;
		}
		*dir = w.dirs[w.depth - 1];
		r = image_lookup(im, *dir, name, ret);
		if (r == 0 && S_ISDIR(ret->st_mode)) {
			w.dirs[w.depth++] = ret->st_ino;
		} else if (r == 0 && S_ISLNK(ret->st_mode)) {
			r = ++links > LINKS_MAX ? -ELOOP : follow(im, &w, ret->st_ino, s);
			s = w.todo;
		} else if (r == 0 && *s) {
			r = -ENOENT;
		}
	}
	return r;
}

static void warm_file(struct image *im, struct blocks *b, const struct stat *st)
{
	struct image_piece p[PIECES];
	uint64_t end = (uint64_t)st->st_size < FILE_MAX ? (uint64_t)st->st_size : FILE_MAX, at = 0;

	while (S_ISREG(st->st_mode) && at < end) {
		ssize_t n = image_pieces(im, st->st_ino, at, (size_t)(end - at), p, PIECES);

		if (n <= 0)
			return;
		for (ssize_t i = 0; i < n; i++) {
			if (p[i].header != 0 || p[i].fragment)
				blocks_expect(b, &p[i]);
			at += p[i].len;
		}
	}
}

static void warm_path(struct image *im, struct blocks *b, const char *path)
{
	struct stat st;
	uint64_t dir;

	if (warm_resolve(im, path, &st, &dir) == 0)
		warm_file(im, b, &st);
}

/* The loader, and the C library beside it. Most have it there. */
static void warm_loader(struct image *im, struct blocks *b, const char *path)
{
	struct stat st;
	uint64_t dir = IMAGE_ROOT;

	if (warm_resolve(im, path, &st, &dir) < 0)
		return;
	warm_file(im, b, &st);
	if (image_lookup(im, dir, "libc.so.6", &st) == 0)
		warm_file(im, b, &st);
}

/* The loader that an ELF file names, in its first bytes. Returns 0 when it names none. */
static int elf_loader(const char *data, size_t size, char ret[PATH_MAX])
{
	Elf64_Ehdr head;
	Elf64_Phdr ph;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		uint64_t at = head.e_phoff + i * sizeof(ph);

		if (head.e_phoff > size || at + sizeof(ph) > size)
			return 0;
		memcpy(&ph, data + at, sizeof(ph));
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_offset > size || ph.p_filesz > size - ph.p_offset ||
			ph.p_filesz >= PATH_MAX)
			return 0;
		memcpy(ret, data + ph.p_offset, ph.p_filesz);
		ret[ph.p_filesz] = '\0';
		return 1;
	}
	return 0;
}

/* The interpreter that a script names in its first line. Returns 0 when it names none. */
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

static void warm_program(struct image *im, struct blocks *b, const struct stat *st, int depth)
{
	const struct block *first;
	struct image_piece p;
	struct stat interpreter;
	char path[PATH_MAX];
	int is_script, is_elf;
	uint64_t dir;

	if (image_pieces(im, st->st_ino, 0, FILE_MAX, &p, 1) != 1 ||
		(p.header == 0 && !p.fragment) || blocks_get(b, &p, &first) < 0)
		return;
	is_script = script_interpreter(first->data + p.from, p.len, path);
	is_elf = !is_script && elf_loader(first->data + p.from, p.len, path);
	blocks_put(b, first);

	if (is_script && depth < SCRIPT_MAX && warm_resolve(im, path, &interpreter, &dir) == 0)
		warm_program(im, b, &interpreter, depth + 1);
	warm_file(im, b, st);
	if (is_elf)
		warm_loader(im, b, path);
}

/* The first file of that name in a directory of PATH. */
static int search(struct image *im, const char *command, const char *path, struct stat *ret)
{
	char file[PATH_MAX];
	uint64_t dir;

	for (const char *s = path; *s; s += strspn(s, ":")) {
		size_t len = strcspn(s, ":");

		if ((size_t)snprintf(file, sizeof(file), "%.*s/%s", (int)len, s, command) <
				sizeof(file) &&
			warm_resolve(im, file, ret, &dir) == 0)
			return 0;
		s += len;
	}
	return -ENOENT;
}

void warm_command(struct image *im, struct blocks *b, const char *command, const char *path)
{
	struct stat st;
	uint64_t dir;

	warm_path(im, b, "/etc/passwd");
	warm_path(im, b, "/etc/group");
	if (command[0] == '/' ? warm_resolve(im, command, &st, &dir) == 0
			      : !strchr(command, '/') && search(im, command, path, &st) == 0)
		warm_program(im, b, &st, 0);
	warm_path(im, b, "/etc/ld.so.cache");
}
