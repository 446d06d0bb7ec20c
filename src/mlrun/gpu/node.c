#include "gpu/node.h"

#include "base/account.h"

long gpu_number_behind(const char *name, const char *word)
{
	size_t n = strlen(word), digits;

	if (strncmp(name, word, n) != 0)
		return -1;
	digits = strspn(name + n, "0123456789");
	return digits > 0 && digits < 8 && !name[n + digits] ? strtol(name + n, NULL, 10) : -1;
}

static int fits(long want, unsigned have)
{
	return want < 0 || (unsigned long)want == have;
}

static void warn_number(
	const struct gpu_node_want *w, const struct gpu_node *n, struct strv *warnings)
{
	auto_free char *minor = w->minor < 0 ? xstrdup("...") : xasprintf("%ld", w->minor);

	strv_addf(warnings,
		"'%s' is device %u:%u, not the driver's %ld:%s; ignored: as root, rm it and %s",
		w->path, n->major, n->minor, w->major, minor,
		strncmp(w->path, "/dev/nvidia", strlen("/dev/nvidia")) == 0
			? "run nvidia-modprobe -c0 -u"
			: "run udevadm trigger");
}

int gpu_node_look(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node *ret,
	struct strv *warnings)
{
	struct gpu_node n = { .path = NULL };

	TRY(gpu_dir_node_for(d, w->path, w->how, &n));
	if (!d->is_machine && n.major == 0 && n.minor == 0) {
		n.major = w->major < 0 ? 0 : (unsigned)w->major;
		n.minor = w->minor < 0 ? 0 : (unsigned)w->minor;
	} else if (d->is_machine && (!fits(w->major, n.major) || !fits(w->minor, n.minor))) {
		warn_number(w, &n, warnings);
		n.error = ENXIO;
	}
	*ret = n;
	return 0;
}

void gpu_node_find(const struct gpu_dir *d, const struct gpu_node_want *w, struct gpu_node **v,
	size_t *n, struct strv *warnings)
{
	struct gpu_node found;

	if (gpu_node_look(d, w, &found, warnings) == 0)
		*gpu_node_add(v, n) = found;
}

void gpu_node_find_drm(
	const struct gpu_dir *d, const char *device_dir, struct gpu *g, struct strv *warnings)
{
	auto_free char *dir = xasprintf("%s/drm", device_dir);
	auto_strv struct strv names = STRV_INIT;

	gpu_dir_list(d, dir, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("/dev/dri/%s", names.v[i]);
		long card = gpu_number_behind(names.v[i], "card"),
		     render = gpu_number_behind(names.v[i], "renderD");
		const struct gpu_node_want want = { path, GPU_DRM_MAJOR, card < 0 ? render : card,
			R_OK | W_OK };

		if (want.minor >= 0)
			gpu_node_find(d, &want, &g->drm, &g->n_drm, warnings);
	}
}

static char *group_name(gid_t gid)
{
	auto_call(account_done) struct account a = { 0 };

	account_find(getuid(), gid, &a);
	return a.group ? take_ptr(&a.group) : xasprintf("%u", (unsigned)gid);
}

static char *user_name(uid_t uid)
{
	auto_call(account_done) struct account a = { 0 };

	account_find_user(uid, &a);
	return a.user ? take_ptr(&a.user) : xasprintf("%u", (unsigned)uid);
}

/* Whom the mode of a closed node shuts out. */
enum closed { CLOSED_TO_OTHERS, CLOSED_TO_ALL, CLOSED_IN_SPITE };

/* Nodes of capabilities are only read: their mode lets nobody write. */
static enum closed closed_how(const struct gpu_node *n)
{
	mode_t need = n->mode & 0222 ? 6 : 4;

	if ((n->mode & need) == need)
		return CLOSED_IN_SPITE;
	return (n->mode >> 3 & need) == need && n->gid != 0 ? CLOSED_TO_OTHERS : CLOSED_TO_ALL;
}

char *gpu_node_users(const struct gpu_node *n)
{
	auto_free char *group = NULL;

	switch (n->error) {
	case 0:
		return xstrdup(n->path ? "you" : "nobody: no node");
	case EPERM:
		return xstrdup("the job's cgroup denies it");
	case ENOENT:
		return xstrdup("nobody: missing");
	case ENXIO:
		return xstrdup("nobody: another driver's");
	}
	switch (closed_how(n)) {
	case CLOSED_IN_SPITE:
		return xstrdup("a security module denies it");
	case CLOSED_TO_ALL:
		return xstrdup(n->uid == 0 ? "only root" : "only its owner");
	case CLOSED_TO_OTHERS:
		break;
	}
	group = group_name(n->gid);
	return xasprintf("group %s", group);
}

static int is_nvidias(const struct gpu_node *n)
{
	return strncmp(n->path, "/dev/nvidia", strlen("/dev/nvidia")) == 0;
}

static char *why_lacking(const struct gpu_node *n)
{
	return xasprintf("'%s' is missing; as root, create it: %s", n->path,
		is_nvidias(n) ? "nvidia-modprobe -c0 -u" : "modprobe amdgpu && udevadm trigger");
}

static char *why_closed(const struct gpu_node *n)
{
	auto_free char *group = NULL, *user = NULL;

	switch (closed_how(n)) {
	case CLOSED_IN_SPITE:
		return xasprintf(
			"a security module denies '%s', whose mode %04o lets everybody in: "
			"dmesg | grep -i denied shows which",
			n->path, (unsigned)n->mode);
	case CLOSED_TO_ALL:
		return xasprintf(
			"only %s may open '%s' (mode %04o); an administrator changes that by %s",
			n->uid == 0 ? "root" : "its owner", n->path, (unsigned)n->mode,
			is_nvidias(n)
				? "options nvidia NVreg_DeviceFileMode=0666 in /etc/modprobe.d"
				: "a rule of udev with MODE=\"0666\"");
	case CLOSED_TO_OTHERS:
		break;
	}
	group = group_name(n->gid);
	user = user_name(getuid());
	return xasprintf(
		"only group '%s' may open '%s' (mode %04o); an administrator adds you to it: "
		"usermod -aG %s %s, and you log in again",
		group, n->path, (unsigned)n->mode, group, user);
}

char *gpu_node_why(const struct gpu_node *n)
{
	switch (n->error) {
	case 0:
		return NULL;
	case EPERM:
		return xasprintf(
			"the job's cgroup denies '%s': the batch system has not given it to this job",
			n->path);
	case ENOENT:
		return why_lacking(n);
	case ENXIO:
		return xasprintf("'%s' (%u:%u) does not belong to a GPU driver", n->path, n->major,
			n->minor);
	default:
		return why_closed(n);
	}
}
