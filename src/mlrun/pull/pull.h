/*
 * pull: brings what the store lacks of one image, several layers at once.
 *
 * A layer is one pipeline and touches the disk once: registry stream, sha256 of the compressed
 * bytes, a bounded queue, inflate, sha256 of the tar, files. A tree is published when the size,
 * both digests and the archive were right; the image's name comes last. A pull that is stopped
 * anywhere leaves whole layers, which the next one finds.
 */
#ifndef MLR_PULL_PULL_H
#define MLR_PULL_PULL_H

#include "base/error.h"
#include "oci/name.h"
#include "oci/ref.h"
#include "pull/format.h"
#include "pull/resolve.h"
#include "store/image.h"
#include "store/store.h"

#include <stddef.h>
#include <stdint.h>

#define PULL_JOBS       3 /* layers at once, unless asked otherwise */
#define PULL_JOBS_MAX   32
#define PULL_SPOOL_FROM (1ull << 30)

enum pull_state {
	PULL_WAITING,
	PULL_RUNNING,
	PULL_DONE,
	PULL_PRESENT, /* was in the store, or another process has just put it there */
};

/* One layer as a display sees it; read received and state with the functions below. */
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

/* Who watches; members may be NULL. */
struct pull_watch {
	void *ctx;
	/* The layers are known, lowest first, valid until pull_image() returns. Not called when the
	 * image is up to date. */
	void (*begin)(void *ctx, const char *name, const struct pull_layer *layers, size_t n);
	/* Ten times a second and at every change of a state; from the calling thread, as begin. */
	void (*tick)(void *ctx);
	/* Worth a line: a wait that the registry asks for, a disk that gets full. Any thread. */
	void (*notice)(void *ctx, const char *words);
};

struct pull_options {
	const char *platform; /* "linux/arm64"; NULL: this machine's */
	int tls_verify;       /* as registry_options, and so the next two */
	const char *authfile;
	const struct config *config;
	int jobs;                 /* layers at once, 1 to PULL_JOBS_MAX */
	unsigned format;          /* an enum store_format; 0: what suits the store's file system */
	format_probe_fn probe;    /* asked when format is 0 */
	const struct oci_ref *as; /* what the store shall call it; NULL: its own name */
	int keep_blobs;           /* keep the compressed layers in the store */
	uint64_t spool_from; /* layers of so many bytes can be gone on with by a later process; 0:
			      * PULL_SPOOL_FROM, UINT64_MAX: none */
	const int *cancel;   /* read atomically; not 0 ends it with -ECANCELED. May be NULL */
};

struct pull_result {
	struct store_image image;
	unsigned formats; /* that the store holds it in now, see store/facts.h */
	char *store;      /* the additional one that has it; NULL: st */
	char *replaced;   /* the manifest that a name for an image from files stood for; or NULL */
	int up_to_date;   /* the store had the name at this digest: nothing was fetched */
	size_t layers;    /* 0 when up to date */
	size_t layers_fetched;
	uint64_t bytes_fetched; /* of layers, compressed */
};

#define PULL_RESULT_INIT                  \
	{                                 \
		.image = STORE_IMAGE_INIT \
	}

void pull_result_done(struct pull_result *r);

/*
 * Pull one image from a registry or from files. A tag that the store has is compared by one HEAD
 * request; a digest that it has needs no request at all.
 *
 * Returns 0; -ENOENT, -EACCES, -EBUSY and the network's errors as registry/registry.h says;
 * -EBADMSG for bytes that are not those named; -EPROTO for malformed documents and archives;
 * -ENOTSUP for images of a kind or platform that cannot be run; -ENOSPC before a byte is fetched
 * when the layers cannot fit; -ECANCELED.
 */
int pull_image(struct store *st, const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_result *ret, struct mlr_error *err);

/* An image where it lies. */
struct pull_sight {
	char *name;   /* what the store would call it */
	char *source; /* as struct store_image's */
	struct resolved res;
};

#define PULL_SIGHT_INIT \
	{               \
		0       \
	}

void pull_sight_done(struct pull_sight *s);

/* Look at an image without bringing it: its documents alone are fetched. opt's platform, tls_verify
 * and cancel count. Returns as above. */
int pull_look(const struct oci_name *what, const struct pull_options *opt,
	const struct pull_watch *watch, struct pull_sight *ret, struct mlr_error *err);

#endif
