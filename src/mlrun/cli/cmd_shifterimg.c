/* shifterimg: Shifter's images, with the lines that other programs read. */
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/options.h"
#include "cli/shifter.h"

#include "oci/digest.h"
#include "shifter/image.h"

struct args {
	struct cli_common common;
	int verbose;
	const char *users, *groups; /* accepted: a user's store is the user's own */
	struct strv words;          /* the command and its operand */
};

/* --- shared with shifter ------------------------------------------------------------ */

int shifter_each_image(void (*row)(const struct store_image *im), struct mlr_error *err)
{
	auto_call(stores_close) struct stores all = { 0 };
	int r = cli_open_stores(NULL, &all, err);

	if (r == -ENOENT)
		return cli_store_may_come(err);
	for (size_t s = 0; r == 0 && s < all.n; s++) {
		struct store_image *v = NULL;
		size_t n = 0;

		r = store_image_list(all.v[s], &v, &n, err);
		for (size_t i = 0; i < n; i++)
			row(&v[i]);
		store_images_free(v, n);
	}
	return r;
}

/* --- commands ------------------------------------------------------------------------ */

/* "2026-01-31T09:15:00", in the user's time zone. */
static void print_time(int64_t seconds, char out[CLI_TIME_SIZE])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	strftime(out, CLI_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", localtime_r(&t, &tm));
}

/* Nextflow and others look for the word READY, and with -v for "status": "READY". */
static void tell_status(const struct args *a, const char *image, const char *status, const char *id)
{
	char now[CLI_TIME_SIZE];

	print_time(time(NULL), now);
	printf("%s Pulling Image: docker:%s, status: %s\n", now, image, status);
	if (a->verbose) {
		json_t *message = json_pack("{s:s, s:s, s:s, s:s?}", "itype", "docker", "tag",
			image, "status", status, "id", id);

		json_dumpf(message, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(message);
	}
	fflush(stdout);
}

static int pull(const struct args *a, const char *image)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	int status;

	tell_status(a, image, "PULLING", NULL);
	status = cli_pull(image, NULL, !a->verbose);
	if (status == 0 && cli_find_image(image, NULL, &im, NULL) == 0)
		tell_status(a, image, "READY", oci_digest_hex(im.manifest));
	else
		tell_status(a, image, "FAILURE", NULL);
	return status;
}

/* The caller does not wait: the pull is a process of its own, without the terminal. */
static int pull_without_waiting(const struct args *a, const char *image)
{
	struct mlr_error err;
	pid_t child;

	tell_status(a, image, "PULLING", NULL);
	child = fork();
	if (child < 0) {
		mlr_fail_errno(&err, "shifterimg pullnb: fork");
		return cli_fail(&err);
	}
	if (child > 0)
		return 0;
	setsid();
	for (int fd = 0, null = open("/dev/null", O_RDWR | O_CLOEXEC); fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	_exit(cli_pull(image, NULL, 1));
}

static int lookup(const char *image)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (cli_find_image(image, NULL, &im, &err) < 0) {
		if (err.code == ENOENT)
			mlr_hint(&err, "shifterimg pull %s", image);
		cli_fail_at(&err, "shifterimg lookup");
		return 1; /* as Shifter's */
	}
	puts(oci_digest_hex(im.manifest));
	return 0;
}

static void print_image(const struct store_image *im)
{
	static const char hub[] = "docker.io/", library[] = "library/";
	const char *name = im->name;
	char pulled[CLI_TIME_SIZE];

	if (strncmp(name, hub, strlen(hub)) == 0)
		name += strlen(hub);
	if (strncmp(name, library, strlen(library)) == 0)
		name += strlen(library);
	print_time(im->pulled, pulled);
	printf("%-10s %-10s %-8s %.10s   %s %-30s\n", "mlrun", "docker", "READY",
		oci_digest_hex(im->manifest), pulled, name);
}

static int images(void)
{
	struct mlr_error err = MLR_ERROR_INIT;

	return shifter_each_image(print_image, &err) < 0 ? cli_fail_at(&err, "shifterimg images")
							 : 0;
}

static int login(const char *registry)
{
	char *argv[] = { "mlrun", "login", (char *)(registry ? registry : "docker.io"), NULL };

	return cli_become("mlrun-pull", argv);
}

static int expire(const char *image)
{
	char *argv[] = { "rm", "--", (char *)image, NULL };

	return cmd_rm(3, argv);
}

static int autoexpire(void)
{
	char *argv[] = { "prune", NULL };

	return cmd_prune(1, argv);
}

static const struct option_row options[] = {
	{ "user", 'u', "USERS", 0, "accepted: a user's images are the user's own", 0,
		OPT(struct args, users) },
	{ "group", 'g', "GROUPS", 0, "accepted: likewise", 0, OPT(struct args, groups) },
	{ NULL, 'v', NULL, 0, "print what Shifter's gateway would answer, as JSON", 0,
		OPT(struct args, verbose) },
	{ 0 },
};

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "pull|pullnb|lookup|expire IMAGE\nimages\nlogin [REGISTRY]\nautoexpire",
	.s.doc = "Manage images by Shifter's commands.\v"
		 "IMAGE is [docker:]NAME[:TAG]. Of mlrun; mlrun-shifter(1) has the details.",
	.s.operands = { OPT(struct args, words) },
	.s.needed = 1,
	.s.missing =
		"a command is missing: pull, pullnb, lookup, images, login, expire, autoexpire",
};

/* The commands that take an image. */
static int run_on_image(const struct args *a, const char *command, const char *word)
{
	auto_call(udiroot_done) struct udiroot site = { 0 };
	auto_free char *image = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	if (shifter_site(&site, &err) < 0 ||
		shifter_image_name(word, site.image_type, &image, &err) < 0)
		return cli_fail_at(&err, "shifterimg %s", command);
	if (strcmp(command, "pull") == 0)
		return pull(a, image);
	if (strcmp(command, "pullnb") == 0)
		return pull_without_waiting(a, image);
	return strcmp(command, "lookup") == 0 ? lookup(image) : expire(image);
}

static int run(const struct args *a)
{
	static const char *const on_image[] = { "pull", "pullnb", "lookup", "expire" };
	const char *command = a->words.v[0], *word = a->words.n > 1 ? a->words.v[1] : NULL;
	struct mlr_error err;

	for (size_t i = 0; i < ARRAY_LEN(on_image); i++)
		if (strcmp(command, on_image[i]) == 0 && word)
			return run_on_image(a, command, word);
	if (strcmp(command, "images") == 0)
		return images();
	if (strcmp(command, "login") == 0)
		return login(word);
	if (strcmp(command, "autoexpire") == 0)
		return autoexpire();
	mlr_fail(&err, EINVAL, "shifterimg: '%s' %s", command,
		word ? "is not a command" : "is not a command, or its image is missing");
	mlr_hint(&err, "shifterimg pull IMAGE; shifterimg --help lists the commands");
	return cli_fail(&err);
}

int cmd_shifterimg(int argc, char **argv)
{
	static struct args a;

	cli_options_parse(argc, argv, &syntax, &a);
	return run(&a);
}
