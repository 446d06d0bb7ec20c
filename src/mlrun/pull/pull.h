/*
 * pull: brings what the store lacks of one image, several layers at once.
 *
 * A layer is one pipeline and touches the disk once: registry stream, sha256 of the compressed
 * bytes, a bounded queue, inflate, sha256 of the tar, files. A tree is published only if the size,
 * both digests and the archive are right; the image's name comes last. An interrupted pull leaves
 * whole layers, which the next pull uses.
 */
#pragma once

#include "oci/name.h"
#include "pull/format.h"
#include "pull/resolve.h"
#include "registry/registry.h"
#include "store/image.h"

#define PULL_JOBS       3 /* layers at once by default */
#define PULL_JOBS_MAX   32
#define PULL_SPOOL_FROM (1ull << 30)

enum pull_state {
	PULL_WAITING,
	PULL_RUNNING,
	PULL_DONE,
	PULL_PRESENT, /* the store has it, perhaps from another process just now */
};

/* A layer for a progress display; read received and state with the functions below. */
struct pull_layer {
	const char *digest; /* of the compressed blob; pull's own */
	uint64_t size;      /* compressed bytes */
	uint64_t received;
	int state;
};

static inline uint64_t pull_layer_received(const struct pull_layer *l)
{
	return __atomic_load_n(&l->received, __ATOMIC_RELAXED);
}

static inline enum pull_state pull_layer_state(const struct pull_layer *l)
{
	return (enum pull_state)__atomic_load_n(&l->state, __ATOMIC_ACQUIRE);
}

/* Callbacks for progress; members may be NULL. */
struct pull_watch {
	void *ctx;
	/* The layers are known, lowest first, valid until pull_image() returns. Not called if the
	 * image is up to date. */
	void (*begin)(void *ctx, const char *name, const struct pull_layer *layers, size_t n);
	/* Called ten times a second and at every change of a state, in the calling thread, as
	 * begin. */
	void (*tick)(void *ctx);
	/* Something worth a line: a delay that the registry asks for, a disk that fills up. Any
	 * thread. */
	void (*notice)(void *ctx, const char *words);
};

struct pull_options {
	const char *platform;             /* "linux/arm64"; NULL: this machine's */
	struct registry_options registry; /* without callbacks */
	int jobs;                         /* layers at once, 1 to PULL_JOBS_MAX */
	unsigned format;          /* an enum store_format; 0: what suits the store's file system */
	store_probe_fn probe;     /* used if format is 0 */
	const struct oci_ref *as; /* the name for it in the store; NULL: its own name */
	int keep_blobs;           /* keep the compressed layers in the store */
	uint64_t spool_from; /* a later process can resume layers of at least this many bytes; 0:
			      * PULL_SPOOL_FROM, UINT64_MAX: none */
	const int *cancel; /* read atomically; not 0 stops the work with -ECANCELED. May be NULL */
};

struct pull_result {
	struct store_image image;
	unsigned formats; /* the store's formats of it now, see store/facts.h */
	char *store;      /* the additional store that has it; NULL: st */
	char *replaced; /* the manifest that the name of an image from files had before; or NULL */
	int up_to_date; /* the store had this digest: nothing was fetched */
	size_t layers;  /* 0 if up to date */
	size_t layers_fetched;
	uint64_t bytes_fetched; /* compressed bytes of layers */
};

void pull_result_done(struct pull_result *r);

/*
 * Pull one image from a registry or from files. For a tag that the store has, one HEAD request
 * compares digests; a digest that it has needs no request.
 *
 * Returns 0; -ENOENT, -EACCES, -EBUSY and the network's errors as registry/registry.h says;
 * -EBADMSG for wrong bytes; -EPROTO for malformed documents and archives; -ENOTSUP for a kind or
 * platform of image that cannot run; -ENOSPC before anything is fetched if the layers cannot fit;
 * -ECANCELED.
 */
int pull_image(struct store *st, const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_result *ret, struct mlr_error *err);

/* An image seen at its source. */
struct pull_sight {
	char *name;   /* its name in the store, if it were pulled */
	char *source; /* as in struct store_image */
	struct resolved res;
};

void pull_sight_done(struct pull_sight *s);

/* Look at an image without pulling it: fetches only its documents. Uses opt's platform, registry
 * and cancel. Returns as above. */
int pull_look(const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_sight *ret, struct mlr_error *err);
