#include "rootfs/listing.h"

#include "base/tighten.h"
#include "store/guard.h"

#define NOTE "listing"

static int list(int fd, const char *path, mode_t bits, struct hash *h);

/* Hash one name, with all that the image's author sets but xattrs and contents. */
static int list_name(int dir, const char *name, const char *path, mode_t bits, struct hash *h)
{
	auto_free char *line = NULL;
	auto_close int below = -1;
	char target[PATH_MAX] = "";
	struct stat sb;
	ssize_t n;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(sb.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
	}
	hash_update(h, path, strlen(path) + 1);
	line = S_ISLNK(sb.st_mode) ? xasprintf("link %s", target)
				   : xasprintf("%o %lld %lld", (unsigned)sb.st_mode & bits,
					     (long long)sb.st_mtim.tv_sec,
					     S_ISREG(sb.st_mode) ? (long long)sb.st_size : 0);
	hash_update(h, line, strlen(line) + 1);
	/* Skip directories that the image's author made unreadable, even for root. */
	if (!S_ISDIR(sb.st_mode) || (sb.st_mode & 0500) != 0500)
		return 0;
	below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return below < 0 ? -errno : list(below, path, bits, h);
}

/* The recursion is at most LAYER_DEPTH_MAX deep, as layers are. */
static int list(int fd, const char *path, mode_t bits, struct hash *h)
{
	auto_strv struct strv names = STRV_INIT;

	TRY(file_list(fd, ".", 0, &names));
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *sub = xasprintf("%s/%s", path, names.v[i]);

		TRY(list_name(fd, names.v[i], sub, bits, h));
	}
	return 0;
}

/* In an older mlrun's store, trees and listings include write permission for others. */
static int digest(const struct store *st, int tree, char hex[HASH_HEX_SIZE])
{
	auto_hash struct hash *h = hash_new();

	TRY(list(tree, "", S_IFMT | (store_is_tight(st) ? 01777 & ~TIGHTEN_BITS : 01777), h));
	hash_final(h, hex);
	return 0;
}

int rootfs_listing_note(const struct store *st, struct store_tree *t, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	int r = digest(st, store_tree_fd(t), hex);

	if (r == -EACCES) /* the top is unreadable */
		return 0;
	if (r < 0)
		return mlr_result(err, r, "list the tree");
	return store_tree_note(t, NOTE, hex, strlen(hex), err);
}

int rootfs_listing_check(
	struct store *st, enum store_tree_kind kind, const char *key, struct mlr_error *err)
{
	auto_free char *tree = store_tree_relpath(kind, key), *path = NULL, *was = NULL;
	auto_close int fd = store_tree_open(st, kind, key, err);
	char is[HASH_HEX_SIZE];
	int r;

	if (fd < 0)
		return fd;
	path = xasprintf("%.*s/" NOTE, (int)(strrchr(tree, '/') - tree), tree);
	r = file_read(store_fd(st), path, HASH_HEX_SIZE, &was, NULL, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* no listing: made by an older mlrun */
	r = digest(st, fd, is);
	if (r == -EACCES)
		return 0;
	if (r < 0)
		return mlr_result(err, r, "list the tree");
	if (strcmp(was, is) != 0)
		return mlr_fail(err, EBADMSG, "its names are not as they were when it was made");
	return 0;
}
