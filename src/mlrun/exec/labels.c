/* Reads the wishes of an image's labels, where neither an option nor the configuration says. */
#include "exec/parts.h"

static const char *find(const struct strv *labels, const char *name)
{
	for (size_t i = 0; i + 1 < labels->n; i += 2)
		if (strcmp(labels->v[i], name) == 0)
			return labels->v[i + 1];
	return NULL;
}

static void ignore(struct plan *p, const char *name, const char *value, const char *words)
{
	plan_remark_add(
		p, PLAN_FROM_IMAGE, "ignored the label %s: '%.100s' is not %s", name, value, words);
}

/* An image cannot know the names of GPUs, so it may not list any. */
static void read_gpu(const struct strv *labels, struct exec_options *o, struct plan *p)
{
	const char *value = find(labels, LABEL_GPU);

	if (!value || o->gpu)
		return;
	if (strcmp(value, "auto") != 0 && strcmp(value, "all") != 0 && strcmp(value, "none") != 0) {
		ignore(p, LABEL_GPU, value, "auto, all or none");
		return;
	}
	o->gpu = value;
	o->gpu_origin = PLAN_FROM_IMAGE;
}

static void read_mpi(const struct strv *labels, struct exec_options *o, struct plan *p)
{
	const char *value = find(labels, LABEL_MPI);

	if (!value || o->mpi != EXEC_MPI_UNSET)
		return;
	if (exec_mpi_read(value, o) < 0)
		ignore(p, LABEL_MPI, value, "auto, none or host");
	o->mpi_is_wish = 1;
}

void labels_read(const struct strv *labels, struct exec_options *o, struct plan *p)
{
	read_gpu(labels, o, p);
	read_mpi(labels, o, p);
}
