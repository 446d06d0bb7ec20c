#include "exec/parts.h"

#include "base/account.h"
#include "base/home.h"

/* Directories that an image has itself, which the host's would hide. */
static const char *const system_prefixes[] = { "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32",
	"/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/cache",
	"/var/lib", "/var/log", "/var/run" };

/* A field of passwd(5) cannot contain the separator or a newline. */
static char *field(const char *s, const char *instead)
{
	return xstrdup(s && *s && !strpbrk(s, ":\n") ? s : instead);
}

char *caller_home(void)
{
	auto_free char *home = home_dir(NULL);

	return home ? path_clean(home) : NULL;
}

void caller_identity(struct plan *p, int fakeroot)
{
	auto_call(account_done) struct account account = { 0 };
	auto_free char *home = caller_home();

	p->id.host_uid = geteuid();
	p->id.host_gid = getegid();
	p->id.uid = fakeroot ? 0 : p->id.host_uid;
	p->id.gid = fakeroot ? 0 : p->id.host_gid;
	p->id.is_fake_root = fakeroot;
	account_find(p->id.host_uid, p->id.host_gid, &account);
	p->id.name = fakeroot ? xstrdup("root") : field(account.user, "user");
	p->id.home = p->id.uid == 0 ? xstrdup("/root") : field(home, "/");
	p->id.shell = xstrdup("/bin/sh"); /* every image with a shell has this one */
	p->id.group = fakeroot ? xstrdup("root") : field(account.group, p->id.name);
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

const char *caller_workdir_link(const char *cwd)
{
	const char *name = getenv("PWD");
	auto_free char *clean = name && *name == '/' ? path_clean(name) : NULL;
	struct stat there, here;

	return clean && strcmp(clean, name) == 0 && strcmp(name, cwd) != 0 &&
			!caller_is_system_path(name) && stat(name, &there) == 0 &&
			stat(".", &here) == 0 && there.st_dev == here.st_dev &&
			there.st_ino == here.st_ino
		? name
		: NULL;
}
