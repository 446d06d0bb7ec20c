#include "oci/layout.h"

#include "oci/json.h"
#include "oci/ref.h"

#define LAYOUT_FILE_MAX 4096

static int check_version(const struct record_reader *r, const json_t *v, void *to)
{
	const char *version = json_string_value(v);

	return version && strncmp(version, "1.", 2) == 0
		? 0
		: mlr_fail(r->err, ENOTSUP, "a layout of version '%.40s', not 1.0.0",
			  version ? version : "");
}

int oci_layout_check(const char *json, size_t len, struct mlr_error *err)
{
	static const struct record_row rows[] = {
		{ "imageLayoutVersion", RECORD_OWN, .flags = RECORD_MUST, .read = check_version },
		{ NULL },
	};
	int nothing = 0; /* is kept of it */

	return oci_json_read(json, len, LAYOUT_FILE_MAX, rows, &nothing, err);
}

static int is_called(const char *name, const char *which)
{
	return name && (strcmp(name, which) == 0 || oci_ref_is_same(name, which));
}

static int matches(const struct oci_index_entry *e, const char *which)
{
	return !which || (e->tag && strcmp(e->tag, which) == 0) || is_called(e->name, which);
}

static void hint_names(const struct oci_document *index, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *all = NULL;

	for (size_t i = 0; i < index->n_entries; i++)
		if (index->entries[i].name)
			strv_add(&names, index->entries[i].name);
		else
			strv_addf(&names, "@%zu", i);
	all = strv_join_within(&names, 400, ", ");
	if (index->n_entries > 0)
		mlr_hint(
			err, "there are: %s; name one as oci:DIR:REF or oci-archive:FILE:REF", all);
}

static const struct oci_index_entry *numbered(const struct oci_document *index, const char *which)
{
	char *end;
	unsigned long n = strtoul(which + 1, &end, 10);

	if (which[1] < '0' || which[1] > '9' || *end != '\0' || n >= index->n_entries)
		return NULL;
	return &index->entries[n];
}

/* Choose among several entries of one name, one for each platform. */
static int choose_platform(const struct oci_document *index, const char *which,
	const struct oci_platform *want, const struct oci_index_entry **ret, struct mlr_error *err)
{
	auto_free struct oci_index_entry *some = xcalloc(index->n_entries, sizeof(*some));
	auto_free size_t *at = xcalloc(index->n_entries, sizeof(*at));
	struct oci_document part = { .kind = OCI_INDEX, .entries = some };
	const struct oci_index_entry *chosen;

	for (size_t i = 0; i < index->n_entries; i++) {
		if (!matches(&index->entries[i], which))
			continue;
		at[part.n_entries] = i;
		some[part.n_entries++] = index->entries[i]; /* borrowed */
	}
	TRY(oci_index_choose(&part, want, &chosen, err));
	*ret = &index->entries[at[chosen - some]];
	return 0;
}

int oci_layout_choose(const struct oci_document *index, const char *which,
	const struct oci_platform *want, const struct oci_index_entry **ret, struct mlr_error *err)
{
	size_t n = 0, names = 0, platforms = 0;

	if (which && *which == '@') {
		*ret = numbered(index, which);
		if (*ret)
			return 0;
	} else {
		for (size_t i = 0; i < index->n_entries; i++) {
			const struct oci_index_entry *e = &index->entries[i];

			if (!matches(e, which))
				continue;
			n++;
			names += e->name != NULL;
			platforms += e->has_platform != 0;
			*ret = e;
		}
		if (n == 1)
			return 0;
		if (n > 1 && !which && names == 0 && platforms == n)
			return 1;
		if (n > 1 && which && platforms == n)
			return choose_platform(index, which, want, ret, err);
	}
	if (n > 1) {
		mlr_fail(err, EINVAL, "%zu images%s%s%s: which one?", n, which ? " called '" : "",
			which ? which : "", which ? "'" : "");
		hint_names(index, err);
		return -EINVAL;
	}
	if (which)
		mlr_fail(err, ENOENT, "no image '%.200s' in it", which);
	else
		mlr_fail(err, ENOENT, "no image in it");
	hint_names(index, err);
	return -ENOENT;
}

#define IMAGES_MAX 1024
#define TAGS_MAX   1024

static int check_image(const struct record_reader *r, void *member)
{
	const struct oci_save_image *im = member;

	return im->layers.n <= OCI_LAYERS_MAX && im->tags.n <= TAGS_MAX
		? 0
		: mlr_fail(r->err, ENOTSUP, "%zu layers and %zu tags, the limits are %d and %d",
			  im->layers.n, im->tags.n, OCI_LAYERS_MAX, TAGS_MAX);
}

#define AT(member) RECORD_AT(struct oci_save_image, member)

static const struct record_row image_rows[] = {
	{ "Config", RECORD_TEXT, AT(config), .flags = RECORD_MUST },
	{ "RepoTags", RECORD_TEXTS, AT(tags) },
	{ "Layers", RECORD_TEXTS, AT(layers) },
	{ NULL },
};

static const struct record_row rows[] = {
	{ "images", RECORD_LIST, RECORD_ITEMS(struct oci_save, images, n, image_rows),
		.rule = check_image },
	{ NULL },
};

void oci_save_done(struct oci_save *s)
{
	record_done(rows, s);
}

int oci_save_parse(const char *json, size_t len, struct oci_save *ret, struct mlr_error *err)
{
	auto_call(oci_save_done) struct oci_save s = { 0 };
	const struct record_reader r = { .manner = RECORD_PRINTABLE, .err = err };
	json_auto_t *root = NULL;

	TRY(oci_json_load_array(json, len, OCI_DOCUMENT_MAX, &root, err));
	if (json_array_size(root) == 0 || json_array_size(root) > IMAGES_MAX)
		return mlr_fail(err, EPROTO, "%zu images; 1 to %d are expected",
			json_array_size(root), IMAGES_MAX);
	TRY(record_value(&r, rows, root, &s));
	*ret = take_struct(&s, { 0 });
	return 0;
}

static void hint_images(const struct oci_save *s, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *all = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (s->images[i].tags.n > 0)
			strv_add(&names, s->images[i].tags.v[0]);
		else
			strv_addf(&names, "@%zu", i);
	all = strv_join_within(&names, 400, ", ");
	mlr_hint(err, "the archive has: %s; name one as docker-archive:FILE:REF", all);
}

static const struct oci_save_image *choose(
	const struct oci_save *s, const char *which, const char **tag)
{
	if (*which == '@') {
		char *end;
		unsigned long n = strtoul(which + 1, &end, 10);

		if (which[1] < '0' || which[1] > '9' || *end != '\0' || n >= s->n)
			return NULL;
		*tag = s->images[n].tags.n ? s->images[n].tags.v[0] : NULL;
		return &s->images[n];
	}
	for (size_t i = 0; i < s->n; i++) {
		for (size_t j = 0; j < s->images[i].tags.n; j++) {
			*tag = s->images[i].tags.v[j];
			if (strcmp(*tag, which) == 0 || oci_ref_is_same(*tag, which))
				return &s->images[i];
		}
	}
	return NULL;
}

int oci_save_choose(const struct oci_save *s, const char *which, const struct oci_save_image **ret,
	const char **tag, struct mlr_error *err)
{
	const struct oci_save_image *im = choose(s, which ? which : "@0", tag);

	if (!which && s->n > 1) {
		mlr_fail(err, EINVAL, "%zu images: which one?", s->n);
		hint_images(s, err);
		return -EINVAL;
	}
	if (!im) {
		mlr_fail(err, ENOENT, "no image '%.200s' in it", which);
		hint_images(s, err);
		return -ENOENT;
	}
	*ret = im;
	return 0;
}

char *oci_save_manifest(const char *config_digest, size_t config_size, const struct strv *diff_ids,
	const unsigned long long *sizes)
{
	char *s = xasprintf(
		"{\"schemaVersion\":2,"
		"\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\","
		"\"config\":{\"mediaType\":\"application/vnd.docker.container.image.v1+json\","
		"\"size\":%zu,\"digest\":\"%s\"},\"layers\":[",
		config_size, config_digest);

	for (size_t i = 0; i < diff_ids->n; i++) {
		char *longer = xasprintf("%s%s{\"mediaType\":"
					 "\"application/vnd.docker.image.rootfs.diff.tar.gzip\","
					 "\"size\":%llu,\"digest\":\"%s\"}",
			s, i ? "," : "", sizes[i], diff_ids->v[i]);

		set_ptr(&s, longer);
	}
	char *whole = xasprintf("%s]}", s);

	free(s);
	return whole;
}
