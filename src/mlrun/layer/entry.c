#include "layer/entry.h"

#include "base/file_owner.h"

#include <archive.h>
#include <sys/xattr.h>

struct archive_entry *layer_entry_new(void)
{
	struct archive_entry *e = archive_entry_new();

	if (!e)
		mlr_oom();
	return e;
}

void layer_entry_free(struct archive_entry **e)
{
	archive_entry_free(*e);
}

int layer_entry_describe(
	struct archive_entry *e, int dir, const char *name, const char *path, const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n;

	archive_entry_copy_stat(e, st);
	archive_entry_set_pathname(e, path);
	if (!S_ISLNK(st->st_mode))
		return 0;
	n = readlinkat(dir, name, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	archive_entry_set_symlink(e, target);
	return 0;
}

static void add_xattrs(struct archive_entry *e, int fd, char *buf)
{
	auto_free char *names = NULL;
	ssize_t len = flistxattr(fd, NULL, 0);

	if (len <= 0)
		return;
	names = xmalloc((size_t)len);
	len = flistxattr(fd, names, (size_t)len);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		const char *name = file_owner_layer_name(names + at);
		ssize_t n = name ? fgetxattr(fd, names + at, buf, LAYER_ENTRY_BUFFER) : -1;

		if (n >= 0)
			archive_entry_xattr_add_entry(e, name, buf, (size_t)n);
	}
}

/* Remove times that libarchive would write because of xattrs and the like. */
static void settle(struct archive_entry *e)
{
	archive_entry_unset_atime(e);
	archive_entry_unset_ctime(e);
	archive_entry_unset_birthtime(e);
	archive_entry_set_dev(e, 0);
	archive_entry_set_ino(e, 0);
	archive_entry_set_nlink(e, 1);
}

/* Read a piece of a file, but no hole: that would fill the page cache with zeros. */
static ssize_t read_piece(int fd, char *buf, size_t want, off_t at)
{
	if (want < LAYER_ENTRY_BUFFER || lseek(fd, at, SEEK_DATA) < at + (off_t)want)
		return pread(fd, buf, want, at);
	memset(buf, 0, want);
	return (ssize_t)want;
}

static int put_data(const struct layer_entry_target *to, const char *path, int fd, uint64_t size,
	struct mlr_error *err)
{
	for (uint64_t at = 0; at < size;) {
		size_t want =
			size - at < LAYER_ENTRY_BUFFER ? (size_t)(size - at) : LAYER_ENTRY_BUFFER;
		ssize_t n = TEMP_FAILURE_RETRY(read_piece(fd, to->buf, want, (off_t)at));

		if (n == 0)
			return mlr_fail(err, EBUSY, "'/%s' changed while it was read", path);
		if (n < 0)
			return mlr_fail_errno(err, "read '/%s'", path);
		TRY(to->check(to->ctx,
			archive_write_data(to->archive, to->buf, (size_t)n) == n ? ARCHIVE_OK
										 : ARCHIVE_FATAL,
			err));
		at += (uint64_t)n;
	}
	return 0;
}

int layer_entry_put_plain(const struct layer_entry_target *to, struct archive_entry *e,
	const char *path, int fd, struct mlr_error *err)
{
	uint64_t size;

	settle(e);
	size = archive_entry_filetype(e) == AE_IFREG && !archive_entry_hardlink(e)
		? (uint64_t)archive_entry_size(e)
		: 0;
	TRY(to->check(to->ctx, archive_write_header(to->archive, e), err));
	return size ? put_data(to, path, fd, size, err) : 0;
}

int layer_entry_put(const struct layer_entry_target *to, struct archive_entry *e, const char *path,
	int fd, struct mlr_error *err)
{
	struct archive_entry *spare = NULL;

	if (fd >= 0)
		add_xattrs(e, fd, to->buf);
	archive_entry_linkify(to->links, &e, &spare);
	return layer_entry_put_plain(to, e, path, fd, err);
}
