/* What inspect shows of an image in a file that is used in place: a SIF or a squashfs file. */
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/listing.h"

#include "base/json.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"
#include "sif/sif.h"

#include <endian.h>

#define LABELS     "/.singularity.d/labels.json"
#define LABELS_MAX (1u << 20) /* bytes */

/* Read the labels that Apptainer keeps in the image. Returns 0, without labels if they are not
 * there or damaged; -EPROTO if there is no image at all. */
static int read_labels(
	const struct plan *p, const struct sif *s, json_t **ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	int r = rootfs_read(p, LABELS, LABELS_MAX, &text, err);

	if (r == -EPROTO && s->n == 0)
		return r;
	*ret = r < 0 ? NULL : mlr_json_load(text, strlen(text), 0, NULL);
	if (!json_is_object(*ret)) {
		json_decref(*ret);
		*ret = json_object();
	}
	return 0;
}

static void list_parts(const struct sif *s, struct listing *l)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct sif_descriptor *d = &s->parts[i];
		auto_free char *type = sif_describe(d), *name = xstrndup(d->name, sizeof(d->name));

		if (!d->used)
			continue;
		listing_row(l);
		listing_number(l, "PART", "id", le32toh(d->id));
		listing_text(l, "TYPE", "type", type);
		listing_number(l, "OFFSET", "offset", (int64_t)le64toh(d->at));
		listing_size(l, "SIZE", "size", le64toh(d->size));
		listing_text(l, "NAME", "name", name);
	}
}

static int print(
	const struct inspect_args *a, const struct plan *p, const struct sif *s, json_t *labels)
{
	struct listing parts = { .as_json = a->json };
	const char *key;
	json_t *value;

	list_parts(s, &parts);
	if (a->json)
		return cli_print_json(json_pack("{s:o, s:o, s:o, s:O}", "name",
			mlr_json_text(a->image), "platform", mlr_json_text(p->platform), "parts",
			listing_take(&parts), "labels", labels));
	printf("%-12s", "name");
	cli_print_line(a->image);
	printf("%-12s%s\n", "platform", p->platform ? p->platform : "-");
	json_object_foreach(labels, key, value) {
		auto_free char *text = json_dumps(value, JSON_ENCODE_ANY);
		auto_free char *line = xasprintf("%s=%s", key, text);

		printf("%-12s", "label");
		cli_print_line(line);
	}
	if (s->n > 0)
		listing_write(&parts, stdout);
	return 0;
}

int inspect_file(const struct inspect_args *a, const char *image, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	auto_call(sif_done) struct sif s = { .parts = NULL };
	auto_call(plan_done) struct plan p;
	json_auto_t *labels = NULL;
	auto_close int fd = -1;

	plan_init(&p);
	TRY(rootfs_plan(NULL, NULL, image, 0, &p, &facts, err));
	fd = open(p.squashfs, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	TRY(fd < 0 ? mlr_fail_errno(err, "open")
		   : sif_read(fd, (uint64_t)lseek(fd, 0, SEEK_END), &s, err));
	TRY(read_labels(&p, &s, &labels, err));
	return print(a, &p, &s, labels);
}
