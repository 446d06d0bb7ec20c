/* The processes in a container that is a child's of ours. */
#ifndef MLR_WORK_INSIDE_H
#define MLR_WORK_INSIDE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Find the process itself, or the first below it that is in a container: options such as --init
 * leave a process of mlrun's outside, which does not count. A set-up that is not finished may not
 * be looked at.
 *
 *   proc  a descriptor of /proc
 *   id    gets the container's (runtime/container.h)
 *
 * Returns 0 if there is none yet.
 */
pid_t inside_find(int proc, pid_t pid, uint64_t *id);

/* Kill what is in the container, also what is no child of this process, and wait for it for at most
 * a second. id 0: nothing. */
void inside_kill(int proc, uint64_t id);

#endif
