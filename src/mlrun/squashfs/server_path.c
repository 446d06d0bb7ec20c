#include "squashfs/server_image.h"

#define LINKS_MAX 40 /* the kernel's own limit, path_resolution(7) */
#define DEPTH_MAX 64

/* The state of a path's resolution. */
struct walk {
	struct image *im;
	struct image_place *at;
	uint64_t dirs[DEPTH_MAX];
	size_t ends[DEPTH_MAX]; /* the length of at->path up to each directory */
	size_t depth;           /* of dirs[], whose last is the current one */
	int links;
	char todo[2 * PATH_MAX];
};

/* Set the place to the current directory. */
static void stay(struct walk *w)
{
	w->at->st = (struct stat){ .st_ino = w->dirs[w->depth - 1], .st_mode = S_IFDIR };
	w->at->path[w->ends[w->depth - 1]] = '\0';
}

/* Put a link's target in front of the rest. */
static int follow(struct walk *w, uint64_t link, const char *rest)
{
	char target[PATH_MAX], left[PATH_MAX];

	TRY(++w->links > LINKS_MAX ? -ELOOP : image_readlink(w->im, link, target));
	if ((size_t)snprintf(left, sizeof(left), "%s", rest) >= sizeof(left))
		return -ENAMETOOLONG;
	if (target[0] == '/')
		w->depth = 1;
	stay(w);
	snprintf(w->todo, sizeof(w->todo), "%s/%s", target, left);
	return 0;
}

/* Set the place to a name of the current directory, with the rest after it. */
static int note(struct walk *w, const char *name, const char *rest)
{
	size_t end = w->ends[w->depth - 1];
	int n = snprintf(w->at->path + end, sizeof(w->at->path) - end, "/%s%s%s", name,
		*rest ? "/" : "", rest);

	return (size_t)n < sizeof(w->at->path) - end ? 0 : -ENAMETOOLONG;
}

/* Resolve one component. */
static int step(struct walk *w, const char *name, const char *rest, enum image_follow last)
{
	struct image_place *at = w->at;
	int r;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		w->depth -= w->depth > 1;
		stay(w);
		return 0;
	}
	at->dir = w->dirs[w->depth - 1];
	TRY(note(w, name, rest));
	TRY(image_lookup(w->im, at->dir, name, &at->st));
	if (S_ISLNK(at->st.st_mode) && (*rest || last == IMAGE_FOLLOW))
		return follow(w, at->st.st_ino, rest);
	if (!S_ISDIR(at->st.st_mode))
		return *rest ? -ENOENT : 0;
	if (w->depth == DEPTH_MAX)
		return -ENAMETOOLONG;
	r = note(w, name, "");
	w->dirs[w->depth] = at->st.st_ino;
	w->ends[w->depth++] = strlen(at->path);
	return r;
}

int image_resolve(
	struct image *im, const char *path, enum image_follow last, struct image_place *ret)
{
	struct walk w = { .im = im, .at = ret, .dirs = { IMAGE_ROOT }, .depth = 1 };
	char *s = w.todo;

	if ((size_t)snprintf(w.todo, sizeof(w.todo), "%s", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	ret->dir = IMAGE_ROOT;
	stay(&w);
	while (*(s += strspn(s, "/"))) {
		size_t len = strcspn(s, "/");
		char name[NAME_MAX + 1];
		int links = w.links;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, s, len);
		name[len] = '\0';
		s += len;
		TRY(step(&w, name, s + strspn(s, "/"), last));
		if (w.links > links)
			s = w.todo;
	}
	if (!*ret->path)
		strcpy(ret->path, "/");
	return 0;
}
