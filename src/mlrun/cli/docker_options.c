/*
 * Options of docker-run(1) of Docker 27 and podman-run(1) of podman 5, and the common ones of
 * apptainer-exec(1) and ch-run(1). Users' scripts are full of them.
 */
#include "cli/foreign.h"

#include "base/config_value.h"
#include "base/filesystem.h"
#include "compose/ports.h"
#include "exec/parts.h"
#include "oci/platform.h"

#define NETWORK   "the container uses the host's network"
#define ROOTLESS  "mlrun has the caller's rights and no others"
#define ONE_ID    "a container of mlrun's knows one uid and one gid, the caller's"
#define BATCH     "mlrun leaves limits of processes to the batch system"
#define BECOMES   "there is no daemon: mlrun becomes the command and leaves nothing behind"
#define BY_PULL   "this is decided when the image is pulled"
#define NO_HEALTH "nothing watches over the command's health"
#define NO_LABELS "a container of mlrun's has no record that could carry labels"
#define STREAMS   "the command has the caller's own standard streams and terminal"
#define BIND      "-v SRC:DST mounts a directory"

/* Is the host's /dev/shm, which containers share, this large? */
static int is_shared_memory_so_large(const char *value)
{
	auto_close int fd = open("/dev/shm", O_PATH | O_CLOEXEC);
	struct statvfs s;
	uint64_t want;

	return config_bytes(value, &want) == 0 && filesystem_room(fd, &s) == 0 &&
		want <= (uint64_t)s.f_blocks * s.f_frsize;
}

static int is_this_machines(const char *value)
{
	struct oci_platform want, host;

	oci_platform_host(&host);
	return oci_platform_parse(value, &want, NULL) == 0 && oci_platform_match(&want, &host);
}

static const struct docker_option rows[] = {
	/* network */
	{ "publish", 'p',
		NETWORK ", so a port that the command opens is open there, under its own number",
		"have the command open that port; -p 8888:8888 is so already",
		.is_so = compose_port_is_so },
	{ "publish-all", 'P', NETWORK ", so a port that the command opens is open already", NULL,
		"" },
	{ "expose", 0, NETWORK ", so a port that the command opens is open already", NULL, "*" },
	{ "add-host", 0, "the container has the host's /etc/hosts",
		"-v FILE:/etc/hosts:ro mounts one of your own" },
	{ "hosts-file", 0, "the container has the host's /etc/hosts",
		"-v FILE:/etc/hosts:ro mounts one of your own" },
	{ "no-hosts", 0, "the container has the host's /etc/hosts",
		"-v FILE:/etc/hosts:ro mounts one of your own" },
	{ "dns*", 0, "the container has the host's /etc/resolv.conf",
		"-v FILE:/etc/resolv.conf:ro mounts one of your own" },
	{ "no-hostname", 0, "mlrun writes no /etc/hostname", NULL, "" },
	{ "domainname", 0, "mlrun sets no NIS domain name", "--hostname NAME.DOMAIN" },
	{ "ip", 0, NETWORK " and its addresses", NULL },
	{ "ip6", 0, NETWORK " and its addresses", NULL },
	{ "mac-address", 0, NETWORK " and its addresses", NULL },
	{ "network-alias", 0, NETWORK " and its names", NULL },
	{ "net-alias", 0, NETWORK " and its names", NULL },
	{ "link", 0, NETWORK ", so containers on one host meet at localhost", NULL },
	{ "link-local-ip", 0, NETWORK " and its addresses", NULL },
	{ "http-proxy", 0, "the caller's proxy variables are passed on", "--unset-env '*_proxy'",
		"" },

	/* rights */
	{ "privileged", 0, ROOTLESS,
		"--device DEV brings a device, --fakeroot lets package managers work" },
	{ "cap-add", 0,
		"a capability in the container reaches no further than the caller's one id, so none "
		"is handed out",
		"--fakeroot gives those that package managers use" },
	{ "security-opt", 0,
		"no_new_privs is always on and no label is needed to mount the caller's own files",
		"--seccomp FILE forbids system calls",
		"seccomp=unconfined|seccomp:unconfined|apparmor=unconfined|apparmor:unconfined|label=disable|"
		"label:disable|no-new-privileges|no-new-privileges=true|no-new-privileges:true" },
	{ "seccomp-policy", 0, "mlrun takes a profile as it is", "--seccomp FILE" },
	{ "group-add", 0,
		"the caller's own supplementary groups are in force; others need an administrator",
		NULL, "keep-groups" },
	{ "uidmap", 0, ONE_ID, "--user UID[:GID] or --fakeroot" },
	{ "gidmap", 0, ONE_ID, "--user UID[:GID] or --fakeroot" },
	{ "subuidname", 0, ONE_ID, "--user UID[:GID] or --fakeroot" },
	{ "subgidname", 0, ONE_ID, "--user UID[:GID] or --fakeroot" },
	{ "userns", 0, ONE_ID, "--fakeroot is podman's default, without it mlrun is its keep-id",
		"host|keep-id" },
	{ "hostuser", 0, "the container knows the caller by name already", NULL },
	{ "passwd", 0, "the container knows the caller by name already",
		"-v FILE:/etc/passwd:ro mounts one of your own" },
	{ "passwd-entry", 0, "the container knows the caller by name already",
		"-v FILE:/etc/passwd:ro mounts one of your own" },
	{ "group-entry", 0, "the container knows the caller's group by name already",
		"-v FILE:/etc/group:ro mounts one of your own" },
	{ "device-cgroup-rule", 0, ROOTLESS, "--device DEV brings a device that you may open" },
	{ "nv", 0, "GPUs come by themselves where image and job have them", "--gpu=all" },
	{ "nvccli", 0, "mlrun does not use NVIDIA's toolkit", "--gpu=all" },
	{ "rocm", 0, "GPUs come by themselves where image and job have them", "--gpu=all" },
	{ "sysctl", 0, "the kernel's settings are the host's", NULL },
	{ "personality", 0, "the execution domain is the caller's",
		"setarch(8) before mlrun sets it" },

	/* limits */
	{ "cpu-period", 0, BATCH ", but for --cpus and --memory", "--cpus N" },
	{ "cpu-quota", 0, BATCH ", but for --cpus and --memory", "--cpus N" },
	{ "cpu-rt-*", 0, BATCH, "chrt(1)" },
	{ "cpu-shares", 'c', BATCH, "nice(1)" },
	{ "cpuset-cpus", 0, "the container runs on the caller's processors",
		"taskset -c LIST mlrun exec ..., or srun --cpu-bind" },
	{ "cpuset-mems", 0, "the container uses the caller's memory nodes",
		"numactl --membind=LIST mlrun exec ..." },
	{ "cpu-count", 0, BATCH ", but for --cpus and --memory", "--cpus N" },
	{ "cpu-percent", 0, BATCH ", but for --cpus and --memory", "--cpus N" },
	{ "kernel-memory", 0, BATCH ", but for --cpus and --memory", "--memory SIZE" },
	{ "memory-*", 0, BATCH ", but for --cpus and --memory", "--memory SIZE" },
	{ "oom-kill-disable", 0, BATCH, NULL },
	{ "oom-score-adj", 0, BATCH, "choom -n N -- mlrun exec ..." },
	{ "pids-limit", 0, BATCH, "--ulimit nproc=N counts all processes of yours", "-1" },
	{ "shm-size", 0, "the container has the host's whole /dev/shm, which is no larger",
		"--tmpfs /dev/shm:size=SIZE is one of its own",
		.is_so = is_shared_memory_so_large },
	{ "shm-size-systemd", 0, "the container has the host's /dev/shm, whole",
		"--tmpfs /dev/shm:size=SIZE is one of its own" },
	{ "blkio-weight*", 0, BATCH, "ionice(1)" },
	{ "device-read-*", 0, BATCH, NULL },
	{ "device-write-*", 0, BATCH, NULL },
	{ "storage-opt", 0, "changes of the root are kept in memory", "--tmpfs DST:size=SIZE" },
	{ "cgroup-conf", 0, "the command stays in the caller's cgroup", NULL },
	{ "cgroup-parent", 0, "the command stays in the caller's cgroup", NULL },
	{ "cgroupns", 0, "the command stays in the caller's cgroup and sees it", NULL, "host" },
	{ "cgroups", 0, "the command stays in the caller's cgroup", NULL },
	{ "rdt-class", 0, BATCH, NULL },
	{ "umask", 0, "the caller's umask is kept", "umask MODE before mlrun sets it" },

	/* life */
	{ "detach", 'd', BECOMES, "mlrun run -d --name NAME starts a service" },
	{ "detach-keys", 0, BECOMES, "tmux(1) lets a terminal be left" },
	{ "restart", 0, BECOMES, "mlrun run -d --restart WHEN starts a service", "no" },
	{ "name", 0, BECOMES,
		"mlrun run -d --name NAME starts a service; --write=NAME names the kept container; with --rm the "
		"name does not matter",
		"*", .with_rm = 1 },
	{ "replace", 0, "a service that has ended is replaced anyway", NULL },
	{ "cidfile", 0, BECOMES, "the process id is mlrun's own: $! in a shell" },
	{ "pidfile", 0, BECOMES, "the process id is mlrun's own: $! in a shell" },
	{ "conmon-pidfile", 0, BECOMES, "the process id is mlrun's own: $! in a shell" },
	{ "stop-signal", 0, BECOMES, "mlrun run -d takes it for a service" },
	{ "stop-timeout", 0, BECOMES, "mlrun run -d takes it for a service" },
	{ "timeout", 0, BECOMES, "timeout TIME mlrun exec ..." },
	{ "sig-proxy", 0, "mlrun becomes the command, so signals reach it", NULL, "" },
	{ "attach", 'a', STREAMS, NULL, "stdin|stdout|stderr|STDIN|STDOUT|STDERR" },
	{ "log-driver", 0, STREAMS,
		"redirect them: mlrun exec ... >FILE 2>&1; a service has a log" },
	{ "log-opt", 0, STREAMS, "mlrun run -d --log-size SIZE bounds a service's log" },
	{ "health-*", 0, NO_HEALTH, "mlrun run -d takes it for a service" },
	{ "no-healthcheck", 0, NO_HEALTH ", so there is nothing to switch off", NULL, "" },
	{ "label", 'l', NO_LABELS, NULL },
	{ "label-file", 0, NO_LABELS, NULL },
	{ "annotation", 0, NO_LABELS, NULL },
	{ "pod", 0, "mlrun has no pods", "--join-tag WORD puts processes into one container" },
	{ "pod-id-file", 0, "mlrun has no pods",
		"--join-tag WORD puts processes into one container" },
	{ "requires", 0, BECOMES, NULL },
	{ "sdnotify", 0, "mlrun becomes the command, which notifies systemd itself", NULL },
	{ "systemd", 0, "an init system in a container needs cgroups of its own", "--init reaps",
		"false" },
	{ "runtime", 0, "mlrun is its own runtime", NULL, "nvidia|runc|crun" },
	{ "isolation", 0, "mlrun runs only on Linux", NULL },
	{ "init-path", 0, "--init is mlrun's own", "--init" },
	{ "rmi", 0, "an image stays in the store", "mlrun rm IMAGE" },
	{ "instance", 0, BECOMES, "--join PID enters a container that runs" },

	/* image */
	{ "platform", 0, BY_PULL, "mlrun pull --platform OS/ARCH IMAGE",
		.is_so = is_this_machines },
	{ "arch", 0, BY_PULL, "mlrun pull --platform OS/ARCH IMAGE" },
	{ "os", 0, BY_PULL, "mlrun pull --platform OS/ARCH IMAGE" },
	{ "variant", 0, BY_PULL, "mlrun pull --platform OS/ARCH/VARIANT IMAGE" },
	{ "authfile", 0, BY_PULL, "mlrun pull --authfile FILE IMAGE" },
	{ "creds", 0, BY_PULL, "mlrun login REGISTRY" },
	{ "tls-verify", 0, BY_PULL, "mlrun pull --tls-verify=BOOL IMAGE" },
	{ "disable-content-trust", 0, BY_PULL, NULL, "" },
	{ "retry*", 0, BY_PULL ", and a broken transfer is taken up again anyway", NULL },
	{ "rootfs", 0, "a plain directory is an image of its own kind",
		"rootfs:PATH in IMAGE's place" },
	{ "image", 0, "the image is an argument", "mlrun exec IMAGE COMMAND" },
	{ "image-volume", 0, "an image's volumes are part of its root, which can be written to",
		NULL },

	/* files */
	{ "volumes-from", 0, "mlrun has no volumes but directories", BIND },
	{ "volume-driver", 0, "mlrun has no volumes but directories", BIND },
	{ "secret", 0, "mlrun keeps no secrets", "-v FILE:/run/secrets/NAME:ro" },
	{ "tz", 0, "the container has the host's /etc/localtime", "-e TZ=ZONE" },
	{ "read-only-tmpfs", 0, "with --read-only HOME, /tmp and /dev/shm can be written to",
		"--tmpfs DST for others" },
	{ "bind", 'B', "mlrun writes it as Docker does", BIND },
	{ "contain", 0, "mlrun brings the working directory and /tmp, not the home directory",
		"-w / --tmpfs /tmp --clearenv --ipc private" },
	{ "containall", 0, "mlrun brings the working directory and /tmp, not the home directory",
		"-w / --tmpfs /tmp --clearenv --ipc private --pid" },
	{ "writable", 0, "the root can be written to and forgets", "--write keeps changes" },
	{ "writable-tmpfs", 0, "the root can be written to and forgets, with no option", NULL, "" },
	{ "overlay", 0, "the root can be written to and forgets",
		"--write keeps changes; -v DIR:DST:O writes to memory over a directory" },
	{ "pwd", 0, "mlrun calls it as Docker does", "-w DIR" },
	{ "cd", 0, "mlrun calls it as Docker does", "-w DIR" },

	/* environment */
	{ "env-host", 0, "the caller's variables are passed on already", NULL, "" },
	{ "env-merge", 0, "values are taken as they are",
		"-e K=\"$VALUE\", which your shell puts together" },
	{ "unsetenv", 0, "mlrun takes globs as well", "--unset-env GLOB" },
	{ "unsetenv-all", 0, "mlrun omits only the caller's variables", "--clearenv" },
	{ "cleanenv", 0, "mlrun keeps the job's own", "--clearenv" },
	{ "set-env", 0, "mlrun calls it as Docker does", "-e K=V, --env-file FILE" },
	{ "uts", 0, "the host name is the host's unless one is given", "--hostname NAME", "host" },
};

int docker_option_takes_value(const struct docker_option *d)
{
	return d->is_so || (d->same && *d->same);
}

int docker_option_is_so(const struct docker_option *d, const char *value)
{
	if (!docker_option_takes_value(d))
		return d->same && (!value || config_truth(value) == 1);
	if (!value)
		return 0;
	if (d->is_so)
		return d->is_so(value);
	return strcmp(d->same, "*") == 0 || config_is_among(d->same, value);
}

/* Is this the option's name? A row's name may end with "*". */
static int is_called(const struct docker_option *d, const char *name, size_t len)
{
	size_t n = strlen(d->name);

	if (d->name[n - 1] == '*')
		return len >= n - 1 && strncmp(d->name, name, n - 1) == 0;
	return n == len && strncmp(d->name, name, len) == 0;
}

const struct docker_option *docker_option_named(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_called(&rows[i], name, len))
			return &rows[i];
	return NULL;
}

const struct docker_option *docker_option_letter(char letter)
{
	/* In docker-run(1) -h is not --help. */
	static const struct docker_option hostname = { "hostname", 'h',
		"-h is neither help nor a host name", "--help, or --hostname NAME" };

	if (letter == 'h')
		return &hostname;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].letter == letter)
			return &rows[i];
	return NULL;
}
