#include "exec/caller.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/path.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Directories that an image brings itself; the host's would take their place. */
static const char *const system_prefixes[] = { "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32",
	"/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/cache",
	"/var/lib", "/var/log", "/var/run" };

/* A field of passwd(5) may hold neither its separator nor a line's end. */
static char *field(const char *s, const char *instead)
{
	return xstrdup(s && *s && !strpbrk(s, ":\n") ? s : instead);
}

char *caller_home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw;

	if (home && home[0] == '/')
		return path_clean(home);
	pw = getpwuid(geteuid());
	return pw && pw->pw_dir ? path_clean(pw->pw_dir) : NULL;
}

void caller_identity(struct plan *p, int fakeroot)
{
	auto_free char *home = caller_home();
	const struct passwd *pw;
	const struct group *gr;

	p->id.host_uid = geteuid();
	p->id.host_gid = getegid();
	p->id.uid = fakeroot ? 0 : p->id.host_uid;
	p->id.gid = fakeroot ? 0 : p->id.host_gid;
	pw = getpwuid(p->id.host_uid);
	p->id.name = fakeroot ? xstrdup("root") : field(pw ? pw->pw_name : NULL, "user");
	p->id.home = p->id.uid == 0 ? xstrdup("/root") : field(home, "/");
	p->id.shell = xstrdup("/bin/sh"); /* the one shell that an image with a shell has */
	gr = getgrgid(p->id.host_gid);
	p->id.group = fakeroot ? xstrdup("root") : field(gr ? gr->gr_name : NULL, p->id.name);
}

int caller_is_system_path(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(system_prefixes); i++)
		if (path_below(path, system_prefixes[i]))
			return 1;
	return 0;
}

static enum caller_place place_of(const char *cwd, const char *home)
{
	auto_free char *real = home ? realpath(home, NULL) : NULL;

	if (!home)
		return CALLER_ELSEWHERE;
	if (strcmp(cwd, home) == 0 || (real && strcmp(cwd, real) == 0))
		return CALLER_AT_HOME;
	if (path_below(home, cwd) || (real && path_below(real, cwd)))
		return CALLER_ABOVE_HOME;
	return CALLER_ELSEWHERE;
}

char *caller_workdir(const char *home, enum caller_place *place)
{
	auto_free char *cwd = getcwd(NULL, 0);

	*place = CALLER_ELSEWHERE;
	if (!cwd || cwd[0] != '/' || strcmp(cwd, "/") == 0)
		return NULL;
	*place = place_of(cwd, home);
	if (*place == CALLER_ELSEWHERE && caller_is_system_path(cwd))
		return NULL;
	return take_ptr(&cwd);
}
