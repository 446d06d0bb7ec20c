/*
 * The store's handle as the room's own files see it.
 */
#ifndef MLR_STORE_HANDLE_H
#define MLR_STORE_HANDLE_H

#include "store/store.h"

#include <pthread.h>

struct store_hold;

struct store {
	char *path; /* absolute */
	int fd;     /* the top directory */
	int format; /* what its "version" says; upgraded by the first that changes something */

	int (*cancelled)(void *ctx); /* asked while waiting for another process; may be NULL */
	void *cancelled_ctx;

	pthread_mutex_t mutex;   /* guards hold */
	struct store_hold *hold; /* NULL before store_hold() */

	int no_suspects; /* atomic: no tree was cut short by an earlier boot's end; stays true */
};

/* Bring an older store to the format of this program, if that is still to be done. */
int store_upgrade(struct store *st, struct mlr_error *err);

#endif
