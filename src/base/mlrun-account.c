/*
 * mlrun-account UID GID: print the user's name, the user's home directory and the group's name, one
 * a line, as the name service switch knows them; an empty line if unknown. base/account.c runs it.
 */
#include "base/base.h"

#include <grp.h>
#include <pwd.h>

static void put(const char *s)
{
	puts(s && !strchr(s, '\n') ? s : "");
}

int main(int argc, char **argv)
{
	const struct passwd *pw;
	const struct group *gr;

	if (argc != 3)
		return 2;
	pw = getpwuid((uid_t)strtoul(argv[1], NULL, 10));
	put(pw ? pw->pw_name : NULL);
	put(pw ? pw->pw_dir : NULL);
	gr = getgrgid((gid_t)strtoul(argv[2], NULL, 10));
	put(gr ? gr->gr_name : NULL);
	return fflush(stdout) == 0 ? 0 : 1;
}
