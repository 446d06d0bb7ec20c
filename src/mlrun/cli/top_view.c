#include "cli/top.h"

#include "base/escape.h"
#include "cli/common.h"

#define BAR    10 /* characters between the brackets */
#define NARROW 40 /* fewest columns */
#define FIXED  66 /* columns of a GPU's line besides its model */
#define CLOCK  10 /* and of its clock, if there is room */

struct page {
	FILE *out;
	int width, left; /* left: lines still available */
};

/* Print a line, with control characters escaped, truncated at the terminal's width; a UTF-8
 * character takes one column. */
static void put(struct page *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct page *p, const char *fmt, ...)
{
	auto_free char *text = NULL;
	char shown[ESCAPE_SIZE];
	int column = 0;
	va_list ap;

	if (p->left-- <= 0)
		return;
	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	for (const char *s = text; *s;) {
		int continues = ((unsigned char)*s & 0xc0) == 0x80;

		s += escape_next(s, shown);
		column += continues ? 0 : (int)strlen(shown);
		if (column > p->width)
			break;
		fputs(shown, p->out);
	}
	putc('\n', p->out);
}

/* Print a sentence, wrapped at blanks. */
static void put_sentence(struct page *p, const char *text)
{
	while (*text) {
		size_t len = strlen(text), cut = (size_t)p->width;

		if (len > cut) {
			while (cut > 0 && text[cut] != ' ')
				cut--;
			len = cut > 0 ? cut : (size_t)p->width;
		}
		put(p, "%.*s", (int)len, text);
		text += len + strspn(text + len, " ");
	}
}

static const char *bar(int percent, char out[BAR + 3])
{
	int filled = percent < 0 ? 0 : (percent * BAR + 50) / 100;

	if (filled > BAR)
		filled = BAR;
	memset(out, '.', BAR + 2);
	memset(out + 1, '#', (size_t)filled);
	out[0] = '[';
	out[BAR + 1] = ']';
	out[BAR + 2] = '\0';
	return out;
}

static const char *percent_text(int percent, char out[16])
{
	snprintf(out, 16, percent < 0 ? "  -" : "%3d%%", percent);
	return out;
}

/* "40.0 GB of 150.8 GB" */
static const char *share(int64_t used, int64_t total, char out[2 * CLI_SIZE_SIZE + 8])
{
	char a[CLI_SIZE_SIZE] = "-", b[CLI_SIZE_SIZE] = "-";

	if (used >= 0)
		cli_size((uint64_t)used, a);
	if (total >= 0)
		cli_size((uint64_t)total, b);
	if (used < 0 && total < 0)
		strcpy(out, "-");
	else
		snprintf(out, 2 * CLI_SIZE_SIZE + 8, "%s of %s", a, b);
	return out;
}

/* --- the node ------------------------------------------------------------------ */

static void put_node(struct page *p, const struct top_node *n)
{
	char busy[16], picture[BAR + 3], memory[2 * CLI_SIZE_SIZE + 8];
	int full = n->memory_used >= 0 && n->memory_total > 0
		? (int)(n->memory_used * 100 / n->memory_total)
		: -1;

	put(p, "CPU     %s %s  %zu core%s, load %.2f", bar(n->busy, picture),
		percent_text(n->busy, busy), n->n_cores, n->n_cores == 1 ? "" : "s", n->load);
	put(p, "memory  %s %s  %s", bar(full, picture), percent_text(full, busy),
		share(n->memory_used, n->memory_total, memory));
	if (!n->job)
		return;
	if (n->job_memory_limit >= 0)
		share(n->job_memory_used, n->job_memory_limit, memory);
	else if (n->job_memory_used >= 0)
		cli_size((uint64_t)n->job_memory_used, memory);
	else
		strcpy(memory, "-");
	if (n->job_busy >= 0)
		put(p, "%-7s %.1f of %d cores busy, memory %s", n->job, n->job_busy, n->job_cores,
			memory);
	else
		put(p, "%-7s %d cores, memory %s", n->job, n->job_cores, memory);
}

/* --- GPUs ------------------------------------------------------------------------ */

static const char *model_of(const struct gpu *g)
{
	static const char prefix[] = "NVIDIA ";
	const char *s = g->model ? g->model : g->bus_id ? g->bus_id : "?";

	return strncmp(s, prefix, strlen(prefix)) == 0 ? s + strlen(prefix) : s;
}

static void index_text(int index, char out[16])
{
	snprintf(out, 16, index < 0 ? "-" : "%d", index);
}

/* "450/700 W" */
static const char *power_text(const struct gpu_sample *s, char out[40])
{
	if (s->power < 0)
		strcpy(out, "-");
	else if (s->power_limit < 0)
		snprintf(out, 40, "%.0f W", s->power);
	else
		snprintf(out, 40, "%.0f/%.0f W", s->power, s->power_limit);
	return out;
}

static void put_gpu(struct page *p, const struct top_gpu *g, int model_width)
{
	char index[16], picture[BAR + 3], busy[16], memory[2 * CLI_SIZE_SIZE + 8], power[40],
		heat[16] = "-", clock[24] = "";
	const struct gpu_sample *s = g->sample;
	const char *model = model_of(g->gpu);

	index_text(g->gpu->index, index);
	if (!s || *s->trouble) {
		put(p, "%3s  %-*.*s  %s%s", index, model_width, model_width, model,
			s ? "broken: " : "nothing is known now", s ? s->trouble : "");
		return;
	}
	if (s->temperature >= 0)
		snprintf(heat, sizeof(heat), "%d C", s->temperature);
	if (s->clock >= 0 && p->width >= FIXED + 14 + CLOCK)
		snprintf(clock, sizeof(clock), "  %4d MHz", s->clock);
	put(p, "%3s  %-*.*s  %s %-4s  %-20s  %-11s  %5s%s", index, model_width, model_width, model,
		bar(s->busy, picture), percent_text(s->busy, busy),
		share(s->memory_used, s->memory_total, memory), power_text(s, power), heat, clock);
}

static void put_gpus(struct page *p, const struct top *t)
{
	int spare = p->width - FIXED - (p->width >= FIXED + 14 + CLOCK ? CLOCK : 0);
	int model_width = spare < 5 ? 5 : spare > 24 ? 24 : spare;

	if (t->n_gpus == 0)
		return;
	put(p, "%s", "");
	put(p, "GPU  %-*s  %-17s  %-20s  %-11s  %5s%s", model_width, "MODEL", "BUSY", "MEMORY",
		"POWER", "TEMP", p->width >= FIXED + 14 + CLOCK ? "     CLOCK" : "");
	for (size_t i = 0; i < t->n_gpus; i++)
		put_gpu(p, &t->gpus[i], model_width);
}

/* --- processes ----------------------------------------------------------------- */

static void put_process(struct page *p, const struct top_process *process)
{
	char memory[CLI_SIZE_SIZE] = "-", index[16];

	if (process->memory >= 0)
		cli_size((uint64_t)process->memory, memory);
	index_text(process->index, index);
	put(p, "%7ld  %-10.10s  %3s  %9s  %s", (long)process->pid, process->user, index, memory,
		process->command);
}

static void put_processes(struct page *p, const struct top *t)
{
	size_t room = p->left > 2 ? (size_t)p->left - 2 : 0;
	size_t n = t->n_processes <= room ? t->n_processes : room > 0 ? room - 1 : 0;

	if (t->n_processes == 0 || room == 0)
		return;
	put(p, "%s", "");
	put(p, "%7s  %-10s  %3s  %9s  %s", "PID", "USER", "GPU", "MEMORY", "COMMAND");
	for (size_t i = 0; i < n; i++)
		put_process(p, &t->processes[i]);
	if (n < t->n_processes)
		put(p, "%7s  %zu more", "", t->n_processes - n);
}

/* --- the page -------------------------------------------------------------------- */

char *top_view(const struct top *t, int width, int height)
{
	struct page p = { .width = width < NARROW ? NARROW : width,
		.left = height > 0 ? height : 1 << 20 };
	char when[CLI_TIME_SIZE], *text = NULL;
	struct tm tm;
	size_t size;

	p.out = open_memstream(&text, &size);
	if (!p.out)
		mlr_oom();
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&(time_t){ t->time }, &tm));
	put(&p, "%s  %s  %s", t->host, when, t->driver ? t->driver : "no GPU driver");
	if (t->scope)
		put(&p, "%s", t->scope);
	if (t->note)
		put_sentence(&p, t->note);
	put_node(&p, &t->node);
	put_gpus(&p, t);
	put_processes(&p, t);
	if (fclose(p.out) != 0)
		mlr_oom();
	return text;
}
