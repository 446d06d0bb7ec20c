/*
 * The floor of a pull: what a C program reaches when it does nothing but the work.
 *
 *   floorpull [-d] [-j LAYERS] BLOB-URL-PREFIX DIR DIGEST=MEDIATYPE@INDEX...
 *
 * Fetches each layer (libcurl), checks its digest (libcrypto), inflates it (ISA-L or libzstd) and
 * writes its files under DIR/INDEX. Not a product: no credentials, no whiteouts, no owners, no
 * defence against hostile archives.
 *
 *   -d   hash the inflated tar as well, in a thread of its own, and print "INDEX sha256:HEX"
 *   -j   layers at a time, 3 when not given; they are taken in the order named
 *
 * Exits 0 only if every layer had the digest named and every file was written.
 *
 * A layer is a pipeline of threads, fetch | inflate [| digest] | untar, joined by queues of a few
 * buffers of 1 MiB, so that memory is bounded and each stage has work.
 *
 *   cc -O2 -o floorpull floorpull.c -lcurl -lcrypto -lisal -lzstd -lpthread
 */
#define _GNU_SOURCE
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define BUFFER_SIZE (1 << 20)
#define SEND_AT     (256 << 10) /* a buffer with more is passed on without waiting */
#define DEPTH       4           /* buffers between two stages */
#define MAX_LAYERS  128

struct buffer {
	size_t n; /* 0 says that the stream has ended */
	unsigned char data[BUFFER_SIZE];
};

/* Buffers in order. A pool of free buffers is a queue, too. */
struct queue {
	struct buffer *at[2 * DEPTH];
	int first, n;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

struct layer {
	const char *digest, *type, *index;
	struct queue packed, packed_free;       /* fetch to inflate */
	struct queue tar, tar_hashed, tar_free; /* inflate to (digest to) untar */
	struct buffer *filling;                 /* fetch's */
	EVP_MD_CTX *hash;
	int bad;
};

static const char *url_prefix;
static int dir_fd, with_digest;
static struct layer layers[MAX_LAYERS];
static int n_layers, next_layer, failed;
static pthread_mutex_t next_mutex = PTHREAD_MUTEX_INITIALIZER;

static void queue_init(struct queue *q)
{
	memset(q, 0, sizeof(*q));
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->changed, NULL);
}

/* There is room for all the buffers that a layer has. */
static void queue_put(struct queue *q, struct buffer *b)
{
	pthread_mutex_lock(&q->mutex);
	q->at[(q->first + q->n++) % (2 * DEPTH)] = b;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->mutex);
}

static struct buffer *queue_get(struct queue *q)
{
	struct buffer *b;

	pthread_mutex_lock(&q->mutex);
	while (q->n == 0)
		pthread_cond_wait(&q->changed, &q->mutex);
	b = q->at[q->first];
	q->first = (q->first + 1) % (2 * DEPTH);
	q->n--;
	pthread_mutex_unlock(&q->mutex);
	return b;
}

static struct buffer *queue_get_empty(struct queue *q)
{
	struct buffer *b = queue_get(q);

	b->n = 0;
	return b;
}

static void pool_init(struct queue *q, int n)
{
	queue_init(q);
	for (int i = 0; i < n; i++)
		queue_put(q, malloc(sizeof(struct buffer)));
}

static void pool_done(struct queue *q, int n)
{
	for (int i = 0; i < n; i++)
		free(queue_get(q));
}

static void layer_complain(struct layer *l, const char *what, const char *why)
{
	fprintf(stderr, "floorpull: %s: %s: %s\n", l->digest, what, why);
	l->bad = 1;
}

static void hash_print(EVP_MD_CTX *hash, char text[72])
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned int n = 0;
	int at;

	EVP_DigestFinal_ex(hash, sum, &n);
	at = sprintf(text, "sha256:");
	for (unsigned int i = 0; i < n; i++)
		at += sprintf(text + at, "%02x", sum[i]);
}

/* --- fetch ------------------------------------------------------------------------------------ */

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct layer *l = arg;
	size_t left = size * n;

	EVP_DigestUpdate(l->hash, data, left);
	while (left > 0) {
		struct buffer *b = l->filling ? l->filling : queue_get_empty(&l->packed_free);
		size_t part = BUFFER_SIZE - b->n < left ? BUFFER_SIZE - b->n : left;

		memcpy(b->data + b->n, data, part);
		b->n += part;
		data += part;
		left -= part;
		l->filling = b;
		if (b->n > SEND_AT) {
			queue_put(&l->packed, b);
			l->filling = NULL;
		}
	}
	return size * n;
}

static void *fetch(void *arg)
{
	struct layer *l = arg;
	char url[4096], got[72];
	CURL *c = curl_easy_init();
	CURLcode r;

	snprintf(url, sizeof(url), "%s%s", url_prefix, l->digest);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 512L << 10);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, l);
	l->hash = EVP_MD_CTX_new();
	EVP_DigestInit_ex(l->hash, EVP_sha256(), NULL);

	r = curl_easy_perform(c);
	if (l->filling)
		queue_put(&l->packed, l->filling);
	queue_put(&l->packed, queue_get_empty(&l->packed_free));

	hash_print(l->hash, got);
	if (r != CURLE_OK)
		layer_complain(l, "fetch", curl_easy_strerror(r));
	else if (strcmp(got, l->digest) != 0)
		layer_complain(l, "bytes hash to", got);
	EVP_MD_CTX_free(l->hash);
	curl_easy_cleanup(c);
	return NULL;
}

/* --- inflate ---------------------------------------------------------------------------------- */

/* Pass on a full buffer; an empty one comes back. */
static struct buffer *pass_full(struct layer *l, struct buffer *b)
{
	if (b->n < BUFFER_SIZE)
		return b;
	queue_put(&l->tar, b);
	return queue_get_empty(&l->tar_free);
}

/* ISA-L keeps output back when there is no room for it: it is done with the input only when it
 * leaves room unused. */
static struct buffer *inflate_gzip(
	struct layer *l, struct inflate_state *st, struct buffer *in, struct buffer *out)
{
	st->next_in = in->data;
	st->avail_in = (uint32_t)in->n;
	for (;;) {
		uint32_t room = (uint32_t)(BUFFER_SIZE - out->n);

		st->next_out = out->data + out->n;
		st->avail_out = room;
		if (isal_inflate(st) != ISAL_DECOMP_OK) {
			layer_complain(l, "inflate", "not a good gzip stream");
			return out;
		}
		out->n += room - st->avail_out;
		if (st->avail_out > 0 || st->block_state == ISAL_BLOCK_FINISH)
			return pass_full(l, out);
		out = pass_full(l, out);
	}
}

static struct buffer *inflate_zstd(
	struct layer *l, ZSTD_DStream *st, struct buffer *in, struct buffer *out)
{
	ZSTD_inBuffer from = { in->data, in->n, 0 };

	for (;;) {
		ZSTD_outBuffer to = { out->data, BUFFER_SIZE, out->n };
		size_t r = ZSTD_decompressStream(st, &to, &from);

		if (ZSTD_isError(r)) {
			layer_complain(l, "inflate", ZSTD_getErrorName(r));
			return out;
		}
		out->n = to.pos;
		if (from.pos == from.size && to.pos < BUFFER_SIZE)
			return out;
		out = pass_full(l, out);
	}
}

static struct buffer *copy_plain(struct layer *l, struct buffer *in, struct buffer *out)
{
	memcpy(out->data, in->data, in->n);
	out->n = in->n;
	queue_put(&l->tar, out);
	return queue_get_empty(&l->tar_free);
}

static void *inflate_layer(void *arg)
{
	struct layer *l = arg;
	struct inflate_state *gzip = calloc(1, sizeof(*gzip));
	ZSTD_DStream *zstd = ZSTD_createDStream();
	struct buffer *in, *out = queue_get_empty(&l->tar_free);

	isal_inflate_init(gzip);
	gzip->crc_flag = ISAL_GZIP;
	while ((in = queue_get(&l->packed))->n > 0) {
		/* What comes after a failure is fetched and dropped. */
		if (l->bad)
			;
		else if (strstr(l->type, "zstd"))
			out = inflate_zstd(l, zstd, in, out);
		else if (strstr(l->type, "gzip"))
			out = inflate_gzip(l, gzip, in, out);
		else
			out = copy_plain(l, in, out);
		queue_put(&l->packed_free, in);
	}
	queue_put(&l->packed_free, in);
	if (out->n > 0) {
		queue_put(&l->tar, out);
		out = queue_get_empty(&l->tar_free);
	}
	queue_put(&l->tar, out);
	ZSTD_freeDStream(zstd);
	free(gzip);
	return NULL;
}

/* --- digest ----------------------------------------------------------------------------------- */

static void *digest_tar(void *arg)
{
	struct layer *l = arg;
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	char text[72];
	struct buffer *b;
	size_t n;

	EVP_DigestInit_ex(hash, EVP_sha256(), NULL);
	do {
		b = queue_get(&l->tar);
		n = b->n; /* once it is passed on, the buffer is another's */
		EVP_DigestUpdate(hash, b->data, n);
		queue_put(&l->tar_hashed, b);
	} while (n > 0);
	hash_print(hash, text);
	printf("%s %s\n", l->index, text);
	EVP_MD_CTX_free(hash);
	return NULL;
}

/* --- untar ------------------------------------------------------------------------------------ */

/* The tar stream, and what its extended headers say of the next entry. */
struct tar {
	struct layer *l;
	struct buffer *b;
	size_t at;
	int ended;
	int root, parent; /* O_PATH; the parent is kept open while entries share it */
	char parent_name[8192];
	char path[8192], link[8192]; /* "" where no extended header gives them */
	long long size;              /* -1 likewise */
};

static int tar_refill(struct tar *t)
{
	if (t->ended)
		return 0;
	if (t->b)
		queue_put(&t->l->tar_free, t->b);
	t->b = queue_get(with_digest ? &t->l->tar_hashed : &t->l->tar);
	t->at = 0;
	t->ended = t->b->n == 0;
	return !t->ended;
}

/* Up to n bytes that lie together; 0 at the end of the stream. */
static size_t tar_peek(struct tar *t, unsigned long long n, const unsigned char **ret)
{
	if ((!t->b || t->at == t->b->n) && !tar_refill(t))
		return 0;
	*ret = t->b->data + t->at;
	if (n > t->b->n - t->at)
		n = t->b->n - t->at;
	t->at += n;
	return n;
}

/* Copy n bytes, or skip them where to is NULL. 0 when the stream ends before. */
static int tar_take(struct tar *t, void *to, unsigned long long n)
{
	while (n > 0) {
		const unsigned char *p;
		size_t part = tar_peek(t, n, &p);

		if (part == 0)
			return 0;
		if (to)
			to = (char *)memcpy(to, p, part) + part;
		n -= part;
	}
	return 1;
}

/* A number of a header: octal, or binary when its first bit is set (GNU tar). */
static unsigned long long tar_number(const unsigned char *p, int n)
{
	unsigned long long v = 0;

	if (p[0] & 0x80) {
		v = p[0] & 0x7f;
		while (--n > 0)
			v = v << 8 | *++p;
		return v;
	}
	for (; n-- > 0 && *p; p++)
		if (*p >= '0' && *p <= '7')
			v = v * 8 + (unsigned int)(*p - '0');
	return v;
}

static unsigned long long padding(unsigned long long size)
{
	return (512 - size % 512) % 512;
}

/* An extended header: pax records "LENGTH KEY=VALUE\n", or GNU tar's long names. */
static void tar_extended(struct tar *t, char type, unsigned long long size)
{
	char *text = calloc(1, size + 1), *record = text;

	tar_take(t, text, size);
	tar_take(t, NULL, padding(size));
	if (type == 'L')
		snprintf(t->path, sizeof(t->path), "%s", text);
	if (type == 'K')
		snprintf(t->link, sizeof(t->link), "%s", text);
	while (type == 'x' && record < text + size) {
		char *key;
		long n = strtol(record, &key, 10);

		if (n <= 0 || n > text + size - record)
			break;
		record[n - 1] = '\0';
		key++;
		if (strncmp(key, "path=", 5) == 0)
			snprintf(t->path, sizeof(t->path), "%s", key + 5);
		if (strncmp(key, "linkpath=", 9) == 0)
			snprintf(t->link, sizeof(t->link), "%s", key + 9);
		if (strncmp(key, "size=", 5) == 0)
			t->size = strtoll(key + 5, NULL, 10);
		record += n;
	}
	free(text);
}

/* Open path's directory, making it where the layer does not name it. Returns the name in it. */
static const char *tar_enter(struct tar *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (t->parent >= 0 && strlen(t->parent_name) == n && memcmp(t->parent_name, path, n) == 0)
		return slash ? slash + 1 : path;
	if (t->parent >= 0 && t->parent != t->root)
		close(t->parent);
	memcpy(t->parent_name, path, n);
	t->parent_name[n] = '\0';
	t->parent =
		n > 0 ? openat(t->root, t->parent_name, O_PATH | O_DIRECTORY | O_CLOEXEC) : t->root;
	if (t->parent < 0) {
		for (char *p = t->parent_name; (p = strchr(p, '/')); *p++ = '/') {
			*p = '\0';
			mkdirat(t->root, t->parent_name, 0755);
		}
		mkdirat(t->root, t->parent_name, 0755);
		t->parent = openat(t->root, t->parent_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return slash ? slash + 1 : path;
}

static int tar_write_file(
	struct tar *t, const char *name, unsigned long long size, unsigned int mode, time_t mtime)
{
	struct timespec times[2] = { { mtime, 0 }, { mtime, 0 } };
	int fd = openat(
		t->parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
	int bad = fd < 0;

	while (size > 0) {
		const unsigned char *p;
		size_t part = tar_peek(t, size, &p);

		if (part == 0)
			break;
		if (fd >= 0 && write(fd, p, part) != (ssize_t)part)
			bad = 1;
		size -= part;
	}
	if (fd >= 0) {
		if (mode & 07000)
			fchmod(fd, mode & 07777);
		futimens(fd, times);
		close(fd);
	}
	return bad || size > 0 ? -1 : 0;
}

static void tar_entry(struct tar *t, const unsigned char *header, unsigned long long size)
{
	char type = header[156] ? (char)header[156] : '0', path[8192], link[8192];
	unsigned int mode = (unsigned int)tar_number(header + 100, 8);
	const char *name;
	int r = 0;

	if (t->path[0])
		strcpy(path, t->path);
	else if (header[345] && memcmp(header + 257, "ustar", 5) == 0)
		snprintf(path, sizeof(path), "%.155s/%.100s", header + 345, header);
	else
		snprintf(path, sizeof(path), "%.100s", header);
	if (t->link[0])
		strcpy(link, t->link);
	else
		snprintf(link, sizeof(link), "%.100s", header + 157);
	for (size_t n = strlen(path); n > 0 && path[n - 1] == '/';)
		path[--n] = '\0';

	name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	if (strncmp(name, ".wh.", 4) == 0 || strncmp(path, "dev/", 4) == 0) {
		if (type == '0' || type == '7')
			tar_take(t, NULL, size);
		return;
	}
	name = tar_enter(t, path);
	if (type == '5')
		r = mkdirat(t->parent, name, (mode & 07777) | 0700) < 0 && errno != EEXIST ? -1 : 0;
	else if (type == '2')
		r = symlinkat(link, t->parent, name);
	else if (type == '1')
		r = linkat(t->root, link, t->parent, name, 0);
	else if (type == '0' || type == '7')
		r = tar_write_file(t, name, size, mode, (time_t)tar_number(header + 136, 12));
	if (r < 0)
		layer_complain(t->l, path, strerror(errno));
}

static void untar(struct layer *l)
{
	struct tar t = { .l = l, .parent = -1, .size = -1 };
	unsigned char header[512];

	mkdirat(dir_fd, l->index, 0755);
	t.root = openat(dir_fd, l->index, O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (tar_take(&t, header, sizeof(header)) && header[0]) {
		unsigned long long size = tar_number(header + 124, 12);
		char type = (char)header[156];

		if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
			tar_extended(&t, type, size);
			continue;
		}
		if (t.size >= 0)
			size = (unsigned long long)t.size;
		tar_entry(&t, header, size);
		if (type == '0' || type == '\0' || type == '7')
			tar_take(&t, NULL, padding(size));
		t.path[0] = t.link[0] = '\0';
		t.size = -1;
	}
	while (tar_refill(&t))
		;
	queue_put(&l->tar_free, t.b);
	if (t.parent >= 0 && t.parent != t.root)
		close(t.parent);
	close(t.root);
}

/* --- layers ----------------------------------------------------------------------------------- */

static void layer_pull(struct layer *l)
{
	/* The digest is one stage more between inflate and untar. */
	int n_tar = with_digest ? 2 * DEPTH : DEPTH;
	pthread_t fetcher, inflater, digester;

	queue_init(&l->packed);
	queue_init(&l->tar);
	queue_init(&l->tar_hashed);
	pool_init(&l->packed_free, DEPTH);
	pool_init(&l->tar_free, n_tar);
	pthread_create(&fetcher, NULL, fetch, l);
	pthread_create(&inflater, NULL, inflate_layer, l);
	if (with_digest)
		pthread_create(&digester, NULL, digest_tar, l);
	untar(l);
	pthread_join(fetcher, NULL);
	pthread_join(inflater, NULL);
	if (with_digest)
		pthread_join(digester, NULL);
	pool_done(&l->packed_free, DEPTH);
	pool_done(&l->tar_free, n_tar);
	if (l->bad)
		failed = 1;
}

static void *pull_layers(void *arg)
{
	(void)arg;
	for (;;) {
		struct layer *l = NULL;

		pthread_mutex_lock(&next_mutex);
		if (next_layer < n_layers)
			l = &layers[next_layer++];
		pthread_mutex_unlock(&next_mutex);
		if (!l)
			return NULL;
		layer_pull(l);
	}
}

/* "DIGEST=MEDIATYPE@INDEX"; the argument is cut up and kept. */
static int layer_parse(struct layer *l, char *arg)
{
	char *type = strchr(arg, '='), *index = strchr(arg, '@');

	if (!type || !index)
		return -1;
	*type = *index = '\0';
	*l = (struct layer){ .digest = arg, .type = type + 1, .index = index + 1 };
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_LAYERS];
	int option, at_once = 3;

	while ((option = getopt(argc, argv, "dj:")) != -1) {
		if (option == 'd')
			with_digest = 1;
		else if (option == 'j')
			at_once = atoi(optarg);
		else
			return 2;
	}
	if (argc - optind < 3 || argc - optind - 2 > MAX_LAYERS || at_once < 1 ||
		at_once > MAX_LAYERS) {
		fputs("usage: floorpull [-d] [-j LAYERS] BLOB-URL-PREFIX DIR "
		      "DIGEST=MEDIATYPE@INDEX...\n",
			stderr);
		return 2;
	}
	url_prefix = argv[optind];
	umask(022);
	mkdir(argv[optind + 1], 0755);
	dir_fd = open(argv[optind + 1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		perror(argv[optind + 1]);
		return 1;
	}
	for (int i = optind + 2; i < argc; i++)
		if (layer_parse(&layers[n_layers++], argv[i]) < 0) {
			fprintf(stderr, "floorpull: '%s' is no layer\n", argv[i]);
			return 2;
		}
	curl_global_init(CURL_GLOBAL_ALL);
	for (int i = 0; i < at_once; i++)
		pthread_create(&threads[i], NULL, pull_layers, NULL);
	for (int i = 0; i < at_once; i++)
		pthread_join(threads[i], NULL);
	return failed;
}
