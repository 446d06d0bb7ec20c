#include "data/fetch.h"

#include <sys/file.h>

#define LOCK_FILE ".fetch.lock"

/* --- SHA256SUMS --- */

int fetch_sum_is_digest(const char *hex)
{
	return strlen(hex) == HASH_HEX_SIZE - 1 &&
		strspn(hex, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

static int read_all(int dirfd, char **ret, struct mlr_error *err)
{
	int r = file_read(dirfd, SUMS_FILE, SUMS_BYTES_MAX, ret, NULL, err);

	if (r == -ENOENT) {
		*ret = xstrdup("");
		return 0;
	}
	return r;
}

/* Does a line belong to this file? Two blanks, or a blank and '*', precede the name. */
static int is_of(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name), digits = HASH_HEX_SIZE - 1;

	return len == digits + 2 + n && line[digits] == ' ' &&
		(line[digits + 1] == ' ' || line[digits + 1] == '*') &&
		memcmp(line + digits + 2, name, n) == 0;
}

int fetch_sum_find(int dirfd, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_free char *text = NULL;

	TRY(read_all(dirfd, &text, err));
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (is_of(line, len, name)) {
			memcpy(hex, line, HASH_HEX_SIZE - 1);
			hex[HASH_HEX_SIZE - 1] = '\0';
			return fetch_sum_is_digest(hex);
		}
		line += len + (line[len] == '\n');
	}
	return 0;
}

int fetch_sum_put(int dirfd, const char *name, const char *hex, struct mlr_error *err)
{
	auto_free char *text = NULL, *kept = NULL, *all = NULL;
	size_t n = 0;

	TRY(read_all(dirfd, &text, err));
	kept = xcalloc(strlen(text) + 2, 1);
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (!is_of(line, len, name)) {
			memcpy(kept + n, line, len);
			n += len;
			kept[n++] = '\n';
		}
		line += len + (line[len] == '\n');
	}
	all = xasprintf("%s%s  %s\n", kept, hex, name);
	return file_replace(dirfd, SUMS_FILE, all, strlen(all), 0644, err);
}

/* --- data sets that are known by name --- */

/* The digests are those that TensorFlow Datasets, torchvision's prototypes and torchvision-ruby
 * publish. */
static const struct known_set sets[] = {
	{ "mnist",
		{ "https://storage.googleapis.com/cvdf-datasets/mnist",
			"https://ossci-datasets.s3.amazonaws.com/mnist" },
		{ { "train-images-idx3-ubyte.gz",
			  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609" },
			{ "train-labels-idx1-ubyte.gz",
				"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c" },
			{ "t10k-images-idx3-ubyte.gz",
				"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6" },
			{ "t10k-labels-idx1-ubyte.gz",
				"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6" } } },
	{ "fashion-mnist",
		{ "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"
		  "fashion",
			"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com" },
		{ { "train-images-idx3-ubyte.gz",
			  "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84" },
			{ "train-labels-idx1-ubyte.gz",
				"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845" },
			{ "t10k-images-idx3-ubyte.gz",
				"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073" },
			{ "t10k-labels-idx1-ubyte.gz",
				"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5" } } },
	{ "cifar-10",
		{ "https://www.cs.toronto.edu/~kriz",
			"https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10" },
		{ { "cifar-10-binary.tar.gz",
			"c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd" } },
		&archive_cifar_10 },
	{ "cifar-100", { "https://www.cs.toronto.edu/~kriz", "http://www.cs.toronto.edu/~kriz" },
		{ { "cifar-100-binary.tar.gz",
			"58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec" } },
		&archive_cifar_100 },
};

const struct known_set *known_set_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (strcmp(name, sets[i].name) == 0)
			return &sets[i];
	return NULL;
}

const char *known_set_names(void)
{
	return "mnist, fashion-mnist, cifar-10, cifar-100";
}

/* --- fetching --- */

struct fetching {
	const struct fetch_options *o;
	const char *name;
	int dirfd, lock;
	int known;                /* the expected digest is known … */
	char want[HASH_HEX_SIZE]; /* … and is this */
};

static void fetching_done(struct fetching *f)
{
	fd_close(&f->lock);
	if (f->dirfd >= 0)
		close(f->dirfd);
}

static void tell(const struct fetching *f, enum fetch_moment moment, const char *text)
{
	if (f->o->tell)
		f->o->tell(f->o->ctx, moment, f->name, text);
}

/* The lock file stays: removing it could remove another process's lock. */
static int open_dir(struct fetching *f, struct mlr_error *err)
{
	TRY(file_mkdir_p(AT_FDCWD, f->o->dir, 0755, err));
	f->dirfd = open(f->o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd < 0)
		return mlr_fail_errno(err, "open directory '%s'", f->o->dir);
	f->lock = openat(f->dirfd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (f->lock < 0)
		return mlr_fail_errno(err, "make '%s/%s'", f->o->dir, LOCK_FILE);
	if (flock(f->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		tell(f, FETCH_WAITS, NULL);
	while (flock(f->lock, LOCK_EX) < 0)
		if (errno != EINTR)
			return mlr_fail_errno(err, "lock '%s/%s'", f->o->dir, LOCK_FILE);
	return 0;
}

/* Hash a file. Returns 1, 0 if there is no file, or -errno. */
static int hash_file(
	const struct fetching *f, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_close int fd = openat(f->dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "open '%s/%s'", f->o->dir, name);
	if (!S_ISREG(st.st_mode))
		return mlr_fail(
			err, EEXIST, "'%s/%s' is there and no regular file", f->o->dir, name);
	r = hash_fd(fd, NULL, NULL, hex, NULL);
	return r < 0 ? mlr_result(err, r, "read '%s/%s'", f->o->dir, name) : 1;
}

/* Does the file exist with the expected digest? Returns 1, 0 or -errno. */
static int is_there(const struct fetching *f, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	int r = hash_file(f, f->name, hex, err);

	if (r <= 0)
		return r;
	if (f->known && strcmp(hex, f->want) == 0) {
		tell(f, FETCH_THERE, hex);
		return 1;
	}
	tell(f, FETCH_OTHER, hex);
	return 0;
}

/* Do all files of the archive exist with the digests recorded when it was unpacked? */
static int is_unpacked(
	const struct fetching *f, const struct archive_files *archive, struct mlr_error *err)
{
	char want[HASH_HEX_SIZE], hex[HASH_HEX_SIZE];
	int r = fetch_sum_find(f->dirfd, archive->archive, want, err);

	if (r <= 0 || (f->known && strcmp(want, f->want) != 0))
		return r < 0 ? r : 0;
	for (int i = 0; i < ARCHIVE_FILES_MAX && archive->files[i]; i++) {
		r = fetch_sum_find(f->dirfd, archive->files[i], want, err);
		if (r > 0)
			r = hash_file(f, archive->files[i], hex, err);
		if (r <= 0)
			return r;
		if (strcmp(hex, want) != 0)
			return 0;
	}
	tell(f, FETCH_THERE, f->want);
	return 1;
}

/* Download one URL, check it, and put it in place. */
static int try_url(
	const struct fetching *f, const char *url, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_free char *part = download_part(f->name), *shown = download_shown(url);
	struct download d = { f->dirfd, f->name, f->o->cacert, f->o->progress, f->o->ctx,
		f->o->stall_s, f->o->pause_ms };
	int r;

	TRY(download(&d, url, err));
	r = hash_file(f, part, hex, err);
	if (r <= 0)
		return r < 0 ? r : mlr_fail(err, ENOENT, "'%s/%s' is gone", f->o->dir, part);
	if (f->known && strcmp(hex, f->want) != 0) {
		download_drop(f->dirfd, f->name);
		return mlr_fail(err, EBADMSG, "%s: its sha256 is %s where %s was expected", shown,
			hex, f->want);
	}
	if (renameat(f->dirfd, part, f->dirfd, f->name) < 0)
		return mlr_fail_errno(err, "rename to '%s/%s'", f->o->dir, f->name);
	download_drop(f->dirfd, f->name);
	if (fsync(f->dirfd) < 0)
		return mlr_fail_errno(err, "write directory '%s'", f->o->dir);
	return 0;
}

static int try_urls(const struct fetching *f, const char *const *urls, char hex[HASH_HEX_SIZE],
	struct mlr_error *err)
{
	struct mlr_error last = MLR_ERROR_INIT;
	int r = mlr_fail(&last, EINVAL, "no URL to fetch '%s' from", f->name);

	for (; *urls; urls++) {
		r = try_url(f, *urls, hex, &last);
		if (r == 0 || r == -ENOSPC)
			break;
		if (urls[1])
			tell(f, FETCH_FAILED, last.text);
	}
	if (r < 0 && err)
		*err = last;
	return r;
}

static int unpack(
	const struct fetching *f, const struct archive_files *archive, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];
	int r = archive_unpack(f->dirfd, f->name, archive, err);

	for (int i = 0; r == 0 && i < ARCHIVE_FILES_MAX && archive->files[i]; i++) {
		r = hash_file(f, archive->files[i], hex, err);
		if (r > 0)
			r = fetch_sum_put(f->dirfd, archive->files[i], hex, err);
	}
	if (r < 0)
		return r;
	unlinkat(f->dirfd, f->name, 0);
	tell(f, FETCH_UNPACKED, archive->dir);
	return 0;
}

/* Find the expected digest: the caller's or the recorded one. */
static int expect(struct fetching *f, const char *sha256, struct mlr_error *err)
{
	if (!sha256) {
		f->known = fetch_sum_find(f->dirfd, f->name, f->want, err);
		return f->known < 0 ? f->known : 0;
	}
	f->known = 1;
	snprintf(f->want, sizeof(f->want), "%s", sha256);
	return 0;
}

int fetch_file(const struct fetch_options *o, const char *const *urls, const char *name,
	const char *sha256, struct mlr_error *err)
{
	auto_call(fetching_done) struct fetching f = { o, name, -1, -1 };
	const struct archive_files *archive = archive_files_find(name);
	char hex[HASH_HEX_SIZE];
	int r;

	TRY(open_dir(&f, err));
	TRY(expect(&f, sha256, err));
	r = archive ? is_unpacked(&f, archive, err) : 0;
	if (r != 0)
		return r < 0 ? r : 0;
	r = is_there(&f, err);
	if (r < 0)
		return r;
	if (r == 0) {
		TRY(try_urls(&f, urls, hex, err));
		tell(&f, f.known ? FETCH_DONE : FETCH_RECORDED, hex);
		TRY(fetch_sum_put(f.dirfd, name, hex, err));
	}
	return archive ? unpack(&f, archive, err) : 0;
}

int fetch_set(const struct fetch_options *o, const struct known_set *set, const char *mirror,
	struct mlr_error *err)
{
	for (int i = 0; i < KNOWN_FILES_MAX && set->files[i].name; i++) {
		char *urls[KNOWN_MIRRORS_MAX + 2] = { NULL };
		int n = 0, r;

		if (mirror)
			urls[n++] = xasprintf("%s/%s", mirror, set->files[i].name);
		for (int k = 0; k < KNOWN_MIRRORS_MAX && set->mirrors[k]; k++)
			urls[n++] = xasprintf("%s/%s", set->mirrors[k], set->files[i].name);
		r = fetch_file(o, (const char *const *)urls, set->files[i].name,
			set->files[i].sha256, err);
		while (n > 0)
			free(urls[--n]);
		if (r < 0)
			return r;
	}
	return 0;
}

char *fetch_name(const char *url)
{
	const char *path = strstr(url, "://"), *from, *end;
	auto_free char *name = NULL;

	path = path ? path + 3 : url;
	end = path + strcspn(path, "?#");
	for (from = end; from > path && from[-1] != '/'; from--)
		;
	if (from == path || from == end) /* only a host, or a directory */
		return NULL;
	name = xstrndup(from, (size_t)(end - from));
	if (name[0] == '.' || strchr(name, '%') || strcmp(name, SUMS_FILE) == 0 ||
		strlen(name) > 200)
		return NULL;
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '\\')
			return NULL;
	return take_ptr(&name);
}
