#include "cli/foreign.h"

#include "base/options.h"
#include "cli/cli.h"

#define NEW_ONE \
	"mlrun run IMAGE starts one, mlrun run -d --name NAME IMAGE in the background; --write=NAME keeps what it writes"
#define SERVICE \
	"mlrun ps lists services; mlrun logs, stop, kill, restart, wait, inspect and rm take their names"
#define PROJECT \
	"mlrun up FILE starts the services of a compose file, --join-tag WORD puts commands into one container"
#define IMAGES "mlrun images lists the images"
#define UNUSED \
	"mlrun prune removes what no image needs, --older-than 30d also images that were not used for so long"
#define VOLUMES "volumes are directories: mlrun exec -v DIR:/PATH IMAGE ..."
#define NETWORK "a container uses the host's network: there is none to make"
#define FILES   "mlrun exec -v DIR:/mnt IMAGE cp ... copies from and to a directory of the host"
#define BUILD   "mlrun build -t NAME DIRECTORY makes an image by its Dockerfile"
#define PUSH    "mlrun push IMAGE [DESTINATION]"
#define SIF     "apptainer build --sandbox DIR FILE.sif, then mlrun exec rootfs:DIR"
#define HISTORY "mlrun inspect IMAGE shows the layers"
#define SYSTEM  "mlrun doctor looks at the machine, mlrun config shows the settings"
#define ENDED \
	"only a service leaves something: mlrun ps --all lists them, mlrun rm NAME removes one; mlrun containers lists what exec --write keeps"
#define JSON "--json prints all, for jq(1)"

/* "|" separates words. */
struct row {
	const char *command; /* the options' command; NULL: commands */
	const char *words;
	const char *hint;
};

static const struct row rows[] = {
	{ NULL, "save|image save", "mlrun export IMAGE FILE writes an image into a file" },
	{ NULL, "load|image load|image import", "mlrun import FILE brings an image from a file" },
	{ NULL, "buildx|builder|image build|dockerd|bundle", BUILD },
	{ NULL, "image push", PUSH },
	{ NULL, "info|system info|events|system", SYSTEM },
	{ NULL, "start|container start", "mlrun restart NAME starts a service again" },
	{ NULL, "create|instance|batch", NEW_ONE },
	{ NULL, "pause|unpause",
		"mlrun kill -s STOP NAME halts a service's command, -s CONT lets it go on" },
	{ NULL, "attach|enter",
		"mlrun shell --join PID or NAME enters a service or container, mlrun logs -f NAME shows what a service prints" },
	{ NULL, "top|stats",
		"mlrun ps lists containers with their PIDs, for top(1); mlrun gpu top shows GPUs and processors" },
	{ NULL, "cp|copy", FILES },
	{ NULL, "update|checkpoint",
		"mlrun rm -f NAME ends a service, mlrun run -d --name NAME starts it with other options" },
	{ NULL, "diff", "mlrun commit makes an image of what exec --write keeps" },
	{ NULL, "history|image history", HISTORY },
	{ NULL, "search",
		"mlrun tags NAME lists the tags of an image; names are searched on the registry's web page" },
	{ NULL, "rename|untag",
		"mlrun tag IMAGE NEW-NAME, then mlrun rmi OLD-NAME; a service is started anew: mlrun rm -f NAME, mlrun run -d --name NEW-NAME" },
	{ NULL, "port|network", NETWORK },
	{ NULL, "volume|overlay|mount|umount|unmount", VOLUMES },
	{ NULL, "list|ls|image ls|image list|system df|df", IMAGES },
	{ NULL, "image rm|remove|delete", "mlrun rm IMAGE removes an image" },
	{ NULL, "image prune|system prune|cache|clean|gc", UNUSED },
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
	{ NULL, "compose push", PUSH },
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
	{ NULL, "swarm|stack|service|node|pod|play|kube|generate|oci", PROJECT },
	{ NULL, "secret",
		"a compose file's secrets are files; mlrun run -v FILE:/run/secrets/NAME:ro" },
	{ NULL, "context|plugin|init|scout|trust|model|mcp|ai|desktop|extension|debug|offload|sandbox",
		"mlrun has no daemon and no plugins: mlrun --help lists all that it does" },
	{ NULL, "digest", "mlrun inspect --remote IMAGE; --raw prints the manifest" },
	{ NULL, "sif", SIF },
	{ NULL, "verify|check", "mlrun store verify reads and hashes the store again" },
	{ NULL, "unshare", "unshare(1); mlrun exec --fakeroot appears as root inside" },
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
	{ "pull", "--creds|--username|--password|--docker-login", "mlrun login REGISTRY" },
	{ "pull", "--policy|-F|--force",
		"pull always asks the registry, and fetches what the store lacks" },
	{ "pull", "-o|--output|--dir",
		"an image goes into the store; mlrun export IMAGE FILE writes it out" },
	{ "pull", "--disable-content-trust|--disable-cache", "leave it out" },
	{ "push", "-a|--all-tags", "mlrun push IMAGE, one tag at a time" },
	{ "push", "--creds|--username|--password|--docker-login", "mlrun login REGISTRY" },
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
	{ "build", "-v|--volume", "RUN --mount, or [build] volume in mlrun.conf" },
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
	{ "build", "--creds", "mlrun login REGISTRY" },
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
};

static int has_word(const char *words, const char *word, size_t len)
{
	for (const char *s = words; *s; s += strcspn(s, "|"), s += *s == '|')
		if (strcspn(s, "|") == len && strncmp(s, word, len) == 0)
			return 1;
	return 0;
}

static const char *find(const char *command, const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((command && rows[i].command ? strcmp(rows[i].command, command) == 0
						: command == rows[i].command) &&
			has_word(rows[i].words, word, len))
			return rows[i].hint;
	return NULL;
}

const char *foreign_command(const char *word, const char *next)
{
	auto_free char *both = xasprintf("%s %s", word, next ? next : "");
	const char *hint = find(NULL, both, strlen(both));

	/* "container cp" is "cp", and so is "compose pause" "pause". */
	if (!hint && next && (strcmp(word, "container") == 0 || strcmp(word, "compose") == 0))
		hint = find(NULL, next, strlen(next));
	return hint ? hint : find(NULL, word, strlen(word));
}

const char *foreign_option(const char *command, const char *option)
{
	if (option[0] != '-' || !option[1])
		return NULL;
	return find(command, option, option[1] == '-' ? strcspn(option, "=") : 2);
}

static int wants_value(const struct argp_option *options, char letter)
{
	const struct argp_option *o = options_find_letter(options, letter);

	return o && o->arg;
}

void foreign_options_refuse(int *argc, char **argv, const struct argp_option *options)
{
	struct mlr_error err;

	for (int i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
		int is_long = argv[i][0] == '-' && argv[i][1] == '-';
		size_t letters = argv[i][0] == '-' && !is_long ? strlen(argv[i] + 1) : 0;

		/* Letters may stand together, as in "-aq"; what follows one that wants a value is
		 * that. */
		for (size_t n = 0; is_long ? n < 1 : n < letters; n++) {
			const char letter[] = { '-', argv[i][1 + n], '\0' };
			const char *option = is_long ? argv[i] : letter;
			const char *instead = foreign_option(argv[0], option);

			if (!instead && !is_long && wants_value(options, letter[1]))
				break;
			if (!instead)
				continue;
			mlr_fail(&err, EINVAL, "%s: mlrun has no %.*s", argv[0],
				(int)strcspn(option, "="), option);
			mlr_hint(&err, "%s", instead);
			exit(cli_fail(&err));
		}
	}
}
