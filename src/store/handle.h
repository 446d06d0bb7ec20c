/*
 * The store's handle as the room's own files see it.
 */
#ifndef MLR_STORE_HANDLE_H
#define MLR_STORE_HANDLE_H

#include "store/store.h"

#include <pthread.h>

struct store {
	char *path; /* absolute */
	int fd;     /* the top directory */

	int (*cancelled)(void *ctx); /* asked while waiting for another process; may be NULL */
	void *cancelled_ctx;

	pthread_mutex_t mutex; /* guards hold_fd */
	int hold_fd;           /* "lock", held shared since store_hold(); -1 before */

	int no_suspects; /* atomic: no tree was cut short by an earlier boot's end; stays true */
};

#endif
