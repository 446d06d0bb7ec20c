#include "gpu/inject/ldcache.h"

/*
 * The file, in the machine's byte order (sysdeps/generic/dl-cache.h):
 *
 *   [ struct old_header, struct old_entry … , padding to 8 ]
 *   struct header, struct entry …, strings, [ struct extension, struct section …, what they name ]
 *
 * Offsets of entries' strings count from struct header; those of the extension and in it, from the
 * file's beginning.
 */
#define OLD_MAGIC "ld.so-1.7.0"
#define MAGIC     "glibc-ld.so.cache1.1"

struct old_header {
	char magic[sizeof(OLD_MAGIC)];
	uint32_t n;
};

struct old_entry {
	int32_t flags;
	uint32_t name, path;
};

struct header {
	char magic[sizeof(MAGIC) - 1];
	uint32_t n, strings;
	uint8_t order; /* ORDER_MASK of it; 0 before glibc 2.33 */
	uint8_t unused_bytes[3];
	uint32_t extension; /* 0: none */
	uint32_t unused[3];
};

struct entry {
	int32_t flags;
	uint32_t name, path, osversion;
	uint64_t hwcap;
};

struct extension {
	uint32_t magic, n;
};

struct section {
	uint32_t tag, flags, at, size;
};

#define EXTENSION_MAGIC 0xeaa42174u
#define SECTION_HWCAPS \
	1u /* an array of offsets of names of subdirectories of glibc-hwcaps, sorted */
#define SECTIONS_MAX 64

#define ORDER_MASK   3
#define ORDER_LITTLE 2
#define ORDER_BIG    3
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER_NATIVE ORDER_LITTLE
#else
#define ORDER_NATIVE ORDER_BIG
#endif

/* An entry's hwcap is an index into SECTION_HWCAPS when bit 62 is set; bits 32 to 41 are an ISA
 * level. */
#define HWCAP_LEVEL     (((1ull << 10) - 1) << 32)
#define HWCAP_EXTENSION (1ull << 62)
#define HWCAP_INDEX     0xffffffffull

/* elf/cache.c's flags: a libc6 library, and for which kind of a machine's programs. */
#define FLAG_LIBC6 0x0003
#if defined(__x86_64__)
#define FLAGS_64 (FLAG_LIBC6 | 0x0300)
#define FLAGS_32 FLAG_LIBC6
#elif defined(__aarch64__)
#define FLAGS_64 (FLAG_LIBC6 | 0x0a00)
#define FLAGS_32 (FLAG_LIBC6 | 0x0900)
#elif defined(__powerpc64__)
#define FLAGS_64 (FLAG_LIBC6 | 0x0500)
#define FLAGS_32 FLAG_LIBC6
#elif defined(__riscv)
#define FLAGS_64 (FLAG_LIBC6 | 0x1000)
#define FLAGS_32 (FLAG_LIBC6 | 0x0f00)
#else
#define FLAGS_64 FLAG_LIBC6
#define FLAGS_32 FLAG_LIBC6
#endif

#define STRINGS_MAX (32u << 20) /* bytes */
#define ENTRIES_MAX 200000u     /* a Debian with all of its libraries has some 10,000 */

/* A cache's bytes. A string that begins before last_nul ends within the cache. */
struct bytes {
	const char *data;
	size_t size, last_nul;
	size_t at; /* of struct header */
	struct header head;
	size_t hwcaps, n_hwcaps; /* where their offsets are, and their number */
};

static const char *string_at(const struct bytes *b, size_t at, size_t max)
{
	const char *s = b->data + at;

	return at < b->last_nul && *s && strnlen(s, max + 1) <= max ? s : NULL;
}

/* Find the header: behind the old format's table, aligned, or at the beginning. */
static int find_header(struct bytes *b, struct mlr_error *err)
{
	struct old_header old;

	if (b->size >= sizeof(old) && memcmp(b->data, OLD_MAGIC, sizeof(OLD_MAGIC) - 1) == 0) {
		memcpy(&old, b->data, sizeof(old));
		if (old.n > (b->size - sizeof(old)) / sizeof(struct old_entry))
			return mlr_fail(err, EPROTO, "linker cache: cut short");
		b->at = (sizeof(old) + old.n * sizeof(struct old_entry) + 7) & ~(size_t)7;
	}
	if (b->at > b->size || b->size - b->at < sizeof(b->head) ||
		memcmp(b->data + b->at, MAGIC, sizeof(MAGIC) - 1) != 0)
		return mlr_fail(err, EPROTO, "linker cache: not in the format '%s'", MAGIC);
	memcpy(&b->head, b->data + b->at, sizeof(b->head));
	if ((b->head.order & ORDER_MASK) != 0 && (b->head.order & ORDER_MASK) != ORDER_NATIVE)
		return mlr_fail(err, EPROTO, "linker cache: of a machine with another byte order");
	if (b->head.n > (b->size - b->at - sizeof(b->head)) / sizeof(struct entry))
		return mlr_fail(err, EPROTO, "linker cache: cut short");
	return 0;
}

/* An invalid extension is ignored, as in ld.so. */
static void find_hwcaps(struct bytes *b)
{
	size_t at = b->head.extension;
	struct extension ext;
	struct section s;

	if (at == 0 || at > b->size || b->size - at < sizeof(ext))
		return;
	memcpy(&ext, b->data + at, sizeof(ext));
	at += sizeof(ext);
	if (ext.magic != EXTENSION_MAGIC || ext.n > SECTIONS_MAX ||
		(b->size - at) / sizeof(s) < ext.n)
		return;
	for (size_t i = 0; i < ext.n; i++) {
		memcpy(&s, b->data + at + i * sizeof(s), sizeof(s));
		if (s.tag == SECTION_HWCAPS && s.at <= b->size && s.size <= b->size - s.at) {
			b->hwcaps = s.at;
			b->n_hwcaps = s.size / sizeof(uint32_t);
		}
	}
}

static int has_hwcaps(uint64_t hwcap)
{
	return (hwcap & ~HWCAP_LEVEL & ~HWCAP_INDEX) == HWCAP_EXTENSION;
}

/* The subdirectory of glibc-hwcaps of an entry, or NULL. */
static const char *hwcaps_name(const struct bytes *b, uint64_t hwcap)
{
	uint64_t i = hwcap & HWCAP_INDEX;
	uint32_t at;

	if (!has_hwcaps(hwcap) || i >= b->n_hwcaps)
		return NULL;
	memcpy(&at, b->data + b->hwcaps + i * sizeof(at), sizeof(at));
	return string_at(b, at, NAME_MAX);
}

/* _dl_cache_libcmp() of glibc's elf/dl-cache.c: runs of digits compare as numbers, which are int
 * there. */
static int compare_names(const char *a, const char *b)
{
	while (*a) {
		int digit_a = *a >= '0' && *a <= '9', digit_b = *b >= '0' && *b <= '9';
		unsigned x = 0, y = 0;

		if (digit_a != digit_b)
			return digit_a ? 1 : -1;
		if (!digit_a) {
			if (*a != *b)
				return *a - *b;
			a++;
			b++;
			continue;
		}
		while (*a >= '0' && *a <= '9')
			x = x * 10 + (unsigned)(*a++ - '0');
		while (*b >= '0' && *b <= '9')
			y = y * 10 + (unsigned)(*b++ - '0');
		if (x != y)
			return (int)(x - y);
	}
	return *a - *b;
}

/* An entry to print and its index, which orders entries of one name. */
struct sorted {
	const struct gpu_ldcache_entry *e;
	size_t place;
};

/* Names in descending order, as ld.so's binary search requires. */
static int compare_sorted(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int r = compare_names(y->e->name, x->e->name);

	return r ? r : x->place < y->place ? -1 : 1;
}

/* Sort the entries, to free(). An image's cache is sorted already, and a few entries follow a
 * thousand: only those are sorted, then both are merged. */
static struct sorted *sort_entries(const struct gpu_ldcache *c)
{
	auto_free struct sorted *v = xreallocarray(NULL, c->n + 1, sizeof(*v));
	struct sorted *all = xreallocarray(NULL, c->n + 1, sizeof(*v));
	size_t first = 1, i = 0, j;

	for (size_t k = 0; k < c->n; k++)
		v[k] = (struct sorted){ &c->v[k], k };
	while (first < c->n && compare_sorted(&v[first - 1], &v[first]) < 0)
		first++;
	j = first;
	if (first < c->n)
		qsort(&v[first], c->n - first, sizeof(*v), compare_sorted);
	for (size_t k = 0; k < c->n; k++)
		all[k] = j >= c->n || (i < first && compare_sorted(&v[i], &v[j]) < 0) ? v[i++]
										      : v[j++];
	return all;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of glibc-hwcaps' subdirectories, sorted bytewise, because ld.so merges them with its
 * own. */
static const char **list_hwcaps(const struct gpu_ldcache *c, size_t *ret_n)
{
	const char **v = xreallocarray(NULL, c->n + 1, sizeof(*v));
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].hwcaps)
			v[n++] = c->v[i].hwcaps;
	qsort(v, n, sizeof(*v), compare_strings);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || strcmp(v[kept - 1], v[i]) != 0)
			v[kept++] = v[i];
	*ret_n = kept;
	return v;
}

/* The file being written; data is large enough. */
struct out {
	char *data;
	size_t at;
	const char **hwcaps;
	size_t n_hwcaps;
};

static void put(struct out *o, const void *data, size_t size)
{
	memcpy(o->data + o->at, data, size);
	o->at += size;
}

static uint32_t put_string(struct out *o, const char *s)
{
	size_t at = o->at;

	put(o, s, strlen(s) + 1);
	return (uint32_t)at;
}

/* Write the strings of one entry; a name that ends the path is shared with it. */
static struct entry put_entry_strings(struct out *o, const struct gpu_ldcache_entry *e)
{
	size_t name_len = strlen(e->name), path_len = strlen(e->path);
	struct entry f = { .flags = e->flags, .osversion = e->osversion, .hwcap = e->hwcap };

	f.path = put_string(o, e->path);
	if (path_len >= name_len && strcmp(e->path + path_len - name_len, e->name) == 0)
		f.name = f.path + (uint32_t)(path_len - name_len);
	else
		f.name = put_string(o, e->name);
	if (e->hwcaps) {
		const char **at = bsearch(
			&e->hwcaps, o->hwcaps, o->n_hwcaps, sizeof(*o->hwcaps), compare_strings);

		f.hwcap = (e->hwcap & ~HWCAP_INDEX) | (uint64_t)(at - o->hwcaps);
	}
	return f;
}

/* Write the extension that lists glibc-hwcaps' subdirectories. Returns its offset. */
static uint32_t put_hwcaps(struct out *o)
{
	struct extension ext = { EXTENSION_MAGIC, 1 };
	struct section s = { .tag = SECTION_HWCAPS,
		.size = (uint32_t)(o->n_hwcaps * sizeof(uint32_t)) };
	auto_free uint32_t *at = xreallocarray(NULL, o->n_hwcaps, sizeof(*at));
	size_t start;

	for (size_t i = 0; i < o->n_hwcaps; i++)
		at[i] = put_string(o, o->hwcaps[i]);
	o->at = (o->at + 3) & ~(size_t)3;
	start = o->at;
	s.at = (uint32_t)(start + sizeof(ext) + sizeof(s));
	put(o, &ext, sizeof(ext));
	put(o, &s, sizeof(s));
	put(o, at, s.size);
	return (uint32_t)start;
}

/* An upper bound of the file's size. */
static size_t room_for(const struct gpu_ldcache *c)
{
	size_t room = sizeof(struct header) + sizeof(struct extension) + sizeof(struct section) + 4;

	for (size_t i = 0; i < c->n; i++) {
		const struct gpu_ldcache_entry *e = &c->v[i];

		room += sizeof(struct entry) + strlen(e->name) + strlen(e->path) + 2;
		if (e->hwcaps)
			room += strlen(e->hwcaps) + 1 + sizeof(uint32_t);
	}
	return room;
}

static void entry_done(struct gpu_ldcache_entry *e)
{
	free(e->name);
	free(e->path);
	free(e->hwcaps);
}

void gpu_ldcache_done(struct gpu_ldcache *c)
{
	free_all(c->v, c->n, entry_done);
	*c = (struct gpu_ldcache){ 0 };
}

static struct gpu_ldcache_entry *add(struct gpu_ldcache *c)
{
	return xadd(c->v, c->n);
}

int gpu_ldcache_walk(const void *data, size_t size,
	int (*visit)(void *ctx, const struct gpu_ldcache_entry *e), void *ctx,
	struct mlr_error *err)
{
	struct bytes b = { .data = data, .size = size };
	const char *nul = size ? memrchr(data, '\0', size) : NULL;
	int r = find_header(&b, err);

	TRY(r);
	b.last_nul = nul ? (size_t)(nul - b.data) : 0;
	find_hwcaps(&b);
	for (size_t i = 0; i < b.head.n && r == 0; i++) {
		struct gpu_ldcache_entry e;
		struct entry f;

		memcpy(&f, b.data + b.at + sizeof(b.head) + i * sizeof(f), sizeof(f));
		e = (struct gpu_ldcache_entry){
			.name = (char *)string_at(&b, b.at + f.name, NAME_MAX),
			.path = (char *)string_at(&b, b.at + f.path, PATH_MAX - 1),
			.flags = f.flags,
			.osversion = f.osversion,
			.hwcap = f.hwcap,
			.hwcaps = (char *)hwcaps_name(&b, f.hwcap),
		};
		/* ld.so would not search a subdirectory whose index has no name. */
		if (e.name && e.path && (e.hwcaps || !has_hwcaps(e.hwcap)))
			r = visit(ctx, &e);
	}
	return r;
}

struct reader {
	struct gpu_ldcache *c;
	size_t bytes;
};

static int copy_entry(void *ctx, const struct gpu_ldcache_entry *e)
{
	struct reader *r = ctx;

	r->bytes += strlen(e->name) + strlen(e->path);
	if (r->bytes > STRINGS_MAX || r->c->n == ENTRIES_MAX)
		return -EPROTO;
	*add(r->c) = (struct gpu_ldcache_entry){
		.name = xstrdup(e->name),
		.path = xstrdup(e->path),
		.flags = e->flags,
		.osversion = e->osversion,
		.hwcap = e->hwcap,
		.hwcaps = e->hwcaps ? xstrdup(e->hwcaps) : NULL,
	};
	return 0;
}

int gpu_ldcache_parse(const void *data, size_t size, struct gpu_ldcache *ret, struct mlr_error *err)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache c = { 0 };
	struct reader reader = { .c = &c };
	int r = gpu_ldcache_walk(data, size, copy_entry, &reader, err);

	if (reader.bytes > STRINGS_MAX)
		return mlr_fail(err, EPROTO, "linker cache: its strings take more than %u MiB",
			STRINGS_MAX >> 20);
	if (r < 0 && c.n == ENTRIES_MAX)
		return mlr_fail(err, EPROTO, "linker cache: more than %u entries", ENTRIES_MAX);
	TRY(r);
	*ret = take_struct(&c, { 0 });
	return 0;
}

void gpu_ldcache_add(struct gpu_ldcache *c, const char *name, const char *path, int bits)
{
	*add(c) = (struct gpu_ldcache_entry){
		.name = xstrdup(name),
		.path = xstrdup(path),
		.flags = bits == 32 ? FLAGS_32 : FLAGS_64,
	};
}

int gpu_ldcache_fits(const struct gpu_ldcache_entry *e, int bits)
{
	return e->flags == (bits == 32 ? FLAGS_32 : FLAGS_64);
}

size_t gpu_ldcache_drop(struct gpu_ldcache *c, const char *marks)
{
	size_t kept = 0, n = c->n;

	for (size_t i = 0; i < n; i++) {
		if (marks[i])
			entry_done(&c->v[i]);
		else
			c->v[kept++] = c->v[i];
	}
	c->n = kept;
	return n - kept;
}

size_t gpu_ldcache_print(const struct gpu_ldcache *c, char **ret)
{
	struct header head = { .magic = MAGIC, .n = (uint32_t)c->n, .order = ORDER_NATIVE };
	struct out o = { .data = xcalloc(1, room_for(c)) };
	auto_free struct sorted *v = sort_entries(c);
	auto_free const char **hwcaps = list_hwcaps(c, &o.n_hwcaps);
	size_t strings = sizeof(head) + c->n * sizeof(struct entry);

	o.hwcaps = hwcaps;
	o.at = strings;
	for (size_t i = 0; i < c->n; i++) {
		struct entry f = put_entry_strings(&o, v[i].e);

		memcpy(o.data + sizeof(head) + i * sizeof(f), &f, sizeof(f));
	}
	head.strings = (uint32_t)(o.at - strings);
	if (o.n_hwcaps > 0)
		head.extension = put_hwcaps(&o);
	memcpy(o.data, &head, sizeof(head));
	*ret = o.data;
	return o.at;
}
