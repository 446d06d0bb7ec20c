#include "layer/stream.h"

#include "layer/codec.h"

#define SLOT_SIZE  (1u << 20)
#define SLOTS      4
#define INPUT_SIZE (256u << 10)

/*
 * A ring: one thread fills the slot filled, another hashes the slot hashed, and the caller uses the
 * slot taken. Hashing takes about as long as writing files, so with enough cores a large layer
 * takes only as long as inflating it.
 */
struct layer_stream {
	layer_read_fn read;
	void *ctx;
	struct layer_limits limits;
	struct layer_inflate *inflate; /* NULL: plain */

	pthread_t filler, hasher;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t filled, hashed, taken; /* slots, counted from the start */
	int holding;                    /* the caller uses the slot before taken */
	int stop;                       /* the caller ends the reading */
	int ended; /* no more slots will be filled, because of err if that is set */
	struct mlr_error err;

	uint8_t *slot[SLOTS];
	size_t len[SLOTS];

	struct hash *hash; /* the hashing thread's; the caller's after the last slot */
	uint64_t bytes;    /* the caller's */

	/* the filling thread's */
	uint8_t *input;
	const uint8_t *in;
	size_t in_len;
	int input_ended;
	uint64_t bytes_out;
};

static int read_input(struct layer_stream *s, uint8_t *buf, size_t len, size_t *got)
{
	ssize_t n;

	*got = 0;
	if (s->input_ended)
		return 0;
	n = s->read(s->ctx, buf, len, &s->err);
	if (n < 0) {
		if (!s->err.code)
			mlr_result(&s->err, (int)n, "read");
		return (int)n;
	}
	s->input_ended = n == 0;
	*got = (size_t)n;
	return 0;
}

static int fill_plain(struct layer_stream *s, uint8_t *out, size_t *len)
{
	size_t got;

	for (*len = 0; *len < SLOT_SIZE; *len += got) {
		TRY(read_input(s, out + *len, SLOT_SIZE - *len, &got));
		if (got == 0)
			break;
	}
	return 0;
}

static int fill_inflated(struct layer_stream *s, uint8_t *out, size_t *len)
{
	size_t room = SLOT_SIZE;

	for (;;) {
		TRY(layer_inflate_run(s->inflate, &s->in, &s->in_len, &out, &room, &s->err));
		*len = SLOT_SIZE - room;
		if (room == 0)
			return 0;

		TRY(read_input(s, s->input, INPUT_SIZE, &s->in_len));
		s->in = s->input;
		if (s->in_len == 0)
			return *len > 0 ? 0 : layer_inflate_end(s->inflate, &s->err);
	}
}

/* Fill one slot; an empty one means the end. */
static int fill(struct layer_stream *s, uint8_t *out, size_t *len)
{
	TRY(s->inflate ? fill_inflated(s, out, len) : fill_plain(s, out, len));
	s->bytes_out += *len;
	if (s->bytes_out > s->limits.bytes)
		return mlr_fail(&s->err, EFBIG, "larger than the %llu bytes allowed",
			(unsigned long long)s->limits.bytes);
	return 0;
}

static uint64_t first_in_use(const struct layer_stream *s)
{
	uint64_t used = s->taken - (unsigned)s->holding;

	return used < s->hashed ? used : s->hashed;
}

/* Wait for an empty slot. Returns NULL if the caller ends the reading. */
static uint8_t *slot_to_fill(struct layer_stream *s)
{
	uint8_t *slot;

	pthread_mutex_lock(&s->mutex);
	while (!s->stop && s->filled - first_in_use(s) >= SLOTS)
		pthread_cond_wait(&s->changed, &s->mutex);
	slot = s->stop ? NULL : s->slot[s->filled % SLOTS];
	pthread_mutex_unlock(&s->mutex);
	return slot;
}

static void *fill_slots(void *arg)
{
	struct layer_stream *s = arg;
	uint8_t *slot;
	int more = 1;

	while (more && (slot = slot_to_fill(s))) {
		size_t len = 0;
		int r = fill(s, slot, &len);

		pthread_mutex_lock(&s->mutex);
		more = r == 0 && len > 0;
		if (more)
			s->len[s->filled++ % SLOTS] = len;
		else
			s->ended = 1;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->mutex);
	}
	return NULL;
}

static void *hash_slots(void *arg)
{
	struct layer_stream *s = arg;

	pthread_mutex_lock(&s->mutex);
	while (!s->stop) {
		size_t i = s->hashed % SLOTS;

		if (s->hashed == s->filled && s->ended)
			break;
		if (s->hashed == s->filled) {
			pthread_cond_wait(&s->changed, &s->mutex);
			continue;
		}
		pthread_mutex_unlock(&s->mutex);
		hash_update(s->hash, s->slot[i], s->len[i]);
		pthread_mutex_lock(&s->mutex);
		s->hashed++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

static void stop_filler(struct layer_stream *s)
{
	pthread_mutex_lock(&s->mutex);
	s->stop = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->filler, NULL);
}

/* The threads block all signals: the caller's threads handle them. */
static int start_threads(struct layer_stream *s, struct mlr_error *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&s->filler, NULL, fill_slots, s);
	if (r == 0) {
		r = pthread_create(&s->hasher, NULL, hash_slots, s);
		if (r != 0)
			stop_filler(s);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0)
		return mlr_fail(err, r, "start a thread to inflate or hash with: %s", strerror(r));
	return 0;
}

static void stream_free(struct layer_stream *s)
{
	for (int i = 0; i < SLOTS; i++)
		free(s->slot[i]);
	free(s->input);
	layer_inflate_free(s->inflate);
	hash_free(s->hash);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->mutex);
	free(s);
}

int layer_stream_open(layer_read_fn read, void *ctx, enum oci_compression comp,
	const struct layer_limits *limits, struct layer_stream **ret, struct mlr_error *err)
{
	struct layer_stream *s = xcalloc(1, sizeof(*s));
	int r;

	s->read = read;
	s->ctx = ctx;
	s->limits = *limits;
	s->inflate = layer_codec(comp) ? layer_codec(comp)->inflate() : NULL;
	s->hash = hash_new();
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->changed, NULL);
	for (int i = 0; i < SLOTS; i++)
		s->slot[i] = xmalloc(SLOT_SIZE);
	s->in = s->input = xmalloc(INPUT_SIZE);

	r = start_threads(s, err);
	if (r < 0) {
		stream_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

ssize_t layer_stream_next(struct layer_stream *s, const void **buf, struct mlr_error *err)
{
	ssize_t n = 0;

	pthread_mutex_lock(&s->mutex);
	s->holding = 0;
	pthread_cond_broadcast(&s->changed);
	while (s->filled == s->taken && !s->ended)
		pthread_cond_wait(&s->changed, &s->mutex);
	if (s->filled != s->taken) {
		*buf = s->slot[s->taken % SLOTS];
		n = (ssize_t)s->len[s->taken % SLOTS];
		s->taken++;
		s->holding = 1;
	}
	pthread_mutex_unlock(&s->mutex);

	if (n == 0 && s->err.code) { /* the thread has ended, so its fields can be read */
		if (err)
			*err = s->err;
		return -s->err.code;
	}
	s->bytes += (uint64_t)n;
	return n;
}

uint64_t layer_stream_bytes(const struct layer_stream *s)
{
	return s->bytes;
}

void layer_stream_digest(struct layer_stream *s, char hex[HASH_HEX_SIZE])
{
	pthread_mutex_lock(&s->mutex);
	while (s->hashed < s->filled)
		pthread_cond_wait(&s->changed, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
	hash_final(s->hash, hex);
}

void layer_stream_close(struct layer_stream *s)
{
	if (!s)
		return;
	stop_filler(s);
	pthread_join(s->hasher, NULL);
	stream_free(s);
}
