/*
 * The owner that a file should have, where its real one cannot be set: with a single mapped id
 * every file is the caller's. It is kept in an extended attribute, the message Resource of
 * github.com/rootless-containers/proto, which umoci and PRoot read, too. A mode with bits that
 * trees of the store do not have (base/tighten.h) is in another one, and file capabilities
 * (capabilities(7)), the value of the layer's "security.capability", in a third.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_OWNER_XATTR      "user.rootlesscontainers"
#define FILE_OWNER_MODE       "user.mlrun.mode" /* octal, "4755" */
#define FILE_OWNER_CAPABILITY "user.mlrun.capability"
#define FILE_OWNER_SIZE       12 /* bytes of the message at most */

struct file_owner {
	uint32_t uid, gid;
	mode_t mode; /* set-ID and permission bits; 0: the file's own */
};

/* The mode of a file: the recorded one, unless the real one was changed since. */
mode_t file_owner_mode(const struct file_owner *o, mode_t real);

/* Is the attribute one of these three? They say something of the file's, and are no part of it. */
int file_owner_is_xattr(const char *name);

/*
 * The name under which an extended attribute is kept in a tree: itself for "user.*", the third one
 * for "security.capability". NULL: it is not kept, as it needs privileges, or overlayfs obeys it.
 */
const char *file_owner_kept_name(const char *name);

/* And back: the name that it has in layers, or NULL if it is in none. */
const char *file_owner_layer_name(const char *name);

/* Make the message. Returns its size. */
size_t file_owner_encode(const struct file_owner *o, unsigned char out[FILE_OWNER_SIZE]);

/* Read a message, which has no mode. Returns 0 or -EINVAL. */
int file_owner_decode(const unsigned char *buf, size_t len, struct file_owner *ret);

/*
 * Read or set what is kept of a file; the path follows links, such as /proc/self/fd/N.
 *
 * Returns 1 if there is a record, 0 if there is none. Setting root's removes it; returns 0, or
 * -errno of setxattr(2): links and devices have no such attributes, nor do some file systems.
 */
int file_owner_get(const char *path, struct file_owner *ret);
int file_owner_set(const char *path, const struct file_owner *o);
/* The same as file_owner_get(); names are those of listxattr(2), others are not looked for. */
int file_owner_get_listed(const char *path, const char *names, size_t size, struct file_owner *ret);
/* Is this a value of "security.capability" (linux/capability.h, struct vfs_ns_cap_data)? */
int file_owner_is_capability(const void *value, size_t len);

/* The same for a descriptor that is not O_PATH. */
int file_owner_get_fd(int fd, struct file_owner *ret);
int file_owner_set_fd(int fd, const struct file_owner *o);
