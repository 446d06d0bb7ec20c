#include "sif/sif.h"

#include <endian.h>

#define LAUNCHER  "run-singularity\n" /* ends the first line of a .simg */
#define EXT_SUPER 1080                /* of ext2 to ext4's magic number, 0xef53 */
#define CONFIG    "oci-config.json"

/* As Apptainer writes. */
#define TABLE_AT 4096
#define TABLE_N  48
#define DATA_AT  (TABLE_AT + TABLE_N * sizeof(struct sif_descriptor))
#define ALIGN    4096
#define GROUP    0xf0000001

void sif_done(struct sif *s)
{
	free(s->parts);
	*s = (struct sif){ .parts = NULL };
}

static int damaged(struct mlr_error *err, const char *what)
{
	return mlr_fail(err, EPROTO, "a damaged SIF file: %s", what);
}

/* Does this range of bytes lie in the file, behind the header? */
static int is_inside(uint64_t at, uint64_t size, uint64_t file)
{
	return at >= sizeof(struct sif_header) && at <= file && size <= file - at;
}

static int overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

static int is_a(const struct sif_descriptor *d, enum sif_type type)
{
	return d->used && le32toh(d->type) == type;
}

static int check_part(const struct sif *s, size_t i, uint64_t file, struct mlr_error *err)
{
	const struct sif_descriptor *d = &s->parts[i];
	uint64_t at = le64toh(d->at), size = le64toh(d->size);

	if (!d->used)
		return 0;
	if (!is_inside(at, size, file))
		return damaged(err, "a part lies outside of it");
	if (!is_a(d, SIF_PARTITION))
		return 0;
	if (size == 0)
		return damaged(err, "a partition is empty");
	if (overlap(at, size, le64toh(s->header.at), le64toh(s->header.size)))
		return damaged(err, "a partition overlaps the descriptors");
	for (size_t k = 0; k < i; k++)
		if (is_a(&s->parts[k], SIF_PARTITION) &&
			overlap(at, size, le64toh(s->parts[k].at), le64toh(s->parts[k].size)))
			return damaged(err, "partitions overlap");
	return 0;
}

static int read_parts(int fd, uint64_t file, struct sif *s, struct mlr_error *err)
{
	uint64_t total = le64toh(s->header.total), at = le64toh(s->header.at),
		 size = le64toh(s->header.size);

	if (total > SIF_DESCRIPTORS)
		return damaged(err, "its number of descriptors");
	if (size != total * sizeof(*s->parts))
		return damaged(err, "the descriptors' size");
	if (!is_inside(at, size, file))
		return damaged(err, "the descriptors lie outside of it");
	s->n = (size_t)total;
	s->parts = xcalloc(s->n + 1, sizeof(*s->parts));
	if (pread(fd, s->parts, (size_t)size, (off_t)at) != (ssize_t)size)
		return damaged(err, "it is cut off");
	for (size_t i = 0; i < s->n; i++)
		TRY(check_part(s, i, file, err));
	return 1;
}

int sif_read(int fd, uint64_t file, struct sif *ret, struct mlr_error *err)
{
	auto_call(sif_done) struct sif s = { .parts = NULL };
	ssize_t n = pread(fd, &s.header, sizeof(s.header), 0);

	if (n < (ssize_t)offsetof(struct sif_header, version) ||
		memcmp(s.header.magic, SIF_MAGIC, sizeof(SIF_MAGIC)) != 0)
		return 0;
	if ((size_t)n < sizeof(s.header))
		return damaged(err, "it is cut off");
	if (memcmp(s.header.version, "01", 3) != 0)
		return mlr_fail(err, EPROTO, "a SIF file of another version than 01");
	TRY(read_parts(fd, file, &s, err));
	*ret = take_struct(&s, { .parts = NULL });
	return 1;
}

/* Codes are "01" and so on; "00" is unknown. */
static const char *const architectures[] = { NULL, "386", "amd64", "arm", "arm64", "ppc64",
	"ppc64le", "mips", "mipsle", "mips64", "mips64le", "s390x", "riscv64" };

static const char *architecture_of(const char code[3])
{
	int n = (code[0] - '0') * 10 + code[1] - '0';

	return n > 0 && n < (int)ARRAY_LEN(architectures) ? architectures[n] : NULL;
}

/* --- the image in a file ---------------------------------------------------------------- */

static int check_file_system(uint32_t system, const char *path, struct mlr_error *err)
{
	if (system == SIF_SQUASHFS)
		return 0;
	if (system == SIF_ENCRYPTED) {
		mlr_fail(err, ENOTSUP, "the image is encrypted, and mlrun decrypts nothing");
		return mlr_hint(err, "apptainer runs it; build it without --encrypt for mlrun");
	}
	mlr_fail(err, ENOTSUP,
		system == SIF_EXT3 ? "an ext3 image of Singularity 2"
				   : "its image has another file system than squashfs");
	return mlr_hint(err, "apptainer build NEW.sif %s makes a file that mlrun runs", path);
}

static int refuse_overlay(const struct sif_descriptor *overlay, const struct sif_descriptor *root,
	const char *path, struct mlr_error *err)
{
	mlr_fail(err, ENOTSUP, "part %u is an overlay, which changes what is in the image",
		le32toh(overlay->id));
	return mlr_hint(err,
		"in a copy, apptainer sif del %u %s takes it out; unsquashfs -o %llu -d DIR %s && "
		"mlrun exec rootfs:DIR runs the image without it",
		le32toh(overlay->id), path, (unsigned long long)le64toh(root->at), path);
}

static int refuse_rootless(int is_oci, struct mlr_error *err)
{
	if (!is_oci)
		return damaged(err, "it has no primary partition");
	mlr_fail(err, ENOTSUP, "an OCI-SIF, which has an OCI image in place of a file system");
	return mlr_hint(err,
		"mlrun pull brings the image from its registry; or singularity pull "
		"without --oci makes a file that mlrun runs");
}

static int find_root(
	const struct sif *s, const char *path, struct sif_place *ret, struct mlr_error *err)
{
	const struct sif_descriptor *root = NULL, *overlay = NULL;
	int is_oci = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct sif_descriptor *d = &s->parts[i];
		uint32_t kind = is_a(d, SIF_PARTITION) ? le32toh(d->partition.kind) : 0;

		if (kind == SIF_PRIMARY && root)
			return damaged(err, "it has two primary partitions");
		if (kind == SIF_PRIMARY)
			root = d;
		overlay = kind == SIF_OVERLAY ? d : overlay;
		is_oci |= is_a(d, SIF_OCI_INDEX);
		ret->is_signed |= is_a(d, SIF_SIGNATURE);
		if (is_a(d, SIF_JSON) && d->link && strncmp(d->name, CONFIG, sizeof(CONFIG)) == 0) {
			ret->config_at = le64toh(d->at);
			ret->config_size = le64toh(d->size);
		}
	}
	if (!root)
		return refuse_rootless(is_oci, err);
	TRY(check_file_system(le32toh(root->partition.file_system), path, err));
	if (overlay)
		return refuse_overlay(overlay, root, path, err);
	ret->at = le64toh(root->at);
	ret->size = le64toh(root->size);
	ret->architecture = architecture_of(root->partition.architecture);
	return 0;
}

/* A file of Singularity 2: an image, mostly behind a line that names its launcher. */
static int find_old(
	int fd, uint64_t file, const char *path, struct sif_place *ret, struct mlr_error *err)
{
	char head[4096];
	ssize_t n = pread(fd, head, sizeof(head), 0);
	const char *line = n > 0 ? memchr(head, '\n', (size_t)n) : NULL;
	size_t at = line ? (size_t)(line + 1 - head) : 0, end = sizeof(LAUNCHER) - 1;

	if (at < end || memcmp(head + at - end, LAUNCHER, end) != 0)
		at = 0;
	if (n >= (ssize_t)(at + EXT_SUPER + 2) && memcmp(head + at, "hsqs", 4) != 0 &&
		memcmp(head + at + EXT_SUPER, "\x53\xef", 2) == 0)
		return check_file_system(SIF_EXT3, path, err);
	ret->at = at;
	ret->size = file - at;
	return 0;
}

int sif_find(int fd, const char *path, struct sif_place *ret, struct mlr_error *err)
{
	auto_call(sif_done) struct sif s = { .parts = NULL };
	off_t file = lseek(fd, 0, SEEK_END);
	struct stat st;
	int r;

	if (file < 0 || fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)))
		return mlr_fail(err, EINVAL, "'%s' is not a file", path);
	*ret = (struct sif_place){ .at = 0 };
	r = sif_read(fd, (uint64_t)file, &s, err);
	if (r < 0)
		return r;
	return r ? find_root(&s, path, ret, err) : find_old(fd, (uint64_t)file, path, ret, err);
}

/* --- writing ------------------------------------------------------------------------------ */

uint64_t sif_image_at(const struct sif_text *texts, size_t n)
{
	uint64_t at = DATA_AT;

	for (size_t i = 0; i < n; i++)
		at += strlen(texts[i].text);
	return (at + ALIGN - 1) / ALIGN * ALIGN;
}

static void put_architecture(const char *name, char code[3])
{
	size_t n = ARRAY_LEN(architectures) - 1;

	while (n > 0 && strcmp(architectures[n], name) != 0)
		n--;
	code[0] = (char)('0' + n / 10);
	code[1] = (char)('0' + n % 10);
}

static void put_header(
	struct sif_header *h, const struct sif_place *image, size_t used, const char *hash)
{
	*h = (struct sif_header){ .launch = "#!/usr/bin/env " LAUNCHER,
		.magic = SIF_MAGIC,
		.version = "01",
		.free = htole64(TABLE_N - used),
		.total = htole64(TABLE_N),
		.at = htole64(TABLE_AT),
		.size = htole64(DATA_AT - TABLE_AT),
		.data_at = htole64(DATA_AT),
		.data_size = htole64(image->at + image->size - DATA_AT) };
	put_architecture(image->architecture, h->architecture);
	for (size_t i = 0; i < sizeof(h->uuid); i++)
		sscanf(hash + 2 * i, "%2hhx", &h->uuid[i]);
	h->uuid[6] = (h->uuid[6] & 0x0f) | 0x80; /* RFC 9562: version 8, variant 10 */
	h->uuid[8] = (h->uuid[8] & 0x3f) | 0x80;
}

int sif_write(int fd, const struct sif_place *image, const struct sif_text *texts, size_t n,
	const char *hash, struct mlr_error *err)
{
	auto_free char *head = xcalloc(image->at, 1);
	struct sif_descriptor *d = (struct sif_descriptor *)(head + TABLE_AT);
	uint64_t end = DATA_AT;

	put_header((struct sif_header *)head, image, n + 1, hash);
	for (size_t i = 0; i <= n; i++) {
		uint64_t at = i < n ? end : image->at,
			 size = i < n ? strlen(texts[i].text) : image->size;

		d[i] = (struct sif_descriptor){ .type = htole32(
							i < n ? texts[i].type : SIF_PARTITION),
			.used = 1,
			.id = htole32((uint32_t)i + 1),
			.group = htole32(GROUP),
			.at = htole64(at),
			.size = htole64(size),
			.padded = htole64(at + size - end) };
		if (i < n)
			memcpy(head + at, texts[i].text, size);
		if (i < n && texts[i].type == SIF_JSON)
			d[i].link = htole32((uint32_t)n + 1);
		snprintf(d[i].name, sizeof(d[i].name), "%s", i < n ? texts[i].name : "squashfs");
		end = at + size;
	}
	d[n].partition.file_system = htole32(SIF_SQUASHFS);
	d[n].partition.kind = htole32(SIF_PRIMARY);
	put_architecture(image->architecture, d[n].partition.architecture);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return mlr_fail_errno(err, "write a SIF file's header");
	return mlr_result(err, file_write_all(fd, head, image->at), "write a SIF file's header");
}

char *sif_describe(const struct sif_descriptor *d)
{
	static const char *const types[] = { "definition file", "environment", "labels",
		"partition", "signature", "JSON", "raw data", "cryptographic message",
		"bill of materials", "OCI index", "OCI blob" },
				 *const systems[] = { "unknown", "squashfs", "ext3", "archive",
					 "raw", "encrypted squashfs" },
				 *const kinds[] = { "unknown", "system", "primary", "data",
					 "overlay" };
	uint32_t type = le32toh(d->type) - SIF_DEFINITION,
		 system = le32toh(d->partition.file_system), kind = le32toh(d->partition.kind);

	if (!is_a(d, SIF_PARTITION))
		return xstrdup(type < ARRAY_LEN(types) ? types[type] : "unknown");
	return xasprintf("%s partition, %s", kinds[kind < ARRAY_LEN(kinds) ? kind : 0],
		systems[system < ARRAY_LEN(systems) ? system : 0]);
}
