#include "rootfs/verify_xattrs.h"

#include "base/base.h"
#include "base/file_owner.h"

#include <sys/xattr.h>

#define VALUE_MAX (64u << 10) /* the kernel's limit, xattr(7) */

struct xattr_sum {
	uint64_t name, value;
};

static uint64_t sum_of(const void *p, size_t len)
{
	char hex[HASH_HEX_SIZE];

	hash_buffer(p, len, hex);
	hex[16] = '\0';
	return strtoull(hex, NULL, 16);
}

/* The last value of a name counts, as the unpacker sets them in order. */
void xattr_sums_take(struct xattr_sums *s, const struct layer_member *m)
{
	if (m->n_xattrs == 0)
		return;
	s->v = xcalloc(m->n_xattrs, sizeof(*s->v));
	for (size_t i = m->n_xattrs; i-- > 0;) {
		const struct layer_xattr *x = &m->xattrs[i];

		s->v[s->n++] = (struct xattr_sum){ sum_of(x->name, strlen(x->name)),
			sum_of(x->value, x->size) };
	}
}

void xattr_sums_done(struct xattr_sums *s)
{
	free(s->v);
	*s = (struct xattr_sums){ NULL, 0 };
}

static int is_right(const struct xattr_sums *s, int fd, const char *name)
{
	auto_free char *value = xmalloc(VALUE_MAX);
	ssize_t len = fgetxattr(fd, name, value, VALUE_MAX);
	uint64_t sum = sum_of(name, strlen(name));

	for (size_t i = 0; len >= 0 && i < s->n; i++)
		if (s->v[i].name == sum)
			return s->v[i].value == sum_of(value, (size_t)len);
	return len < 0;
}

int xattr_sums_differ(const struct xattr_sums *s, int fd)
{
	auto_free char *names = NULL;
	ssize_t len = flistxattr(fd, NULL, 0);

	if (len <= 0)
		return 0;
	names = xmalloc((size_t)len);
	len = flistxattr(fd, names, (size_t)len);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, "user.", 5) == 0 &&
			strncmp(names + at, "user.overlay.", 13) != 0 &&
			!file_owner_is_xattr(names + at) && !is_right(s, fd, names + at))
			return 1;
	return 0;
}
