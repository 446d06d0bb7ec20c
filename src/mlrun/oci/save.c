#include "oci/save.h"

#include "base/base.h"
#include "oci/json.h"
#include "oci/manifest.h"
#include "oci/ref.h"

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
	*ret = s;
	s = (struct oci_save){ 0 };
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

		free(s);
		s = longer;
	}
	char *whole = xasprintf("%s]}", s);

	free(s);
	return whole;
}
