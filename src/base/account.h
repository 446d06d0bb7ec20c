/*
 * Names of the host's users and groups.
 *
 * /etc/passwd and /etc/group are read here. Names that are not in them (LDAP, SSSD, systemd-homed)
 * come from the C library, through a program of ours, mlrun-account. mlrun itself can therefore be
 * linked statically, which halves the time until its main(), and loads no name service modules.
 */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

struct account {
	char *user, *home; /* of the uid; NULL if unknown */
	char *group;       /* of the gid; NULL if unknown */
	int is_private;    /* the group has the user's name, and no other member in group(5) */
};

void account_done(struct account *a);

/*
 * May others than the caller and its owner write to what has this status? A group that is the
 * caller's alone does not count: with a umask of 0002, the default of some systems, its write bit
 * is set on everything new. ssh and sudo judge so, too.
 */
int account_others_write(const struct stat *st);

/* Look both ids up. Never fails: what is unknown is NULL. */
void account_find(uid_t uid, gid_t gid, struct account *ret);

/* The same for a user alone. */
void account_find_user(uid_t uid, struct account *ret);

/*
 * Look only in files in the form of passwd(5) and group(5), in a container for one.
 *
 *   passwd, group  paths, or NULL to skip one
 */
void account_read(const char *passwd, uid_t uid, const char *group, gid_t gid, struct account *ret);
