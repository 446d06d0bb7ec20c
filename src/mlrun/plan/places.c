/* Finds where a plan's mounts go, as runtime/mounts.c makes them: one after the other, each
 * resolved through links of the image and through earlier mounts. */
#include "plan/explain.h"

void plan_seen_done(struct plan_seen *s)
{
	free(s->path);
	free(s->link);
	*s = (struct plan_seen){ 0 };
}

void plan_places_free(struct plan_place *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		plan_seen_done(&v[i].seen);
		free(v[i].hides);
	}
	free(v);
}

const char *plan_there_name(enum plan_there there)
{
	static const char *const names[] = { [PLAN_THERE_UNKNOWN] = "unknown",
		[PLAN_THERE_NOTHING] = "nothing",
		[PLAN_THERE_FILE] = "file",
		[PLAN_THERE_DIRECTORY] = "directory",
		[PLAN_THERE_LINK] = "link",
		[PLAN_THERE_OTHER] = "other" };

	return names[there];
}

/* A copy replaces a link, and making a link does not follow one; a mount goes where a link leads.
 */
static int follows(const struct plan_mount *m)
{
	return plan_kind_covers(m->kind);
}

static size_t count_entries(const char *path)
{
	auto_dir DIR *d = opendir(path);
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	return n;
}

/* Look at the host's file, which an earlier mount shows. */
static void look_at_host(const char *path, int follow, struct plan_seen *ret)
{
	char text[PATH_MAX];
	struct stat sb;
	ssize_t n;

	if ((follow ? stat(path, &sb) : lstat(path, &sb)) < 0)
		ret->there = PLAN_THERE_NOTHING;
	else if (S_ISREG(sb.st_mode))
		ret->there = PLAN_THERE_FILE;
	else if (S_ISDIR(sb.st_mode)) {
		ret->there = PLAN_THERE_DIRECTORY;
		ret->entries = count_entries(path);
	} else if (S_ISLNK(sb.st_mode)) {
		ret->there = PLAN_THERE_LINK;
		n = readlink(path, text, sizeof(text) - 1);
		ret->link = n > 0 ? xstrndup(text, (size_t)n) : NULL;
	} else
		ret->there = PLAN_THERE_OTHER;
}

static const char *place_path(const struct plan *p, const struct plan_place *v, size_t i)
{
	return v[i].seen.path ? v[i].seen.path : p->mounts[i].target;
}

/* Look at what earlier entries made in a fresh file system, mounts on it included. */
static void look_at_made(const struct plan *p, const struct plan_place *v, size_t i, size_t on,
	struct plan_seen *ret)
{
	const char *path = place_path(p, v, i);

	ret->there =
		strcmp(path, place_path(p, v, on)) == 0 ? PLAN_THERE_DIRECTORY : PLAN_THERE_NOTHING;
	for (size_t j = on + 1; j < i; j++)
		if (!v[j].left_out && path_below(place_path(p, v, j), path))
			ret->there = PLAN_THERE_DIRECTORY;
}

/* Look at the place of number i, which lies in the mount of number on. */
static void look_upon(const struct plan *p, struct plan_place *v, size_t i, size_t on)
{
	const struct plan_mount *m = &p->mounts[i], *below = &p->mounts[on];
	struct plan_seen *s = &v[i].seen;
	auto_free char *host = NULL;

	free(take_ptr(&s->link));
	s->entries = 0;
	s->there = PLAN_THERE_UNKNOWN;
	if (below->kind == PLAN_TMPFS)
		look_at_made(p, v, i, on, s);
	if (below->kind != PLAN_BIND && below->kind != PLAN_OVERLAY)
		return;
	host = xasprintf("%s%s", below->source, place_path(p, v, i) + strlen(place_path(p, v, on)));
	look_at_host(host, follows(m), s);
}

static void find_place(
	const struct plan *p, const struct plan_context *c, struct plan_place *v, size_t i)
{
	const struct plan_mount *m = &p->mounts[i];
	size_t on = i;

	c->look(c->ctx, m->target, follows(m), &v[i].seen);
	for (size_t j = 0; j < i; j++)
		if (!v[j].left_out && follows(&p->mounts[j]) &&
			path_below(place_path(p, v, i), place_path(p, v, j)))
			on = j;
	if (on != i) {
		v[i].on = &p->mounts[on];
		look_upon(p, v, i, on);
	}
	if (m->kind == PLAN_SYMLINK)
		v[i].left_out = v[i].seen.there != PLAN_THERE_NOTHING &&
			v[i].seen.there != PLAN_THERE_UNKNOWN &&
			(!(m->flags & PLAN_REPLACE) || v[i].seen.there == PLAN_THERE_DIRECTORY);
	else if (m->flags & PLAN_OPTIONAL)
		v[i].left_out = m->source && access(m->source, F_OK) < 0;
}

static void find_hidden(const struct plan *p, struct plan_place *v, size_t i)
{
	if (v[i].left_out || !follows(&p->mounts[i]))
		return;
	v[i].hides = xcalloc(i + 1, sizeof(*v[i].hides));
	for (size_t j = 0; j < i; j++) {
		int hidden = !v[j].left_out && path_below(place_path(p, v, j), place_path(p, v, i));

		/* Entries that another one hides already are not reported twice. */
		for (size_t k = j + 1; hidden && k < i; k++)
			hidden = v[k].left_out || !follows(&p->mounts[k]) ||
				!path_below(place_path(p, v, j), place_path(p, v, k));
		if (hidden)
			v[i].hides[v[i].n_hides++] = &p->mounts[j];
	}
}

struct plan_place *plan_places(const struct plan *p, const struct plan_context *c)
{
	struct plan_place *v = xcalloc(p->n_mounts + 1, sizeof(*v));

	for (size_t i = 0; i < p->n_mounts; i++) {
		find_place(p, c, v, i);
		find_hidden(p, v, i);
	}
	return v;
}
