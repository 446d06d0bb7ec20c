/* The processes in a container that is a child's of ours. */
#ifndef MLR_WORK_INSIDE_H
#define MLR_WORK_INSIDE_H

#include <stdint.h>
#include <sys/types.h>

struct inside {
	uint64_t id; /* the container's (runtime/container.h); 0: not known */
	int root;    /* its root directory: while it is open, the kernel gives the id to no other
		      * container, which inside_kill() would kill; -1 */
};

#define INSIDE_INIT   \
	{             \
		0, -1 \
	}

/*
 * Find the process itself, or the first below it that is in a container: options such as --init
 * leave a process of mlrun's outside, which does not count. A set-up that is not finished may not
 * be looked at.
 *
 *   proc  a descriptor of /proc
 *   ret   gets the container
 *
 * Returns 0 if there is none yet.
 */
pid_t inside_find(int proc, pid_t pid, struct inside *ret);

/* Kill what is in the container, also what is no child of this process, and wait for it for at most
 * a second; then forget it. id 0: nothing. */
void inside_kill(int proc, struct inside *in);

#endif
