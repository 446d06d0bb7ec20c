#include "metrics/tfevents.h"

#include "base/follow.h"
#include "base/json.h"
#include "data/picture.h"
#include "model/checkpoint.h"
#include "model/wire.h"

#include <endian.h>

/*
 * Values of a TensorBoard summary (TensorFlow's core/framework/summary.proto), one after another in
 * one message: scalars, text, histograms, pictures.
 */

#define TFSUMMARY_BUCKETS 30 /* of a histogram, as TensorBoard's own writer has them */

/* Summary.value = 1; of a Value: */
enum {
	VALUE_TAG = 1,
	VALUE_SCALAR = 2,
	VALUE_IMAGE = 4,
	VALUE_HISTOGRAM = 5,
	VALUE_TENSOR = 8,
	VALUE_METADATA = 9,
};

static size_t begin(struct wire *summary, const char *tag)
{
	size_t value = wire_begin(summary, 1);

	wire_text(summary, VALUE_TAG, tag);
	return value;
}

/* Add a value, except one that is not a number, or negative and thus not known yet. */
static void tfsummary_scalar(struct wire *summary, const char *tag, double v)
{
	size_t value;

	if (!isfinite(v) || v < 0)
		return;
	value = begin(summary, tag);
	wire_float(summary, VALUE_SCALAR, (float)v);
	wire_end(summary, value);
}

/*
 * Add text in Markdown, UTF-8, as tensorboard/plugins/text/summary.py does: metadata { plugin_data
 * = 1 { plugin_name = 1 } }, tensor { dtype = 1: DT_STRING, tensor_shape = 2: a scalar's,
 * string_val = 8 }.
 */
static void tfsummary_text(struct wire *summary, const char *tag, const char *text)
{
	size_t value = begin(summary, tag), tensor, metadata, plugin;

	tensor = wire_begin(summary, VALUE_TENSOR);
	wire_number(summary, 1, 7);
	wire_text(summary, 2, "");
	wire_text(summary, 8, text);
	wire_end(summary, tensor);
	metadata = wire_begin(summary, VALUE_METADATA);
	plugin = wire_begin(summary, 1);
	wire_text(summary, 1, "text");
	wire_end(summary, plugin);
	wire_end(summary, metadata);
	wire_end(summary, value);
}

/* The counts of a HistogramProto. */
struct counts {
	double min, max, sum, squares;
	double bucket[TFSUMMARY_BUCKETS];
	size_t n;
};

static struct counts count(const float *v, size_t n)
{
	struct counts c = { .min = INFINITY, .max = -INFINITY };
	double width;

	for (size_t i = 0; i < n; i++) {
		double x = (double)v[i];

		if (!isfinite(x))
			continue;
		c.min = fmin(c.min, x);
		c.max = fmax(c.max, x);
		c.sum += x;
		c.squares += x * x;
		c.n++;
	}
	width = (c.max - c.min) / TFSUMMARY_BUCKETS;
	for (size_t i = 0; c.n && i < n; i++)
		if (isfinite(v[i])) {
			int at = width > 0 ? (int)(((double)v[i] - c.min) / width) : 0;

			c.bucket[at < TFSUMMARY_BUCKETS ? at : TFSUMMARY_BUCKETS - 1]++;
		}
	return c;
}

/* Add the distribution of n floats, in buckets of equal width from the lowest to the highest.
 * HistogramProto: min = 1, max, num, sum, sum_squares, bucket_limit (the upper ends) = 6, bucket.
 */
static void tfsummary_histogram(struct wire *summary, const char *tag, const float *v, size_t n)
{
	const struct counts c = count(v, n);
	size_t value, histogram;

	if (!c.n)
		return;
	value = begin(summary, tag);
	histogram = wire_begin(summary, VALUE_HISTOGRAM);
	wire_double(summary, 1, c.min);
	wire_double(summary, 2, c.max);
	wire_double(summary, 3, (double)c.n);
	wire_double(summary, 4, c.sum);
	wire_double(summary, 5, c.squares);
	for (int i = 1; i <= TFSUMMARY_BUCKETS; i++)
		wire_double(summary, 6, c.min + (c.max - c.min) * i / TFSUMMARY_BUCKETS);
	for (int i = 0; i < TFSUMMARY_BUCKETS; i++)
		wire_double(summary, 7, c.bucket[i]);
	wire_end(summary, histogram);
	wire_end(summary, value);
}

/* Add a PNG of 1 or 3 channels; the tag, UTF-8, is its title. Summary.Image: height = 1, width,
 * colorspace (the number of channels), encoded_image_string. */
static void tfsummary_picture(struct wire *summary, const char *tag, const uint8_t *png, size_t len,
	uint32_t channels, uint32_t height, uint32_t width)
{
	size_t value = begin(summary, tag), image = wire_begin(summary, VALUE_IMAGE);
	void *bytes;

	wire_number(summary, 1, height);
	wire_number(summary, 2, width);
	wire_number(summary, 3, channels);
	bytes = wire_bytes(summary, 4, len);
	if (bytes)
		memcpy(bytes, png, len);
	wire_end(summary, image);
	wire_end(summary, value);
}

#define FLUSH_MS 2000

/* TensorBoard's runs, and their directories. */
enum which { TRAIN, VALIDATION, TEST };
static const char *const runs[] = { "train", "validation", "test" };

struct writer {
	FILE *file; /* NULL: not open */
	char *path; /* owned */
	int64_t flushed_ms;
	int failed; /* errno of the first failure */
};

struct tfevents {
	char *dir;
	uint64_t first_step; /* at which this process began */
	struct writer writers[ARRAY_LEN(runs)];
};

uint32_t tfevents_crc32c(const void *bytes, size_t n)
{
	static uint32_t table[256];
	const unsigned char *p = bytes;
	uint32_t crc = ~0u;

	if (!table[1])
		for (uint32_t i = 256; i-- > 0;) { /* table[1] comes last but one */
			uint32_t c = i;

			for (int k = 0; k < 8; k++)
				c = c & 1 ? 0x82f63b78 ^ c >> 1 : c >> 1;
			table[i] = c;
		}
	while (n--)
		crc = table[(crc ^ *p++) & 0xff] ^ crc >> 8;
	return ~crc;
}

/* --- files ------------------------------------------------------------------------ */

/* Mask a checksum that is stored beside its data (core/lib/hash/crc32c.h). */
static uint32_t masked(const void *bytes, size_t n)
{
	uint32_t crc = tfevents_crc32c(bytes, n);

	return htole32((crc >> 15 | crc << 17) + 0xa282ead8u);
}

static void write_record(struct writer *w, const struct wire *m)
{
	uint64_t length = htole64(m->len);
	uint32_t head = masked(&length, sizeof(length)), body = masked(m->data, m->len);

	errno = ENOMEM;
	if (m->failed || fwrite(&length, sizeof(length), 1, w->file) != 1 ||
		fwrite(&head, sizeof(head), 1, w->file) != 1 ||
		fwrite(m->data, 1, m->len, w->file) != m->len ||
		fwrite(&body, sizeof(body), 1, w->file) != 1)
		w->failed = w->failed ? w->failed : errno;
}

static void flush(struct writer *w)
{
	if (fflush(w->file) != 0 && !w->failed)
		w->failed = errno;
	w->flushed_ms = mlr_now_ms();
}

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_FILE_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

static void begin_event(struct wire *m, uint64_t step)
{
	wire_double(m, EVENT_WALL_TIME, mlr_epoch());
	wire_number(m, EVENT_STEP, (int64_t)step);
}

static void write_summary(struct writer *w, const struct wire *summary, uint64_t step)
{
	auto_call(wire_done) struct wire event = { 0 };
	void *bytes;

	if (!summary->len || !w->file)
		return;
	begin_event(&event, step);
	bytes = wire_bytes(&event, EVENT_SUMMARY, summary->len);
	if (bytes)
		memcpy(bytes, summary->data, summary->len);
	write_record(w, &event);
	if (mlr_now_ms() - w->flushed_ms >= FLUSH_MS)
		flush(w);
}

static int open_writer(struct tfevents *t, enum which which, struct mlr_error *err)
{
	auto_call(wire_done) struct wire event = { 0 };
	auto_free char *dir = xasprintf("%s/%s", t->dir, runs[which]);
	struct writer *w = &t->writers[which];
	char host[256] = "";
	int fd;

	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		strcpy(host, "localhost");
	for (char *p = host; *p; p++)
		if (*p == '/')
			*p = '_';
	w->path = xasprintf("%s/events.out.tfevents.%010lld.%s.%d", dir, (long long)time(NULL),
		host, (int)getpid());
	TRY(file_mkdir_p(AT_FDCWD, dir, 0777, err));
	fd = follow_append(w->path, err);
	if (fd < 0)
		return fd;
	w->file = fdopen(fd, "a");
	if (!w->file)
		mlr_oom();
	begin_event(&event, 0);
	wire_text(&event, EVENT_FILE_VERSION, "brain.Event:2");
	write_record(w, &event);
	flush(w);
	return 0;
}

/* TensorBoard drops older records of the next step and later. */
static void begin_session(struct tfevents *t, enum which which)
{
	auto_call(wire_done) struct wire event = { 0 };
	size_t session;

	begin_event(&event, t->first_step + 1);
	session = wire_begin(&event, EVENT_SESSION);
	wire_number(&event, 1, 1); /* SessionLog.status = 1: START */
	wire_end(&event, session);
	write_record(&t->writers[which], &event);
}

/* Return the writer of a run that needs one now. A failure to open it is kept. */
static struct writer *writer_of(struct tfevents *t, enum which which)
{
	struct writer *w = &t->writers[which];
	struct mlr_error why = MLR_ERROR_INIT;

	if (w->file || w->failed)
		return w;
	if (open_writer(t, which, &why) < 0)
		w->failed = why.code;
	else
		begin_session(t, which);
	return w;
}

int tfevents_open(const char *dir, struct tfevents **ret, struct mlr_error *err)
{
	struct tfevents *t = xcalloc(1, sizeof(*t));
	int r;

	t->dir = xstrdup(dir);
	r = open_writer(t, TRAIN, err);
	if (r < 0) {
		tfevents_close(&t, NULL);
		return r;
	}
	*ret = t;
	return 0;
}

/* --- what they have --------------------------------------------------------------- */

/* Make a table in Markdown, which TensorBoard renders. Cells are code, so that names stay
 * unchanged. */
static char *table_of(const json_t *run)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	const char *key;
	json_t *v;

	if (!f)
		return xstrdup("");
	fputs("| key | value |\n|---|---|\n", f);
	json_object_foreach((json_t *)run, key, v) {
		auto_free char *dumped = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));

		if (json_is_null(v))
			continue;
		for (char *p = dumped; p && *p; p++)
			if (*p == '`' || *p == '|' || *p == '\n')
				*p = '\'';
		fprintf(f, "| %s | `%s` |\n", key, dumped ? dumped : "");
	}
	fclose(f);
	return text;
}

static void add_weights(struct wire *summary, const struct train_state *s)
{
	float *blocks[BLOCKS] = { (float *)s->params };

	for (size_t i = 0; s->params && i < s->net->n; i++)
		for (int part = PART_WEIGHT; part <= PART_BIAS; part++) {
			char name[PART_NAME_SIZE];
			auto_free char *tag = NULL;
			struct tensor values;

			if (!part_of(&s->net->layers[i], part, 0, blocks, name, &values))
				continue;
			tag = xasprintf("weights/%s", name);
			tfsummary_histogram(summary, tag, values.data, shape_count(&values.shape));
		}
}

/* A class's name as UTF-8, which protobuf wants. */
static char *class_text(const struct dataset *d, int class)
{
	char buf[12];
	json_auto_t *name = mlr_json_text(dataset_class(d, class, buf));

	return xstrdup(name ? json_string_value(name) : buf);
}

static void add_picture(struct wire *summary, const struct dataset *d, const struct image_set *set,
	uint32_t index, const char *tag)
{
	auto_free uint8_t *png = NULL;
	size_t len;

	if (picture_png(d, set, index, &png, &len) == 0)
		tfsummary_picture(summary, tag, png, len, d->channels, d->height, d->width);
}

/* The first images to learn from. */
static void add_samples(struct wire *summary, const struct train_state *s, const struct dataset *d)
{
	for (uint32_t i = 0; i < TFEVENTS_SAMPLES && i < s->train_images; i++) {
		uint32_t index = s->validation_images + i;
		auto_free char *name = class_text(d, d->train.labels[index]);
		auto_free char *tag = xasprintf("samples/%02u %s", i, name);

		add_picture(summary, d, &d->train, index, tag);
	}
}

static void add_mistakes(struct wire *summary, const struct evaluation *e, const struct dataset *d)
{
	for (int i = 0; i < e->mistaken; i++) {
		const struct mistake *m = &e->mistakes[i];
		auto_free char *label = class_text(d, m->label), *guess = class_text(d, m->guess);
		auto_free char *tag = xasprintf("mistakes/%02d %s taken for %s, %.1f %%", i, label,
			guess, 100 * (double)m->probability);

		add_picture(summary, d, &d->test, m->index, tag);
	}
}

void tfevents_start(struct tfevents *t, const json_t *run, const struct train_state *s,
	const struct dataset *data)
{
	auto_call(wire_done) struct wire summary = { 0 };
	auto_free char *table = table_of(run);

	t->first_step = s->step;
	begin_session(t, TRAIN);
	tfsummary_text(&summary, "hparams", table);
	add_weights(&summary, s);
	add_samples(&summary, s, data);
	write_summary(&t->writers[TRAIN], &summary, s->step);
	flush(&t->writers[TRAIN]);
}

static void tell_step(struct tfevents *t, const struct train_state *s, double rate)
{
	auto_call(wire_done) struct wire summary = { 0 };

	tfsummary_scalar(&summary, "loss", s->loss);
	tfsummary_scalar(&summary, "cross_entropy", s->cross_entropy);
	tfsummary_scalar(&summary, "error", s->batch_error);
	tfsummary_scalar(&summary, "lr", s->lr);
	tfsummary_scalar(&summary, "images_per_second", rate);
	write_summary(&t->writers[TRAIN], &summary, s->step);
}

static void tell_validation(struct tfevents *t, const struct train_state *s)
{
	auto_call(wire_done) struct wire summary = { 0 };

	if (s->validation_error < 0)
		return;
	tfsummary_scalar(&summary, "cross_entropy", s->validation_cross_entropy);
	tfsummary_scalar(&summary, "error", s->validation_error);
	write_summary(writer_of(t, VALIDATION), &summary, s->step);
}

static void tell_weights(struct tfevents *t, const struct train_state *s)
{
	auto_call(wire_done) struct wire summary = { 0 };

	add_weights(&summary, s);
	write_summary(&t->writers[TRAIN], &summary, s->step);
}

static void tell_test(struct tfevents *t, const struct train_state *s, const struct dataset *data)
{
	auto_call(wire_done) struct wire summary = { 0 };

	tfsummary_scalar(&summary, "error", s->test_error);
	if (s->test) {
		tfsummary_scalar(&summary, "cross_entropy", s->test->cross_entropy);
		add_mistakes(&summary, s->test, data);
	}
	write_summary(writer_of(t, TEST), &summary, s->step);
}

void tfevents_tell(
	struct tfevents *t, const struct train_state *s, const struct dataset *data, double rate)
{
	if (s->moment == TRAIN_STEPPED)
		tell_step(t, s, rate);
	if (s->moment == TRAIN_VALIDATED || s->moment == TRAIN_EPOCH_ENDED)
		tell_validation(t, s);
	if (s->moment == TRAIN_EPOCH_ENDED)
		tell_weights(t, s);
	if (s->moment == TRAIN_TESTED)
		tell_test(t, s, data);
	for (size_t i = 0; s->moment != TRAIN_STEPPED && i < ARRAY_LEN(runs); i++)
		if (t->writers[i].file)
			flush(&t->writers[i]);
}

void tfevents_load(struct tfevents *t, const struct usage *l, uint64_t step)
{
	auto_call(wire_done) struct wire summary = { 0 };

	tfsummary_scalar(&summary, "load/cpu_process_percent", l->cpu_process_percent);
	tfsummary_scalar(&summary, "load/cpu_node_percent", l->cpu_node_percent);
	tfsummary_scalar(&summary, "load/rss_bytes", l->rss ? (double)l->rss : -1);
	for (int i = 0; i < l->gpus; i++) {
		const struct usage_gpu *g = &l->gpu[i];
		const struct {
			const char *name;
			double value;
		} scalars[] = {
			{ "percent", g->percent },
			{ "memory_bytes", g->memory ? (double)g->memory : -1 },
			{ "power_watts", g->power_watts },
			{ "temperature_celsius", g->temperature },
		};

		for (size_t k = 0; k < ARRAY_LEN(scalars); k++) {
			auto_free char *tag = xasprintf("load/gpu%d_%s", g->index, scalars[k].name);

			tfsummary_scalar(&summary, tag, scalars[k].value);
		}
	}
	write_summary(&t->writers[TRAIN], &summary, step);
}

static int close_writer(struct writer *w, struct mlr_error *err)
{
	auto_free char *path = w->path;
	int failed = w->failed;

	if (w->file && fclose(w->file) != 0 && !failed)
		failed = errno;
	return failed ? mlr_fail(err, failed, "write '%s': %s", path, strerror(failed)) : 0;
}

int tfevents_close(struct tfevents **events, struct mlr_error *err)
{
	struct tfevents *t = take_ptr(events);
	struct mlr_error others;
	int r = 0;

	if (!t)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(runs); i++)
		r = r < 0 ? (close_writer(&t->writers[i], &others), r)
			  : close_writer(&t->writers[i], err);
	free(t->dir);
	free(t);
	return r;
}
