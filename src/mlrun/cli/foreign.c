/*
 * Commands and options of Docker 27, podman 5, Apptainer and Enroot, and the common options of
 * ch-run(1). Users' scripts are full of them.
 */
#include "cli/foreign.h"

#include "cli/cli.h"

#include "base/config_value.h"
#include "base/filesystem.h"
#include "compose/ports.h"
#include "oci/platform.h"

#define SERVICE \
	"mlrun ps lists services; mlrun logs, stop, kill, restart, wait, inspect and rm take their names"
#define IMAGES "mlrun images lists the images"
#define ENDED \
	"only a service leaves something: mlrun ps --all lists them, mlrun rm NAME removes one; mlrun containers lists what exec --write keeps"
#define JSON "--json prints all, for jq(1)"

/* The commands that have exec's options. */
#define EXEC "exec|run|shell|elastic run|workers start"
#define APPTAINER                                                                         \
	"apptainer exec|apptainer run|apptainer shell|apptainer test|apptainer instance " \
	"start|apptainer instance run"

#define NETWORK   "the container uses the host's network"
#define OPENS     NETWORK ", so a port that the command opens is open already"
#define ROOTLESS  "mlrun has the caller's rights and no others"
#define ONE_ID    "a container of mlrun's knows one uid and one gid, the caller's"
#define KNOWN     "the container knows the caller by name already"
#define BATCH     "mlrun leaves limits of processes to the batch system"
#define MEMORY    "--tmpfs /dev/shm:size=SIZE is one of its own"
#define BECOMES   "there is no daemon: mlrun becomes the command and leaves nothing behind"
#define BY_PULL   "this is decided when the image is pulled"
#define NO_HEALTH "nothing watches over the command's health"
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

static const struct row {
	const char *command; /* mlrun's that lacks the options, "pull|push"; NULL: words are
			      * commands */
	const char *words;   /* "--publish|-p", "image prune|system prune" */
	const char *hint;    /* what to type instead, or NULL */
	const char *why;     /* what mlrun does instead, a sentence; or NULL */
	const char *same;    /* an option's values that change nothing, "host|keep-id"; "*": all;
			      * "": a switch that changes nothing; NULL: mlrun refuses all */
	int (*is_so)(const char *value); /* in place of same: does this value change nothing? */
} rows[] = {
	{ NULL, "save|image save", "mlrun export IMAGE FILE writes an image into a file" },
	{ NULL, "load|image load|image import", "mlrun import FILE brings an image from a file" },
	{ NULL, "buildx|builder|image build|dockerd|bundle",
		"mlrun build -t NAME DIRECTORY makes an image by its Dockerfile" },
	{ NULL, "ui|board|dashboard|gui", "mlrun web shows runs in a browser" },
	{ NULL, "image push", "mlrun push IMAGE [DESTINATION]" },
	{ NULL, "info|system info|events|system",
		"mlrun doctor looks at the machine, mlrun config shows the settings" },
	{ NULL, "start|container start", "mlrun restart NAME starts a service again" },
	{ NULL, "create|instance|batch",
		"mlrun run IMAGE starts one, mlrun run -d --name NAME IMAGE in the background; --write=NAME keeps what it writes" },
	{ NULL, "pause|unpause",
		"mlrun kill -s STOP NAME halts a service's command, -s CONT lets it go on" },
	{ NULL, "attach|enter",
		"mlrun shell --join PID or NAME enters a service or container, mlrun logs -f NAME shows what a service prints" },
	{ NULL, "top|stats",
		"mlrun ps lists containers with their PIDs, for top(1); mlrun gpu top shows GPUs and processors" },
	{ NULL, "cp|copy",
		"mlrun exec -v DIR:/mnt IMAGE cp ... copies from and to a directory of the host" },
	{ NULL, "update|checkpoint",
		"mlrun rm -f NAME ends a service, mlrun run -d --name NAME starts it with other options" },
	{ NULL, "diff", "mlrun commit makes an image of what exec --write keeps" },
	{ NULL, "history|image history", "mlrun inspect IMAGE shows the layers" },
	{ NULL, "search",
		"mlrun tags NAME lists the tags of an image; names are searched on the registry's web page" },
	{ NULL, "rename|untag",
		"mlrun tag IMAGE NEW-NAME, then mlrun rmi OLD-NAME; a service is started anew: mlrun rm -f NAME, mlrun run -d --name NEW-NAME" },
	{ NULL, "port|network", "a container uses the host's network: there is none to make" },
	{ NULL, "volume|overlay|mount|umount|unmount",
		"volumes are directories: mlrun exec -v DIR:/PATH IMAGE ..." },
	{ NULL, "list|ls|image ls|image list|system df|df", IMAGES },
	{ NULL, "image rm|remove|delete", "mlrun rm IMAGE removes an image" },
	{ NULL, "image prune|system prune|cache|clean|gc",
		"mlrun prune removes what no image needs, --older-than 30d also images that were not used for so long" },
	{ NULL, "image pull", "mlrun pull IMAGE" },
	{ NULL, "image tag", "mlrun tag IMAGE NAME" },
	{ NULL, "image inspect", "mlrun inspect IMAGE" },
	{ NULL, "image", IMAGES "; mlrun pull, inspect, tag and rm take their names" },
	{ NULL, "container ls|container list|container ps",
		"mlrun ps lists the containers that run" },
	{ NULL, "container rm|container prune", ENDED },
	{ NULL, "container run", "mlrun run IMAGE COMMAND" },
	{ NULL, "container exec", "mlrun exec --join NAME COMMAND" },
	{ NULL, "container commit", "mlrun commit NAME IMAGE" },
	{ NULL, "container export",
		"mlrun commit NAME IMAGE, then mlrun export --format=rootfs IMAGE DIRECTORY" },
	{ NULL, "container logs|container stop|container kill|container restart|container wait|container inspect",
		SERVICE },
	{ NULL, "container",
		"mlrun ps lists the containers that run, mlrun containers what exec --write keeps" },
	{ NULL, "compose push", "mlrun push IMAGE [DESTINATION]" },
	{ NULL, "compose rm", "mlrun compose down SERVICE ends services and removes them" },
	{ NULL, "compose cp", "a directory in 'volumes' is on both sides" },
	{ NULL, "compose attach|compose watch|compose events",
		"mlrun compose logs --follow shows what services print" },
	{ NULL, "compose port", "mlrun compose config shows 'ports'" },
	{ NULL, "compose scale", "mlrun compose up --scale SERVICE=N" },
	{ NULL, "compose wait", "mlrun wait NAME; mlrun compose ps lists the names" },
	{ NULL, "compose version", "mlrun --version" },
	{ NULL, "compose",
		"mlrun compose --help lists the commands; mlrun up starts the services of a compose file" },
	{ NULL, "swarm|stack|service|node|pod|play|kube|generate|oci",
		"mlrun up FILE starts the services of a compose file, --join-tag WORD puts commands into one container" },
	{ NULL, "secret",
		"a compose file's secrets are files; mlrun run -v FILE:/run/secrets/NAME:ro" },
	{ NULL, "context|plugin|init|scout|trust|model|mcp|ai|desktop|extension|debug|offload|sandbox",
		"mlrun has no daemon and no plugins: mlrun --help lists all that it does" },
	{ NULL, "digest", "mlrun inspect --remote IMAGE; --raw prints the manifest" },
	{ NULL, "sif", "mlrun inspect FILE.sif lists its parts" },
	{ NULL, "verify|check", "mlrun store verify reads and hashes the store again" },
	{ NULL, "unshare", "unshare(1); mlrun exec --fakeroot appears as root inside" },
	{ NULL, "capability|fakeroot", "mlrun has the caller's rights and no others" },
	{ NULL, "remote|registry|key|keyserver|sign", "mlrun login REGISTRY keeps a password" },

	{ "login", "-p|--password",
		"mlrun asks for it, as everybody sees a command line; --password-stdin reads it: ... | mlrun login -u USER "
		"--password-stdin REGISTRY" },
	{ "logout", "-a|--all", "mlrun logout REGISTRY, one at a time" },
	{ "images", "-q|--quiet", "mlrun images --json | jq -r '.[].digest'" },
	{ "images", "-a|--all", "all images are listed anyway" },
	{ "images", "-f|--filter|--format|--digests|--no-trunc|--sort|-n|--noheading", JSON },
	{ "ps", "-l|--latest|-n|--last", ENDED },
	{ "ps", "-q|--quiet|-f|--filter|--format|--no-trunc|-s|--size", JSON },
	{ "logs", "--no-color|--no-log-prefix|--index", "leave it out" },
	{ "up", "--services|--images|-q|--quiet|--hash|--format|--no-interpolate|-o|--output",
		"mlrun up --dry-run lists the services and their images; mlrun up --config prints YAML" },
	{ "up", "--wait|--wait-timeout",
		"depends_on with condition: service_healthy waits; mlrun ps shows the health" },
	{ "up", "--abort-on-container-exit|--abort-on-container-failure|--exit-code-from",
		"mlrun up -d, then mlrun wait NAME prints its exit status, and mlrun down" },
	{ "up",
		"--no-recreate|--no-build|--always-recreate-deps|-V|--renew-anon-volumes|--attach|--no-attach|"
		"--attach-dependencies|--menu|-w|--watch|--timestamps|--no-color|--no-log-prefix|--quiet-pull|-y|"
		"--progress|--parallel|--ignore-pull-failures|--include-deps",
		"leave it out" },
	{ "up", "--no-cache", "mlrun build --no-cache -t PROJECT-SERVICE DIRECTORY" },
	{ "down", "--rmi", "mlrun rm IMAGE removes an image" },
	{ "config", "-f|--file|--services|-q|--quiet|--images|--volumes",
		"mlrun compose config prints the compose file" },
	{ "stop", "-s|--signal", "mlrun kill -s SIGNAL NAME" },
	{ "logs", "--details", "leave it out: a service has no labels" },
	{ "inspect", "-f|--format|-t|--type|-s|--size|-l|--latest", JSON },
	{ "prune", "-a|--all|--volumes",
		"--older-than AGE removes images that were not used for so long; mlrun rm IMAGE this one" },
	{ "prune", "-f|--force", "prune asks no questions; --dry-run shows what would go" },
	{ "prune", "--filter", "--older-than 24h" },
	{ "rm", "-a|--all|-v|--volumes|-l|--link|-i|--ignore",
		"mlrun rm IMAGE...; mlrun prune --older-than AGE" },
	{ "pull", "-a|--all-tags", "mlrun tags IMAGE lists them, and pull takes several names" },
	{ "pull", "--arch|--os|--variant", "--platform OS/ARCH[/VARIANT]" },
	{ "pull|push|build", "--creds|--username|--password|--docker-login",
		"mlrun login REGISTRY" },
	{ "pull", "--policy|-F|--force",
		"pull always asks the registry, and fetches what the store lacks" },
	{ "pull", "-o|--output|--dir",
		"an image goes into the store; mlrun export IMAGE FILE writes it out" },
	{ "pull", "--disable-content-trust|--disable-cache", "leave it out" },
	{ "push", "-a|--all-tags", "mlrun push IMAGE, one tag at a time" },
	{ "push", "--platform",
		"an image of the store has one platform; mlrun manifest push NAME IMAGE..." },
	{ "push", "--compression-format", "--compression gzip, zstd or none" },
	{ "push", "--disable-content-trust|-f|--format|--compression-level|--force-compression",
		"leave it out" },
	{ "push", "--sign-by|--sign-by-sigstore|--remove-signatures|--encryption-key",
		"mlrun signs and encrypts nothing" },
	{ "build", "--push", "mlrun push NAME writes the image to a registry when it is built" },
	{ "build", "--add-host|--dns|--dns-search|--dns-option|--hosts-file",
		"RUN has the machine's names and name servers; [build] volume in mlrun.conf mounts a file of your own" },
	{ "build", "--env",
		"ENV and ARG in the recipe, with --build-arg; or [build] env in mlrun.conf" },
	{ "build",
		"-m|--memory|--memory-swap|--cpu-period|--cpu-quota|--cpu-shares|--cpuset-cpus|--cpuset-mems|"
		"--ulimit|--shm-size|--cgroup-parent|--cgroupns",
		"RUN has the limits that mlrun has: ulimit(1), taskset(1) or the batch job set them" },
	{ "build", "--cap-add|--security-opt|--privileged|--entitlement",
		"mlrun builds with the caller's own rights, so there are none to give" },
	{ "build",
		"--userns|--userns-uid-map|--userns-gid-map|--isolation|--runtime|--pid|--ipc|--uts|--builder",
		"leave it out: every RUN has a container of its own" },
	{ "build", "--squash-all", "--squash makes one layer of those that the recipe adds" },
	{ "build", "--layers|--format|--disable-compression|--annotation|--timestamp|--sign-by",
		"leave it out" },
	{ "build", "--attest", "leave it out: mlrun makes no attestations" },
	{ "build", "--ignorefile", "FILE.dockerignore beside the recipe of -f FILE" },
	{ "build", "--logfile", "2>FILE" },
	{ "build", "--unsetenv|--unsetlabel|--identity-label|--manifest|--metadata",
		"another recipe with FROM this image changes it" },
	{ "export", "-o|--output", "mlrun export IMAGE FILE" },
	{ "import", "-i|--input", "mlrun import FILE; - is standard input" },
	{ "import", "-n|--name|-t|--tag", "mlrun import FILE NAME" },
	{ "import", "-c|--change|-m|--message",
		"mlrun exec --write and mlrun commit --change change an image" },
	{ "commit", "-p|--pause|--squash|-f|--format|--include-volumes",
		"omit it: a container that is committed does not run" },
	{ "commit", "-t|--tag", "mlrun commit NAME IMAGE" },

	/* exec, run and the like: network */
	{ EXEC, "--publish|-p", "have the command open that port; -p 8888:8888 is so already",
		NETWORK ", so a port that the command opens is open there, under its own number",
		.is_so = compose_port_is_so },
	{ EXEC, "--publish-all|-P", NULL, OPENS, "" },
	{ EXEC, "--expose", NULL, OPENS, "*" },
	{ EXEC, "--add-host|--hosts-file|--no-hosts",
		"-v FILE:/etc/hosts:ro mounts one of your own",
		"the container has the host's /etc/hosts" },
	{ EXEC, "--dns|--dns-search|--dns-opt|--dns-option",
		"-v FILE:/etc/resolv.conf:ro mounts one of your own",
		"the container has the host's /etc/resolv.conf" },
	{ EXEC, "--no-hostname", NULL, "mlrun writes no /etc/hostname", "" },
	{ EXEC, "--domainname", "--hostname NAME.DOMAIN", "mlrun sets no NIS domain name" },
	{ EXEC, "--ip|--ip6|--mac-address|--link-local-ip", NULL, NETWORK " and its addresses" },
	{ EXEC, "--network-alias|--net-alias", NULL, NETWORK " and its names" },
	{ EXEC, "--link", NULL, NETWORK ", so containers on one host meet at localhost" },
	{ EXEC, "--http-proxy", "--unset-env '*_proxy'",
		"the caller's proxy variables are passed on", "" },

	/* rights */
	{ EXEC, "--privileged",
		"--device DEV brings a device, --fakeroot lets package managers work", ROOTLESS },
	{ EXEC, "--cap-add", "--fakeroot gives those that package managers use",
		"a capability in the container reaches no further than the caller's one id, so none "
		"is handed out" },
	{ EXEC, "--security-opt", "--seccomp FILE forbids system calls",
		"no_new_privs is always on and no label is needed to mount the caller's own files",
		"seccomp=unconfined|seccomp:unconfined|apparmor=unconfined|apparmor:unconfined|label=disable|"
		"label:disable|no-new-privileges|no-new-privileges=true|no-new-privileges:true" },
	{ EXEC, "--seccomp-policy", "--seccomp FILE", "mlrun takes a profile as it is" },
	{ EXEC, "--group-add", NULL,
		"the caller's own supplementary groups are in force; others need an administrator",
		"keep-groups" },
	{ EXEC, "--uidmap|--gidmap|--subuidname|--subgidname", "--user UID[:GID] or --fakeroot",
		ONE_ID },
	{ EXEC, "--userns", "--fakeroot is podman's default, without it mlrun is its keep-id",
		ONE_ID, "host|keep-id" },
	{ EXEC, "--hostuser", NULL, KNOWN },
	{ EXEC, "--passwd|--passwd-entry", "-v FILE:/etc/passwd:ro mounts one of your own", KNOWN },
	{ EXEC, "--group-entry", "-v FILE:/etc/group:ro mounts one of your own",
		"the container knows the caller's group by name already" },
	{ EXEC, "--device-cgroup-rule", "--device DEV brings a device that you may open",
		ROOTLESS },
	{ EXEC, "--nv|--rocm", "--gpu=all",
		"GPUs come by themselves where image and job have them" },
	{ EXEC, "--nvccli", "--gpu=all", "mlrun does not use NVIDIA's toolkit" },
	{ EXEC, "--sysctl", NULL, "the kernel's settings are the host's" },
	{ EXEC, "--personality", "setarch(8) before mlrun sets it",
		"the execution domain is the caller's" },

	/* limits */
	{ EXEC, "--cpu-period|--cpu-quota|--cpu-count|--cpu-percent", "--cpus N",
		BATCH ", but for --cpus and --memory" },
	{ EXEC, "--cpu-rt-period|--cpu-rt-runtime", "chrt(1)", BATCH },
	{ EXEC, "--cpu-shares|-c", "nice(1)", BATCH },
	{ EXEC, "--cpuset-cpus", "taskset -c LIST mlrun exec ..., or srun --cpu-bind",
		"the container runs on the caller's processors" },
	{ EXEC, "--cpuset-mems", "numactl --membind=LIST mlrun exec ...",
		"the container uses the caller's memory nodes" },
	{ EXEC, "--kernel-memory|--memory-reservation|--memory-swap|--memory-swappiness",
		"--memory SIZE", BATCH ", but for --cpus and --memory" },
	{ EXEC, "--oom-score-adj", "choom -n N -- mlrun exec ...", BATCH },
	{ EXEC, "--pids-limit", "--ulimit nproc=N counts all processes of yours", BATCH, "-1" },
	{ EXEC, "--shm-size", MEMORY,
		"the container has the host's whole /dev/shm, which is no larger",
		.is_so = is_shared_memory_so_large },
	{ EXEC, "--shm-size-systemd", MEMORY, "the container has the host's /dev/shm, whole" },
	{ EXEC, "--blkio-weight|--blkio-weight-device", "ionice(1)", BATCH },
	{ EXEC,
		"--oom-kill-disable|--device-read-bps|--device-read-iops|--device-write-bps|"
		"--device-write-iops|--rdt-class",
		NULL, BATCH },
	{ EXEC, "--storage-opt", "--tmpfs DST:size=SIZE",
		"changes of the root are kept in memory" },
	{ EXEC, "--cgroup-conf|--cgroup-parent|--cgroups", NULL,
		"the command stays in the caller's cgroup" },
	{ EXEC, "--cgroupns", NULL, "the command stays in the caller's cgroup and sees it",
		"host" },
	{ EXEC, "--umask", "umask MODE before mlrun sets it", "the caller's umask is kept" },

	/* life */
	{ EXEC, "--detach|-d", "mlrun run -d --name NAME starts a service", BECOMES },
	{ EXEC, "--detach-keys", "tmux(1) lets a terminal be left", BECOMES },
	{ EXEC, "--restart", "mlrun run -d --restart WHEN starts a service", BECOMES, "no" },
	{ EXEC, "--name",
		"mlrun run -d --name NAME starts a service; --write=NAME names the kept container; with --rm the "
		"name does not matter",
		BECOMES },
	{ EXEC, "--replace", NULL, "a service that has ended is replaced anyway" },
	{ EXEC, "--cidfile|--pidfile|--conmon-pidfile",
		"the process id is mlrun's own: $! in a shell", BECOMES },
	{ EXEC, "--stop-signal|--stop-timeout", "mlrun run -d takes it for a service", BECOMES },
	{ EXEC, "--timeout", "timeout TIME mlrun exec ...", BECOMES },
	{ EXEC, "--requires", NULL, BECOMES },
	{ EXEC, "--instance", "--join PID enters a container that runs", BECOMES },
	{ EXEC, "--sig-proxy", NULL, "mlrun becomes the command, so signals reach it", "" },
	{ EXEC, "--sdnotify", NULL, "mlrun becomes the command, which notifies systemd itself" },
	{ EXEC, "--attach|-a", NULL, STREAMS, "stdin|stdout|stderr|STDIN|STDOUT|STDERR" },
	{ EXEC, "--log-driver", "redirect them: mlrun exec ... >FILE 2>&1; a service has a log",
		STREAMS },
	{ EXEC, "--log-opt", "mlrun run -d --log-size SIZE bounds a service's log", STREAMS },
	{ EXEC,
		"--health-cmd|--health-interval|--health-retries|--health-timeout|--health-start-period|"
		"--health-start-interval|--health-on-failure|--health-log-destination|--health-max-log-count|"
		"--health-max-log-size|--health-startup-cmd|--health-startup-interval|"
		"--health-startup-retries|--health-startup-success|--health-startup-timeout",
		"mlrun run -d takes it for a service", NO_HEALTH },
	{ EXEC, "--no-healthcheck", NULL, NO_HEALTH ", so there is nothing to switch off", "" },
	{ EXEC, "--label|-l|--label-file|--annotation", NULL,
		"a container of mlrun's has no record that could carry labels" },
	{ EXEC, "--pod|--pod-id-file", "--join-tag WORD puts processes into one container",
		"mlrun has no pods" },
	{ EXEC, "--systemd", "--init reaps",
		"an init system in a container needs cgroups of its own", "false" },
	{ EXEC, "--runtime", NULL, "mlrun is its own runtime", "nvidia|runc|crun" },
	{ EXEC, "--isolation", NULL, "mlrun runs only on Linux" },
	{ EXEC, "--init-path", "--init", "--init is mlrun's own" },
	{ EXEC, "--rmi", "mlrun rm IMAGE", "an image stays in the store" },

	/* image */
	{ EXEC, "--platform", "mlrun pull --platform OS/ARCH IMAGE", BY_PULL,
		.is_so = is_this_machines },
	{ EXEC, "--arch|--os", "mlrun pull --platform OS/ARCH IMAGE", BY_PULL },
	{ EXEC, "--variant", "mlrun pull --platform OS/ARCH/VARIANT IMAGE", BY_PULL },
	{ EXEC, "--authfile", "mlrun pull --authfile FILE IMAGE", BY_PULL },
	{ EXEC, "--creds", "mlrun login REGISTRY", BY_PULL },
	{ EXEC, "--tls-verify", "mlrun pull --tls-verify=BOOL IMAGE", BY_PULL },
	{ EXEC, "--disable-content-trust", NULL, BY_PULL, "" },
	{ EXEC, "--retry|--retry-delay", NULL,
		BY_PULL ", and a broken transfer is taken up again anyway" },
	{ EXEC, "--rootfs", "rootfs:PATH in IMAGE's place",
		"a plain directory is an image of its own kind" },
	{ EXEC, "--image", "mlrun exec IMAGE COMMAND", "the image is an argument" },
	{ EXEC, "--image-volume", NULL,
		"an image's volumes are part of its root, which can be written to" },

	/* files */
	{ EXEC, "--volumes-from|--volume-driver", BIND, "mlrun has no volumes but directories" },
	{ EXEC, "--secret", "-v FILE:/run/secrets/NAME:ro", "mlrun keeps no secrets" },
	{ EXEC, "--tz", "-e TZ=ZONE", "the container has the host's /etc/localtime" },
	{ EXEC, "--read-only-tmpfs", "--tmpfs DST for others",
		"with --read-only HOME, /tmp and /dev/shm can be written to" },
	{ EXEC, "--bind|-B", BIND, "mlrun writes it as Docker does" },
	{ EXEC, "--contain", "-w / --tmpfs /tmp --clearenv --ipc private",
		"mlrun brings the working directory and /tmp, not the home directory" },
	{ EXEC, "--containall", "-w / --tmpfs /tmp --clearenv --ipc private --pid",
		"mlrun brings the working directory and /tmp, not the home directory" },
	{ EXEC, "--writable", "--write keeps changes", "the root can be written to and forgets" },
	{ EXEC, "--writable-tmpfs", NULL, "the root can be written to and forgets, with no option",
		"" },
	{ EXEC, "--overlay",
		"--write keeps changes; -v DIR:DST:O writes to memory over a directory",
		"the root can be written to and forgets" },
	{ EXEC, "--pwd|--cd", "-w DIR", "mlrun calls it as Docker does" },

	/* environment */
	{ EXEC, "--env-host", NULL, "the caller's variables are passed on already", "" },
	{ EXEC, "--env-merge", "-e K=\"$VALUE\", which your shell puts together",
		"values are taken as they are" },
	{ EXEC, "--unsetenv", "--unset-env GLOB", "mlrun takes globs as well" },
	{ EXEC, "--unsetenv-all", "--clearenv", "mlrun omits only the caller's variables" },
	{ EXEC, "--cleanenv", "--clearenv", "mlrun keeps the job's own" },
	{ EXEC, "--set-env", "-e K=V, --env-file FILE", "mlrun calls it as Docker does" },
	{ EXEC, "--uts", "--hostname NAME", "the host name is the host's unless one is given",
		"host" },
	/* Apptainer's, of which its own command line here lacks these */
	{ APPTAINER, "--network-args", "--network none", NETWORK },
	{ APPTAINER, "--dns", "-B FILE:/etc/resolv.conf", "the container has the host's" },
	{ APPTAINER,
		"--apply-cgroups|--blkio-weight|--cpu-shares|--cpuset-cpus|--memory-swap|--pids-limit",
		"--cpus and --memory", BATCH },
	{ APPTAINER, "--add-caps|--keep-privs|--allow-setuid", "--fakeroot", ROOTLESS },
	{ APPTAINER, "--fusemount", "mount it outside, and -B",
		"mlrun starts no other file system" },
	{ APPTAINER, "--oci|--no-oci|--vm|--nvccli", "leave it out", NULL },
	{ APPTAINER, "--passphrase|--pem-path", NULL, "mlrun decrypts nothing" },
	{ APPTAINER, "--app", "apptainer exec IMAGE /scif/apps/NAME/scif/runscript", "no apps" },
	{ "apptainer build", "--remote|-r|--encrypt|--passphrase|--pem-path", "leave it out",
		"it builds here, and encrypts nothing" },
	{ "apptainer build", "--mksquashfs-args", "leave it out", "gzip is what all read" },
	{ "apptainer build", "--section", "--notest leaves out %test", "all sections are made" },
	{ "apptainer build", "--update|-u", "'Bootstrap: localimage' begins with a directory",
		"a build begins anew" },
	{ "apptainer build", "--nv|--rocm", "leave it out", "%post has no GPUs" },
	{ "apptainer pull", "--docker-login|--docker-username|--docker-password",
		"mlrun login REGISTRY keeps a password" },

	/* In docker-run(1) that is not --help. */
	{ EXEC, "-h", "--help, or --hostname NAME", "-h is neither help nor a host name" },
};

/* Find an option of a command's, or with command NULL a command. */
static const struct row *find(const char *command, const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((command && rows[i].command ? config_is_among(rows[i].command, command)
						: command == rows[i].command) &&
			config_is_among(rows[i].words, word))
			return &rows[i];
	return NULL;
}

const char *foreign_command(const char *word, const char *next)
{
	auto_free char *both = xasprintf("%s %s", word, next ? next : "");
	const struct row *row = find(NULL, both);

	/* "container cp" is "cp", and so is "compose pause" "pause". */
	if (!row && next && (strcmp(word, "container") == 0 || strcmp(word, "compose") == 0))
		row = find(NULL, next);
	if (!row)
		row = find(NULL, word);
	return row ? row->hint : NULL;
}

/* Does an option with this value change nothing? */
static int is_so(const struct row *row, const char *value)
{
	if (row->is_so || *row->same)
		return value &&
			(row->is_so ? row->is_so(value)
				    : strcmp(row->same, "*") == 0 ||
						config_is_among(row->same, value));
	return !value || config_truth(value) == 1;
}

enum options_foreign foreign_option(
	const char *command, const char *option, const char *value, const char *next)
{
	const struct row *row = find(command, option);
	int takes_value = row && (row->is_so || (row->same && *row->same));
	struct mlr_error err;

	if (!row)
		return OPTIONS_UNKNOWN;
	if (takes_value && !value)
		value = next;
	else if (!takes_value && option[1] != '-') /* other letters follow */
		value = NULL;
	if ((row->is_so || row->same) && is_so(row, value))
		return takes_value ? OPTIONS_WITH_VALUE : OPTIONS_SWITCH;
	mlr_fail(&err, EINVAL, "%s: mlrun has no %s%s%s", command, option, row->why ? ": " : "",
		row->why ? row->why : "");
	if (row->hint)
		mlr_hint(&err, "%s", row->hint);
	exit(cli_fail(&err));
}
