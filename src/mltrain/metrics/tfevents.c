#include "metrics/tfevents.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "model/wire.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLUSH_MS 2000

struct tfevents {
	FILE *file;
	char *path;
	int64_t flushed_ms;
	int failed; /* errno of the first failure */
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

static void write_record(struct tfevents *t, const struct wire *m)
{
	uint64_t length = htole64(m->len);
	uint32_t head = masked(&length, sizeof(length)), body = masked(m->data, m->len);

	errno = ENOMEM;
	if (m->failed || fwrite(&length, sizeof(length), 1, t->file) != 1 ||
		fwrite(&head, sizeof(head), 1, t->file) != 1 ||
		fwrite(m->data, 1, m->len, t->file) != m->len ||
		fwrite(&body, sizeof(body), 1, t->file) != 1)
		t->failed = t->failed ? t->failed : errno;
}

static void flush(struct tfevents *t)
{
	if (fflush(t->file) != 0 && !t->failed)
		t->failed = errno;
	t->flushed_ms = mlr_now_ms();
}

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_FILE_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

static void begin_event(struct wire *m, uint64_t step)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	wire_double(m, EVENT_WALL_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
	wire_number(m, EVENT_STEP, (int64_t)step);
}

static void write_summary(struct tfevents *t, const struct wire *summary, uint64_t step)
{
	auto_call(wire_done) struct wire event = WIRE_INIT;
	void *bytes;

	if (!summary->len)
		return;
	begin_event(&event, step);
	bytes = wire_bytes(&event, EVENT_SUMMARY, summary->len);
	if (bytes)
		memcpy(bytes, summary->data, summary->len);
	write_record(t, &event);
	if (mlr_now_ms() - t->flushed_ms >= FLUSH_MS)
		flush(t);
}

/* Summary.value = 1; Value: tag = 1, simple_value = 2. Unknown values are left out. */
static void add_scalar(struct wire *summary, const char *tag, double v)
{
	size_t value;

	if (!isfinite(v) || v < 0)
		return;
	value = wire_begin(summary, 1);
	wire_text(summary, 1, tag);
	wire_float(summary, 2, (float)v);
	wire_end(summary, value);
}

int tfevents_open(const char *dir, struct tfevents **ret, struct mlr_error *err)
{
	auto_call(wire_done) struct wire event = WIRE_INIT;
	char host[256] = "";
	struct tfevents *t;
	int r;

	r = file_mkdir_p(AT_FDCWD, dir, 0777, err);
	if (r < 0)
		return r;
	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		strcpy(host, "localhost");
	for (char *p = host; *p; p++)
		if (*p == '/')
			*p = '_';
	t = xcalloc(1, sizeof(*t));
	t->path = xasprintf("%s/events.out.tfevents.%010lld.%s.%d", dir, (long long)time(NULL),
		host, (int)getpid());
	t->file = fopen(t->path, "ae");
	if (!t->file) {
		r = mlr_fail_errno(err, "open '%s'", t->path);
		free(t->path);
		free(t);
		return r;
	}
	begin_event(&event, 0);
	wire_text(&event, EVENT_FILE_VERSION, "brain.Event:2");
	write_record(t, &event);
	flush(t);
	*ret = t;
	return 0;
}

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

/*
 * Add a text summary (tensorboard/plugins/text/summary.py): Value.tag = 1, metadata = 9 with
 * plugin_data = 1 { plugin_name = 1 }, tensor = 8 { dtype = 1: DT_STRING, tensor_shape = 2: a
 * scalar's, string_val = 8 }.
 */
static void add_text(struct wire *summary, const char *tag, const char *text)
{
	size_t value = wire_begin(summary, 1), tensor, metadata, plugin;

	wire_text(summary, 1, tag);
	tensor = wire_begin(summary, 8);
	wire_number(summary, 1, 7);
	wire_text(summary, 2, "");
	wire_text(summary, 8, text);
	wire_end(summary, tensor);
	metadata = wire_begin(summary, 9);
	plugin = wire_begin(summary, 1);
	wire_text(summary, 1, "text");
	wire_end(summary, plugin);
	wire_end(summary, metadata);
	wire_end(summary, value);
}

void tfevents_start(struct tfevents *t, const json_t *run, uint64_t step)
{
	auto_call(wire_done) struct wire event = WIRE_INIT, summary = WIRE_INIT;
	auto_free char *table = table_of(run);
	size_t session;

	begin_event(&event, step + 1); /* TensorBoard drops older records of this step and later */
	session = wire_begin(&event, EVENT_SESSION);
	wire_number(&event, 1, 1); /* SessionLog.status = 1: START */
	wire_end(&event, session);
	write_record(t, &event);
	add_text(&summary, "hparams", table);
	write_summary(t, &summary, step);
	flush(t);
}

void tfevents_tell(struct tfevents *t, const struct train_state *s, double rate)
{
	auto_call(wire_done) struct wire summary = WIRE_INIT;

	switch (s->moment) {
	case TRAIN_STEPPED:
		add_scalar(&summary, "train/loss", s->loss);
		add_scalar(&summary, "train/cross_entropy", s->cross_entropy);
		add_scalar(&summary, "train/batch_error", s->batch_error);
		add_scalar(&summary, "train/lr", s->lr);
		add_scalar(&summary, "train/images_per_second", rate);
		break;
	case TRAIN_VALIDATED:
	case TRAIN_EPOCH_ENDED:
		add_scalar(&summary, "validation/error", s->validation_error);
		break;
	case TRAIN_TESTED:
		add_scalar(&summary, "test/error", s->test_error);
		break;
	case TRAIN_STARTED:
	case TRAIN_SAVED:
	case TRAIN_INTERRUPTED:
		break;
	}
	write_summary(t, &summary, s->step);
	if (s->moment != TRAIN_STEPPED)
		flush(t);
}

void tfevents_load(struct tfevents *t, const struct load *l, uint64_t step)
{
	auto_call(wire_done) struct wire summary = WIRE_INIT;

	add_scalar(&summary, "load/cpu_process_percent", l->cpu_process_percent);
	add_scalar(&summary, "load/cpu_node_percent", l->cpu_node_percent);
	add_scalar(&summary, "load/rss_bytes", l->rss ? (double)l->rss : -1);
	for (int i = 0; i < l->gpus; i++) {
		const struct load_gpu *g = &l->gpu[i];
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

			add_scalar(&summary, tag, scalars[k].value);
		}
	}
	write_summary(t, &summary, step);
}

int tfevents_close(struct tfevents **events, struct mlr_error *err)
{
	struct tfevents *t = take_ptr(events);
	auto_free char *path = NULL;
	int failed;

	if (!t)
		return 0;
	path = t->path;
	failed = t->failed;
	if (fclose(t->file) != 0 && !failed)
		failed = errno;
	free(t);
	if (!failed)
		return 0;
	return mlr_fail(err, failed, "write '%s': %s", path, strerror(failed));
}
