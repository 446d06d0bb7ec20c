#include "unit.h"
#include "rootfs/flatten.h"
#include "store/tree.h"
#include "layers.h"

struct strv layers;

int layers_add(struct tar *t)
{
	auto_call(layer_result_done) struct layer_result res = { 0 };
	struct store_tree *work = NULL;
	char id[80];
	int r;

	snprintf(id, sizeof(id), "sha256:%064zu", layers.n + 1);
	assert_int_equal(store_tree_begin(st, STORE_LAYER, id, &work, &err), 0);
	t->at = 0;
	r = layer_unpack(tar_read, t, OCI_PLAIN, store_tree_fd(work), -1, &res, &err);
	if (r < 0) {
		store_tree_drop(work);
		return r;
	}
	ok(rootfs_layer_note(work, &res, &err));
	ok(store_tree_publish(work, &err));
	strv_add(&layers, id);
	return 0;
}
