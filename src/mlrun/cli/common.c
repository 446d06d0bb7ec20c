#include "cli/common.h"

#include "base/account.h"
#include "base/config.h"
#include "base/duration.h"
#include "base/escape.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "oci/compression.h"
#include "oci/digest.h"
#include "oci/name.h"
#include "store/facts.h"
#include "store/stores.h"

int cli_read_age(const char *s, void *field)
{
	auto_free char *lower = xstrdup(s);
	int64_t ns;

	for (char *c = lower; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	ns = duration_ns(lower);
	/* A part of a second, "5ms" for five months, would mean all that there is, as "0s" does. */
	if (ns < 0 || ns % 1000000000 != 0 || strcmp(s, "0") == 0)
		return -EINVAL;
	*(int64_t *)field = ns / 1000000000;
	return 0;
}

int cli_read_size(const char *s, void *field)
{
	static const double k = 1000, ki = 1024;
	const struct {
		const char *name;
		double factor;
	} units[] = { { "", 1 }, { "B", 1 }, { "k", k }, { "kB", k }, { "M", k * k },
		{ "MB", k * k }, { "G", k * k * k }, { "GB", k * k * k }, { "T", k * k * k * k },
		{ "TB", k * k * k * k }, { "KiB", ki }, { "MiB", ki * ki }, { "GiB", ki * ki * ki },
		{ "TiB", ki * ki * ki * ki } };
	char *end;
	double v = strtod(s, &end);

	if (end == s || !(v >= 0))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (strcasecmp(end, units[i].name) == 0 && v * units[i].factor < 9e18) {
			*(int64_t *)field = (int64_t)(v * units[i].factor);
			return 0;
		}
	return -EINVAL;
}

int cli_read_signal(const char *s, void *field)
{
	int sig = signal_number(s);

	if (sig > 0)
		*(int *)field = sig;
	return sig > 0 ? 0 : -EINVAL;
}

int cli_read_compression(const char *s, void *field)
{
	return oci_compression_parse(s, field);
}

void cli_size(uint64_t bytes, char out[CLI_SIZE_SIZE])
{
	static const char *const units[] = { "kB", "MB", "GB", "TB" };
	double v = (double)bytes / 1000;
	size_t i = 0;

	if (bytes < 1000) {
		snprintf(out, CLI_SIZE_SIZE, "%d B", (int)bytes);
		return;
	}
	for (; v >= 999.95 && i + 1 < ARRAY_LEN(units); i++)
		v /= 1000;
	snprintf(out, CLI_SIZE_SIZE, "%.1f %s", v, units[i]);
}

void cli_time_local(int64_t seconds, char out[CLI_TIME_SIZE])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(out, CLI_TIME_SIZE, "%Y-%m-%d %H:%M", &tm))
		strcpy(out, "?");
}

char *cli_user_name(uid_t uid)
{
	static struct {
		uid_t uid;
		char *name;
	} known[64];
	static size_t n;
	auto_call(account_done) struct account a = { 0 };

	for (size_t i = 0; i < n; i++)
		if (known[i].uid == uid)
			return xstrdup(known[i].name);
	account_find_user(uid, &a);
	if (n == ARRAY_LEN(known))
		return a.user ? xstrdup(a.user) : xasprintf("%u", (unsigned)uid);
	known[n].uid = uid;
	known[n].name = a.user ? xstrdup(a.user) : xasprintf("%u", (unsigned)uid);
	return xstrdup(known[n++].name);
}

json_t *cli_formats(unsigned formats)
{
	json_t *list = json_array();

	for (unsigned bit = 1; bit < 1u << STORE_FORMATS; bit <<= 1)
		if (formats & bit)
			json_array_append_new(
				list, json_string(store_format_name((enum store_format)bit)));
	return list;
}

int cli_write_json(const char *path, const json_t *value, size_t flags, struct mlr_error *err)
{
	auto_free char *text = json_dumps(value, flags), *whole = NULL;

	if (!text)
		return mlr_fail(
			err, ENOMEM, "write '%s': out of memory, or text is not UTF-8", path);
	whole = xasprintf("%s\n", text);
	return file_put(path, whole, strlen(whole), 0644, err);
}

void cli_print_line(const char *text)
{
	escape_print(stdout, text);
	putchar('\n');
}

int cli_print_json(json_t *value)
{
	auto_free char *text = value ? json_dumps(value, JSON_ENSURE_ASCII) : NULL;
	struct mlr_error err;

	json_decref(value);
	if (!text) {
		mlr_fail(&err, ENOMEM, "print JSON: out of memory, or text is not UTF-8");
		return cli_fail(&err);
	}
	if (puts(text) < 0 || fflush(stdout) != 0) {
		cli_stdout_failed(errno);
		return CLI_FAILED;
	}
	return 0;
}

static void hint_no_store(struct mlr_error *err)
{
	mlr_hint(err, "mlrun pull makes it; --store or MLRUN_STORE names another place");
}

int cli_store_may_come(struct mlr_error *err)
{
	auto_call(config_done) struct config c = { 0 };
	auto_free char *path = NULL, *near = NULL;

	TRY(config_load(&c, err));
	TRY(store_place(&c, &path, NULL, err));
	near = store_place_nearest(path);
	if (faccessat(AT_FDCWD, near, W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	mlr_fail_errno(err, "store '%s' does not exist and cannot be created in '%s'", path, near);
	return mlr_hint(err, "--store or MLRUN_STORE names another place");
}

int cli_refuse_file(const char *image, struct mlr_error *err)
{
	if (!oci_name_ends_as_file(image) || access(image, F_OK) < 0)
		return 0;
	return oci_name_refuse_path(image, err);
}

char *cli_image_in_file(const char *image)
{
	int is_path = oci_name_is_path(image), ends = oci_name_ends_as_root(image), is_file;
	struct stat st;

	if ((!is_path && !ends) || oci_transport_of(image, NULL) != OCI_REGISTRY)
		return NULL;
	is_file = stat(image, &st) == 0;
	if (ends)
		is_file |= is_path;
	else
		is_file &= !S_ISDIR(st.st_mode) && !oci_name_ends_as_file(image);
	return is_file ? xasprintf("%s%s", oci_transport_prefix(OCI_SIF), image) : NULL;
}

int cli_parse_new_name(const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	int r = oci_ref_parse_local(text, ret, err);

	if (r < 0 || !ret->digest)
		return r;
	mlr_fail(err, EINVAL, "'%s': an image cannot be given a digest as its name", text);
	return mlr_hint(err, "omit the part from '@' on");
}

void cli_tell_replaced(const char *name, const char *was)
{
	if (was)
		mlr_info("'%s' was the name of another image until now, %.19s…", name, was);
}

void cli_be_quiet(void)
{
	if (mlr_log_level < MLR_DEBUG)
		mlr_log_level = MLR_ERROR;
}

int cli_open_store(const char *dir, struct store **ret, struct mlr_error *err)
{
	int r = store_open(dir, 0, ret, err);

	if (r == -ENOENT)
		hint_no_store(err);
	return r;
}

int cli_open_stores(const char *dir, struct stores *ret, struct mlr_error *err)
{
	int r = stores_open(dir, NULL, ret, err);

	if (r == -ENOENT)
		hint_no_store(err);
	return r;
}

/* Documents are text, so base's hash of strings serves and libcrypto is not needed; one with a NUL
 * is invalid. */
int cli_stored_text(
	struct store *st, const char *digest, char **ret, size_t *len, struct mlr_error *err)
{
	auto_free char *path = xasprintf("blobs/sha256/%s", oci_digest_hex(digest)), *text = NULL;
	char hex[HASH_HEX_SIZE];

	if (file_read(store_fd(st), path, OCI_DOCUMENT_MAX, &text, len, err) < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	hash_name(text, hex);
	if (strlen(text) != *len || strcmp(hex, oci_digest_hex(digest)) != 0) {
		mlr_fail(
			err, EBADMSG, "store '%s': document %s is damaged", store_path(st), digest);
		return mlr_hint(err, "pull the image again");
	}
	*ret = take_ptr(&text);
	return 0;
}

int cli_stored_manifest(
	struct store *st, const char *digest, struct oci_document *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;

	TRY(cli_stored_text(st, digest, &text, &len, err));
	return oci_document_parse(text, len, NULL, NULL, ret, err) < 0
		? mlr_wrap(err, "manifest %s", digest)
		: 0;
}

int cli_find_image(
	const char *name, const char *dir, struct store_image *ret, struct mlr_error *err)
{
	auto_call(stores_close) struct stores all = { 0 };
	auto_call(oci_name_done) struct oci_name parsed = OCI_NAME_INIT;
	struct store *st;

	TRY(oci_name_parse(name, &parsed, err));
	TRY(stores_open(dir, NULL, &all, err));
	return stores_find(&all, &parsed, &st, ret, err);
}

char *cli_pin(const struct store_image *im)
{
	if (strncmp(im->name, "localhost/", strlen("localhost/")) == 0 || im->source)
		return xstrdup(im->manifest);
	return xasprintf("%.*s@%s", (int)strcspn(im->name, "@"), im->name,
		im->index ? im->index : im->manifest);
}
