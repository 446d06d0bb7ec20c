#include "cli/push_options.h"

#include "cli/cli.h"

static void erase(struct push_args *a)
{
	if (a->drawn)
		fputs("\r\033[K", stderr);
	a->drawn = 0;
}

static void tell_layer(void *ctx, const char *digest, uint64_t size, enum push_layer_end end)
{
	static const char *const words[] = { "sent", "is there already",
		"is taken from another repository" };
	struct push_args *a = ctx;
	char text[CLI_SIZE_SIZE];

	erase(a);
	cli_size(size, text);
	mlr_info("layer %.12s: %s, %s", oci_digest_hex(digest), text, words[end]);
}

static void tick(void *ctx, uint64_t sent)
{
	struct push_args *a = ctx;
	char text[CLI_SIZE_SIZE];

	if (sent == 0)
		return;
	cli_size(sent, text);
	fprintf(stderr, "\r\033[K  %s sent", text);
	a->drawn = 1;
}

static void notice(void *ctx, const char *words)
{
	mlr_warning("%s", words);
}

int push_args_settle(struct push_args *a, const char *text, struct mlr_error *err)
{
	int r = cli_registry_load(&a->registry, text, err);

	a->push.registry = a->registry.options;
	a->push.only = a->given != 0;
	a->push.registry.notice = notice;
	a->push.cancel = &cli_stop_signal;
	a->push.watch.ctx = a;
	if (!a->common.quiet)
		a->push.watch.layer = tell_layer;
	/* A transcript and a redrawn line do not mix. */
	if (!a->common.quiet && isatty(STDERR_FILENO) && mlr_log_level < MLR_DEBUG)
		a->push.watch.tick = tick;
	return r;
}

/* Other destinations of skopeo's and podman's. */
static int refuse_place(const char *text, struct mlr_error *err)
{
	static const char *const places[] = { "oci:", "oci-archive:", "docker-archive:", "dir:",
		"docker-daemon:", "containers-storage:" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (strncmp(text, places[i], strlen(places[i])) != 0)
			continue;
		mlr_fail(err, ENOTSUP, "'%s' is not in a registry", text);
		return mlr_hint(err, "mlrun export IMAGE %s writes files", text);
	}
	return 0;
}

int push_args_destination(const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	int r = refuse_place(text, err);

	if (r == 0)
		r = oci_ref_parse(text, ret, err);
	if (r == 0 && ret->digest) {
		mlr_fail(err, EINVAL, "'%s': the digest of what is pushed cannot be chosen", text);
		return mlr_hint(err, "omit the part from '@' on");
	}
	if (r == 0 && strcmp(ret->registry, "localhost") == 0) {
		mlr_fail(err, EINVAL, "'%s' is a name of this machine's alone", text);
		return mlr_hint(err,
			"name a registry, too: mlrun push IMAGE REGISTRY/NAMESPACE/NAME:TAG; one on this "
			"machine is localhost:PORT");
	}
	return r;
}

int push_args_run(struct push_args *a, struct store *st, const struct store_image *im,
	const struct oci_ref *to, struct push_result *ret, struct mlr_error *err)
{
	int r = push_image(st, im, to, &a->push, ret, err);

	erase(a);
	return r;
}

int push_args_write_digest(const struct push_args *a, const char *digest, struct mlr_error *err)
{
	return a->digestfile ? file_put(a->digestfile, digest, strlen(digest), 0644, err) : 0;
}
