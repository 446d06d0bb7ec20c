/*
 * Other users can take a guessable name, so the last resort is a random one, "mlrun-UID.RANDOM".
 * Processes that start at once may make several: each puts a link "mlrun-UID@RANDOM" beside its
 * directory, and the user's oldest link wins. Nobody changes a link's time. Links are made under
 * the directory's lock, so no older link can appear once the file-time clock has advanced.
 */

#include "runtime/meeting.h"

#define NAMES_MAX 8
#define NAME_SIZE 64
#define SETTLE_MS 20  /* two ticks of the slowest kernel's clock */
#define ROUNDS    200 /* looks at the links: four seconds in all */

/* "mlrun-1000", "mlrun-1000.1" */
static void plain_name(int i, char name[NAME_SIZE])
{
	int n = snprintf(name, NAME_SIZE, "mlrun-%u", (unsigned)geteuid());

	if (i > 0)
		snprintf(name + n, (size_t)(NAME_SIZE - n), ".%d", i);
}

/* Open a directory that the user owns and nobody else may write to. -EPERM if another user owns
 * it. */
static int open_own(int place, const char *name, struct mlr_error *err)
{
	auto_close int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : -EPERM;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid())
		return -EPERM;
	if ((st.st_mode & 07777) != 0700) {
		mlr_fail(err, EACCES,
			"the directory '" MEETING_PLACE
			"/%s', where processes that share a container meet, is open to others: mode %04o",
			name, (unsigned)st.st_mode & 07777);
		return mlr_hint(err, "chmod 0700 '" MEETING_PLACE "/%s'", name);
	}
	return take_fd(&fd);
}

/* Another user may have made a directory of that name, by intent or as root of its own user
 * namespace; then try the next name. An existing directory of our own comes before a free name.
 * -EPERM if all names are taken. */
static int open_plain(int place, struct mlr_error *err)
{
	char name[NAME_SIZE], unused[NAME_SIZE];

	for (int attempt = 0; attempt < NAMES_MAX; attempt++) {
		*unused = '\0';
		for (int i = 0; i < NAMES_MAX; i++) {
			int fd;

			plain_name(i, name);
			fd = open_own(place, name, err);
			if (fd >= 0 || fd == -EACCES)
				return fd;
			if (fd == -ENOENT && !*unused)
				strcpy(unused, name);
		}
		if (!*unused)
			break;
		if (mkdirat(place, unused, 0700) < 0 && errno != EEXIST)
			return mlr_fail_errno(err,
				"make the directory '" MEETING_PLACE
				"/%s', where processes that share a container meet",
				unused);
	}
	return -EPERM;
}

/* --- names that no one can guess ------------------------------------------------------ */

struct link {
	char name[NAME_SIZE]; /* "mlrun-1000@0123…"; empty: none */
	struct timespec made;
};

static int is_older(const struct link *a, const struct link *b)
{
	if (a->made.tv_sec != b->made.tv_sec)
		return a->made.tv_sec < b->made.tv_sec;
	if (a->made.tv_nsec != b->made.tv_nsec)
		return a->made.tv_nsec < b->made.tv_nsec;
	return strcmp(a->name, b->name) < 0;
}

/* The user's oldest link. */
static int find_link(int place, struct link *ret, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(place, ".", 0);
	char start[NAME_SIZE];
	int len = snprintf(start, sizeof(start), "mlrun-%u@", (unsigned)geteuid());
	struct dirent *e;

	*ret = (struct link){ .name = "" };
	if (!d)
		return mlr_fail_errno(err, "read '" MEETING_PLACE "'");
	while ((e = readdir(d))) {
		struct link l = { .name = "" };
		struct stat st;

		if (strncmp(e->d_name, start, (size_t)len) != 0 || strlen(e->d_name) >= NAME_SIZE ||
			fstatat(place, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISLNK(st.st_mode) || st.st_uid != geteuid())
			continue;
		strcpy(l.name, e->d_name);
		l.made = st.st_mtim;
		if (!*ret->name || is_older(&l, ret))
			*ret = l;
	}
	return 0;
}

/* "mlrun-1000.0123…" of "mlrun-1000@0123…" */
static void dir_of(const char *link, char dir[NAME_SIZE])
{
	strcpy(dir, link);
	*strchr(dir, '@') = '.';
}

static int make_dir(int place, char link[NAME_SIZE], struct mlr_error *err)
{
	char dir[NAME_SIZE], random[RANDOM_HEX_SIZE];

	random_hex(random);
	snprintf(link, NAME_SIZE, "mlrun-%u@%s", (unsigned)geteuid(), random);
	dir_of(link, dir);
	if (mkdirat(place, dir, 0700) < 0 || symlinkat(dir, place, link) < 0)
		return mlr_fail_errno(err,
			"make a directory in '" MEETING_PLACE
			"', where processes that share a container meet");
	return 0;
}

static void remove_dir(int place, const char *link)
{
	char dir[NAME_SIZE];

	dir_of(link, dir);
	unlinkat(place, link, 0);
	unlinkat(place, dir, AT_REMOVEDIR);
}

/* Can no link with the same time appear any more? */
static int is_settled(const struct link *l)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (now.tv_sec - l->made.tv_sec) * 1000 + (now.tv_nsec - l->made.tv_nsec) / 1000000 >=
		SETTLE_MS;
}

static void warn(void)
{
	mlr_warning(
		"others have made all of '" MEETING_PLACE
		"/mlrun-%u*', where processes that share a container meet; an administrator should remove "
		"them",
		(unsigned)geteuid());
}

static int open_secret(int place, struct mlr_error *err)
{
	char mine[NAME_SIZE] = "", dir[NAME_SIZE];
	struct link oldest;
	int r = 0, fd;

	for (int round = 0; round < ROUNDS; round++) {
		r = find_link(place, &oldest, err);
		if (r == 0 && !*oldest.name)
			r = make_dir(place, mine, err);
		if (r < 0)
			return r;
		if (!*oldest.name || !is_settled(&oldest)) {
			mlr_sleep_ms(SETTLE_MS);
			continue;
		}
		if (*mine && strcmp(mine, oldest.name) == 0)
			warn();
		else if (*mine)
			remove_dir(place, mine);
		dir_of(oldest.name, dir);
		fd = open_own(place, dir, err);
		if (fd != -ENOENT && fd != -EPERM)
			return fd;
		unlinkat(place, oldest.name, 0); /* its directory was removed */
		*mine = '\0';
	}
	return mlr_fail(err, EAGAIN, "find a directory in '" MEETING_PLACE "' to meet in");
}

int meeting_dir_open(struct mlr_error *err)
{
	auto_close int place = open(MEETING_PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (place < 0)
		return mlr_fail_errno(err,
			"open '" MEETING_PLACE "', where processes that share a container meet");
	r = open_plain(place, err);
	return r == -EPERM ? open_secret(place, err) : r;
}
