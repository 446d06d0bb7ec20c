#include "runtime/privileges.h"

#include <linux/capability.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Capabilities that package managers and installers use, from Docker's default set (moby,
 * oci/caps/defaults.go); they apply only to the one mapped id. */
#define FAKEROOT_CAPS                                                                              \
	(1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER | 1ull << CAP_FSETID |  \
		1ull << CAP_KILL | 1ull << CAP_SETGID | 1ull << CAP_SETUID | 1ull << CAP_SETPCAP | \
		1ull << CAP_SYS_CHROOT | 1ull << CAP_SETFCAP)

uint64_t privileges_kept(const struct plan *p)
{
	return p->id.is_fake_root ? FAKEROOT_CAPS & ~p->caps_dropped : 0;
}

/* The argument of capset(2): two words of each set. */
static int set(const struct plan_capabilities *c)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	for (int i = 0; i < 2; i++)
		data[i] = (struct __user_cap_data_struct){
			.effective = (uint32_t)(c->effective >> (32 * i)),
			.permitted = (uint32_t)(c->permitted >> (32 * i)),
			.inheritable = (uint32_t)(c->inheritable >> (32 * i)),
		};
	return (int)syscall(SYS_capset, &head, data);
}

/* The kernel lets a capability into the ambient set that is permitted and inheritable. */
static int raise_ambient(const struct plan_capabilities *c)
{
	uint64_t caps = c->ambient & c->permitted & c->inheritable;

	for (unsigned long cap = 0; cap < 64; cap++)
		if (caps >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	return 0;
}

/* The plan's capabilities, those that this kernel lacks left out. */
static struct plan_capabilities caps_of(const struct plan *p)
{
	uint64_t kept = privileges_kept(p), known = 0;
	struct plan_capabilities c = { kept, kept, kept, 0, 0 };

	if (!p->caps)
		return c;
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			known |= 1ull << cap;
	c = *p->caps;
	c.bounding &= known;
	c.permitted &= known;
	c.effective &= c.permitted;
	c.inheritable &= known;
	return c;
}

int privileges_drop(const struct plan *p, struct mlr_error *err)
{
	struct plan_capabilities c = caps_of(p);

	/* Drop one by one, up to the kernel's last: no call empties the whole set. */
	for (int cap = 0; cap < 64; cap++) {
		if (c.bounding >> cap & 1 || prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > CAP_AUDIT_READ)
			break;
		return mlr_fail_errno(err, "drop capability %d", cap);
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return mlr_fail_errno(err, "clear ambient capabilities");
	if (set(&c) < 0)
		return mlr_fail_errno(err, "drop capabilities");
	if (raise_ambient(&c) < 0)
		return mlr_fail_errno(err, "raise ambient capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return mlr_fail_errno(err, "set no_new_privs");
	return 0;
}

int privileges_close_fds(const struct plan *p, struct mlr_error *err)
{
	TRY(mlr_result(
		err, fds_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC), "close inherited descriptors"));
	for (size_t i = 0; i < p->n_keep_fds; i++) {
		int flags = fcntl(p->keep_fds[i], F_GETFD);

		if (flags < 0 || fcntl(p->keep_fds[i], F_SETFD, flags & ~FD_CLOEXEC) < 0)
			return mlr_fail_errno(err, "keep descriptor %d", p->keep_fds[i]);
	}
	return 0;
}
