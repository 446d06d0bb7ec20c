#include "trainer/runlog.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct runlog {
	int fd;
	char *path;
	uint64_t every;
	struct mlr_error failed; /* the first failure to write */
};

int runlog_open(const char *path, uint64_t every, struct runlog **ret, struct mlr_error *err)
{
	auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	struct runlog *l;

	if (fd < 0)
		return mlr_fail_errno(err, "open log '%s'", path);
	l = xcalloc(1, sizeof(*l));
	l->fd = take_fd(&fd);
	l->path = xstrdup(path);
	l->every = every;
	*ret = l;
	return 0;
}

/* Takes the record. */
static void put(struct runlog *l, json_t *record)
{
	auto_free char *line = record ? json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(10))
				      : NULL;
	size_t len = line ? strlen(line) : 0;
	int r = -EINVAL;

	json_decref(record);
	if (line) {
		line[len] = '\n'; /* in place of the NUL */
		r = file_write_all(l->fd, line, len + 1);
	}
	if (r < 0 && !l->failed.code)
		mlr_fail(&l->failed, -r, "write log '%s': %s", l->path, strerror(-r));
}

/* A number, or null for what is not known. */
static json_t *real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *share(double v)
{
	return v < 0 ? json_null() : json_real(v);
}

static json_t *run_record(
	const struct train_state *s, const struct train_options *o, const char *dir)
{
	char when[32], input[SHAPE_TEXT_MAX];
	time_t t = time(NULL);
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:s, s:i, s:I, s:I, s:i, s:i,"
		" s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:s?}",
		"event", "run", "time", when, "version", PACKAGE_VERSION, "net", s->net->name,
		"input", shape_text(&s->net->input, input), "parameters",
		(json_int_t)s->net->params, "data", dir, "train_images",
		(json_int_t)s->train_images, "validation_images", (json_int_t)s->validation_images,
		"test_images", (json_int_t)s->test_images, "backend", s->engine->backend->name,
		"threads", s->engine->threads, "memory_bytes", (json_int_t)s->engine->memory,
		"seed", (json_int_t)o->seed, "epochs", o->epochs, "batch", o->batch, "steps",
		(json_int_t)s->steps, "steps_per_epoch", (json_int_t)s->epoch_steps, "lr", o->lr,
		"lr_decay", o->lr_decay, "momentum", o->momentum, "l2", o->l2, "dropout",
		o->dropout, "checkpoint", o->checkpoint);
}

/* Steps, epochs, interruptions and the end are told with the same keys. */
static json_t *state_record(
	const char *event, const struct train_state *s, const struct train_options *o)
{
	double rate = s->step_seconds > 0 ? (double)s->step * o->batch / s->step_seconds : NAN;
	int64_t wrong = s->test_wrong;

	return json_pack(
		"{s:s, s:I, s:i, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o}",
		"event", event, "step", (json_int_t)s->step, "epoch", s->epoch, "epochs_done",
		s->epochs_done, "lr", s->lr, "loss", real(s->loss), "cross_entropy",
		real(s->cross_entropy), "batch_error", share(s->batch_error), "validation_error",
		share(s->validation_error), "test_error", share(s->test_error), "test_accuracy",
		s->test_error < 0 ? json_null() : json_real(1 - s->test_error), "test_wrong",
		wrong < 0 ? json_null() : json_integer(wrong), "train_seconds", s->step_seconds,
		"evaluate_seconds", s->evaluate_seconds, "images_per_second", real(rate));
}

void runlog_tell(struct runlog *l, const struct train_state *s, const struct train_options *o,
	const char *data_dir)
{
	switch (s->moment) {
	case TRAIN_STARTED:
		put(l, run_record(s, o, data_dir));
		break;
	case TRAIN_STEPPED:
		if (s->step == 1 || s->step % l->every == 0 || s->step == s->steps)
			put(l, state_record("step", s, o));
		break;
	case TRAIN_EPOCH_ENDED:
		put(l, state_record("epoch", s, o));
		break;
	case TRAIN_SAVED:
		break;
	case TRAIN_INTERRUPTED:
		put(l, state_record("interrupted", s, o));
		break;
	case TRAIN_TESTED:
		put(l, state_record("end", s, o));
		break;
	}
}

void runlog_fail(struct runlog *l, const struct mlr_error *why)
{
	put(l, json_pack("{s:s, s:s}", "event", "failed", "error", why->text));
}

int runlog_close(struct runlog *l, struct mlr_error *err)
{
	struct mlr_error failed = MLR_ERROR_INIT;

	if (!l)
		return 0;
	failed = l->failed;
	if (close(l->fd) < 0 && !failed.code)
		mlr_fail_errno(&failed, "write log '%s'", l->path);
	free(l->path);
	free(l);
	if (!failed.code)
		return 0;
	return mlr_fail(err, failed.code, "%s", failed.text);
}
