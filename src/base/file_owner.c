#include "base/file_owner.h"

#include "base/base.h"
#include "base/tighten.h"

#include <sys/xattr.h>

#define UID_TAG    0x08 /* field 1, varint (protobuf.dev/programming-guides/encoding) */
#define GID_TAG    0x10
#define CAPABILITY "security.capability"
#define NO_ID      0xffffffffu /* "not changed" */

int file_owner_is_xattr(const char *name)
{
	return strcmp(name, FILE_OWNER_XATTR) == 0 || strcmp(name, FILE_OWNER_MODE) == 0 ||
		strcmp(name, FILE_OWNER_CAPABILITY) == 0;
}

/* Attributes of users, but for those that overlayfs obeys. */
static int is_kept(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

const char *file_owner_kept_name(const char *name)
{
	if (strcmp(name, CAPABILITY) == 0)
		return FILE_OWNER_CAPABILITY;
	return is_kept(name) ? name : NULL;
}

const char *file_owner_layer_name(const char *name)
{
	if (strcmp(name, FILE_OWNER_CAPABILITY) == 0)
		return CAPABILITY;
	return is_kept(name) && !file_owner_is_xattr(name) ? name : NULL;
}

int file_owner_is_capability(const void *value, size_t len)
{
	const unsigned char *v = value;
	unsigned revision = len >= 4 ? v[3] : 0;

	return (revision == 2 && len == 20) || (revision == 3 && len == 24);
}

static size_t put(unsigned char *to, unsigned char tag, uint32_t value)
{
	size_t n = 0;

	if (value == 0)
		return 0;
	to[n++] = tag;
	for (; value >= 0x80; value >>= 7)
		to[n++] = (unsigned char)(value | 0x80);
	to[n++] = (unsigned char)value;
	return n;
}

mode_t file_owner_mode(const struct file_owner *o, mode_t real)
{
	const mode_t kept = 07777 & ~TIGHTEN_BITS;

	if (!o->mode || (o->mode & kept) != (real & kept) || (real & (S_ISUID | S_ISGID)))
		return real;
	return (real & ~(mode_t)07777) | o->mode;
}

size_t file_owner_encode(const struct file_owner *o, unsigned char out[FILE_OWNER_SIZE])
{
	size_t n = put(out, UID_TAG, o->uid);

	return n + put(out + n, GID_TAG, o->gid);
}

/* Read a varint. Returns the bytes it has, or 0. */
static size_t get(const unsigned char *buf, size_t len, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < len && i < 10; i++) {
		*ret |= (uint64_t)(buf[i] & 0x7f) << (7 * i);
		if (!(buf[i] & 0x80))
			return i + 1;
	}
	return 0;
}

int file_owner_decode(const unsigned char *buf, size_t len, struct file_owner *ret)
{
	uint64_t value;

	*ret = (struct file_owner){ 0, 0, 0 };
	while (len > 0) {
		unsigned char tag = *buf;
		size_t n = tag == UID_TAG || tag == GID_TAG ? get(buf + 1, len - 1, &value) : 0;

		if (n == 0 || value > NO_ID)
			return -EINVAL;
		if (value == NO_ID)
			value = 0;
		if (tag == UID_TAG)
			ret->uid = (uint32_t)value;
		else
			ret->gid = (uint32_t)value;
		buf += n + 1;
		len -= n + 1;
	}
	return 0;
}

/* Where attributes are: a path, or a descriptor. */
struct place {
	const char *path; /* NULL: fd */
	int fd;
	const char *names; /* size bytes of listxattr(2); NULL: unknown */
	size_t size;
};

static ssize_t read_xattr(const struct place *p, const char *name, void *buf, size_t size)
{
	if (p->names && !memmem(p->names, p->size, name, strlen(name) + 1))
		return -1;
	return p->path ? getxattr(p->path, name, buf, size) : fgetxattr(p->fd, name, buf, size);
}

static int write_xattr(const struct place *p, const char *name, const void *buf, size_t size)
{
	int r = p->path ? setxattr(p->path, name, buf, size, 0)
			: fsetxattr(p->fd, name, buf, size, 0);

	return r < 0 ? -errno : 0;
}

static int remove_xattr(const struct place *p, const char *name)
{
	int r = p->path ? removexattr(p->path, name) : fremovexattr(p->fd, name);

	return r < 0 && errno != ENODATA ? -errno : 0;
}

static int get_record(const struct place *p, struct file_owner *ret)
{
	unsigned char buf[64];
	char mode[8] = "";
	ssize_t n = read_xattr(p, FILE_OWNER_XATTR, buf, sizeof(buf));
	int found = n >= 0 && file_owner_decode(buf, (size_t)n, ret) == 0;

	if (!found)
		*ret = (struct file_owner){ 0, 0, 0 };
	if (read_xattr(p, FILE_OWNER_MODE, mode, sizeof(mode) - 1) > 0) {
		ret->mode = (mode_t)strtoul(mode, NULL, 8) & 07777;
		found = 1;
	}
	return found;
}

static int set_record(const struct place *p, const struct file_owner *o)
{
	unsigned char buf[FILE_OWNER_SIZE];
	char mode[8];
	int r;

	if (o->uid || o->gid)
		r = write_xattr(p, FILE_OWNER_XATTR, buf, file_owner_encode(o, buf));
	else
		r = remove_xattr(p, FILE_OWNER_XATTR);
	TRY(r);
	if (o->mode == 0)
		return remove_xattr(p, FILE_OWNER_MODE);
	snprintf(mode, sizeof(mode), "%o", (unsigned)o->mode & 07777);
	return write_xattr(p, FILE_OWNER_MODE, mode, strlen(mode));
}

int file_owner_get(const char *path, struct file_owner *ret)
{
	return get_record(&(struct place){ .path = path, .fd = -1 }, ret);
}

int file_owner_get_listed(const char *path, const char *names, size_t size, struct file_owner *ret)
{
	return get_record(&(struct place){ path, -1, names, size }, ret);
}

int file_owner_set(const char *path, const struct file_owner *o)
{
	return set_record(&(struct place){ .path = path, .fd = -1 }, o);
}

int file_owner_get_fd(int fd, struct file_owner *ret)
{
	return get_record(&(struct place){ .fd = fd }, ret);
}

int file_owner_set_fd(int fd, const struct file_owner *o)
{
	return set_record(&(struct place){ .fd = fd }, o);
}
