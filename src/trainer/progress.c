#include "trainer/progress.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_S 0.1
#define LINE_S   10.0

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_init(struct progress *p)
{
	const char *term = getenv("TERM");

	*p = (struct progress){ 0 };
	p->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
	p->last = now();
}

/* "4.7 %", or "-" for what is not known yet. */
static char *percent(double share, char buf[16])
{
	if (share < 0)
		strcpy(buf, "-");
	else
		snprintf(buf, 16, "%.1f %%", 100 * share);
	return buf;
}

static char *duration(double s, char buf[32])
{
	long t = (long)(s + 0.5);

	if (t >= 3600)
		snprintf(buf, 32, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
	else
		snprintf(buf, 32, "%ld:%02ld", t / 60, t % 60);
	return buf;
}

/* What is left: steps at the mean rate so far, and an evaluation an epoch. */
static double seconds_left(const struct train_state *s)
{
	double step = s->step_seconds / (double)s->step;
	int epochs = (int)((s->steps + s->epoch_steps - 1) / s->epoch_steps) - s->epochs_done;
	double evaluate = s->epochs_done ? s->evaluate_seconds / s->epochs_done : 0;

	return step * (double)(s->steps - s->step) + evaluate * epochs;
}

static char *describe(
	const struct progress *p, const struct train_state *s, const struct train_options *o)
{
	int epochs = (int)((s->steps + s->epoch_steps - 1) / s->epoch_steps);
	char batch[16], validation[16], left[32];

	(void)o;
	return xasprintf("epoch %d/%d  step %" PRIu64 "/%" PRIu64
			 "  %.0f images/s  loss %.3f  batch error %s"
			 "  validation error %s  %s left",
		s->epoch, epochs, s->step, s->steps, p->rate, s->loss,
		percent(s->batch_error, batch), percent(s->validation_error, validation),
		duration(seconds_left(s), left));
}

static void draw(struct progress *p, const char *line)
{
	struct winsize w;
	int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;

	fprintf(stderr, "\r%.*s\033[K", columns, line);
	fflush(stderr);
	p->drawn = 1;
}

void progress_clear(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	p->drawn = 0;
}

static void stepped(struct progress *p, const struct train_state *s, const struct train_options *o)
{
	double t = now(), spent = s->step_seconds - p->step_seconds;
	auto_free char *line = NULL;

	if (t - p->last < (p->terminal ? REDRAW_S : LINE_S))
		return;
	if (spent > 0)
		p->rate = (double)(s->step - p->step) * o->batch / spent;
	p->last = t;
	p->step = s->step;
	p->step_seconds = s->step_seconds;
	line = describe(p, s, o);
	if (p->terminal)
		draw(p, line);
	else
		mlr_info("%s", line);
}

static void started(const struct train_state *s)
{
	char input[SHAPE_TEXT_MAX];

	mlr_info(
		"network '%s': input %s, %zu layers, %zu parameters; backend %s on %d thread%s, %.1f MB",
		s->net->name, shape_text(&s->net->input, input), s->net->n, s->net->params,
		s->engine->backend->name, s->engine->threads, s->engine->threads == 1 ? "" : "s",
		1e-6 * (double)s->engine->memory);
	mlr_info("%u images to train with, %u to validate, %u to test; %" PRIu64 " steps",
		s->train_images, s->validation_images, s->test_images, s->steps);
}

void progress_tell(struct progress *p, const struct train_state *s, const struct train_options *o)
{
	char validation[16], left[32];

	switch (s->moment) {
	case TRAIN_STARTED:
		started(s);
		break;
	case TRAIN_STEPPED:
		stepped(p, s, o);
		break;
	case TRAIN_EPOCH_ENDED:
		progress_clear(p);
		mlr_info("epoch %d ended at step %" PRIu64 "/%" PRIu64
			 ": loss %.3f, validation error %s, %.0f images/s, %s left",
			s->epoch, s->step, s->steps, s->loss,
			percent(s->validation_error, validation),
			(double)s->step * o->batch / s->step_seconds,
			duration(seconds_left(s), left));
		break;
	case TRAIN_SAVED:
		break;
	case TRAIN_INTERRUPTED:
	case TRAIN_TESTED:
		progress_clear(p);
		break;
	}
}
