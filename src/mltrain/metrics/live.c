#include "metrics/live.h"

#include <sys/ioctl.h>

#define REDRAW_S 0.1

void live_init(struct live *l)
{
	const char *term = getenv("TERM");

	*l = (struct live){ 0 };
	l->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

/* Format "4.7 %", or "-" for a value not known yet. */
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

/* A line of words, in so many columns. */
struct line {
	int columns, used;
	char text[256];
};

/* Leave out words that do not fit: "222" of "2229 images/s" would be another number. */
static void __attribute__((format(printf, 2, 3))) add(struct line *l, const char *fmt, ...)
{
	char words[64];
	const char *gap = l->used ? "  " : "";
	int room = l->columns - l->used, len;
	va_list args;

	va_start(args, fmt);
	len = vsnprintf(words, sizeof(words), fmt, args) + (int)strlen(gap);
	va_end(args);
	if (len > room || len >= (int)sizeof(words) || l->used + len >= (int)sizeof(l->text))
		return;
	sprintf(l->text + l->used, "%s%s", gap, words);
	l->used += len;
}

/* The most important words come first, as a narrow window shows only the beginning. */
static void describe(const struct live *l, const struct train_state *s, struct line *ret)
{
	char batch[16], validation[16], left[32];

	add(ret, "epoch %d/%d", s->epoch, (int)((s->steps + s->epoch_steps - 1) / s->epoch_steps));
	add(ret, "step %" PRIu64 "/%" PRIu64, s->step, s->steps);
	add(ret, "%s left", duration(rate_left(&l->rate, s), left));
	add(ret, "%.0f images/s", rate_smooth(&l->rate));
	add(ret, "loss %.3f", s->loss);
	add(ret, "batch error %s", percent(s->batch_error, batch));
	add(ret, "validation error %s", percent(s->validation_error, validation));
}

/*
 * Read the width each time, ten times a second, which needs no SIGWINCH. The last column stays
 * empty: a cursor behind it may already be on the next line.
 */
static void draw(struct live *l, const struct train_state *s)
{
	struct line line = { .columns = 79 };
	struct winsize w;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1)
		line.columns = w.ws_col - 1;
	describe(l, s, &line);
	fprintf(stderr, "\r%s\033[K", line.text);
	fflush(stderr);
	l->drawn = 1;
}

void live_clear(struct live *l)
{
	if (l->drawn)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	l->drawn = 0;
}

static void stepped(struct live *l, const struct train_state *s, int images)
{
	double t = mlr_now();

	rate_step(&l->rate, s, images);
	if (!l->terminal || (t - l->drawn_at < REDRAW_S && s->step < s->steps))
		return;
	draw(l, s);
	l->drawn_at = t;
}

/* Format "cuda (bf16) on NVIDIA H200, 4 ranks" or "onednn (f32) on 2 threads". */
static char *computer(const struct train_state *s)
{
	const struct engine *e = s->engine;
	auto_free char *threads = xasprintf("%d thread%s", e->threads, e->threads == 1 ? "" : "s");
	auto_free char *ranks = s->ranks > 1 ? xasprintf(", %d ranks", s->ranks) : xstrdup("");

	return xasprintf("%s (%s) on %s%s", e->backend->name, dtype_name(e->dtype),
		e->device[0] ? e->device : threads, ranks);
}

static void tell_kept(const char *file)
{
	if (file)
		mlr_info(
			"'%s' has an earlier run's weights, which '%s~' keeps; --resume would go on "
			"from them",
			file, file);
}

static void started(struct live *l, const struct train_state *s)
{
	auto_free char *by = computer(s);
	/* A resumed run may have made more steps than --steps allows now. */
	uint64_t left = s->steps > s->step ? s->steps - s->step : 0;
	char input[SHAPE_TEXT_MAX];

	rate_start(&l->rate, s);
	mlr_info("network '%s': input %s, %zu layers, %zu parameters; backend %s, %.1f MB",
		s->net->name, shape_text(&s->net->input, input), s->net->n, s->net->params, by,
		1e-6 * (double)s->engine->memory);
	mlr_info("%u images to train with, %u to validate, %u to test; %" PRIu64 " step%s",
		s->train_images, s->validation_images, s->test_images, left, left == 1 ? "" : "s");
	tell_kept(s->kept_checkpoint);
	tell_kept(s->kept_best);
}

static void epoch_ended(struct live *l, const struct train_state *s, int images)
{
	char validation[16], left[32];

	live_clear(l);
	mlr_info("epoch %d ended at step %" PRIu64 "/%" PRIu64
		 ": loss %.3f, validation error %s, %.0f images/s, %s left",
		s->epoch, s->step, s->steps, s->loss, percent(s->validation_error, validation),
		rate_mean(&l->rate, s, images), duration(rate_left(&l->rate, s), left));
}

static void regrouped(struct live *l, const struct train_state *s)
{
	live_clear(l);
	mlr_info("%d rank%s from step %" PRIu64 " on (generation %u: %d joined, %d left, %d lost; "
		 "a pause of %.3f s)",
		s->ranks, s->ranks == 1 ? "" : "s", s->step + 1, s->generation, s->joined, s->left,
		s->lost, s->pause_seconds);
}

void live_tell(struct live *l, const struct train_state *s, int images)
{
	switch (s->moment) {
	case TRAIN_STARTED:
		started(l, s);
		break;
	case TRAIN_STEPPED:
		stepped(l, s, images);
		break;
	case TRAIN_EPOCH_ENDED:
		epoch_ended(l, s, images);
		break;
	case TRAIN_REGROUPED:
		regrouped(l, s);
		break;
	case TRAIN_INTERRUPTED:
	case TRAIN_TESTED:
		live_clear(l);
		break;
	default:
		break;
	}
}
