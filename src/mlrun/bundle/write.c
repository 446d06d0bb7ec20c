#include "bundle/write.h"

#include "base/json.h"

/* Options as a NULL-terminated list. */
static const struct mount {
	const char *target, *type, *source, *options[8];
} mounts[] = {
	{ "/proc", "none", "/proc", { "rbind" } },
	{ "/sys", "none", "/sys", { "rbind", "ro" } },
	{ "/dev", "tmpfs", "tmpfs", { "nosuid", "mode=755", "size=64m" } },
	{ "/dev/pts", "devpts", "devpts",
		{ "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620" } },
	{ "/dev/shm", "tmpfs", "shm", { "nosuid", "nodev", "mode=1777" } },
	{ "/tmp", "tmpfs", "tmpfs", { "nosuid", "nodev", "mode=1777" } },
	{ "/etc/resolv.conf", "none", "/etc/resolv.conf", { "bind", "ro" } },
	{ "/etc/hosts", "none", "/etc/hosts", { "bind", "ro" } },
};

static json_t *make_mount(const struct mount *m)
{
	json_t *options = json_array();

	for (size_t i = 0; m->options[i]; i++)
		json_array_append_new(options, json_string(m->options[i]));
	return json_pack("{s:s, s:s, s:s, s:o}", "destination", m->target, "type", m->type,
		"source", m->source, "options", options);
}

/* The same id inside and outside, which means each caller's own. */
static json_t *make_map(unsigned id)
{
	return json_pack("[{s:I, s:I, s:i}]", "containerID", (json_int_t)id, "hostID",
		(json_int_t)id, "size", 1);
}

static json_t *make_command(const struct oci_config *image)
{
	json_t *list = mlr_json_texts(&image->entrypoint);
	json_auto_t *cmd = mlr_json_texts(&image->cmd);

	json_array_extend(list, cmd);
	if (json_array_size(list) == 0)
		json_array_append_new(list, json_string("sh"));
	return list;
}

static json_t *make_env(const struct oci_config *image)
{
	json_t *list = mlr_json_texts(&image->env);

	if (!strv_env_get(strv_argv(&image->env), "PATH"))
		json_array_append_new(list, json_string("PATH=" OCI_DEFAULT_PATH));
	return list;
}

static json_t *make(const struct oci_config *image)
{
	const char *dir =
		image->working_dir && *image->working_dir == '/' ? image->working_dir : "/";

	return json_pack("{s:s, s:{s:b, s:{s:I, s:I}, s:o, s:o, s:o, s:b}, s:{s:s, s:b}, s:o, s:o, "
			 "s:{s:o, s:o, s:[{s:s}, {s:s}]}}",
		"ociVersion", "1.0.2", "process", "terminal", 0, "user", "uid",
		(json_int_t)geteuid(), "gid", (json_int_t)getegid(), "args", make_command(image),
		"env", make_env(image), "cwd", mlr_json_text(dir), "noNewPrivileges", 1, "root",
		"path", "rootfs", "readonly", 0, "mounts",
		MLR_JSON_LIST(i, ARRAY_LEN(mounts), make_mount(&mounts[i])), "annotations",
		mlr_json_pairs(&image->labels), "linux", "uidMappings", make_map(geteuid()),
		"gidMappings", make_map(getegid()), "namespaces", "type", "user", "type", "mount");
}

int bundle_write(const char *dir, const struct oci_config *image, struct mlr_error *err)
{
	static const struct oci_config none = { 0 };
	auto_free char *path = xasprintf("%s/config.json", dir), *text = NULL, *line = NULL;

	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return mlr_fail(err, EEXIST, "'%s' exists already", path);
	text = mlr_json_print(make(image ? image : &none), JSON_INDENT(2));
	line = xasprintf("%s\n", text);
	return file_replace(AT_FDCWD, path, line, strlen(line), 0644, err);
}
