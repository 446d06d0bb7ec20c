#include "web/web.h"

#include "base/json.h"

#define BEAT_S   15.0
#define FAR_BACK ((off_t)1 << 20) /* a log that is so far ahead is not told whole */

void events_open(struct web *w, struct http_request *q, struct stream *s)
{
	const char *run = http_argument(q, "run"), *from = http_argument(q, "from"),
		   *seen = http_header(q, "Last-Event-ID");

	if (!seen)
		seen = http_argument(q, "since");
	*s = (struct stream){
		.log = from ? strtoll(from, NULL, 10) : -1, .metrics = -1, .beat = mlr_now()
	};
	if (run)
		snprintf(s->run, sizeof(s->run), "%s", run);
	index_look(w->index, 1);
	index_lock(w->index);
	s->seen = seen ? strtoull(seen, NULL, 10) : index_now(w->index);
	if (s->seen > index_now(w->index))
		s->seen = 0; /* it is of a server before this one */
	index_unlock(w->index);
}

void events_close(struct web *w, struct stream *s)
{
	free(s->text);
	s->text = NULL;
	index_look(w->index, -1);
}

/* Add an event to what is to be sent. id 0: it has none. */
static void put(struct stream *s, const char *name, uint64_t id, json_t *take)
{
	auto_free char *data = mlr_json_print(take, JSON_COMPACT | JSON_REAL_PRECISION(15)),
		       *old = s->text;
	char line[40] = "";

	if (id)
		snprintf(line, sizeof(line), "id: %llu\n", (unsigned long long)id);
	s->text = xasprintf(
		"%sevent: %s\n%sdata: %s\n\n", old ? old + s->sent : "", name, line, data);
	s->len = strlen(s->text);
	s->sent = 0;
}

static void put_changes(struct web *w, struct stream *s)
{
	uint64_t now;
	json_t *changes = NULL;

	index_lock(w->index);
	now = index_now(w->index);
	if (now > s->seen)
		changes = index_changes(w->index, s->seen);
	index_unlock(w->index);
	if (changes)
		put(s, "runs", now, changes);
	s->seen = now;
}

/* The open run's files. Returns whether it is there. */
static int look_up(struct web *w, struct stream *s, int *fd, off_t *metrics)
{
	struct run *r;
	struct stat st;
	int was_there;

	*fd = -1;
	index_lock(w->index);
	r = index_find(w->index, s->run, &was_there);
	if (r) {
		*metrics = r->read;
		*fd = r->log ? run_open(r, r->log, &st) : -1;
	}
	index_unlock(w->index);
	return r != NULL;
}

static void put_log(struct stream *s, int fd)
{
	struct log_part part;
	struct stat st;
	const char *note = NULL;
	off_t skipped = 0;

	if (fstat(fd, &st) < 0)
		return;
	if (s->log < 0)
		s->log = st.st_size;
	if (st.st_size < s->log) {
		note = "the log was cut, and begins anew";
		s->log = 0;
	}
	if (st.st_size - s->log > FAR_BACK) {
		skipped = st.st_size - s->log - (off_t)LOG_PART;
		s->log += skipped;
	}
	if ((st.st_size == s->log && !note) || log_behind(fd, s->log, &part) < 0)
		return;
	s->log = part.to;
	put(s, "log", 0,
		json_pack("{sI sI sI sI so so}", "from", (json_int_t)part.from, "to",
			(json_int_t)part.to, "size", (json_int_t)part.size, "skipped",
			(json_int_t)skipped, "text", mlr_json_text(part.text), "note",
			mlr_json_text(note)));
	free(part.text);
}

static void put_open_run(struct web *w, struct stream *s)
{
	auto_close int fd = -1;
	off_t metrics = 0;

	if (!*s->run || !look_up(w, s, &fd, &metrics))
		return;
	if (s->metrics >= 0 && metrics != s->metrics)
		put(s, "charts", 0, json_pack("{ss}", "id", s->run));
	s->metrics = metrics;
	if (fd >= 0)
		put_log(s, fd);
}

ssize_t events_read(struct web *w, struct stream *s, char *to, size_t size)
{
	size_t n;

	if (s->sent == s->len) {
		set_ptr(&s->text, NULL);
		s->len = s->sent = 0;
		put_changes(w, s);
		put_open_run(w, s);
		if (s->len == 0 && mlr_now() - s->beat >= BEAT_S)
			put(s, "beat", 0, json_object());
	}
	n = s->len - s->sent;
	n = n < size ? n : size;
	if (n) {
		memcpy(to, s->text + s->sent, n);
		s->beat = mlr_now();
	}
	s->sent += n;
	return (ssize_t)n;
}
