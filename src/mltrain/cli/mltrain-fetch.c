/* mltrain fetch: downloads data sets. */
#include "base/authorities.h"
#include "base/home.h"
#include "config.h"
#include "data/fetch.h"
#include "cli/mltrain.h"

#include <argp.h>
#include <curl/curl.h>

struct args {
	const char *to, *sha256, *cacert, *mirror;
	char digest[HASH_HEX_SIZE];
	int quiet;
	struct strv what;
};

/* Messages while it works. */
struct telling {
	const char *dir;
	int quiet, live; /* live: draw progress on a terminal */
	int drawn;
	int64_t next_ms;
};

static void parse_digest(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	size_t n = strlen(arg);

	for (size_t i = 0; i < n && i < sizeof(a->digest) - 1; i++)
		a->digest[i] = (char)tolower((unsigned char)arg[i]);
	if (n != sizeof(a->digest) - 1 || !fetch_sum_is_digest(a->digest))
		argp_error(state, "--sha256 '%s' is not 64 hexadecimal digits", arg);
	a->sha256 = a->digest;
}

static int is_url(const char *what)
{
	return strstr(what, "://") != NULL;
}

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (!a->what.n)
		argp_error(state, "which data set? one of %s, or a URL", known_set_names());
	if (a->sha256 && (a->what.n != 1 || !is_url(a->what.v[0])))
		argp_error(state, "--sha256 goes with a single URL");
	for (size_t i = 0; i < a->what.n; i++)
		if (!is_url(a->what.v[i]) && !known_set_find(a->what.v[i]))
			argp_error(state, "'%s' is neither a URL nor one of %s", a->what.v[i],
				known_set_names());
}

static const struct option_row options[] = {
	{ "to", 0, "DIR", 0,
		"store a set in DIR/NAME, a URL's file in DIR (~/.local/share/datasets; for URLs the "
		"current directory)",
		0, OPT(struct args, to) },
	{ "sha256", 0, "HEX", 0, "expected digest of the one URL's file", 0,
		OPT_CALL(parse_digest) },
	{ "mirror", 0, "URL", 0,
		"look for the files of a set at URL/NAME first, as in URL/mnist/train-images-idx3-ubyte.gz",
		0, OPT(struct args, mirror) },
	{ "cacert", 0, "FILE", 0,
		"PEM file of CA certificates to trust ($CURL_CA_BUNDLE, $SSL_CERT_FILE)", 0,
		OPT(struct args, cacert) },
	{ "quiet", 'q', NULL, 0, "print errors only", 0, OPT(struct args, quiet) }, { 0 }
};

static const struct options_syntax syntax = {
	.options = options,
	.args_doc = "NAME|URL...",
	.doc = "Download the data sets mnist, fashion-mnist, cifar-10 or cifar-100, which --data then finds by "
	       "name, or files by URL. An interrupted download continues where it stopped. A file appears only "
	       "when it is complete and its sha256 is right.",
	.operands = { OPT(struct args, what) },
	.check = check,
};

static void draw(void *ctx, const char *name, uint64_t done, uint64_t total)
{
	struct telling *t = ctx;

	if (!t->live || t->quiet || mlr_now_ms() < t->next_ms)
		return;
	t->next_ms = mlr_now_ms() + 200;
	t->drawn = 1;
	if (total)
		fprintf(stderr, "\r\033[K%s: %.1f of %.1f MB (%d %%)", name, (double)done / 1e6,
			(double)total / 1e6, (int)(100 * (double)done / (double)total));
	else
		fprintf(stderr, "\r\033[K%s: %.1f MB", name, (double)done / 1e6);
}

static void clear(struct telling *t)
{
	if (t->drawn)
		fputs("\r\033[K", stderr);
	t->drawn = 0;
}

static void tell(void *ctx, enum fetch_moment moment, const char *name, const char *text)
{
	struct telling *t = ctx;

	clear(t);
	if (t->quiet && moment != FETCH_FAILED && moment != FETCH_RECORDED)
		return;
	switch (moment) {
	case FETCH_WAITS:
		mlr_info("another fetch is at work in '%s'; waiting for its end", t->dir);
		break;
	case FETCH_THERE:
		mlr_info("'%s/%s' is there already", t->dir, name);
		break;
	case FETCH_OTHER:
		mlr_info("'%s/%s' is there with the sha256 %s; fetching it anew", t->dir, name,
			text);
		break;
	case FETCH_FAILED:
		mlr_warning("%s; trying the next place", text);
		break;
	case FETCH_DONE:
		mlr_info("'%s/%s' is there, its sha256 as expected", t->dir, name);
		break;
	case FETCH_RECORDED:
		mlr_info(
			"'%s/%s' is there; nothing is known to compare its sha256 %s with, which is "
			"written down in '%s/%s'",
			t->dir, name, text, t->dir, SUMS_FILE);
		break;
	case FETCH_UNPACKED:
		mlr_info("unpacked '%s' in '%s'", name, t->dir);
		break;
	}
}

static int fail(const struct mlr_error *err)
{
	mlr_log_error(err);
	return EXIT_BROKEN;
}

/* Add what a user can do about a failure. */
static void advise(struct mlr_error *err, const char *dir)
{
	switch (err->code) {
	case EHOSTUNREACH:
	case ECONNREFUSED:
		mlr_hint(err,
			"where this machine has no internet, fetch on one that has and copy the directory "
			"here ('%s'), or set https_proxy",
			dir);
		break;
	case ECONNRESET:
	case ETIMEDOUT:
		mlr_hint(err, "the same command again goes on where this one ended");
		break;
	case EPERM:
		mlr_hint(err, "--cacert FILE trusts another certificate authority");
		break;
	case EBADMSG:
		mlr_hint(err,
			"the file on the server has changed, or something between here and there "
			"changes it");
		break;
	default:
		break;
	}
}

/* Return the directory of a named set, to free(), or NULL with err set. */
static char *set_dir(const struct args *a, const char *name, struct mlr_error *err)
{
	auto_free char *data = NULL;

	if (a->to)
		return xasprintf("%s/%s", a->to, name);
	data = home_xdg_dir("XDG_DATA_HOME", ".local/share", err);
	if (!data)
		mlr_hint(err, "--to DIR says where to");
	return data ? xasprintf("%s/datasets/%s", data, name) : NULL;
}

static const char *ca_file(const struct args *a)
{
	const char *bundle = getenv("CURL_CA_BUNDLE"), *file = getenv("SSL_CERT_FILE");

	if (a->cacert)
		return a->cacert;
	if (bundle && *bundle)
		return bundle;
	if (file && *file)
		return file;
	return authorities_instead_of(curl_version_info(CURLVERSION_NOW)->cainfo);
}

static int fetch_one(const struct args *a, const char *what, struct mlr_error *err)
{
	const struct known_set *set = is_url(what) ? NULL : known_set_find(what);
	auto_free char *dir = set ? set_dir(a, what, err) : xstrdup(a->to ? a->to : ".");
	auto_free char *name = set ? NULL : fetch_name(what);
	auto_free char *mirror = set && a->mirror ? xasprintf("%s/%s", a->mirror, what) : NULL;
	const char *urls[] = { what, NULL };
	struct telling t = { dir, a->quiet, isatty(STDERR_FILENO) };
	struct fetch_options o = { dir, ca_file(a), tell, draw, &t };
	int r;

	if (!dir)
		return -err->code;
	if (set) {
		r = fetch_set(&o, set, mirror, err);
	} else if (!name) {
		auto_free char *shown = download_shown(what);

		mlr_fail(err, EINVAL, "the end of '%s' is not a file name", shown);
		return mlr_hint(err, "it has to be a URL such as https://host/dir/file.gz");
	} else {
		r = fetch_file(&o, urls, name, a->sha256, err);
	}
	clear(&t);
	if (r < 0)
		advise(err, dir);
	else if (set && !a->quiet)
		printf("%s\n", dir);
	else if (!a->quiet)
		printf("%s/%s\n", dir, name);
	return r;
}

int main(int argc, char **argv)
{
	static struct args a; /* to the end of the program */
	struct mlr_error err = MLR_ERROR_INIT;

	mlr_log_init("mltrain");
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "mltrain " PACKAGE_VERSION;
	options_parse("mltrain fetch", argc, argv, &syntax, &a);
	for (size_t i = 0; i < a.what.n; i++)
		if (fetch_one(&a, a.what.v[i], &err) < 0) {
			auto_free char *shown = download_shown(a.what.v[i]);

			mlr_wrap(&err, "fetch '%s'", shown);
			return fail(&err);
		}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		mlr_fail_errno(&err, "write standard output");
		return fail(&err);
	}
	return 0;
}
