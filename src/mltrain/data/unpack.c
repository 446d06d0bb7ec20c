#include "data/fetch.h"

#include <archive.h>
#include <archive_entry.h>

#define BLOCK ((size_t)1 << 16)

const struct archive_files archive_cifar_10 = { "cifar-10-binary.tar.gz", "cifar-10-batches-bin",
	{ "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
		"data_batch_5.bin", "test_batch.bin", "batches.meta.txt" } };
const struct archive_files archive_cifar_100 = { "cifar-100-binary.tar.gz", "cifar-100-binary",
	{ "train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt" } };

struct unpacking {
	int dirfd;
	const char *name; /* of the archive */
	const struct archive_files *known;
	struct archive *a;
	int fd;                       /* of the archive */
	int there[ARCHIVE_FILES_MAX]; /* unpacked into temporary files */
	uint64_t skipped;
};

static char *temporary(const char *file)
{
	return xasprintf(".%s.unpacking", file);
}

static void unpacking_done(struct unpacking *u)
{
	for (int i = 0; i < ARCHIVE_FILES_MAX && u->known->files[i]; i++) {
		auto_free char *tmp = temporary(u->known->files[i]);

		if (u->there[i])
			unlinkat(u->dirfd, tmp, 0);
	}
	archive_read_free(u->a);
	fd_close(&u->fd);
}

const struct archive_files *archive_files_find(const char *archive)
{
	static const struct archive_files *const all[] = { &archive_cifar_10, &archive_cifar_100 };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(archive, all[i]->archive) == 0)
			return all[i];
	return NULL;
}

static int damaged(struct unpacking *u, struct mlr_error *err)
{
	return mlr_fail(err, EPROTO, "damaged archive '%s': %s", u->name,
		archive_error_string(u->a) ? archive_error_string(u->a) : "it ends too early");
}

static int open_archive(struct unpacking *u, struct mlr_error *err)
{
	u->fd = openat(u->dirfd, u->name, O_RDONLY | O_CLOEXEC);
	if (u->fd < 0)
		return mlr_fail_errno(err, "open '%s'", u->name);
	u->a = archive_read_new();
	if (!u->a)
		return mlr_fail(err, ENOMEM, "unpack '%s': no memory", u->name);
	archive_read_support_filter_gzip(u->a);
	archive_read_support_format_tar(u->a);
	if (archive_read_open_fd(u->a, u->fd, BLOCK) != ARCHIVE_OK)
		return damaged(u, err);
	return 0;
}

/* Return which of the known files an entry is, or -1. Only the exact path counts. */
static int which(const struct unpacking *u, const char *path)
{
	size_t len = strlen(u->known->dir);

	if (strncmp(path, "./", 2) == 0)
		path += 2;
	if (strncmp(path, u->known->dir, len) != 0 || path[len] != '/')
		return -1;
	for (int i = 0; i < ARCHIVE_FILES_MAX && u->known->files[i]; i++)
		if (strcmp(path + len + 1, u->known->files[i]) == 0)
			return i;
	return -1;
}

/* Copy the entry's bytes, at most max, into fd, or nowhere if fd is -1. */
static int copy(struct unpacking *u, int fd, uint64_t max, uint64_t *bytes, struct mlr_error *err)
{
	for (;;) {
		const void *block;
		int64_t offset;
		size_t len;
		int r = archive_read_data_block(u->a, &block, &len, &offset);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return damaged(u, err);
		/* A hole counts like its zeros. */
		if (offset < 0 || (uint64_t)offset > max || len > max - (uint64_t)offset)
			return mlr_fail(err, EFBIG, "unpack '%s': more than %llu bytes in a file",
				u->name, (unsigned long long)max);
		*bytes = (uint64_t)offset + len;
		if (fd >= 0 && lseek(fd, offset, SEEK_SET) < 0)
			return mlr_fail_errno(err, "unpack '%s'", u->name);
		r = fd >= 0 ? file_write_all(fd, block, len) : 0;
		if (r < 0)
			return mlr_result(err, r, "unpack '%s'", u->name);
	}
}

static int skip(struct unpacking *u, struct mlr_error *err)
{
	uint64_t bytes = 0;
	int r = copy(u, -1, ARCHIVE_SKIP_MAX - u->skipped, &bytes, err);

	u->skipped += bytes;
	return r;
}

static int unpack_file(
	struct unpacking *u, int i, struct archive_entry *entry, struct mlr_error *err)
{
	auto_free char *tmp = temporary(u->known->files[i]);
	auto_close int fd = -1;
	uint64_t bytes = 0;

	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
		return mlr_fail(err, EPROTO, "archive '%s': '%s' is not a regular file in it",
			u->name, u->known->files[i]);
	if (u->there[i])
		return mlr_fail(
			err, EPROTO, "archive '%s' has '%s' twice", u->name, u->known->files[i]);
	unlinkat(u->dirfd, tmp, 0); /* of a killed process */
	fd = openat(u->dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return mlr_fail_errno(err, "unpack '%s': make '%s'", u->name, tmp);
	u->there[i] = 1;
	TRY(copy(u, fd, ARCHIVE_ENTRY_MAX, &bytes, err));
	if (fsync(fd) < 0)
		return mlr_fail_errno(err, "unpack '%s': write '%s'", u->name, tmp);
	return 0;
}

static int unpack_all(struct unpacking *u, struct mlr_error *err)
{
	for (;;) {
		struct archive_entry *entry;
		const char *path;
		int r = archive_read_next_header(u->a, &entry), i;

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			return damaged(u, err);
		path = archive_entry_pathname(entry);
		i = path ? which(u, path) : -1;
		TRY(i >= 0 ? unpack_file(u, i, entry, err) : skip(u, err));
	}
}

static int publish(struct unpacking *u, struct mlr_error *err)
{
	for (int i = 0; i < ARCHIVE_FILES_MAX && u->known->files[i]; i++)
		if (!u->there[i])
			return mlr_fail(err, EPROTO, "archive '%s' lacks '%s/%s'", u->name,
				u->known->dir, u->known->files[i]);
	for (int i = 0; i < ARCHIVE_FILES_MAX && u->known->files[i]; i++) {
		auto_free char *tmp = temporary(u->known->files[i]);

		if (renameat(u->dirfd, tmp, u->dirfd, u->known->files[i]) < 0)
			return mlr_fail_errno(
				err, "unpack '%s': rename to '%s'", u->name, u->known->files[i]);
		u->there[i] = 0;
	}
	if (fsync(u->dirfd) < 0)
		return mlr_fail_errno(err, "unpack '%s'", u->name);
	return 0;
}

int archive_unpack(
	int dirfd, const char *name, const struct archive_files *known, struct mlr_error *err)
{
	auto_call(unpacking_done) struct unpacking u = { dirfd, name, known, NULL, -1 };

	TRY(open_archive(&u, err));
	TRY(unpack_all(&u, err));
	return publish(&u, err);
}
