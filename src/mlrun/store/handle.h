/* The store's handle, for the files of this room. */
#pragma once

#include "store/store.h"

struct store_hold;

struct store {
	char *path;       /* absolute */
	int fd;           /* the top directory */
	uid_t owner;      /* of the top directory */
	int others_enter; /* others than the owner may enter it */
	int format; /* what "version" says; raised by the first process that changes something */

	int (*cancelled)(void *ctx); /* called while waiting for another process; may be NULL */
	void *cancelled_ctx;

	pthread_mutex_t mutex;   /* guards hold */
	struct store_hold *hold; /* NULL before store_hold() */

	int no_suspects; /* atomic; 1: no tree was left incomplete by an earlier boot */
};

/* Upgrade an older store to the format of this program, if nobody has done so yet. */
int store_upgrade(struct store *st, struct mlr_error *err);
