/* mlrun export: writes an image of the store to a file. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/json.h"
#include "bundle/write.h"
#include "export/export.h"
#include "export/squash.h"
#include "oci/config.h"
#include "oci/manifest.h"
#include "oci/name.h"
#include "rootfs/kept.h"
#include "store/stores.h"

struct args {
	struct cli_common common;
	const char *image, *path;
	struct export_options export;
	unsigned compression_given;
	int format_given, json;
	int is_bundle;         /* the root goes below path, beside a config.json */
	struct oci_name place; /* the source of path, if it had a prefix */
	struct mlr_error err;  /* its error */
};

static const char *const formats[] = {
	[EXPORT_OCI_ARCHIVE] = "oci-archive",
	[EXPORT_OCI] = "oci",
	[EXPORT_DOCKER_ARCHIVE] = "docker-archive",
	[EXPORT_TAR] = "tar",
	[EXPORT_ROOTFS] = "rootfs",
	[EXPORT_SQUASHFS] = "squashfs",
	[EXPORT_SIF] = "sif",
};

/* Does export_squash() write it: one file, with the configuration in it? */
static int is_squash(const struct args *a)
{
	return a->export.format >= EXPORT_SQUASHFS;
}

static void parse_format(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	size_t i = 0;

	a->is_bundle = strcmp(arg, "bundle") == 0;
	if (a->is_bundle)
		arg = (char *)formats[EXPORT_ROOTFS];
	while (i < ARRAY_LEN(formats) && strcmp(formats[i], arg) != 0)
		i++;
	if (i == ARRAY_LEN(formats))
		argp_error(state,
			"--format takes oci-archive, oci, docker-archive, tar, rootfs, bundle, squashfs "
			"or sif, not '%s'",
			arg);
	a->export.format = (enum export_format)i;
	a->format_given = 1;
}

/* Destinations of skopeo and the like, and what to do instead. */
static const struct {
	const char *prefix, *does;
} places[] = {
	{ "docker:", "mlrun push IMAGE NAME writes it to a registry" },
	{ "docker-daemon:", "mlrun export --format=docker-archive IMAGE - | docker load" },
	{ "containers-storage:", "mlrun export IMAGE - | podman load" },
	{ "dir:", "oci:DIRECTORY is a directory, a file named so is ./dir:…" },
};

/* Names of files as users of Enroot, squashfs-tools, Charliecloud and Apptainer give. */
static const struct {
	const char *prefix, *end;
	enum export_format format;
} names[] = {
	{ "squashfs:", ".sqsh", EXPORT_SQUASHFS },
	{ "squashfs:", ".sqfs", EXPORT_SQUASHFS },
	{ "squashfs:", ".squashfs", EXPORT_SQUASHFS },
	{ "sif:", ".sif", EXPORT_SIF },
};

/* Take the format from the path, unless an option says one, and the prefix off. */
static void take_name(struct args *a)
{
	for (size_t i = 0; !a->format_given && i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i].prefix);
		int has_prefix = strncmp(a->path, names[i].prefix, n) == 0;

		if (!has_prefix && !path_ends(a->path, names[i].end))
			continue;
		a->path += has_prefix ? n : 0;
		a->export.format = names[i].format;
		return;
	}
}

static int refuse_place(const char *path, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (strncmp(path, places[i].prefix, strlen(places[i].prefix)) != 0)
			continue;
		mlr_fail(err, ENOTSUP, "export to '%s': mlrun writes none of '%s'", path,
			places[i].prefix);
		return mlr_hint(err, "%s", places[i].does);
	}
	return 0;
}

/* "oci-archive:FILE:REF" and the like contain format, file and name. */
static int settle_place(struct args *a, struct mlr_error *err)
{
	static const enum export_format formats_of[] = { [OCI_LAYOUT] = EXPORT_OCI,
		[OCI_ARCHIVE] = EXPORT_OCI_ARCHIVE,
		[OCI_DOCKER_ARCHIVE] = EXPORT_DOCKER_ARCHIVE };
	enum export_format format;
	int r = refuse_place(a->path, err);

	if (r == 0)
		r = oci_place_parse(a->path, &a->place, err);
	if (r == 0 && a->place.transport == OCI_REGISTRY)
		take_name(a);
	if (r < 0 || a->place.transport == OCI_REGISTRY)
		return r;
	format = formats_of[a->place.transport];
	if (a->format_given && a->export.format != format)
		return mlr_fail(err, EINVAL, "'%s' and --format=%s exclude each other", a->path,
			formats[a->export.format]);
	if (a->place.which && a->export.name)
		return mlr_fail(
			err, EINVAL, "'%s' names the image already: --name is too much", a->path);
	a->export.format = format;
	if (a->place.which)
		a->export.name = a->place.which;
	a->path = a->place.path;
	return 0;
}

static const char *format_name(const struct args *a)
{
	return a->is_bundle ? "bundle" : formats[a->export.format];
}

static void check_args(void *args, struct argp_state *state)
{
	struct args *a = args;

	if (settle_place(a, &a->err) < 0)
		return;
	if (rootfs_kept_of(a->image) && !is_squash(a)) {
		mlr_fail(&a->err, EINVAL,
			"export '%s': a container can only become a squashfs or SIF file",
			a->image);
		mlr_hint(&a->err,
			"--format=squashfs or sif; or mlrun commit %s IMAGE makes an image of it to export",
			rootfs_kept_of(a->image));
		return;
	}
	if ((a->export.format == EXPORT_OCI || a->export.format == EXPORT_ROOTFS) &&
		strcmp(a->path, "-") == 0)
		argp_error(state, "a directory cannot be written to standard output");
	if (a->export.format > EXPORT_OCI &&
		(a->export.keep_blobs ||
			(a->compression_given && a->export.compression != OCI_PLAIN &&
				!is_squash(a))))
		argp_error(state, "--format=%s has no compressed layers", format_name(a));
	if (is_squash(a) && a->export.compression == OCI_PLAIN)
		argp_error(state, "--format=%s is gzip or zstd", format_name(a));
	if (a->export.format == EXPORT_SQUASHFS && !a->compression_given)
		a->export.compression = OCI_ZSTD;
	if (a->export.keep_blobs && a->compression_given)
		argp_error(state, "--keep-blobs and --compression exclude each other");
	if (a->export.preserve_permissions && a->export.format != EXPORT_ROOTFS)
		argp_error(state, "--preserve-permissions is for --format=rootfs and bundle");
	if (is_squash(a) && a->export.name)
		argp_error(state, "--name: a %s file has no image's name", format_name(a));
	if (strcmp(a->path, "-") == 0 && a->json)
		argp_error(state, "--json and an image do not both fit on standard output");
}

static const struct option_row options[] = {
	{ "format", 0, "FORMAT", 0,
		"oci-archive (default), oci (a directory), docker-archive, tar (the root "
		"directory only), rootfs (the same as a directory), bundle (rootfs and config.json, "
		"an OCI bundle), squashfs (one file for squashfs:FILE, Enroot and Pyxis) or sif "
		"(Apptainer's)",
		1, OPT_CALL(parse_format) },
	{ "compression", 0, "HOW", 0,
		"compress layers: gzip (default), zstd or none; squashfs: zstd; sif: gzip", 1,
		OPT_READ(struct args, export.compression, cli_read_compression, CLI_A_COMPRESSION),
		1 },
	{ "keep-blobs", 0, 0, 0,
		"the original compressed layers and manifest, so that the digest stays", 1,
		OPT(struct args, export.keep_blobs) },
	{ "name", 0, "NAME", 0, "the image's name in the file; default: its own", 1,
		OPT(struct args, export.name) },
	{ "preserve-permissions", 0, 0, 0,
		"rootfs and bundle keep set-ID bits and what the umask would take", 1,
		OPT(struct args, export.preserve_permissions) },
	CLI_OPTION_QUIET(2),
	CLI_OPTION_JSON(struct args),
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "IMAGE FILE",
	.s.doc =
		"Write an image from the store into FILE, - for standard output. oci-archive:FILE, "
		"docker-archive:FILE and oci:DIRECTORY select the format, and :NAME after them "
		"the image's name.\vThe layers are written "
		"again bit for bit; compressed anew, they give the image another digest, while its "
		"configuration (Docker's image ID) stays.",
	.s.operands = { OPT(struct args, image), OPT(struct args, path) },
	.s.needed = 2,
	.s.missing = "an image and a file are expected",
	.s.surplus = "an image and a file are expected, and no more",
	.s.given = offsetof(struct args, compression_given),
	.s.check = check_args,
};

static int print_json(
	const struct args *a, const struct store_image *im, const struct export_result *r)
{
	return cli_print_json(json_pack("{s:s, s:o, s:s, s:s?, s:s?, s:I}", "name", im->name,
		"file", mlr_json_text(a->path), "format", format_name(a), "digest",
		*r->digest ? r->digest : NULL, "config", *r->config ? r->config : NULL, "layers",
		(json_int_t)r->layers));
}

static void tell(const struct args *a, const struct store_image *im, const struct export_result *r)
{
	const char *to = strcmp(a->path, "-") == 0 ? "standard output" : a->path;

	if (a->common.quiet)
		return;
	if (!*r->digest)
		mlr_info("exported '%s' to '%s'", im->name, to);
	else if (strcmp(r->digest, im->manifest) == 0)
		mlr_info("exported '%s' to '%s': %s", im->name, to, r->digest);
	else
		mlr_info("exported '%s' to '%s': %s (compressed anew; it was %.19s)", im->name, to,
			r->digest, im->manifest);
}

static int read_config(struct store *st, const struct store_image *im, struct oci_config *ret,
	struct mlr_error *err)
{
	auto_call(oci_document_done) struct oci_document doc = { 0 };
	auto_free char *text = NULL;
	size_t len;

	TRY(cli_stored_manifest(st, im->manifest, &doc, err));
	TRY(cli_stored_text(st, doc.config.digest, &text, &len, err));
	return oci_config_parse(text, len, ret, err);
}

/* DIR/rootfs and DIR/config.json. */
static int export_bundle(const struct args *a, struct store *st, const struct store_image *im,
	struct export_result *result, struct mlr_error *err)
{
	auto_call(oci_config_done) struct oci_config c = { 0 };
	auto_free char *root = xasprintf("%s/rootfs", a->path);

	TRY(read_config(st, im, &c, err));
	TRY(file_mkdir_p(AT_FDCWD, root, 0755, err));
	TRY(export_image(st, im, root, &a->export, result, err));
	return bundle_write(a->path, &c, err);
}

static int run_squash(const struct args *a, struct mlr_error *err)
{
	auto_call(export_squashed_done) struct export_squashed done = { 0 };
	int r = export_squash(a->common.store, a->image, a->path, &a->export, &done, err);

	if (r < 0)
		return cli_fail(err);
	for (size_t i = 0; i < done.omitted.n; i++)
		mlr_info("variable '%s' omitted: its value has a line break", done.omitted.v[i]);
	if (!a->common.quiet)
		mlr_info("exported '%s' to '%s'", a->image, a->path);
	return a->json
		? cli_print_json(json_pack("{s:o, s:o, s:s, s:n, s:n, s:I}", "name",
			  mlr_json_text(a->image), "file", mlr_json_text(a->path), "format",
			  format_name(a), "digest", "config", "layers", (json_int_t)done.layers))
		: 0;
}

static int run(const struct args *a, const struct stores *all, struct mlr_error *err)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	struct export_result result;
	struct store *st;
	int r = oci_name_parse(a->image, &name, err);

	if (r == 0)
		r = stores_find(all, &name, &st, &im, err);
	if (r == 0)
		r = a->is_bundle ? export_bundle(a, st, &im, &result, err)
				 : export_image(st, &im, a->path, &a->export, &result, err);
	if (r < 0)
		return cli_fail(err);
	tell(a, &im, &result);
	return a->json ? print_json(a, &im, &result) : 0;
}

int cmd_export(int argc, char **argv)
{
	auto_call(stores_close) struct stores all = { 0 };
	static struct args a = { .export = { .compression = OCI_GZIP, .cancel = &cli_stop_signal },
		.place = OCI_NAME_INIT };
	struct mlr_error err = MLR_ERROR_INIT;
	int status, r;

	cli_options_parse(argc, argv, &syntax, &a);
	if (a.err.code)
		return cli_fail(&a.err);
	if (strcmp(a.path, "-") == 0 && isatty(STDOUT_FILENO)) {
		mlr_fail(&err, EINVAL, "an archive is nothing for a terminal");
		mlr_hint(&err, "redirect it, or name a file");
		return cli_fail(&err);
	}
	cli_stop_catch();
	r = is_squash(&a) ? 0 : cli_open_stores(a.common.store, &all, &err);
	if (r < 0)
		return cli_fail(&err);
	status = is_squash(&a) ? run_squash(&a, &err) : run(&a, &all, &err);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}
