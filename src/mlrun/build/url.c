/* Fetches files of URLs: ADD's, and contexts. */
#include "build/url.h"

#include "oci/digest.h"
#include "registry/registry.h"

struct download {
	int fd;
	struct hash *hash;
};

static void download_done(struct download *d)
{
	hash_free(d->hash);
	fd_close(&d->fd);
}

static int begin(void *ctx, struct mlr_error *err)
{
	struct download *d = ctx;

	hash_free(d->hash);
	d->hash = hash_new();
	return ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0
		? mlr_fail_errno(err, "empty a temporary file")
		: 0;
}

static int take(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	struct download *d = ctx;
	int r = file_write_all(d->fd, buf, len);

	hash_update(d->hash, buf, len);
	return mlr_result(err, r, "write a temporary file");
}

static int is_cancelled(void *ctx)
{
	const int *cancel = ctx;

	return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED);
}

static int check(struct download *d, const char *want, struct mlr_error *err)
{
	char hex[HASH_HEX_SIZE];

	hash_final(d->hash, hex);
	if (!want)
		return 0;
	if (oci_digest_check(want, err) < 0)
		return mlr_wrap(err, "--checksum");
	return strcmp(oci_digest_hex(want), hex) == 0
		? 0
		: mlr_fail(err, EBADMSG, "--checksum=%s: the file is sha256:%s", want, hex);
}

int build_is_url(const char *s)
{
	return strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0;
}

/* The last component of a URL's path, to free(). */
static char *name_of(const char *url)
{
	auto_free char *plain = xstrndup(url, strcspn(url, "?#"));
	const char *path = strstr(plain, "://") + 3, *slash = strrchr(path, '/');

	return xstrdup(slash ? slash + 1 : "");
}

int build_fetch(const char *url, const char *checksum, const int *cancel, int *fd, char **name,
	struct mlr_error *err)
{
	const struct registry_options opt = {
		.tls_verify = 1, .cancelled = is_cancelled, .cancelled_ctx = (void *)cancel
	};
	auto_call(download_done) struct download d = { -1, NULL };
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW } };

	d.fd = temp_open(-1, err);
	TRY(d.fd < 0 ? d.fd : registry_download(url, &opt, begin, take, &d, &times[1].tv_sec, err));
	TRY(check(&d, checksum, err));
	if (times[1].tv_sec >= 0)
		(void)futimens(d.fd, times);
	*name = name_of(url);
	*fd = take_fd(&d.fd);
	return 0;
}
