/*
 * Names of the host's users and groups.
 *
 * /etc/passwd and /etc/group are read here; who is not there (LDAP, SSSD, systemd-homed) is asked
 * of the C library by a program of ours, mlrun-account. So mlrun itself may be linked statically,
 * which halves the time until its main(), and loads no module of the name service switch.
 */
#ifndef MLR_BASE_ACCOUNT_H
#define MLR_BASE_ACCOUNT_H

#include <sys/types.h>

struct account {
	char *user, *home; /* of the uid; NULL: nobody knows it */
	char *group;       /* of the gid, alike */
};

#define ACCOUNT_INIT \
	{            \
		0    \
	}
void account_done(struct account *a);

/* Look both ids up. Never fails: what cannot be found is NULL. */
void account_find(uid_t uid, gid_t gid, struct account *ret);

/* The same of one user alone. */
void account_find_user(uid_t uid, struct account *ret);

/*
 * Look up in files of passwd(5)'s and group(5)'s form instead, and nowhere else. For tests.
 *
 *   passwd, group  paths, or NULL to leave that out
 */
void account_read(const char *passwd, uid_t uid, const char *group, gid_t gid, struct account *ret);

#endif
