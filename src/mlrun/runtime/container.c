#include "runtime/container.h"

#include "runtime/mountinfo.h"

#include <linux/nsfs.h>
#include <sys/ioctl.h>

#define MARK_MAX    255
#define KEYS_LENGTH (2 * (CONTAINER_KEY_SIZE - 1))

static void key_of(const char *text, size_t size, char key[CONTAINER_KEY_SIZE])
{
	char hex[HASH_HEX_SIZE];

	hash_short(text, size, hex);
	memcpy(key, hex, CONTAINER_KEY_SIZE - 1);
	key[CONTAINER_KEY_SIZE - 1] = '\0';
}

/* A launcher may give each rank its own terminal; the ranks then share the first one's. */
static int is_terminal(const struct plan_mount *m)
{
	return m->origin == PLAN_FROM_DEFAULT && strcmp(m->target, "/dev/console") == 0;
}

#define PUT(s) fprintf(f, "%zu:%s ", (s) ? strlen(s) : 0, (s) ? (s) : "-")

static void describe_mount(FILE *f, const struct plan_mount *m)
{
	if (is_terminal(m))
		return;
	fprintf(f, "\n%d %u ", (int)m->kind, m->flags);
	PUT(m->source);
	PUT(m->target);
	PUT(m->options);
	if (m->kind != PLAN_FILE)
		return;
	fprintf(f, "%zu:", m->text_size);
	fwrite(m->text, 1, m->text_size, f);
}

/* Describe all that defines a container, one line a thing. Names may contain any byte, so each
 * string is preceded by its length. */
static char *describe(const struct plan *p, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);

	if (!f)
		mlr_oom();
	fprintf(f, "%s ", p->share);
	PUT(p->kept);
	if (!p->enters_any) {
		fprintf(f, "%d %u ", (int)p->root, p->namespaces);
		PUT(p->squashfs);
		PUT(p->part);
		PUT(p->hostname);
		PUT(p->id.name);
		PUT(p->id.group);
		PUT(p->id.home);
		PUT(p->id.shell);
		for (size_t i = 0; i < p->lowers.n; i++)
			PUT(p->lowers.v[i]);
		for (size_t i = 0; i < p->n_mounts; i++)
			describe_mount(f, &p->mounts[i]);
	}
	if (fclose(f) != 0)
		mlr_oom();
	return text;
}

#undef PUT

void container_keys(const struct plan *p, struct container_keys *ret)
{
	auto_free char *word = xasprintf("%u %u %u %u %s", (unsigned)p->id.uid,
		(unsigned)p->id.host_uid, (unsigned)p->id.gid, (unsigned)p->id.host_gid, p->share);
	size_t size = 0;
	auto_free char *inside = describe(p, &size);

	key_of(word, strlen(word), ret->word);
	key_of(inside, size, ret->inside);
}

char *container_mark(const struct plan *p)
{
	struct container_keys k;
	const char *image = p->image ? p->image : "";
	char *mark;

	if (p->share) {
		container_keys(p, &k);
		mark = xasprintf("mlrun@%s%s:%s", k.word, k.inside, image);
	} else {
		mark = xasprintf("mlrun:%s", image);
	}
	if (strlen(mark) > MARK_MAX)
		mark[MARK_MAX] = '\0';
	return mark;
}

void container_done(struct container *c)
{
	free(c->image);
	*c = (struct container){ 0 };
}

static int parse_mark(const char *mark, struct container *c)
{
	if (strncmp(mark, "mlrun:", 6) == 0) {
		c->image = xstrdup(mark + 6);
		return 0;
	}
	if (strncmp(mark, "mlrun@", 6) != 0 ||
		strspn(mark + 6, "0123456789abcdef") != KEYS_LENGTH || mark[6 + KEYS_LENGTH] != ':')
		return -ENOENT;
	memcpy(c->keys.word, mark + 6, CONTAINER_KEY_SIZE - 1);
	memcpy(c->keys.inside, mark + 6 + CONTAINER_KEY_SIZE - 1, CONTAINER_KEY_SIZE - 1);
	c->image = xstrdup(mark + 6 + KEYS_LENGTH + 1);
	return 0;
}

int container_parse(const char *mountinfo, struct container *ret)
{
	auto_free char *text = xstrdup(mountinfo);
	const char *mark = NULL;
	struct container c = { 0 };
	struct mountinfo m;

	/* The process sees the last mount on "/". */
	for (char *rest = text; mountinfo_next(&rest, &m);)
		if (strcmp(m.target, "/") == 0) {
			c.id = (uint64_t)m.major << 32 | m.minor;
			mark = m.source;
		}
	TRY(mark ? parse_mark(mark, &c) : -ENOENT);
	*ret = c;
	return 0;
}

/* Is the parent of this user namespace the caller's own? Also get its owner. */
static int is_child_namespace(int proc, int ns, uid_t *owner)
{
	auto_close int parent = -1;
	struct stat of_parent, own;

	parent = ioctl(ns, NS_GET_PARENT);
	if (parent < 0) /* the initial namespace, or one that is not below ours */
		return 0;
	if (ioctl(ns, NS_GET_OWNER_UID, owner) < 0 || fstat(parent, &of_parent) < 0 ||
		fstatat(proc, "self/ns/user", &own, 0) < 0)
		return -errno;
	return file_is_one(&of_parent, &own);
}

int container_is_users(int proc, int userns)
{
	uid_t owner;

	return is_child_namespace(proc, userns, &owner) > 0 && owner == geteuid();
}

int container_look(int proc, pid_t pid, struct container *ret)
{
	auto_call(container_done) struct container c = { 0 };
	auto_free char *text = NULL;
	auto_close int ns = -1;
	char name[40];
	int r;

	snprintf(name, sizeof(name), "%ld/mountinfo", (long)pid);
	r = mountinfo_read(proc, name, &text);
	if (r == 0)
		r = container_parse(text, &c);
	if (r == 0) {
		snprintf(name, sizeof(name), "%ld/ns/user", (long)pid);
		ns = openat(proc, name, O_RDONLY | O_CLOEXEC);
		r = ns < 0 ? -errno : is_child_namespace(proc, ns, &c.owner);
		if (r == 0)
			r = -ENOENT;
	}
	if (r == -EPERM)
		r = -EACCES;
	/* A process that is ending has no mounts: EINVAL, and soon no directory. */
	if (r == -EINVAL)
		r = -ESRCH;
	if (r < 0) {
		snprintf(name, sizeof(name), "%ld", (long)pid);
		return faccessat(proc, name, F_OK, 0) < 0 ? -ESRCH : r;
	}
	*ret = take_struct(&c, { 0 });
	return 0;
}

int container_is_foreign(const struct container *c)
{
	return c->owner != geteuid();
}

int container_refuse(pid_t pid, int r, struct mlr_error *err)
{
	switch (r) {
	case -ENOENT:
		mlr_fail(err, EINVAL, "process %ld is in no container of mlrun's", (long)pid);
		return mlr_hint(err, "mlrun ps lists those that are");
	case -ESRCH:
		return mlr_fail(err, ESRCH, "no process %ld", (long)pid);
	case -EACCES:
	case -EPERM:
		return mlr_fail(err, EPERM,
			"process %ld may not be looked at: it or its program is another user's",
			(long)pid);
	default:
		return mlr_result(err, r, "process %ld", (long)pid);
	}
}
