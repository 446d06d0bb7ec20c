#include "export/export.h"

#include "export/layers.h"
#include "export/pack.h"
#include "oci/ref.h"
#include "store/facts.h"
#include "store/lease.h"
#include "store/tree.h"

static void work_done(struct work *w)
{
	outlet_free(w->out);
	documents_done(&w->doc);
	free(w->name);
}

/* The image's name in the file. It gets no digest, which recompression may change; a name with
 * nothing but a digest is left out. */
static char *settle_name(const struct work *w)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };

	if (w->opt->name)
		return xstrdup(w->opt->name);
	if (oci_ref_parse(w->image->name, &ref, NULL) < 0 || !ref.tag)
		return NULL;
	return xasprintf("%s/%s:%s", ref.registry, ref.repository, ref.tag);
}

/* Check that the store has the layers' trees and records. */
static int check_layers(struct work *w, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts f = { 0 };
	int r = store_facts_get(w->st, w->image->manifest, &f, err);

	if (r < 0 || (f.formats & STORE_FORMAT_LAYERS))
		return r;
	for (size_t i = 0; i < w->doc.config.diff_ids.n; i++) {
		if (store_tree_exists(w->st, STORE_LAYER, w->doc.config.diff_ids.v[i]))
			continue;
		mlr_fail(err, ENOENT, "the store has it without its layers");
		return mlr_hint(err, "mlrun pull --format=layers adds them");
	}
	return 0;
}

static int load(struct work *w, struct mlr_error *err)
{
	TRY(documents_load(w->st, w->image->manifest, &w->doc, err));
	w->name = settle_name(w);
	if (w->opt->keep_blobs)
		return 0;
	TRY(check_layers(w, err));
	return pack_check(w->st, &w->doc.config.diff_ids, err);
}

static int write_out(struct work *w, struct export_result *ret, struct mlr_error *err)
{
	switch (w->opt->format) {
	case EXPORT_DOCKER_ARCHIVE:
		return layers_write_docker(w, ret, err);
	case EXPORT_TAR:
	case EXPORT_ROOTFS:
		return export_rootfs_write(w, ret, err);
	default:
		return layers_write_oci(w, ret, err);
	}
}

static enum outlet_kind kind_of(enum export_format format)
{
	return format == EXPORT_OCI       ? OUTLET_DIR
		: format == EXPORT_ROOTFS ? OUTLET_TREE
					  : OUTLET_TAR;
}

int export_image(struct store *st, const struct store_image *im, const char *path,
	const struct export_options *opt, struct export_result *ret, struct mlr_error *err)
{
	auto_call(work_done) struct work w = { .st = st, .image = im, .opt = opt };
	struct export_result result = { "", "", 0 };
	int r = store_lease_take(st, im->manifest, err); /* so that rm leaves it alone */

	if (r == 0)
		r = load(&w, err);

	if (r == 0)
		r = outlet_open(path, kind_of(opt->format), opt->preserve_permissions, &w.out, err);
	if (r == 0)
		r = write_out(&w, &result, err);
	if (r == 0)
		r = outlet_finish(w.out, err);
	if (r < 0)
		return mlr_wrap(err, "export '%s'", im->name);
	*ret = result;
	return 0;
}
