#include "base/owners_file.h"

#include "base/base.h"

#include <search.h>
#include <sys/sysmacros.h>

#define FILE_MAX (64 << 20) /* bytes; no more records are added */

struct record {
	struct owners_file_key key;
	uint32_t uid, gid;
	char path[];
};

static int by_time(const struct owners_file_key *x, const struct owners_file_key *y)
{
	if (x->seconds != y->seconds)
		return x->seconds < y->seconds ? -1 : 1;
	if (x->nanoseconds != y->nanoseconds)
		return x->nanoseconds < y->nanoseconds ? -1 : 1;
	return 0;
}

static int by_inode(const void *a, const void *b)
{
	const struct owners_file_key *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return by_time(x, y);
}

static int by_path(const void *a, const void *b)
{
	const struct owners_file_key *x = a, *y = b;
	int r = by_time(x, y);

	return r ? r : strcmp(x->path, y->path);
}

static struct record *find_inode(const struct owners_file *o, const struct owners_file_key *key)
{
	struct record **found = tfind(key, &o->by_inode, by_inode);

	return found ? *found : NULL;
}

static struct record *find_path(const struct owners_file *o, const struct owners_file_key *key)
{
	struct record **found = key->seconds ? tfind(key, &o->by_path, by_path) : NULL;

	return found ? *found : NULL;
}

static void forget(struct owners_file *o, struct record *r)
{
	if (!r)
		return;
	tdelete(r, &o->by_inode, by_inode);
	tdelete(r, &o->by_path, by_path);
	free(r);
	o->n--;
}

static void remember(
	struct owners_file *o, const struct owners_file_key *key, uint32_t uid, uint32_t gid)
{
	size_t len = strlen(key->path) + 1;
	struct record *r = xcalloc(1, sizeof(*r) + len);

	r->key = *key;
	r->key.path = memcpy(r->path, key->path, len);
	r->uid = uid;
	r->gid = gid;
	forget(o, find_inode(o, key));
	forget(o, find_path(o, key));
	if (!tsearch(r, &o->by_inode, by_inode) ||
		(key->seconds && !tsearch(r, &o->by_path, by_path)))
		mlr_oom();
	o->n++;
}

static void keep(void *record)
{
}

void owners_file_done(struct owners_file *o)
{
	tdestroy(o->by_path, keep);
	tdestroy(o->by_inode, free);
	fd_close(&o->fd);
	*o = (struct owners_file)OWNERS_FILE_INIT;
}

/* --- the file -------------------------------------------------------------------- */

static void take_text(struct owners_file *o, const char *text)
{
	struct owners_file_key key = { 0 };
	uint32_t uid, gid;
	int at = 0;

	if (sscanf(text, "%" SCNu64 " %" SCNd64 " %" SCNu32 " %" SCNu32 " %" SCNu32 "%n", &key.ino,
		    &key.seconds, &key.nanoseconds, &uid, &gid, &at) < 5 ||
		text[at] != ' ' || key.seconds == 0)
		return;
	key.path = text + at + 1;
	remember(o, &key, uid, gid);
}

/* Only whole records: another process may be writing one. */
static void take_new(struct owners_file *o, size_t len)
{
	auto_free char *buf = xmalloc(len);
	ssize_t n = pread(o->fd, buf, len, o->read);
	size_t at = 0;

	while (n > 0 && at < (size_t)n) {
		const char *end = memchr(buf + at, '\0', (size_t)n - at);

		if (!end)
			break;
		take_text(o, buf + at);
		at = (size_t)(end - buf) + 1;
	}
	o->read += (off_t)at;
}

void owners_file_open(struct owners_file *o, int fd)
{
	*o = (struct owners_file)OWNERS_FILE_INIT;
	o->fd = fd;
}

int owners_file_has_any(struct owners_file *o)
{
	struct stat st;

	if (o->fd >= 0 && fstat(o->fd, &st) == 0 && st.st_size > o->read && st.st_size <= FILE_MAX)
		take_new(o, (size_t)(st.st_size - o->read));
	return o->n > 0;
}

/* --- owners ------------------------------------------------------------------------ */

int owners_file_key_of(
	int dirfd, const char *name, int flags, const char *path, struct owners_file_key *ret)
{
	struct statx x;

	if (statx(dirfd, name, flags | AT_NO_AUTOMOUNT, STATX_INO | STATX_BTIME, &x) < 0)
		return -errno;
	*ret = (struct owners_file_key){ .ino = x.stx_ino, .path = path + (*path == '/') };
	if (x.stx_mask & STATX_BTIME) {
		ret->seconds = x.stx_btime.tv_sec;
		ret->nanoseconds = x.stx_btime.tv_nsec;
	}
	if (ret->seconds == 0) {
		ret->nanoseconds = 0;
		ret->dev = makedev(x.stx_dev_major, x.stx_dev_minor);
	}
	return 0;
}

int owners_file_find(
	struct owners_file *o, const struct owners_file_key *key, struct file_owner *ret)
{
	const struct record *r;

	if (!owners_file_has_any(o))
		return 0;
	r = find_inode(o, key);
	if (!r)
		r = find_path(o, key);
	if (r)
		*ret = (struct file_owner){ r->uid, r->gid, 0 };
	return r != NULL;
}

char *owners_file_text(const struct owners_file_key *key, const struct file_owner *owner)
{
	return xasprintf("%" PRIu64 " %" PRId64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %s", key->ino,
		key->seconds, key->nanoseconds, owner->uid, owner->gid, key->path);
}

int owners_file_set(
	struct owners_file *o, const struct owners_file_key *key, const struct file_owner *owner)
{
	struct file_owner now = { 0, 0, 0 };
	auto_free char *text = NULL;
	size_t len;

	owners_file_find(o, key, &now);
	if (now.uid == owner->uid && now.gid == owner->gid)
		return 0;
	remember(o, key, owner->uid, owner->gid);
	if (o->fd < 0 || key->seconds == 0)
		return 0;
	if (o->read > FILE_MAX - PATH_MAX)
		return -EFBIG;
	text = owners_file_text(key, owner);
	len = strlen(text) + 1;
	return write(o->fd, text, len) == (ssize_t)len ? 0 : -EIO;
}
