#include "cli/progress.h"

#include "cli/common.h"
#include "oci/digest.h"

#include <sys/ioctl.h>

#define BAR         24   /* characters */
#define SMOOTHING   0.15 /* weight of the newest rate */
#define CLEAR_LINE  "\r\033[K"
#define UP_ONE_LINE "\033[A"

/* The last known state of a layer. */
struct seen {
	enum pull_state state;
	double started; /* seconds */
	double asked;   /* when received was last read */
	uint64_t received;
	double rate; /* bytes a second, smoothed */
};

struct progress {
	enum progress_style style;
	const struct pull_layer *layers;
	struct seen *seen;
	size_t n;
	pthread_mutex_t lock; /* any thread sends notices */
	int drawn;            /* lines on the terminal to overwrite */
	char out[16384];      /* for one write(2), else a drawing flickers */
	size_t len;
};

static void flush(struct progress *p)
{
	ssize_t w = write(STDERR_FILENO, p->out, p->len);

	(void)w; /* a closed stderr is not an error */
	p->len = 0;
}

static void put(struct progress *p, const char *s)
{
	size_t n = strlen(s);

	if (n > sizeof(p->out) - p->len)
		flush(p);
	memcpy(p->out + p->len, s, n);
	p->len += n;
}

static void undraw(struct progress *p)
{
	for (; p->drawn > 0; p->drawn--)
		put(p, UP_ONE_LINE CLEAR_LINE);
}

static void begin(void *ctx, const char *name, const struct pull_layer *layers, size_t n)
{
	struct progress *p = ctx;
	uint64_t bytes = 0;
	char size[CLI_SIZE_SIZE];
	size_t here = 0;

	p->layers = layers;
	p->n = n;
	free(p->seen);
	p->seen = xcalloc(n, sizeof(*p->seen));
	for (size_t i = 0; i < n; i++) {
		p->seen[i].state = pull_layer_state(&layers[i]);
		bytes += layers[i].size;
		here += p->seen[i].state == PULL_PRESENT;
	}
	if (p->style == PROGRESS_NONE)
		return;
	cli_size(bytes, size);
	if (here > 0)
		mlr_info("pulling '%s': %zu layer%s, %s, %zu here already", name, n,
			n == 1 ? "" : "s", size, here);
	else
		mlr_info("pulling '%s': %zu layer%s, %s", name, n, n == 1 ? "" : "s", size);
}

/* Print a permanent line for a finished layer. */
static void tell_end(struct progress *p, size_t i)
{
	const char *digest = oci_digest_hex(p->layers[i].digest);
	char size[CLI_SIZE_SIZE];

	flush(p);
	cli_size(p->layers[i].size, size);
	if (p->seen[i].state == PULL_DONE)
		mlr_info("layer %.12s: %s in %.2f s", digest, size, mlr_now() - p->seen[i].started);
	else if (p->seen[i].started > 0)
		mlr_info("layer %.12s: %s, another process has just brought it", digest, size);
	else
		mlr_info("layer %.12s: %s, the same as one before", digest, size);
}

static void update(struct progress *p, size_t i, double t)
{
	uint64_t received = pull_layer_received(&p->layers[i]);
	enum pull_state state = pull_layer_state(&p->layers[i]);
	struct seen *s = &p->seen[i];

	if (state == PULL_RUNNING && s->state != PULL_RUNNING)
		s->asked = t;
	if (s->started == 0 && state != PULL_WAITING && s->state == PULL_WAITING)
		s->started = state == PULL_PRESENT ? 0 : t;
	if (t - s->asked > 0.05) {
		double rate = (double)(received - s->received) / (t - s->asked);

		s->rate = s->rate > 0 ? SMOOTHING * rate + (1 - SMOOTHING) * s->rate : rate;
		s->asked = t;
		s->received = received;
	}
	if (state == s->state)
		return;
	s->state = state;
	if (state == PULL_DONE || state == PULL_PRESENT)
		tell_end(p, i);
}

static int terminal_width(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

static void draw_layer(struct progress *p, size_t i, int width)
{
	const struct pull_layer *l = &p->layers[i];
	const struct seen *s = &p->seen[i];
	char got[CLI_SIZE_SIZE], size[CLI_SIZE_SIZE], rate[CLI_SIZE_SIZE], bar[BAR + 1], line[160];
	int filled = l->size ? (int)((double)s->received * BAR / (double)l->size) : BAR;

	if (filled > BAR)
		filled = BAR;
	memset(bar, '#', (size_t)filled);
	memset(bar + filled, '.', (size_t)(BAR - filled));
	bar[BAR] = '\0';
	cli_size(s->received, got);
	cli_size(l->size, size);
	cli_size((uint64_t)s->rate, rate);
	if (s->received >= l->size)
		snprintf(line, sizeof(line), "  %.12s [%s] %9s  unpacking",
			oci_digest_hex(l->digest), bar, size);
	else
		snprintf(line, sizeof(line), "  %.12s [%s] %9s of %9s  %9s/s",
			oci_digest_hex(l->digest), bar, got, size, rate);
	if (strlen(line) > (size_t)width - 1)
		line[width - 1] = '\0';
	put(p, line);
	put(p, "\n");
	p->drawn++;
}

static void tick(void *ctx)
{
	struct progress *p = ctx;
	double t = mlr_now();

	if (p->style == PROGRESS_NONE)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->style == PROGRESS_TERMINAL)
		undraw(p);
	for (size_t i = 0; i < p->n; i++)
		update(p, i, t);
	for (size_t i = 0; p->style == PROGRESS_TERMINAL && i < p->n; i++)
		if (p->seen[i].state == PULL_RUNNING)
			draw_layer(p, i, terminal_width());
	flush(p);
	pthread_mutex_unlock(&p->lock);
}

static void notice(void *ctx, const char *words)
{
	struct progress *p = ctx;

	if (p->style == PROGRESS_NONE)
		return;
	pthread_mutex_lock(&p->lock);
	undraw(p);
	flush(p);
	mlr_warning("%s", words);
	pthread_mutex_unlock(&p->lock);
}

struct progress *progress_new(enum progress_style style)
{
	struct progress *p = xcalloc(1, sizeof(*p));

	p->style = style;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	undraw(p);
	flush(p);
	pthread_mutex_destroy(&p->lock);
	free(p->seen);
	free(p);
}

struct pull_watch progress_watch(struct progress *p)
{
	return (struct pull_watch){ p, begin, tick, notice };
}
