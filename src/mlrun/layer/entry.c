#include "layer/entry.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <string.h>
#include <sys/xattr.h>

void layer_entry_xattrs(struct archive_entry *e, int fd, char *buf)
{
	auto_free char *names = NULL;
	ssize_t len = flistxattr(fd, NULL, 0);

	if (len <= 0)
		return;
	names = xmalloc((size_t)len);
	len = flistxattr(fd, names, (size_t)len);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t n;

		if (strncmp(names + at, "user.", 5) != 0 ||
			strncmp(names + at, "user.overlay.", 13) == 0)
			continue;
		n = fgetxattr(fd, names + at, buf, LAYER_ENTRY_BUFFER);
		if (n >= 0)
			archive_entry_xattr_add_entry(e, names + at, buf, (size_t)n);
	}
}

void layer_entry_settle(struct archive_entry *e)
{
	archive_entry_unset_atime(e);
	archive_entry_unset_ctime(e);
	archive_entry_unset_birthtime(e);
	archive_entry_set_dev(e, 0);
	archive_entry_set_ino(e, 0);
	archive_entry_set_nlink(e, 1);
}
