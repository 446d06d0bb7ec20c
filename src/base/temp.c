
#include "base/base.h"

#include <sys/random.h>

void random_hex(char hex[RANDOM_HEX_SIZE])
{
	static unsigned serial;
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) /* early boot */
		number =
			(uint64_t)getpid() << 32 | __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	snprintf(hex, RANDOM_HEX_SIZE, "%016llx", (unsigned long long)number);
}

/* If the file system has no unnamed files (NFS, Lustre), make one and remove its name at once. */
static int open_below(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	for (unsigned i = 0; fd < 0 && i < 100; i++) {
		char name[64];

		snprintf(name, sizeof(name), "plain.%ld.%u.tmp", (long)getpid(), i);
		fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0)
			unlinkat(dir_fd, name, 0);
		else if (errno != EEXIST)
			break;
	}
	return fd;
}

int temp_open(int dir_fd, struct mlr_error *err)
{
	const char *dir = getenv("TMPDIR");
	auto_close int own = -1;
	int fd;

	if (!dir || *dir != '/')
		dir = "/tmp";
	if (dir_fd < 0) {
		own = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (own < 0)
			return mlr_fail_errno(err, "open '%s'", dir);
	}
	fd = open_below(dir_fd < 0 ? own : dir_fd);
	if (fd < 0 && dir_fd < 0)
		return mlr_fail_errno(err, "make a temporary file in '%s'", dir);
	return fd < 0 ? mlr_fail_errno(err, "make a temporary file in the store") : fd;
}
