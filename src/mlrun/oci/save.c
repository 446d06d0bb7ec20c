#include "oci/save.h"

#include "base/base.h"
#include "oci/json.h"
#include "oci/manifest.h"
#include "oci/ref.h"

#define IMAGES_MAX 1024
#define TAGS_MAX   1024

static void image_done(struct oci_save_image *im)
{
	free(im->config);
	strv_done(&im->tags);
	strv_done(&im->layers);
}

void oci_save_done(struct oci_save *s)
{
	for (size_t i = 0; i < s->n; i++)
		image_done(&s->images[i]);
	free(s->images);
	*s = (struct oci_save)OCI_SAVE_INIT;
}

static int parse_image(json_t *v, struct oci_save_image *im, struct mlr_error *err)
{
	const char *config;

	if (!json_is_object(v))
		return mlr_fail(err, EPROTO, "not an object");
	TRY(oci_json_text(v, "Config", &config, err));
	if (!config || !*config)
		return mlr_fail(err, EPROTO, "\"Config\" is missing");
	im->config = xstrdup(config);
	TRY(oci_json_texts(v, "RepoTags", &im->tags, err));
	TRY(oci_json_texts(v, "Layers", &im->layers, err));
	if (im->layers.n > OCI_LAYERS_MAX || im->tags.n > TAGS_MAX)
		return mlr_fail(err, ENOTSUP, "%zu layers and %zu tags, the limits are %d and %d",
			im->layers.n, im->tags.n, OCI_LAYERS_MAX, TAGS_MAX);
	return 0;
}

int oci_save_parse(const char *json, size_t len, struct oci_save *ret, struct mlr_error *err)
{
	auto_call(oci_save_done) struct oci_save s = OCI_SAVE_INIT;
	json_auto_t *root = NULL;
	json_t *v;
	size_t i;
	int r = oci_json_load_array(json, len, OCI_DOCUMENT_MAX, &root, err);

	if (r < 0)
		return r;
	if (json_array_size(root) == 0 || json_array_size(root) > IMAGES_MAX)
		return mlr_fail(err, EPROTO, "%zu images; 1 to %d are expected",
			json_array_size(root), IMAGES_MAX);
	s.images = xcalloc(json_array_size(root), sizeof(*s.images));
	json_array_foreach(root, i, v) {
		r = parse_image(v, &s.images[s.n++], err);
		if (r < 0)
			return mlr_wrap(err, "image %zu", i + 1);
	}
	*ret = s;
	s = (struct oci_save)OCI_SAVE_INIT;
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
