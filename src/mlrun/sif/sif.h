/*
 * sif: Apptainer's image files: header and descriptors. Knows no file systems and mounts nothing.
 *
 * The structs are the file's own bytes (sylabs/sif, pkg/sif/sif.go and descriptor.go), packed and
 * little-endian: read numbers with le32toh(3) and le64toh(3). Offsets and sizes are bytes.
 */
#pragma once

#include "base/base.h"

#define SIF_MAGIC       "SIF_MAGIC"
#define SIF_DESCRIPTORS 1024 /* a file with more is refused; others write 48 */

struct sif_header {
	char launch[32]; /* "#!/usr/bin/env run-singularity\n" */
	char magic[10], version[3], architecture[3];
	unsigned char uuid[16];
	uint64_t created, modified; /* seconds since 1970 */
	uint64_t free, total;       /* descriptors */
	uint64_t at, size;          /* of the descriptors */
	uint64_t data_at, data_size;
} __attribute__((packed));

enum sif_type {
	SIF_DEFINITION = 0x4001,
	SIF_PARTITION = 0x4004,
	SIF_SIGNATURE,
	SIF_JSON,
	SIF_OCI_INDEX = 0x400a
};
enum sif_file_system { SIF_SQUASHFS = 1, SIF_EXT3, SIF_ARCHIVE, SIF_RAW, SIF_ENCRYPTED };
enum sif_kind { SIF_SYSTEM = 1, SIF_PRIMARY, SIF_DATA, SIF_OVERLAY };

struct sif_descriptor {
	uint32_t type; /* enum sif_type */
	uint8_t used;
	uint32_t id, group, link;
	uint64_t at, size, padded, created, modified, uid, gid;
	char name[128]; /* any bytes; a NUL may be missing */
	union {
		struct {
			uint32_t file_system, kind; /* enum sif_file_system, enum sif_kind */
			char architecture[3];
		} __attribute__((packed)) partition;
		char extra[384];
	};
} __attribute__((packed));

_Static_assert(sizeof(struct sif_header) == 128 && sizeof(struct sif_descriptor) == 585,
	"these are the file's sizes");

struct sif {
	struct sif_header header;
	struct sif_descriptor *parts; /* all of them, unused ones too */
	size_t n;
};

void sif_done(struct sif *s);

/*
 * Read header and descriptors. A stranger may have written them: afterwards every used part lies in
 * the file, and no partition is empty or shares a byte with another, the header or the descriptors.
 *
 *   file  bytes of the file
 *
 * Returns 1; 0 without a message if it is no SIF file; -EPROTO for a damaged one.
 */
int sif_read(int fd, uint64_t file, struct sif *ret, struct mlr_error *err);

/* Where an image lies in its file. */
struct sif_place {
	uint64_t at, size;
	const char *architecture;        /* static, "amd64"; NULL: unknown */
	int is_signed;                   /* by anybody, unchecked */
	uint64_t config_at, config_size; /* of the image's oci-config.json, or 0 (oci/config.h) */
};

/*
 * Find the squashfs image in a file: a SIF file's primary partition; in an older .simg behind the
 * launch line; else the whole file is taken for one. The contents decide, not the name.
 *
 *   path  for hints
 *
 * Returns 0; -EISDIR, -EINVAL for what is no file; -EPROTO as sif_read(); -ENOTSUP for what mlrun
 * cannot run, with a hint: ext3, encrypted and OCI images, overlay partitions.
 */
int sif_find(int fd, const char *path, struct sif_place *ret, struct mlr_error *err);

/* A part before the image. */
struct sif_text {
	enum sif_type type;
	const char *name;
	char *text;
};

/* Where the image begins behind n texts: at a multiple of 4096. */
uint64_t sif_image_at(const struct sif_text *texts, size_t n);

/*
 * Write all but the image to the file's beginning. JSON is linked to the image: others, too, have
 * an oci-config.json, but their images may have been changed since.
 *
 *   image  at, size, architecture
 *   hash   of its contents, in hex, for the file's UUID
 *
 * The same arguments give the same bytes. Returns 0, or -ENOSPC and the like.
 */
int sif_write(int fd, const struct sif_place *image, const struct sif_text *texts, size_t n,
	const char *hash, struct mlr_error *err);

/* The name of a part's type, file system and kind, "squashfs, primary partition". To free(). */
char *sif_describe(const struct sif_descriptor *d);
